//! A server of locks, of several kinds. It is honest, unless the fuzzer makes it go wrong.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use arbitrary::Arbitrary;
use pinyon_locks::call::{Attempt, Call, Names, Pushed};
use pinyon_locks::library::{Rule, RULES};
use pinyon_proto::resp::Reader;

use crate::functions::{self, Called};
use crate::in_resp as say;
use crate::model::{Model, Push};
use crate::plain::Plain;
use crate::platform::Pipe;

/// The prefix of the namespace `n`.
pub const PREFIX: &str = "{n}:";

/// How many closed connections are remembered.
const DEAD: usize = 3;

/// How a server greets a client.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq)]
pub enum Manners {
    Resp3,
    /// It does not know `HELLO`.
    Old,
    /// It knows `HELLO`, but speaks RESP2.
    HelloByTwo,
    Cluster,
    Sentinel,
    Loading,
    /// It refuses subscriptions.
    Unsubscribable,
}

/// What it permits.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq)]
pub enum Scripts {
    Functions,
    /// It is too old for functions.
    Single,
    Forbidden,
}

pub struct Server {
    pub manners: Manners,
    pub scripts: Scripts,
    pub connections: Vec<Connection>,
    /// The answers to the next commands about locks, which are not carried out.
    pub refusals: VecDeque<Vec<u8>>,
    /// The answer to all of them, if set.
    pub refuses: Option<Vec<u8>>,
    /// Lies that replace replies, each after so many other replies.
    pub lies: VecDeque<(u8, Vec<u8>)>,
    model: Model,
    plain: Plain,
    /// Whether the library is loaded, and whether the scripts are.
    loaded: (bool, bool),
    /// Whether scripts and plain commands have done anything.
    pub done_by: (bool, bool),
}

pub struct Connection {
    pub pipe: Pipe,
    /// The replies in order, separately.
    pub replies: VecDeque<Vec<u8>>,
    manners: Manners,
    by_resp3: bool,
    reader: Reader,
    channels: BTreeSet<Vec<u8>>,
    /// The commands for `EXEC`; `None` inside after a refused command.
    transaction: Option<Option<Vec<Vec<Vec<u8>>>>>,
    /// The number of writes when it began to watch.
    watched: Option<u64>,
}

impl Server {
    pub fn new(manners: Manners, scripts: Scripts) -> Self {
        Self {
            manners,
            scripts,
            connections: Vec::new(),
            refusals: VecDeque::new(),
            refuses: None,
            lies: VecDeque::new(),
            model: Model::new(Duration::from_secs(15), false),
            plain: Plain::default(),
            loaded: (false, false),
            done_by: (false, false),
        }
    }

    pub fn accept(&mut self, pipe: Pipe) {
        let dead = self.connections.iter().filter(|connection| !connection.pipe.is_open()).count();
        if dead > DEAD {
            self.notice_ends();
        }
        self.connections.push(Connection {
            pipe,
            replies: VecDeque::new(),
            manners: self.manners,
            by_resp3: false,
            reader: say::reader(),
            channels: BTreeSet::new(),
            transaction: None,
            watched: None,
        });
    }

    /// Forgets connections that clients have closed, and pending replies there.
    pub fn notice_ends(&mut self) {
        self.connections.retain(|connection| connection.pipe.is_open());
        self.listen();
    }

    /// Reads and answers what clients have sent; with `astray`, also on connections that they have closed.
    pub fn serve(&mut self, now: Duration, astray: bool) {
        for index in 0..self.connections.len() {
            let connection = &mut self.connections[index];
            if !connection.pipe.is_open() && !astray {
                continue;
            }
            let sent = connection.pipe.take_sent();
            for command in say::commands(&mut connection.reader, &sent) {
                let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
                self.answer(index, &words, now);
            }
        }
    }

    /// Loses all data and loaded scripts.
    pub fn flush(&mut self) {
        self.model.flush();
        self.plain.flush();
        self.loaded = (false, false);
    }

    /// Another client takes those of the names that are free, or takes them away from their holders and releases them.
    pub fn disturb(&mut self, names: &Names, takes: bool, now: Duration) {
        let attempt = Attempt { client: "other".into(), owner: 1, number: 1 };
        let (ttl, names) = (Duration::from_secs(5), names.clone());
        if self.scripts == Scripts::Forbidden {
            let keys: Vec<Vec<u8>> = names.iter().map(|name| [PREFIX.as_bytes(), b"l:", name].concat()).collect();
            match takes {
                true => keys.into_iter().for_each(|key| self.plain.occupy(key, now + ttl)),
                false => {
                    keys.iter().for_each(|key| self.plain.vacate(key));
                    self.publish(format!("{PREFIX}#freed").as_bytes(), &names.join(&0));
                }
            }
            return;
        }
        self.model.call(now, &Call::Open { seen: 0 });
        self.model.call(
            now,
            &match takes {
                true => Call::Lock { attempt, names, ttl, wait: false, nested: true },
                false => Call::Unlock { attempt, names, tombstone: false, rest: None },
            },
        );
        self.tell();
    }

    /// Sends to all subscribers of the channel. Returns how many.
    pub fn publish(&mut self, channel: &[u8], payload: &[u8]) -> usize {
        let mut heard = 0;
        for connection in &mut self.connections {
            if connection.channels.contains(channel) {
                heard += 1;
                connection.message(["message".as_bytes(), channel, payload].map(say::bytes));
            }
        }
        heard
    }

    fn answer(&mut self, index: usize, words: &[&[u8]], now: Duration) {
        let name = words[0].to_ascii_uppercase();
        if matches!(&name[..], b"SUBSCRIBE" | b"UNSUBSCRIBE") {
            return self.subscribe(index, &name, &words[1..]);
        }
        let reply = match self.greet(index, &name, words) {
            Some(reply) => reply,
            None => self.about_locks(index, &name, words, now),
        };
        let reply = match self.lies.front_mut() {
            Some((0, _)) => self.lies.pop_front().map_or(reply, |(_, lie)| lie),
            Some((honest, _)) => {
                *honest -= 1;
                reply
            }
            None => reply,
        };
        self.connections[index].replies.push_back(reply);
    }

    fn greet(&mut self, index: usize, name: &[u8], words: &[&[u8]]) -> Option<Vec<u8>> {
        let version = if self.scripts == Scripts::Single { "6.2.0" } else { "7.0.15" };
        let connection = &mut self.connections[index];
        Some(match (name, connection.manners) {
            (b"HELLO", Manners::Old) => say::error("ERR unknown command 'HELLO', with args beginning with: '3' "),
            (b"HELLO", manners) => {
                connection.by_resp3 = manners != Manners::HelloByTwo;
                let mode = match manners {
                    Manners::Cluster => "cluster",
                    Manners::Sentinel => "sentinel",
                    _ => "standalone",
                };
                let proto = if connection.by_resp3 { 3 } else { 2 };
                let pairs = [("version", say::text(version)), ("proto", say::number(proto)), ("mode", say::text(mode))];
                let pairs = pairs.map(|(name, value)| [say::text(name), value]);
                match connection.by_resp3 {
                    true => say::map(pairs),
                    false => say::array(pairs.into_iter().flatten()),
                }
            }
            (b"PING", Manners::Loading) => say::error("LOADING Redis is loading the dataset in memory"),
            (b"PING", _) => say::status("PONG"),
            (b"CLUSTER", _) => say::array(Vec::<Vec<u8>>::new()),
            (b"INFO", _) if words[1] == b"memory" => say::text("# Memory\r\nmaxmemory_policy:allkeys-lru\r\n"),
            (b"INFO", _) => say::text(&format!("redis_version:{version}\r\nrole:master\r\n")),
            _ => return None,
        })
    }

    fn about_locks(&mut self, index: usize, name: &[u8], words: &[&[u8]], now: Duration) -> Vec<u8> {
        if let Some(refusal) = self.refusals.pop_front().or_else(|| self.refuses.clone()) {
            let connection = &mut self.connections[index];
            match &mut connection.transaction {
                Some(_) if name == b"EXEC" => connection.transaction = None,
                Some(commands) => *commands = None,
                None => {}
            }
            return refusal;
        }
        let forbids = || say::error(&format!("NOPERM no permissions to run the '{}' command", name.escape_ascii()));
        let rule = |of: fn(&Rule) -> String| RULES.iter().find(|rule| of(rule).as_bytes() == words[1]);
        match (name, self.scripts) {
            (b"FCALL" | b"FUNCTION", Scripts::Single) => say::error("ERR unknown command 'FCALL', with args"),
            (b"FCALL" | b"FUNCTION" | b"EVALSHA" | b"SCRIPT", Scripts::Forbidden) => forbids(),
            (b"FUNCTION", _) => {
                self.loaded.0 = true;
                say::text("pinyon_locks_8")
            }
            (b"SCRIPT", _) => {
                self.loaded.1 = true;
                let script = RULES.iter().find(|rule| rule.source().as_bytes() == words[2]);
                say::text(&sha(script.expect("one of the scripts")))
            }
            (b"FCALL", _) if !self.loaded.0 => say::error("ERR Function not found"),
            (b"EVALSHA", _) if !self.loaded.1 => say::error("NOSCRIPT No matching script. Please use EVAL."),
            (b"FCALL", _) => self.call(rule(|rule| rule.function.into()).expect("it is one of them"), &words[2..], now),
            (b"EVALSHA", _) => match rule(sha) {
                Some(rule) => self.call(rule, &words[2..], now),
                None => say::error("NOSCRIPT No matching script. Please use EVAL."),
            },
            _ => self.transact(index, name, words, now),
        }
    }

    fn call(&mut self, rule: &Rule, words: &[&[u8]], now: Duration) -> Vec<u8> {
        let Called { call, waiter_ttl, throughput } = functions::read(rule, words, PREFIX.as_bytes());
        self.done_by.0 |= !matches!(call, Call::Open { .. });
        self.model.waiter_ttl = waiter_ttl.unwrap_or(self.model.waiter_ttl);
        self.model.throughput = throughput;
        let answer = self.model.call(now, &call);
        self.tell();
        functions::write(answer)
    }

    /// Publishes the functions' messages.
    fn tell(&mut self) {
        for Push { client, pushed } in self.model.take_pushes() {
            let channel = client.map_or(format!("{PREFIX}#freed"), |client| format!("{PREFIX}#c:{client}"));
            let payload = match pushed {
                Pushed::Granted { attempt, token } => format!("g {attempt} {token}").into_bytes(),
                Pushed::Contested { attempt } => format!("c {attempt}").into_bytes(),
                Pushed::Look { attempt } => format!("p {attempt}").into_bytes(),
                Pushed::ForceReleased { attempt } => format!("l {attempt}").into_bytes(),
                Pushed::Freed { names } => names.join(&0),
            };
            self.publish(channel.as_bytes(), &payload);
        }
    }

    fn transact(&mut self, index: usize, name: &[u8], words: &[&[u8]], now: Duration) -> Vec<u8> {
        let connection = &mut self.connections[index];
        match (name, &mut connection.transaction) {
            (b"MULTI", None) => {
                connection.transaction = Some(Some(Vec::new()));
                say::status("OK")
            }
            (b"EXEC", Some(transaction)) => {
                let commands = transaction.take();
                connection.transaction = None;
                let is_stale = connection.watched.take().is_some_and(|writes| writes != self.plain.writes);
                match commands {
                    None => say::error("EXECABORT Transaction discarded because of previous errors."),
                    Some(_) if is_stale => say::null(),
                    Some(commands) => say::array(commands.into_iter().map(|command| {
                        let words: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
                        self.run(&words, now)
                    })),
                }
            }
            (_, Some(transaction)) => {
                if let Some(commands) = transaction {
                    commands.push(words.iter().map(|word| word.to_vec()).collect());
                }
                say::status("QUEUED")
            }
            (b"EXEC", None) => say::error("ERR EXEC without MULTI"),
            (b"WATCH", None) => {
                connection.watched.get_or_insert(self.plain.writes);
                say::status("OK")
            }
            (b"UNWATCH", None) => {
                connection.watched = None;
                say::status("OK")
            }
            _ => self.run(words, now),
        }
    }

    fn run(&mut self, words: &[&[u8]], now: Duration) -> Vec<u8> {
        if words[0] == b"PUBLISH" {
            return say::number(self.publish(words[1], words[2]) as i64);
        }
        self.done_by.1 |= matches!(words[0], b"SET" | b"MSETNX");
        self.plain.run(now, words).unwrap_or_else(|| say::status("OK"))
    }

    fn subscribe(&mut self, index: usize, name: &[u8], channels: &[&[u8]]) {
        let connection = &mut self.connections[index];
        if connection.manners == Manners::Unsubscribable {
            let refusal = say::error("NOPERM this user has no permissions to access one of the channels");
            return connection.replies.push_back(refusal);
        }
        let kind = name.to_ascii_lowercase();
        for channel in channels {
            match name {
                b"SUBSCRIBE" => drop(connection.channels.insert(channel.to_vec())),
                _ => drop(connection.channels.remove(*channel)),
            }
            let count = say::number(connection.channels.len() as i64);
            connection.message([say::bytes(&kind), say::bytes(channel), count]);
        }
        self.listen();
    }

    /// Subscribes each client to its channel.
    fn listen(&mut self) {
        let prefix = format!("{PREFIX}#c:");
        let own = |channel: &Vec<u8>| Some(Arc::<str>::from(std::str::from_utf8(channel).ok()?.strip_prefix(&prefix)?));
        let channels = self.connections.iter().flat_map(|connection| &connection.channels);
        let clients: BTreeSet<Arc<str>> = channels.filter_map(own).collect();
        self.model.disconnect(&crate::CLIENT.into());
        clients.iter().for_each(|client| self.model.connect(client));
    }
}

impl Connection {
    /// Whether nothing is under way in either direction.
    pub fn is_quiet(&self) -> bool {
        self.replies.is_empty() && self.pipe.is_drained()
    }

    fn message<const N: usize>(&mut self, words: [Vec<u8>; N]) {
        let mark = if self.by_resp3 { '>' } else { '*' };
        self.replies.push_back(say::aggregate(mark, words));
    }
}

fn sha(rule: &Rule) -> String {
    format!("sha of {}", rule.function)
}
