//! A client, its host and its users: what they do, and the invariants.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::RawFd;
use std::time::Duration;

use pinyon_locks::client::{Client, Member, Now, Outcome, Platform as _, Report, Setup, Slots, Voting};
use pinyon_locks::keys::LockKeys;
use pinyon_locks::machine::{LockOptions, LockRequest, MachineFailure};
use pinyon_locks::redis;
use pinyon_net::driven::{Action, Driven};
use pinyon_net::network::Keepalive;
use pinyon_net::{Address, Endpoint};
use pinyon_proto::resp;

use crate::call::{Call, Name, Names};
use crate::in_resp as say;
use crate::platform::{End, Opening, Platform};
use crate::say::Refusal;
use crate::server::{Connection, Manners, Server, PREFIX};
use crate::{Command, Input, Message, Step, CLIENT};

const PATIENCE: Duration = Duration::from_secs(2);
const REPLY: resp::Limits = resp::Limits { bulk: 64 * 1024, elements: 256, depth: 8 };
const LIMITS: redis::RespLimits =
    redis::RespLimits { exchanges: 12, unsent: 16 * 1024, command: 64 * 1024, reply: REPLY };

/// How late a waiter may be told.
const TOLERANCE: Duration = Duration::from_millis(1);

/// The most rounds of a host until it is idle: far more than it should need.
const ROUNDS: usize = 1000;

/// How many times client and server may answer each other, in cases where the server may continue forever.
const EXCHANGES: usize = 60;

/// After this time, nothing remembers attempts that were given up.
const LONG: Duration = Duration::from_secs(100);

pub struct Run {
    client: Client<u64, Platform>,
    platform: Platform,
    server: Server,
    /// What the host watches.
    watched: [Option<(RawFd, bool)>; 3],
    unresolved: Vec<usize>,
    next_waiter: u64,
    waiting: BTreeMap<u64, Waiting>,
    /// Granted locks that were not released, by number.
    held: BTreeMap<u64, Held>,
    /// Locks that no user can release any more, and their owners.
    forsaken: BTreeMap<u64, u64>,
    /// Whether the server has said only the truth.
    honest: bool,
    lively: bool,
    /// Whether the client is closed in the middle of everything.
    ends_abruptly: bool,
}

/// A waiter.
#[derive(Debug)]
struct Waiting {
    wants: Wants,
    /// When the answer is due, by the clock that counts suspends or by the other one.
    due: Duration,
    by_boot_time: bool,
}

#[derive(Debug)]
enum Wants {
    Lock { number: Option<u64>, names: Names, owner: u64, lined_up: bool },
    Park { number: u64 },
    Release,
    Extension,
    ScriptAnswer,
    Value,
}

#[derive(Debug)]
struct Held {
    names: Names,
    owner: u64,
    /// The number of acquisitions.
    times: usize,
    /// Whether it stood in the client's own line for its names. Then only it has them, whatever the server says.
    lined_up: bool,
    parked: bool,
    lost: bool,
}

impl Run {
    pub fn new(input: &Input<'_>) -> Self {
        let platform = Platform::default();
        let host = if input.named { "redis.example" } else { "127.0.0.1" };
        let settings = Setup {
            sentinels: None,
            other_nodes: Vec::new(),
            slots: Slots::default(),
            endpoint: Endpoint::Tcp { host: host.into(), port: 6379 },
            server: "fuzzed".into(),
            login: redis::SessionSettings { limits: LIMITS, ..redis::SessionSettings::default() },
            keys: LockKeys::new("n").expect("a namespace"),
            handler: input.handler.into(),
            connect_timeout: Duration::from_secs(1),
            keepalive: Keepalive::default(),
            replicas: 0,
            options: LockOptions { fairness: input.fairness(), patience: PATIENCE, ..LockOptions::default() },
            voting: Voting::Alone,
        };
        Self {
            client: Client::on(platform.clone(), settings, CLIENT.into()),
            platform,
            server: Server::new(input.manners, input.scripts),
            watched: [None; 3],
            unresolved: Vec::new(),
            next_waiter: 0,
            waiting: BTreeMap::new(),
            held: BTreeMap::new(),
            forsaken: BTreeMap::new(),
            honest: true,
            lively: false,
            ends_abruptly: input.ends_abruptly,
        }
    }

    pub fn step(&mut self, step: &Step<'_>) {
        match step {
            Step::Lock { owner, names, ttl, wait, renewal, reentrant } => {
                let (owner, names) = (u64::from(owner % 4), names_of(*names));
                let wait = wait.map(short);
                let request = LockRequest {
                    names: names.clone(),
                    owner,
                    ttl: short(*ttl) + short(1),
                    wait,
                    renewal: (*renewal).into(),
                    reentrant: *reentrant,
                    rare: None,
                };
                let lined_up = !self.has_begun(owner);
                let patience = wait.filter(|wait| !wait.is_zero()).unwrap_or(PATIENCE);
                let wants = Wants::Lock { number: None, names, owner, lined_up };
                let waiter = self.wait(wants, patience, true);
                let begun = self.client.lock(request, None, waiter, self.now());
                if let Some(Waiting { wants: Wants::Lock { number, .. }, .. }) = self.waiting.get_mut(&waiter) {
                    *number = begun;
                }
            }
            Step::Release(which) => {
                if let Some(number) = self.some_held(*which) {
                    self.give_back(number);
                }
            }
            Step::Extend(which, ttl) => {
                if let Some(number) = self.some_held(*which) {
                    let ttl = short(*ttl) + short(1);
                    let waiter = self.wait(Wants::Extension, PATIENCE, true);
                    self.client.extend(number, ttl, waiter, self.now());
                }
            }
            Step::Cancel(which) => self.cancel(*which),
            Step::Forsake(which) => {
                if let Some(number) = self.some_held(*which) {
                    self.forsaken.extend(self.held.remove(&number).map(|held| (number, held.owner)));
                    self.client.forsake(number);
                }
            }
            Step::Park { which, wait, relock } => {
                if let Some(number) = self.some_held(*which) {
                    let (wait, relock) = (short(*wait), short(*relock));
                    self.held.entry(number).and_modify(|held| (held.parked, held.lined_up) = (true, false));
                    let waiter = self.wait(Wants::Park { number }, wait + relock, true);
                    self.client.park(number, Some(wait), relock, waiter, self.now());
                }
            }
            Step::Notify(which) => {
                if let Some(number) = self.some_held(*which) {
                    let waiter = self.wait(Wants::ScriptAnswer, PATIENCE, true);
                    self.client.notify(number, 1, waiter, self.now());
                }
            }
            Step::Inspect(names) => {
                self.ask(Call::Inspect { names: names_of(*names), remarks: false });
            }
            Step::ForceRelease(names, token) => {
                self.honest = false;
                self.ask(Call::ForceRelease { names: names_of(*names), token: *token });
            }
            Step::Rate(cost) => {
                let cost = u64::from(*cost) * 1000;
                self.ask(Call::Rate { name: Name::from([b'r']), cost, most: 100_000, ticks: 1 });
            }
            Step::Execute { patience } => self.execute(&[b"ECHO", b"word"], *patience),
            Step::Command(command, argument) => self.execute(&command.parts(argument), 50),
            Step::Turn => self.settle(),
            Step::Pass(milliseconds) => self.pass(Duration::from_millis((*milliseconds).into())),
            Step::Suspend(milliseconds) => {
                self.suspend(Duration::from_millis((*milliseconds).into()));
            }
            Step::Resolve(succeeds) => self.resolve(*succeeds),
            Step::Serve => self.serve(false),
            Step::Astray => self.serve(true),
            Step::NoticeEnds => self.server.notice_ends(),
            Step::Deliver(count) => self.deliver((*count).into()),
            Step::Converse => self.converse(),
            Step::Lively(lively) => self.lively = *lively,
            Step::Disturb(names, takes) => self.server.disturb(&names_of(*names), *takes, self.platform.boot_time().0),
            Step::Expect(opening) => self.platform.expect(*opening),
            Step::Receive(manners, scripts) => (self.server.manners, self.server.scripts) = (*manners, *scripts),
            Step::Refuse(refusal) => self.server.refusals.push_back(refusal.write()),
            Step::Insist(refusal) => self.server.refuses = refusal.as_ref().map(Refusal::write),
            Step::Narrow(width, room) => {
                for connection in &self.server.connections {
                    connection.pipe.narrow(usize::from(*width) * 8 + 1, (*room).into());
                }
            }
            Step::End(which, end) => {
                if let Some(connection) = self.some_connection(*which) {
                    connection.pipe.end(*end);
                }
            }
            Step::Lie(place, lie) => {
                self.honest = false;
                self.server.lies.push_back((place % 32, lie.write(CLIENT)));
            }
            Step::Message(message) => self.tell(message),
            Step::Noise(which, bytes) => {
                self.honest = false;
                if let Some(connection) = self.some_connection(*which) {
                    connection.pipe.arrive(bytes);
                }
            }
            Step::Drop(which) => {
                self.honest = false;
                if let Some(connection) = self.some_connection(*which) {
                    connection.replies.pop_front();
                }
            }
            Step::Double(which) => {
                self.honest = false;
                if let Some(connection) = self.some_connection(*which) {
                    connection.replies.extend(connection.replies.front().cloned());
                }
            }
            Step::Flush => {
                self.honest = false;
                self.server.flush();
            }
        }
    }

    /// Checks that all waiters are told in time. Then repairs and releases everything, checks that nothing is left, and
    /// closes the client.
    pub fn end(&mut self) {
        if !self.ends_abruptly {
            let left = |waiting: &Waiting| waiting.due.saturating_sub(self.time(waiting.by_boot_time));
            let longest = self.waiting.values().map(left).max().unwrap_or_default();
            self.pass(longest + TOLERANCE);
            assert!(self.waiting.is_empty(), "never heard of: {:?}", self.waiting);
            self.mend();
            while let Some(number) = self.held.keys().next().copied() {
                self.give_back(number);
            }
            self.pass(LONG);
            assert!(self.client.is_idle(), "something is left");
        }
        self.settle();
        self.client.close(self.platform.now());
        self.settle();
        assert!(self.waiting.is_empty(), "never heard of: {:?}", self.waiting);
        self.pass(LONG);
        assert!(self.client.deadline().is_none(), "there is nothing to wait for");
    }
}

/// The actions of users.
impl Run {
    /// Adds a waiter. `by_boot_time`: the clock by which it is told in time.
    fn wait(&mut self, wants: Wants, patience: Duration, by_boot_time: bool) -> u64 {
        let waiter = self.next_waiter;
        self.next_waiter += 1;
        let due = self.time(by_boot_time) + patience;
        assert!(self.waiting.insert(waiter, Waiting { wants, due, by_boot_time }).is_none());
        waiter
    }

    fn now(&self) -> Now {
        Now { instant: self.platform.now(), moment: self.platform.boot_time() }
    }

    fn ask(&mut self, call: Call) {
        let waiter = self.wait(Wants::ScriptAnswer, PATIENCE, true);
        self.client.ask(call, waiter, self.now());
    }

    fn execute(&mut self, parts: &[&[u8]], patience: u8) {
        let command = resp::Command::of(parts);
        let patience = short(patience);
        let (now, waiter) = (self.platform.now(), self.wait(Wants::Value, patience, false));
        self.client.execute(command, now + patience, waiter, now);
    }

    fn give_back(&mut self, number: u64) {
        let held = self.held.get_mut(&number).expect("it is held");
        held.times -= 1;
        if held.times == 0 {
            self.held.remove(&number);
        }
        let waiter = self.wait(Wants::Release, PATIENCE, true);
        self.client.release(number, waiter, self.now());
    }

    /// Stops waiting for a lock, or releases one without waiting for the answer.
    fn cancel(&mut self, which: u8) {
        let waited = self.waiting.values().filter_map(|waiting| match &waiting.wants {
            Wants::Lock { number, .. } => *number,
            Wants::Park { number } => Some(*number),
            _ => None,
        });
        let numbers: Vec<u64> = waited.chain(self.held.keys().copied()).collect();
        if !numbers.is_empty() {
            self.cancel_number(numbers[usize::from(which) % numbers.len()]);
        }
    }

    fn cancel_number(&mut self, number: u64) {
        self.settle();
        self.waiting.retain(|_, waiting| !waiting.is_for(number));
        if let Some(held) = self.held.get_mut(&number) {
            held.times = if held.parked || held.lost { 0 } else { held.times - 1 };
        }
        self.held.retain(|_, held| held.times > 0);
        self.client.cancel(number, self.now());
    }

    /// Whether an owner has or wants anything. What it has forsaken counts: nobody else gets it before its ttl ends.
    fn has_begun(&self, owner: u64) -> bool {
        let wants = |waiting: &Waiting| matches!(waiting.wants, Wants::Lock { owner: of, .. } if of == owner);
        let has = self.held.values().map(|held| &held.owner).chain(self.forsaken.values()).any(|of| *of == owner);
        has || self.waiting.values().any(wants)
    }

    fn some_held(&mut self, which: u8) -> Option<u64> {
        self.settle();
        let numbers: Vec<u64> = self.held.iter().filter(|(_, held)| !held.parked).map(|(number, _)| *number).collect();
        (!numbers.is_empty()).then(|| numbers[usize::from(which) % numbers.len()])
    }
}

/// The actions of the host.
impl Run {
    /// Carries out the client's orders, and takes its reports.
    fn settle(&mut self) {
        for _ in 0..ROUNDS {
            let (actions, finished) = (self.client.take_actions(), self.client.take_finished());
            if actions.is_none() && finished.is_empty() {
                self.check();
                return;
            }
            let lost = |finished: &Report<u64>| match finished {
                Report::Lost { number, .. } => Some(*number),
                _ => None,
            };
            let lost: BTreeSet<u64> = finished.iter().filter_map(lost).collect();
            finished.into_iter().for_each(|finished| self.hear(finished, &lost));
            actions.into_iter().flatten().for_each(|action| self.act(action));
            self.platform.take_opened().into_iter().for_each(|pipe| self.server.accept(pipe));
        }
        panic!("the client never comes to rest");
    }

    fn act(&mut self, action: Action) {
        let now = self.platform.now();
        match action {
            Action::Resolve { lane, .. } => self.unresolved.push(lane),
            Action::Watch { lane, fd, write } => self.watched[lane] = Some((fd, write)),
            Action::Forget { lane, fd } => {
                assert_eq!(self.watched[lane].take().map(|(fd, _)| fd), Some(fd), "another one is watched");
                self.client.forgotten(lane, now);
            }
            Action::Ask(question) => question.put(|| ()),
            Action::EndTurn => self.client.turn(now),
        }
    }

    fn resolve(&mut self, succeeds: bool) {
        self.settle();
        for lane in std::mem::take(&mut self.unresolved) {
            let resolved = match succeeds {
                true => Ok(vec![Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 6379)))]),
                false => Err("there is no such name".into()),
            };
            self.client.connect(lane, resolved, self.platform.now());
        }
        self.settle();
    }

    fn serve(&mut self, astray: bool) {
        self.settle();
        self.server.serve(self.platform.boot_time().0, astray);
    }

    /// Delivers so many replies on each connection.
    fn deliver(&mut self, count: usize) {
        for connection in &mut self.server.connections {
            let count = count.min(connection.replies.len());
            connection.replies.drain(..count).for_each(|reply| connection.pipe.arrive(&reply));
        }
        for lane in 0..self.watched.len() {
            if self.watched[lane].is_some() {
                self.client.ready(lane, self.platform.now());
                self.settle();
            }
        }
        self.settle();
    }

    /// Lets client and server exchange messages until neither has more to say.
    fn converse(&mut self) {
        for _ in 0..EXCHANGES {
            self.resolve(true);
            self.serve(false);
            let mut open = self.server.connections.iter().filter(|connection| connection.pipe.is_open());
            let is_quiet = open.all(Connection::is_quiet);
            self.deliver(usize::MAX);
            if is_quiet && self.unresolved.is_empty() {
                break;
            }
        }
    }

    /// Lets time pass, and wakes the client when it asks for it.
    fn pass(&mut self, time: Duration) {
        let end = self.platform.now() + time;
        let mut wakes = 0;
        self.settle();
        while let Some(due) = self.client.deadline().filter(|due| *due <= end) {
            let left = due.saturating_duration_since(self.platform.now());
            self.platform.pass(left);
            wakes = if left.is_zero() { wakes + 1 } else { 0 };
            assert!(wakes < ROUNDS, "it is woken for ever");
            self.client.expire(self.platform.now());
            self.settle();
            if self.lively {
                self.converse();
            }
        }
        self.platform.pass(end - self.platform.now());
        if self.lively {
            self.converse();
        }
        for waiting in self.waiting.values() {
            assert!(self.time(waiting.by_boot_time) <= waiting.due + TOLERANCE, "not told in time: {waiting:?}");
        }
    }

    /// Suspends the machine. A parked waiter whose time ends meanwhile takes its names again only after the machine
    /// wakes up.
    fn suspend(&mut self, time: Duration) {
        self.settle();
        self.platform.suspend(time);
        let parked = |waiting: &&mut Waiting| matches!(waiting.wants, Wants::Park { .. });
        self.waiting.values_mut().filter(parked).for_each(|waiting| waiting.due += time);
        self.pass(Duration::ZERO);
    }

    /// Makes the server well-behaved from now on, on new connections.
    fn mend(&mut self) {
        self.server.manners = Manners::Resp3;
        (self.server.refuses, self.lively) = (None, true);
        self.server.refusals.clear();
        self.server.lies.clear();
        self.platform.expect(Opening::AtOnce);
        self.server.connections.iter().for_each(|connection| connection.pipe.end(End::Closed));
        self.converse();
        self.server.notice_ends();
    }

    fn some_connection(&mut self, which: u8) -> Option<&mut Connection> {
        let count = self.server.connections.len();
        self.server.connections.get_mut(usize::from(which) % count.max(1))
    }

    /// Publishes a false message.
    fn tell(&mut self, message: &Message<'_>) {
        self.honest = false;
        let (own, freed) = (format!("{PREFIX}#c:{CLIENT}"), format!("{PREFIX}#freed"));
        let (channel, payload) = match message {
            Message::Granted { owner, number, token } => {
                (own, format!("g {CLIENT}:{owner:x}:{number:x} {token}").into_bytes())
            }
            Message::Forced { owner, number } => (own, format!("l {CLIENT}:{owner:x}:{number:x}").into_bytes()),
            Message::Freed(names) => (freed, names_of(*names).join(&0)),
            Message::Text(text) => (own, text.to_vec()),
            Message::Invalidated => {
                let keys = say::array([say::text("k")]);
                let message = say::aggregate('>', [say::text("invalidate"), keys]);
                return self.server.connections.iter().for_each(|connection| connection.pipe.arrive(&message));
            }
        };
        self.server.publish(channel.as_bytes(), &payload);
    }

    fn time(&self, by_boot_time: bool) -> Duration {
        match by_boot_time {
            true => self.platform.boot_time().0,
            false => self.platform.elapsed(),
        }
    }
}

/// The invariants.
impl Run {
    fn hear(&mut self, finished: Report<u64>, lost: &BTreeSet<u64>) {
        let (waiter, outcome) = match finished {
            Report::Done { waiter, outcome } => (waiter, outcome),
            Report::Lost { number, .. } => {
                if let Some(held) = self.held.get_mut(&number) {
                    assert!(!std::mem::replace(&mut held.lost, true), "it was lost before");
                }
                return;
            }
            Report::Warning(text) => return assert!(!text.is_empty()),
            Report::Event(event) => return assert!(!event.line.is_empty()),
        };
        let waiting = self.waiting.remove(&waiter).expect("somebody waits for it");
        match (waiting.wants, outcome) {
            (Wants::Lock { names, owner, lined_up, .. }, Outcome::Granted { number, .. }) => {
                let is_held = self.client.held(number, self.now()).is_some() || lost.contains(&number);
                assert!(is_held, "what is granted is held");
                let lined_up = lined_up && !self.forsaken.contains_key(&number);
                let new = Held { names, owner, times: 0, lined_up, parked: false, lost: false };
                self.held.entry(number).or_insert(new).times += 1;
            }
            (Wants::Park { number }, outcome @ (Outcome::Granted { .. } | Outcome::Failed(_))) => {
                assert!(!matches!(outcome, Outcome::Granted { number: granted, .. } if granted != number));
                self.held.entry(number).and_modify(|held| held.parked = false);
            }
            (Wants::Lock { .. }, Outcome::Failed(_))
            | (Wants::Release, Outcome::Released { .. } | Outcome::Failed(MachineFailure::Server(_)))
            | (Wants::Extension, Outcome::Extended { .. } | Outcome::Failed(MachineFailure::Server(_)))
            | (Wants::ScriptAnswer, Outcome::Answered(_) | Outcome::Failed(_))
            | (Wants::Value, Outcome::Value(_) | Outcome::Failed(MachineFailure::Server(_))) => {}
            (wants, outcome) => panic!("{wants:?} is answered with {outcome:?}"),
        }
    }

    /// Checks that no two holders have the same name, unless a lying server says so and the client cannot know better.
    fn check(&self) {
        let (scripts, plain) = self.server.done_by;
        let honest = self.honest && !(scripts && plain);
        let mut holders: BTreeMap<&Name, (u64, bool)> = BTreeMap::new();
        for (number, held) in &self.held {
            if self.client.held(*number, self.now()).is_none() {
                continue;
            }
            for name in held.names.iter() {
                let Some((other, lined_up)) = holders.insert(name, (*number, held.lined_up)) else { continue };
                let may_be = !(honest || lined_up && held.lined_up);
                assert!(may_be, "{name:?} is held by {number} and {other}");
            }
        }
        let waits = self.waiting.keys().next();
        assert!(waits.is_none() || self.client.deadline().is_some(), "{waits:?} waits for ever");
    }
}

impl Waiting {
    fn is_for(&self, number: u64) -> bool {
        matches!(self.wants, Wants::Lock { number: Some(of), .. } | Wants::Park { number: of } if of == number)
    }
}

impl Command {
    fn parts(self, argument: &[u8]) -> Vec<&[u8]> {
        match self {
            Command::Ping => vec![&b"PING"[..], argument],
            Command::Subscribe => vec![&b"SUBSCRIBE"[..], argument],
            Command::Unsubscribe => vec![&b"UNSUBSCRIBE"[..], argument],
            Command::Monitor => vec![&b"MONITOR"[..]],
            Command::Nothing => vec![],
        }
    }
}

fn short(time: u8) -> Duration {
    Duration::from_millis(20) * u32::from(time)
}

/// Selects some of four names by bits; at least one.
fn names_of(bits: u8) -> Names {
    let names: Names = (0..4).filter(|bit| bits >> bit & 1 == 1).map(|bit| Name::from([b'a' + bit])).collect();
    if names.is_empty() {
        [Name::from([b'e'])].into()
    } else {
        names
    }
}
