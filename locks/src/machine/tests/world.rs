//! Clients, a server, the wires between them, and time. The test decides what happens next. After each step, the world
//! checks the invariants.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use super::ends::Ends;
use super::faults::{Fault, Upgrades};
use crate::call::{Attempt, Call, Mode, Name, Names, Pushed, ScriptAnswer};
use crate::machine::{
    Awaited, Fairness, LockOptions, LockRequest, Machine, MachineEvent, MachineFailure, Moment, Outcome, Rare, Renewal,
};
use crate::tests::model::{Model, Push};
use pinyon_net::error::{Error, Kind};

pub(super) const HEARTBEAT: Duration = Duration::from_millis(500);

pub(super) struct World {
    pub(super) model: Model,
    pub(super) clients: Vec<Client>,
    pub(super) now: Duration,
    pub(super) server_clock: Duration,
    /// Until when holders may overlap, because the server lost its data or its clock was set.
    pub(super) excused_until: Duration,
    /// The highest token that a holder of each name began with.
    tokens: BTreeMap<Name, (u64, usize, u64)>,
    /// The token of the last that wrote each name.
    written: BTreeMap<Name, u64>,
    pub(super) granted: usize,
    pub(super) upgrades: Upgrades,
    /// Those whose names somebody has released by force.
    pub(super) forced: BTreeSet<Attempt>,
    pub(super) ends: Ends,
    /// What has happened, if the test records it.
    pub(super) log: Option<Vec<String>>,
}

pub(super) struct Client {
    pub(super) machine: Machine,
    pub(super) name: Arc<str>,
    /// Messages under way: calls to the server, and its answers and pushes.
    to_server: VecDeque<(u64, Call)>,
    to_client: VecDeque<Said>,
    pub(super) up: bool,
    /// Calls of broken connections that the server may still read.
    astray: VecDeque<Call>,
    /// What its users wait for, hold and release, by number.
    pub(super) waiting: BTreeMap<u64, Wanted>,
    pub(super) holding: BTreeMap<u64, Wanted>,
    pub(super) parked: BTreeMap<u64, Wanted>,
    /// Those of its held locks that it is handing over.
    handing: BTreeSet<u64>,
    /// Those that are to have other modes.
    changing: BTreeSet<u64>,
    releasing: BTreeSet<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) names: Names,
    pub(super) owner: u64,
    pub(super) ttl: Duration,
}

impl Wanted {
    /// Whether its names stay locked for its ttl at least.
    pub(super) fn is_kept(&self) -> bool {
        self.owner == 2 && !self.names.are_shared()
    }
}

enum Said {
    ScriptAnswer(u64, ScriptAnswer),
    Refusal(u64),
    Push(Pushed),
}

/// How many permits of the pool there are.
const LIMIT: u32 = 2;

/// A small letter is a name to write, a capital one to read. A digit comes before them, and is so many permits.
pub(super) fn names(letters: &str) -> Names {
    let one = |letter: u8| match letter {
        b'1'..=b'9' => (Name::from(&b"\0p"[..]), Mode::Permits { count: u32::from(letter - b'0'), limit: LIMIT }),
        b'A'..=b'Z' => (Name::from([letter.to_ascii_lowercase()]), Mode::Read),
        _ => (Name::from([letter]), Mode::Write),
    };
    letters.bytes().map(one).collect()
}

impl World {
    pub(super) fn new(clients: usize, fairness: Fairness) -> Self {
        let options =
            LockOptions { fairness, heartbeat: HEARTBEAT, patience: Duration::from_secs(1), ..LockOptions::default() };
        let throughput = fairness == Fairness::Throughput;
        let client = |index: usize| {
            let name: Arc<str> = format!("client{index}").into();
            Client {
                machine: Machine::new(name.clone(), options.clone()),
                name,
                to_server: VecDeque::new(),
                to_client: VecDeque::new(),
                up: false,
                astray: VecDeque::new(),
                waiting: BTreeMap::new(),
                holding: BTreeMap::new(),
                parked: BTreeMap::new(),
                handing: BTreeSet::new(),
                changing: BTreeSet::new(),
                releasing: BTreeSet::new(),
            }
        };
        Self {
            model: Model::new(options.waiter_ttl(), throughput),
            clients: (0..clients).map(client).collect(),
            now: Duration::from_secs(1000),
            server_clock: Duration::from_secs(40_000_000),
            excused_until: Duration::ZERO,
            tokens: BTreeMap::new(),
            written: BTreeMap::new(),
            granted: 0,
            upgrades: Upgrades::default(),
            forced: BTreeSet::new(),
            ends: Ends::default(),
            log: None,
        }
    }

    pub(super) fn at(&self) -> Moment {
        Moment(self.now)
    }

    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(format!("{:>9.3} {}", (self.now - Duration::from_secs(1000)).as_secs_f64(), what()));
        }
    }

    pub(super) fn lock(&mut self, client: usize, owner: u64, wanted: &str, ttl: u64, wait: Option<u64>) -> Option<u64> {
        let wanted = Wanted { names: names(wanted), owner, ttl: Duration::from_millis(ttl) };
        let request = LockRequest {
            names: wanted.names.clone(),
            owner,
            ttl: wanted.ttl,
            wait: wait.map(Duration::from_millis),
            renewal: if ttl % 2 == 0 { Renewal::Always } else { Renewal::Never },
            reentrant: false,
            rare: Rare {
                // A third of the locks.
                at_least: if wanted.is_kept() { wanted.ttl } else { Duration::ZERO },
                remark: (owner > 0).then(|| format!("{client} {owner}").into()),
                ..Rare::default()
            }
            .boxed(),
        };
        let now = self.at();
        let number = self.clients[client].machine.lock(request, now).ok();
        self.note(|| format!("client {client} owner {owner} wants {wanted:?}: {number:?}"));
        if let Some(number) = number {
            self.clients[client].waiting.insert(number, wanted);
        }
        self.settle(client);
        number
    }

    pub(super) fn release(&mut self, client: usize, number: u64) {
        self.note(|| format!("client {client} gives back {number}"));
        let now = self.at();
        let of = &mut self.clients[client];
        if of.holding.remove(&number).is_some() && of.machine.release(number, now).is_ok() {
            of.releasing.insert(number);
        }
        self.settle(client);
    }

    pub(super) fn cancel(&mut self, client: usize, number: u64) {
        self.note(|| format!("client {client} gives up {number}"));
        let now = self.at();
        let of = &mut self.clients[client];
        of.waiting.remove(&number);
        of.parked.remove(&number);
        of.holding.remove(&number);
        of.machine.cancel(number, now);
        self.settle(client);
    }

    pub(super) fn extend(&mut self, client: usize, number: u64) {
        let now = self.at();
        let ttl = self.clients[client].holding[&number].ttl;
        let _ = self.clients[client].machine.extend(number, ttl, now);
        self.settle(client);
    }

    /// Gives a lock other modes.
    pub(super) fn change(&mut self, client: usize, number: u64, mode: Mode, wait: u64) {
        let now = self.at();
        let of = &mut self.clients[client];
        let begun = of.machine.change(number, &[], mode, Duration::from_millis(wait), now);
        if begun.is_ok() {
            assert!(of.changing.insert(number), "one at a time");
            if mode == Mode::Write {
                self.upgrades.begin(client, number);
            }
        }
        self.note(|| format!("client {client} is to have {number} to {mode:?} within {wait}: {begun:?}"));
        self.settle(client);
    }

    pub(super) fn stop_changing(&mut self, client: usize, number: u64) {
        self.note(|| format!("client {client} no longer waits for {number}"));
        let now = self.at();
        let of = &mut self.clients[client];
        of.changing.remove(&number);
        self.upgrades.end(client, number);
        of.machine.stop_changing(number, now);
        self.settle(client);
    }

    /// Begins to hand a lock over, as a front does.
    pub(super) fn hand_over(&mut self, client: usize, number: u64) {
        if self.is_shared(client, number) {
            return;
        }
        self.note(|| format!("client {client} hands over {number}"));
        let now = self.at();
        let of = &mut self.clients[client];
        if of.machine.extend(number, of.holding[&number].ttl, now).is_ok() {
            of.handing.insert(number);
            self.ends.extended(&of.machine.attempt(number), self.now);
        }
        self.settle(client);
    }

    /// Tries to adopt a lock that was handed over.
    pub(super) fn adopt(&mut self, client: usize, owner: u64, ticket: usize) {
        let Some(ticket) = self.ends.tickets.get(ticket) else { return };
        let wanted = Wanted { names: ticket.names.clone(), owner, ttl: Duration::from_millis(400) };
        let request = LockRequest {
            names: wanted.names.clone(),
            owner,
            ttl: wanted.ttl,
            wait: Some(Duration::from_secs(1)),
            renewal: Renewal::Always,
            reentrant: false,
            rare: Rare {
                at_least: ticket.rest,
                adopts: Some(Arc::new(ticket.attempt.clone())),
                remark: Some("adopted".into()),
                ..Rare::default()
            }
            .boxed(),
        };
        let now = self.at();
        let number = self.clients[client].machine.lock(request, now).ok();
        self.note(|| format!("client {client} adopts {wanted:?}: {number:?}"));
        if let Some(number) = number {
            self.clients[client].waiting.insert(number, wanted);
        }
        self.settle(client);
    }

    /// Whether a lock reads some of its names. Fronts refuse to do more with it than to extend and to release it.
    fn is_shared(&self, client: usize, number: u64) -> bool {
        self.clients[client].machine.names(number).is_none_or(|names| names.are_shared())
    }

    pub(super) fn park(&mut self, client: usize, number: u64, wait: Option<u64>) {
        if self.is_shared(client, number) {
            return;
        }
        self.note(|| format!("client {client} parks {number}"));
        let now = self.at();
        let of = &mut self.clients[client];
        let relock = Duration::from_secs(2);
        if of.machine.park(number, wait.map(Duration::from_millis), relock, now).is_ok() {
            let wanted = of.holding.remove(&number).expect("it is held");
            self.ends.forget(&of.machine.attempt(number));
            of.parked.insert(number, wanted);
        }
        self.settle(client);
    }

    pub(super) fn notify(&mut self, client: usize, number: u64) {
        if self.is_shared(client, number) {
            return;
        }
        self.note(|| format!("client {client} notifies {number}"));
        let now = self.at();
        let of = &mut self.clients[client];
        let names = of.holding[&number].names.clone();
        let attempt = of.machine.attempt(number);
        of.machine.question(Call::Notify { attempt, names, most: 1 }, now);
        self.settle(client);
    }

    /// The server reads the next call from a client's connection.
    pub(super) fn serve(&mut self, client: usize) -> bool {
        let Some((id, call)) = self.clients[client].to_server.pop_front() else { return false };
        let answer = self.answer(client, &call);
        let said = &mut self.clients[client].to_client;
        said.push_back(Said::ScriptAnswer(id, answer));
        true
    }

    /// The server refuses the next call from a client's connection, for a reason that passes.
    pub(super) fn refuse(&mut self, client: usize) -> bool {
        let Some((id, call)) = self.clients[client].to_server.pop_front() else { return false };
        if let Call::Change { attempt, .. } = &call {
            self.upgrades.meets(Fault::Refused, client, attempt.number);
        }
        self.note(|| format!("server: refuses client {client}: {call:?}"));
        self.clients[client].to_client.push_back(Said::Refusal(id));
        true
    }

    /// The server reads a call that a broken connection left in its buffers.
    pub(super) fn serve_astray(&mut self, client: usize) -> bool {
        let Some(call) = self.clients[client].astray.pop_front() else { return false };
        self.note(|| "astray:".into());
        self.answer(client, &call);
        true
    }

    /// Pushes leave before the answer does.
    pub(super) fn answer(&mut self, client: usize, call: &Call) -> ScriptAnswer {
        let answer = self.model.call(self.server_clock, call);
        self.ends.called(call, &answer, self.now, self.server_clock);
        self.note(|| format!("server: client {client}: {call:?} -> {answer:?}"));
        for Push { client, pushed } in self.model.take_pushes() {
            self.note(|| format!("server: push {pushed:?}"));
            for of in &mut self.clients {
                if of.up && client.as_ref().is_none_or(|name| *name == of.name) {
                    of.to_client.push_back(Said::Push(pushed.clone()));
                }
            }
        }
        answer
    }

    /// A client reads the next message.
    pub(super) fn hear(&mut self, client: usize) -> bool {
        let now = self.at();
        let of = &mut self.clients[client];
        let Some(said) = of.to_client.pop_front() else { return false };
        match said {
            Said::ScriptAnswer(id, answer) => of.machine.answer(id, Ok(answer), now),
            Said::Refusal(id) => {
                let error = Error::new(Kind::NotNow, &"server".into(), "BUSY");
                of.machine.answer(id, Err(error), now);
            }
            Said::Push(pushed) => of.machine.pushed(pushed, now),
        }
        self.settle(client);
        true
    }

    pub(super) fn connect(&mut self, client: usize) {
        self.note(|| format!("client {client} connects"));
        let now = self.at();
        let of = &mut self.clients[client];
        of.up = true;
        self.model.connect(&of.name);
        of.machine.connected(now);
        self.settle(client);
    }

    /// Breaks the connection. The server reads the first `arrive` calls under way now, and others later; its messages
    /// are lost. If it has not noticed, its pushes go nowhere.
    pub(super) fn cut(&mut self, client: usize, arrive: usize, astray: bool, noticed: bool) {
        for _ in 0..arrive {
            self.serve(client);
        }
        self.note(|| format!("client {client} is cut off"));
        self.upgrades.all_meet(Fault::CutOff, client);
        let now = self.at();
        let of = &mut self.clients[client];
        let lost = std::mem::take(&mut of.to_server);
        if astray {
            of.astray.extend(lost.into_iter().map(|(_, call)| call));
        }
        of.to_client.clear();
        of.up = false;
        if noticed {
            self.model.disconnect(&of.name);
        }
        let error = Error::new(Kind::Closed, &"server".into(), "cut");
        of.machine.disconnected(&error, false, now);
        self.settle(client);
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.server_clock += time;
        self.check();
    }

    /// A client does what is due.
    pub(super) fn wake(&mut self, client: usize) {
        let now = self.at();
        self.clients[client].machine.expire(now);
        self.settle(client);
    }

    /// Takes a machine's calls and events.
    fn settle(&mut self, client: usize) {
        let now = self.at();
        let of = &mut self.clients[client];
        let events: Vec<MachineEvent> = iter::from_fn(|| of.machine.next_event()).collect();
        if of.up {
            of.to_server.extend(iter::from_fn(|| of.machine.next_call()));
        } else {
            let may_wait = |call: &Call| matches!(call, Call::Notify { .. } | Call::Extend { .. });
            assert!(of.machine.calls.iter().all(|(_, call)| may_wait(call)), "what waits for a connection");
        }
        let mut lost = false;
        for event in events {
            self.note(|| format!("client {client}: {event:?}"));
            let of = &mut self.clients[client];
            match event {
                MachineEvent::Done { outcome: Outcome::Granted { number, token, again, .. }, .. }
                    if of.changing.remove(&number) =>
                {
                    let (held, _) = of.machine.held(number, now).expect("what is changed is held");
                    let names = of.machine.names(number).expect("it is held");
                    assert_eq!((held, again || names.are_written()), (token, true));
                    if again {
                        self.upgrades.end(client, number);
                    } else {
                        self.upgrades.granted(client, number);
                        self.check_token(client, number, &names, token);
                    }
                }
                MachineEvent::Done { number, awaited: Awaited::Grant, outcome } if of.changing.remove(&number) => {
                    if matches!(outcome, Outcome::Failed(MachineFailure::NotHeld)) {
                        self.upgrades.meets(Fault::Lost, client, number);
                    }
                    self.upgrades.end(client, number);
                }
                MachineEvent::Done { outcome: Outcome::Granted { number, token, .. }, .. } => {
                    let wanted = of.waiting.remove(&number).or_else(|| of.parked.remove(&number));
                    let wanted = wanted.expect("only what is waited for is granted");
                    assert!(of.machine.held(number, now).is_some(), "what is granted is held");
                    self.check_token(client, number, &wanted.names, token);
                    let of = &mut self.clients[client];
                    self.ends.granted(&of.machine.attempt(number), wanted.is_kept(), wanted.ttl, self.now);
                    of.holding.insert(number, wanted);
                    self.granted += 1;
                }
                MachineEvent::Done { number, awaited: Awaited::Grant, .. } => {
                    let waited = of.waiting.remove(&number).or_else(|| of.parked.remove(&number));
                    assert!(waited.is_some(), "only what is waited for fails");
                }
                MachineEvent::Done { number, awaited: Awaited::Release, .. } => {
                    assert!(of.releasing.remove(&number), "only what is given back is said to be");
                }
                MachineEvent::Lost { number, .. } => {
                    self.ends.forget(&of.machine.attempt(number));
                    of.handing.remove(&number);
                    let _ = of.machine.release(number, now);
                    of.holding.remove(&number);
                    of.releasing.insert(number);
                    lost = true;
                }
                MachineEvent::Contested { .. } => panic!("only claims are contested"),
                MachineEvent::Done { number, awaited: Awaited::Extension, outcome } if of.handing.remove(&number) => {
                    let held = matches!(outcome, Outcome::Extended { held: true });
                    if let Some((attempt, names, rest)) = held.then(|| of.machine.hand_over(number, now)).flatten() {
                        let wanted = of.holding.remove(&number).expect("it is held");
                        self.ends.handed_over(attempt, names, rest, wanted.ttl);
                        lost = true; // it has made calls
                    }
                }
                MachineEvent::Done { awaited: Awaited::Extension | Awaited::Answer, .. } => {}
                MachineEvent::RenewalRefused { .. } => {}
            }
        }
        match lost {
            true => self.settle(client),
            false => self.check(),
        }
    }

    /// Checks that a writer's token is higher than all before it, and a reader's at least the last writer's.
    fn check_token(&mut self, client: usize, number: u64, names: &Names, token: u64) {
        if self.forced.contains(&self.clients[client].machine.attempt(number)) {
            // It may hear of its grant after others have heard of theirs.
            return;
        }
        let excused = self.now < self.excused_until;
        for (name, mode) in names.each() {
            let before = self.tokens.get(name).copied();
            if mode == Mode::Read {
                let last = self.written.get(name);
                assert!(excused || last.is_none_or(|last| *last <= token), "{name:?}: {token} after {last:?}");
            }
            if mode == Mode::Write {
                // A parked lock may be woken without having released its names.
                let same = before == Some((token, client, number));
                let is_right = before.is_none_or(|(last, ..)| last < token) || same;
                assert!(excused || is_right, "{name:?}: {token} after {before:?}");
                self.written.insert(name.clone(), token);
            }
            if excused || before.is_none_or(|(last, ..)| last <= token) {
                self.tokens.insert(name.clone(), (token, client, number));
            }
        }
    }

    /// Checks that no two clients consider the same name held, except to read it; that no more permits are held than
    /// there are; and that a lock has all of its names or none.
    fn check(&self) {
        let now = self.at();
        self.ends.check(&self.model, self.now, self.server_clock);
        let (mut believed, mut read) = (BTreeMap::<Name, (usize, u64)>::new(), BTreeMap::<Name, (usize, u64)>::new());
        let mut permits = 0;
        for (index, client) in self.clients.iter().enumerate() {
            for number in client.holding.keys() {
                let is_forced = self.forced.contains(&client.machine.attempt(*number));
                if is_forced || client.machine.held(*number, now).is_none() {
                    continue;
                }
                let excused = self.now < self.excused_until;
                for (name, mode) in client.machine.names(*number).expect("it is held").each() {
                    let me = (index, *number);
                    let others = match mode {
                        Mode::Write => [believed.insert(name.clone(), me), read.get(name).copied()],
                        Mode::Read => [believed.get(name).copied(), read.insert(name.clone(), me).and(None)],
                        Mode::Permits { count, .. } => {
                            permits += count;
                            assert!(permits <= LIMIT || excused, "{permits} permits, with {me:?}");
                            continue;
                        }
                    };
                    assert!(others == [None; 2] || excused, "{name:?} is held by {others:?} and {me:?}");
                }
            }
            for (number, wanted) in client.holding.iter().chain(&client.waiting).chain(&client.parked) {
                let attempt = client.machine.attempt(*number);
                let held = self.model.holding(&attempt);
                let whole = held == 0 || held == wanted.names.len() || self.forced.contains(&attempt);
                assert!(whole || self.now < self.excused_until, "{held} of {wanted:?}");
            }
        }
    }

    /// Repairs everything, releases every lock, and lets all waiting end. Nothing may be left then.
    pub(super) fn end(&mut self) {
        for client in 0..self.clients.len() {
            while self.serve_astray(client) {}
            if !self.clients[client].up {
                self.connect(client);
            }
            // No other client can notify them any more.
            while let Some(number) = self.clients[client].parked.keys().next().copied() {
                self.cancel(client, number);
            }
        }
        for _ in 0..4000 {
            for client in 0..self.clients.len() {
                while self.serve(client) {}
                while self.hear(client) {}
                while let Some(number) = self.clients[client].holding.keys().next().copied() {
                    self.release(client, number);
                }
                self.wake(client);
            }
            let is_idle = |client: &Client| {
                client.machine.is_idle() && client.to_server.is_empty() && client.to_client.is_empty()
            };
            if self.clients.iter().all(is_idle) {
                break;
            }
            self.pass(Duration::from_millis(20));
        }
        for (index, client) in self.clients.iter().enumerate() {
            let open = (&client.waiting, &client.parked, &client.releasing);
            assert!(client.waiting.is_empty() && client.parked.is_empty(), "client {index} waits for ever: {open:?}");
            assert!(client.changing.is_empty(), "client {index} waits for other modes for ever");
            assert!(client.releasing.is_empty(), "client {index} never heard of what it gave back: {open:?}");
        }
        self.pass(Duration::from_secs(120));
        self.model.call(self.server_clock, &Call::Open { seen: 0 });
        assert!(self.model.is_idle(), "something is left on the server");
    }
}
