//! Clients, servers, the wires between them, and time. The test decides what happens next. After each step, the world
//! checks the invariants.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::member::{Said, Wired};
use crate::call::{Call, Name, Names};
use crate::client::{Now, Outcome, Report, Setup, Standing};
use crate::handler::HandlerKind;
use crate::machine::{Fairness, LockOptions, LockRequest, Moment, Renewal};
use crate::quorum::{Quorum, Votes, Waiter};
use crate::tests::in_memory::settings;
use crate::tests::model::{Model, Push};
use pinyon_net::error::{Error, Kind};

pub(super) const HEARTBEAT: Duration = Duration::from_millis(500);
pub(super) const LONGEST_TTL: Duration = Duration::from_secs(1);
const START: Duration = Duration::from_secs(1000);

pub(super) struct World {
    pub(super) servers: Vec<Server>,
    pub(super) clients: Vec<Client>,
    pub(super) now: Duration,
    instant: Instant,
    /// Until when holders may overlap, because a server's clock was set.
    excused_until: Duration,
    /// How far the servers' clocks differ, and until when tokens may go back: a counter was lost, and the clock that it
    /// continues from may be slow. The story about it says when they do not.
    pub(super) spread: Duration,
    tokens_excused_until: Duration,
    /// The highest token that a holder of each name began with.
    tokens: BTreeMap<Name, u64>,
    next_waiter: u64,
    next_run: u64,
    pub(super) granted: usize,
    pub(super) lost: usize,
    /// What has happened, if the test records it.
    pub(super) log: Option<Vec<String>>,
}

pub(super) struct Server {
    pub(super) model: Model,
    /// What it would find on its disk.
    saved: Model,
    pub(super) clock: Duration,
    started: Duration,
    run: u64,
    pub(super) up: bool,
}

pub(super) struct Client {
    pub(super) members: Vec<Wired>,
    votes: Votes<u64>,
    name: Arc<str>,
    /// What its users wait for, hold and release.
    pub(super) waiting: BTreeMap<u64, Wanted>,
    pub(super) holding: BTreeMap<u64, Wanted>,
    pub(super) ending: BTreeMap<u64, &'static str>,
}

impl Client {
    fn quorum(&mut self) -> Quorum<'_, u64, Wired> {
        Quorum { members: &mut self.members, votes: &mut self.votes }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Wanted {
    names: Names,
    pub(super) owner: u64,
    ttl: Duration,
    /// The number of its lock. It is known only once it was begun.
    pub(super) number: Option<u64>,
    /// The highest tokens of its names when it was asked for.
    tokens: Vec<u64>,
}

fn names(letters: &str) -> Names {
    letters.bytes().map(|letter| Name::from([letter])).collect()
}

impl World {
    /// `skews`: how far the servers' clocks are ahead, in milliseconds.
    pub(super) fn new(clients: usize, skews: &[u64]) -> Self {
        let patience = Duration::from_secs(1);
        let fairness = Fairness::Throughput;
        let options = LockOptions { fairness, heartbeat: HEARTBEAT, patience, ..LockOptions::default() };
        let settings = Setup { options: options.clone(), ..settings(HandlerKind::Script) };
        let model = Model::new(options.waiter_ttl(), false);
        let server = |(index, skew): (usize, &u64)| Server {
            model: model.clone(),
            saved: model.clone(),
            clock: Duration::from_secs(40_000_000) + Duration::from_millis(*skew),
            started: Duration::ZERO,
            run: index as u64,
            up: true,
        };
        let servers: Vec<Server> = skews.iter().enumerate().map(server).collect();
        let client = |index: usize| {
            let name: Arc<str> = format!("client{index}").into();
            Client {
                members: (0..servers.len()).map(|server| Wired::new(&name, server, options.clone())).collect(),
                votes: Votes::new(servers.len(), settings.clone(), LONGEST_TTL, name.clone()),
                name,
                waiting: BTreeMap::new(),
                holding: BTreeMap::new(),
                ending: BTreeMap::new(),
            }
        };
        Self {
            clients: (0..clients).map(client).collect(),
            next_run: servers.len() as u64,
            servers,
            now: START,
            instant: Instant::now(),
            excused_until: Duration::ZERO,
            spread: Duration::from_millis(skews.iter().max().unwrap_or(&0) - skews.iter().min().unwrap_or(&0)),
            tokens_excused_until: Duration::ZERO,
            tokens: BTreeMap::new(),
            next_waiter: 1,
            granted: 0,
            lost: 0,
            log: None,
        }
    }

    pub(super) fn at(&self) -> Now {
        Now { instant: self.instant + (self.now - START), moment: Moment(self.now) }
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(format!("{:>9.3} {}", (self.now - START).as_secs_f64(), what()));
        }
    }

    pub(super) fn lock(&mut self, client: usize, owner: u64, wanted: &str, ttl: u64, wait: Option<u64>) -> u64 {
        let names = names(wanted);
        let tokens = names.iter().map(|name| self.tokens.get(name).copied().unwrap_or(0)).collect();
        let wanted = Wanted { names: names.clone(), owner, ttl: Duration::from_millis(ttl), number: None, tokens };
        let request = LockRequest {
            names,
            owner,
            ttl: wanted.ttl,
            wait: wait.map(Duration::from_millis),
            renewal: if ttl % 2 == 0 { Renewal::Always } else { Renewal::Never },
            reentrant: false,
            rare: None,
        };
        let (now, waiter) = (self.at(), self.waiter());
        self.note(|| format!("client {client} wants {waiter}: {wanted:?}"));
        let of = &mut self.clients[client];
        of.waiting.insert(waiter, wanted);
        let number = of.quorum().lock(request, waiter, now);
        of.waiting.entry(waiter).and_modify(|wanted| wanted.number = number);
        self.settle(client);
        waiter
    }

    fn waiter(&mut self) -> u64 {
        self.next_waiter += 1;
        self.next_waiter - 1
    }

    pub(super) fn release(&mut self, client: usize, held: u64) {
        let Some(Wanted { number: Some(number), .. }) = self.clients[client].holding.remove(&held) else { return };
        self.end_by(client, "release", |mut quorum, waiter, now| quorum.release(number, waiter, now));
    }

    pub(super) fn extend(&mut self, client: usize, held: u64) {
        let Wanted { number, ttl, .. } = self.clients[client].holding[&held];
        let number = number.expect("it is held");
        self.end_by(client, "extend", |mut quorum, waiter, now| quorum.extend(number, ttl, waiter, now));
    }

    fn end_by(&mut self, client: usize, what: &'static str, begin: impl FnOnce(Quorum<'_, u64, Wired>, u64, Now)) {
        let (now, waiter) = (self.at(), self.waiter());
        self.note(|| format!("client {client}: {what} by {waiter}"));
        self.clients[client].ending.insert(waiter, what);
        begin(self.clients[client].quorum(), waiter, now);
        self.settle(client);
    }

    /// Gives up a lock, waited for or held.
    pub(super) fn cancel(&mut self, client: usize, waiter: u64) {
        self.note(|| format!("client {client} gives up {waiter}"));
        let now = self.at();
        let of = &mut self.clients[client];
        let wanted = of.waiting.remove(&waiter).or_else(|| of.holding.remove(&waiter));
        if let Some(number) = wanted.and_then(|wanted| wanted.number) {
            of.quorum().cancel(number, now);
        }
        self.settle(client);
    }

    /// Closes a client. What it sends last may still arrive; it hears of nothing any more.
    pub(super) fn close(&mut self, client: usize) {
        self.note(|| format!("client {client} is closed"));
        let (now, error) = (self.at(), Error::new(Kind::Closed, &"".into(), "closed"));
        let of = &mut self.clients[client];
        of.quorum().close(&error, now);
        of.members.iter_mut().for_each(|member| member.close(&error, now));
        self.settle(client);
    }

    /// A server reads the next call from a client's connection.
    pub(super) fn serve(&mut self, client: usize, server: usize) -> bool {
        if !self.servers[server].up {
            return false;
        }
        let Some((id, call)) = self.clients[client].members[server].to_server.pop_front() else { return false };
        let answer = self.answer(client, server, &call);
        let said = Said::Answer(id, answer);
        self.clients[client].members[server].to_client.push_back(said);
        true
    }

    /// A server reads all calls on a client's connection.
    pub(super) fn serve_all(&mut self, client: usize, server: usize) {
        while self.serve(client, server) {}
    }

    /// A server reads a call that a broken connection left in its buffers.
    pub(super) fn serve_astray(&mut self, client: usize, server: usize) -> bool {
        let Some(call) = self.clients[client].members[server].astray.pop_front() else { return false };
        self.note(|| "astray:".into());
        self.answer(client, server, &call);
        true
    }

    /// Pushes leave before the answer does.
    fn answer(&mut self, client: usize, server: usize, call: &Call) -> crate::call::ScriptAnswer {
        let of = &mut self.servers[server];
        let answer = of.model.call(of.clock, call);
        let pushes = of.model.take_pushes();
        self.note(|| format!("server {server}: client {client}: {call:?} -> {answer:?}, {pushes:?}"));
        for Push { client, pushed } in pushes {
            for of in &mut self.clients {
                let member = &mut of.members[server];
                if member.is_up() && client.as_ref().is_none_or(|name| *name == of.name) {
                    member.to_client.push_back(Said::Push(pushed.clone()));
                }
            }
        }
        answer
    }

    /// A client reads the next message of a server.
    pub(super) fn hear(&mut self, client: usize, server: usize) -> bool {
        let now = self.at();
        let heard = self.clients[client].members[server].hear(now);
        if heard {
            self.settle(client);
        }
        heard
    }

    pub(super) fn connect(&mut self, client: usize, server: usize) {
        let (now, of) = (self.at(), &mut self.servers[server]);
        let (name, member) = {
            let client = &mut self.clients[client];
            (client.name.clone(), &mut client.members[server])
        };
        if of.up {
            let running = of.clock.saturating_sub(of.started);
            let votes_from = now.moment + LONGEST_TTL.saturating_sub(running);
            of.model.connect(&name);
            member.connect(Standing { run: of.run.to_string().into(), votes_from }, now);
        } else {
            member.refuse(now);
        }
        self.note(|| format!("client {client} connects to {server}"));
        self.settle(client);
    }

    /// Breaks a connection. The server reads the first `arrive` calls under way now, and others later; its messages are
    /// lost.
    pub(super) fn cut(&mut self, client: usize, server: usize, arrive: usize, astray: bool) {
        for _ in 0..arrive {
            self.serve(client, server);
        }
        self.note(|| format!("client {client} is cut off from {server}"));
        let now = self.at();
        self.clients[client].members[server].cut(astray, now);
        let name = self.clients[client].name.clone();
        self.servers[server].model.disconnect(&name);
        self.settle(client);
    }

    /// A server ends. What was on its way to it is lost.
    pub(super) fn stop(&mut self, server: usize) {
        if !std::mem::replace(&mut self.servers[server].up, false) {
            return;
        }
        self.note(|| format!("server {server} stops"));
        for client in 0..self.clients.len() {
            if self.clients[client].members[server].is_up() {
                self.cut(client, server, 0, false);
            }
            self.clients[client].members[server].astray.clear();
        }
    }

    /// Starts a server again: with its data, with those it has saved, or with none.
    pub(super) fn start(&mut self, server: usize, data: Data) {
        if self.servers[server].up {
            return;
        }
        self.note(|| format!("server {server} starts with {data:?}"));
        self.pass(Duration::from_millis(2));
        if !matches!(data, Data::All) && !self.spread.is_zero() {
            self.tokens_excused_until = self.now + self.spread;
        }
        let of = &mut self.servers[server];
        match data {
            Data::All => {}
            Data::Saved => of.model = of.saved.clone(),
            Data::None => of.model.flush(),
        }
        self.clients.iter().for_each(|client| of.model.disconnect(&client.name));
        (of.up, of.run, of.started) = (true, self.next_run, of.clock);
        self.next_run += 1;
    }

    /// Whether a majority is left without this server, and has been running for a while.
    pub(super) fn may_lose(&self, server: usize) -> bool {
        let left = self.servers.iter().enumerate().filter(|(index, of)| *index != server && of.up);
        left.count() > self.servers.len() / 2
    }

    pub(super) fn save(&mut self, server: usize) {
        let of = &mut self.servers[server];
        of.saved = of.model.clone();
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.servers.iter_mut().for_each(|server| server.clock += time);
        self.check();
    }

    /// A client does what is due.
    pub(super) fn wake(&mut self, client: usize) {
        let now = self.at();
        let of = &mut self.clients[client];
        of.members.iter_mut().for_each(|member| member.expire(now));
        of.quorum().expire(now);
        self.settle(client);
    }

    /// A server's locks end too early, and it may seem older than it is.
    pub(super) fn set_clock(&mut self, server: usize, ahead: Duration) {
        self.note(|| format!("the clock of server {server} jumps by {ahead:?}"));
        self.servers[server].clock += ahead;
        self.excused_until = self.now + 2 * LONGEST_TTL;
        self.spread = self.spread.max(ahead);
    }

    /// Takes a client's reports.
    fn settle(&mut self, client: usize) {
        let now = self.at();
        self.clients[client].quorum().collect(now);
        let mut again = false;
        while let Some(report) = self.clients[client].votes.next_report() {
            self.note(|| format!("client {client}: {report:?}"));
            let of = &mut self.clients[client];
            match report {
                Report::Done { waiter: Waiter::Quorum(ballot), .. } => panic!("told to a caller: {ballot:?}"),
                Report::Done { waiter: Waiter::Caller(waiter), outcome: Outcome::Granted { number, token, .. } } => {
                    let mut wanted = of.waiting.remove(&waiter).expect("only what is waited for is granted");
                    wanted.number = Some(number);
                    assert!(of.votes.held(&of.members, number, now).is_some(), "what is granted is held");
                    self.granted += 1;
                    let goes_back = self.now < self.tokens_excused_until;
                    let excused = goes_back || self.now < self.excused_until;
                    for (name, before) in wanted.names.iter().zip(&wanted.tokens) {
                        let last = self.tokens.entry(name.clone()).or_default();
                        assert!(
                            token > *before || goes_back,
                            "{name:?}: {token} was asked for after {before} was held"
                        );
                        assert!(token > *last || excused, "{name:?}: {token} after {last}");
                        *last = token.max(*last);
                    }
                    of.holding.insert(waiter, wanted);
                }
                Report::Done { waiter: Waiter::Caller(waiter), outcome } => match of.waiting.remove(&waiter) {
                    Some(_) => assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}"),
                    None => assert!(of.ending.remove(&waiter).is_some(), "nobody asked: {outcome:?}"),
                },
                Report::Lost { number, .. } => {
                    let of_number = |(_, wanted): &(&u64, &Wanted)| wanted.number == Some(number);
                    let waiter = of.holding.iter().find(of_number).map(|(waiter, _)| *waiter);
                    self.lost += usize::from(waiter.is_some());
                    if let Some(waiter) = waiter {
                        self.release(client, waiter);
                        again = true;
                    }
                }
                Report::Warning(text) => panic!("{text}"),
                Report::Event(event) => panic!("machines have no connections: {event:?}"),
            }
        }
        match again {
            true => self.settle(client),
            false => self.check(),
        }
    }

    /// Whether a client considers a lock held.
    pub(super) fn is_held(&self, client: usize, waiter: u64) -> bool {
        let of = &self.clients[client];
        let number = of.holding.get(&waiter).and_then(|wanted| wanted.number);
        number.is_some_and(|number| of.votes.held(&of.members, number, self.at()).is_some())
    }

    /// Checks that no two clients consider the same name held.
    fn check(&self) {
        let mut believed: BTreeMap<&Name, (usize, u64)> = BTreeMap::new();
        for (index, client) in self.clients.iter().enumerate() {
            for (waiter, wanted) in client.holding.iter().filter(|(waiter, _)| self.is_held(index, **waiter)) {
                for name in wanted.names.iter() {
                    let other = believed.insert(name, (index, *waiter));
                    let excused = self.now < self.excused_until;
                    assert!(other.is_none() || excused, "{name:?} is held by {other:?} and {:?}", (index, waiter));
                }
            }
        }
    }

    /// Everything that is under way arrives.
    pub(super) fn flow(&mut self) {
        let mut any = true;
        while any {
            any = false;
            for client in 0..self.clients.len() {
                for server in 0..self.servers.len() {
                    while self.serve(client, server) || self.hear(client, server) {
                        any = true;
                    }
                }
            }
        }
    }

    /// Connects all clients to all servers that are up.
    pub(super) fn connect_all(&mut self) {
        for client in 0..self.clients.len() {
            for server in 0..self.servers.len() {
                if self.servers[server].up && !self.clients[client].members[server].is_up() {
                    self.connect(client, server);
                }
            }
        }
    }

    /// Repairs everything, releases every lock, and lets all waiting end. Nothing may be left then.
    pub(super) fn end(&mut self) {
        for server in 0..self.servers.len() {
            self.start(server, Data::All);
            for client in 0..self.clients.len() {
                while self.serve_astray(client, server) {}
            }
        }
        for _ in 0..4000 {
            self.connect_all();
            self.flow();
            for client in 0..self.clients.len() {
                while let Some(held) = self.clients[client].holding.keys().next().copied() {
                    self.release(client, held);
                }
                self.wake(client);
            }
            self.flow();
            let is_idle = |of: &Client| of.waiting.is_empty() && of.holding.is_empty() && of.ending.is_empty();
            if self.clients.iter().all(is_idle) {
                break;
            }
            self.pass(Duration::from_millis(20));
        }
        for (index, client) in self.clients.iter().enumerate() {
            assert!(client.waiting.is_empty(), "client {index} waits for ever: {:?}", client.waiting);
            assert!(client.ending.is_empty(), "client {index} never heard of {:?}", client.ending);
            assert!(client.votes.is_idle(), "client {index} has something left");
        }
        // What came late, or was restored, has ended then.
        self.pass(2 * LONGEST_TTL);
        for (index, server) in self.servers.iter_mut().enumerate() {
            server.model.call(server.clock, &Call::Open { seen: 0 });
            for client in &self.clients {
                let left = server.model.holding_of(&client.name);
                assert_eq!(left, 0, "{} has left something on server {index}", client.name);
            }
        }
    }
}

/// What a server still has when it starts again.
#[derive(Clone, Copy, Debug)]
pub(super) enum Data {
    All,
    Saved,
    None,
}
