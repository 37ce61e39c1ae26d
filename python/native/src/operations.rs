//! What coroutines wait for: operations of the shared driver, and those of several that have one answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pinyon_core::fleet::{Choice, Fleet};
use pinyon_core::lease::Win;
use pinyon_core::session::{Destination, Session, Ticket};
use pinyon_core::shared::{Operation, Route};
use pinyon_core::{Data, Error, Kind, Refused, Reply};
use pinyon_proto::{Command, Head, Key, StatsKind, Status};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use pyo3::IntoPyObjectExt;

use crate::admin::{statistics, versions, ServerLines};
use crate::errors::{beside, from_core, stored_under};
use crate::keys::{key_bytes, Routing};
use crate::many::{add_server, note_failed, outcome};
use crate::policy::Policy;
use crate::requests::{found, Answer, Request, Shape};
use crate::values::{destination, Codec, Kept};
use crate::waiter::{self, Waiter};

/// One exchange, and who is to hear of it. It is handed on many times, and so it is small.
pub(crate) enum Op {
    Single(Box<Single>),
    Line(Box<Line>),
    Everywhere(Box<Everywhere>),
}

/// A request about one key.
pub(crate) struct Single {
    pub(crate) codec: Arc<Codec>,
    pub(crate) key: SentKey,
    pub(crate) request: Request,
    pub(crate) data: Kept,
    /// It is not to be joined with others.
    pub(crate) alone: bool,
    pub(crate) answer: Answer,
    pub(crate) policy: Policy,
    /// It goes to a server of the gutter.
    pub(crate) longest_ttl: Option<i32>,
    pub(crate) default: Option<Py<PyAny>>,
    pub(crate) target: Target,
}

/// A key, kept until its request is over.
pub(crate) enum SentKey {
    /// Sent as Python has it.
    Text(PyBackedStr),
    Bytes(PyBackedBytes),
    /// The ring is asked about something else than what is sent.
    Rewritten {
        wire: Vec<u8>,
        base64: bool,
        routed: Vec<u8>,
    },
}

impl SentKey {
    /// `routed`: what the ring is asked about, of `given`.
    pub(crate) fn new(wire: &[u8], base64: bool, given: &Bound<'_, PyAny>, routed: &[u8]) -> PyResult<Self> {
        if !std::ptr::eq(wire, routed) && wire != routed {
            return Ok(SentKey::Rewritten { wire: wire.to_vec(), base64, routed: routed.to_vec() });
        }
        match given.cast::<PyString>() {
            Ok(text) => Ok(SentKey::Text(PyBackedStr::try_from(text.clone())?)),
            Err(_) => Ok(SentKey::Bytes(PyBackedBytes::from(given.cast::<PyBytes>()?.clone()))),
        }
    }

    fn key(&self) -> Key<'_> {
        let (wire, base64) = match self {
            SentKey::Text(text) => (text.as_bytes(), false),
            SentKey::Bytes(bytes) => (&**bytes, false),
            SentKey::Rewritten { wire, base64, .. } => (&**wire, *base64),
        };
        Key::new(wire, base64).unwrap_or_else(|_| unreachable!("the rules write keys that can be sent"))
    }

    fn routed(&self) -> &[u8] {
        match self {
            SentKey::Text(text) => text.as_bytes(),
            SentKey::Bytes(bytes) => bytes,
            SentKey::Rewritten { routed, .. } => routed,
        }
    }

    /// What is stored under it could not be read.
    #[cold]
    fn unreadable(&self, py: Python<'_>, error: PyErr, request: Request) -> PyErr {
        let given = match self {
            SentKey::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
            _ => PyString::new(py, &String::from_utf8_lossy(self.routed())).into_any(),
        };
        stored_under(py, error, request.command(self.key()).name(), &given)
    }
}

/// One `get` line, for plain keys of one server.
pub(crate) struct Line {
    pub(crate) codec: Arc<Codec>,
    pub(crate) routing: Routing,
    pub(crate) choice: Choice,
    pub(crate) text: Vec<u8>,
    /// The keys, by their index in the gathering.
    pub(crate) keys: Vec<usize>,
    /// CAS tokens are asked for too.
    pub(crate) cas: bool,
    /// Of which keys, by their index in the line, what was found may be a placeholder.
    pub(crate) in_doubt: Vec<usize>,
    pub(crate) gather: Arc<Gather>,
}

/// A command that concerns a server.
pub(crate) struct Everywhere {
    /// The server's index and name; none yet of what is to become one command for each server.
    pub(crate) server: Option<(usize, Arc<str>)>,
    pub(crate) what: About,
    pub(crate) lines: Vec<String>,
    pub(crate) gather: Arc<Gather>,
}

#[derive(Clone)]
pub(crate) enum About {
    Version,
    Stats(String),
    FlushAll { delay: u32 },
}

/// Who hears of a request's outcome.
pub(crate) enum Target {
    Nobody,
    Waiter(Waiter),
    /// One key of many, by index.
    Member(Arc<Gather>, usize),
}

/// Several exchanges with one answer.
pub(crate) struct Gather {
    waiter: Waiter,
    /// The keys that it is about, as the caller gave them.
    pub(crate) keys: Vec<Py<PyAny>>,
    name: &'static str,
    policy: Policy,
    state: Mutex<State>,
}

struct State {
    /// Exchanges that are not over yet.
    open: usize,
    answer: Gathered,
    error: Option<PyErr>,
    /// One for each server that failed.
    failures: Vec<Error>,
}

/// The answer so far.
pub(crate) enum Gathered {
    Values {
        found: Py<PyDict>,
        /// Where the servers that failed are to be noted.
        failed: Option<Py<PyDict>>,
    },
    /// Which keys are known to be stored.
    Stored(Vec<bool>),
    Deleted(usize),
    Versions(ServerLines),
    Stats(ServerLines),
    Nothing,
}

/// What an operation that is over leads to.
pub(crate) enum Outcome {
    /// A coroutine goes on.
    Answered(Waiter, waiter::Answer),
    /// Keys whose server failed, and how, are asked one by one, each where it belongs now.
    Again(Vec<Single>, Box<Error>),
    /// What was found of these keys may be placeholders: they are asked by commands that tell.
    Ask(Vec<Single>),
    /// The servers are known: each is asked.
    Spread(Everywhere),
    /// Nobody waits any more for what was won: it is given back.
    GiveBack(Box<Single>),
    /// Others of the same answer are still open.
    Open,
}

impl Operation for Op {
    fn name(&self) -> &'static str {
        match self {
            Op::Single(single) => single.request.command(single.key.key()).name(),
            Op::Line(line) => line.gather.name,
            Op::Everywhere(everywhere) => everywhere.gather.name,
        }
    }

    fn route(&self) -> Route<'_> {
        match self {
            Op::Single(single) => Route::Key { key: single.key.routed(), failover: single.policy.failover },
            Op::Line(line) => Route::Server(line.choice),
            Op::Everywhere(everywhere) => match everywhere.server {
                Some((server, _)) => Route::Server(Choice::regardless(server)),
                None => Route::Known,
            },
        }
    }

    fn expire_within(&mut self, most: i32) {
        if let Op::Single(single) = self {
            single.longest_ttl = Some(most);
        }
    }

    fn submit(&mut self, session: &mut Session, deadline: Instant) -> Result<Ticket, Refused> {
        match self {
            Op::Single(single) => {
                let request = single.request;
                let mut command = request.command(single.key.key());
                if let Some(most) = single.longest_ttl {
                    command = command.expiring_within(most);
                }
                match request {
                    _ if single.alone || !request.may_be_joined() => {
                        session.submit(&command, single.data.data(), deadline)
                    }
                    Request::Get { .. } => session.submit_joined_get(single.key.key(), deadline),
                    _ => session.submit_joined_store(&command, single.data.data(), deadline),
                }
            }
            Op::Line(line) => {
                let command = Command::GetMany { keys: &line.text, cas: line.cas };
                session.submit(&command, Data::None, deadline)
            }
            Op::Everywhere(everywhere) => session.submit(&everywhere.what.command(), Data::None, deadline),
        }
    }

    fn reply(&mut self, reply: Reply<'_>) {
        match self {
            Op::Single(single) => Python::attach(|py| single.answer.take(py, &single.codec, reply)),
            Op::Line(line) => Python::attach(|py| line.take(py, reply)),
            Op::Everywhere(everywhere) if matches!(reply.head.status, Status::Version | Status::Stat) => {
                everywhere.lines.push(String::from_utf8_lossy(reply.line).into_owned());
            }
            Op::Everywhere(_) => {}
        }
    }

    fn destination(&mut self, head: &Head) -> Box<dyn Destination> {
        let codec = match self {
            Op::Single(single) => &single.codec,
            Op::Line(line) => &line.codec,
            Op::Everywhere(_) => return Box::new(vec![0; head.size.unwrap_or_default()]),
        };
        Python::attach(|py| destination(py, codec, head))
    }

    fn is_idempotent(&self) -> bool {
        match self {
            Op::Single(single) => single.request.command(single.key.key()).is_idempotent(),
            Op::Line(_) | Op::Everywhere(_) => false,
        }
    }

    fn insists(&mut self) -> bool {
        match self {
            Op::Single(single) if single.request.may_be_joined() => !std::mem::replace(&mut single.alone, true),
            _ => false,
        }
    }

    fn is_abandoned(&self) -> bool {
        let waiter = match self {
            Op::Single(single) => match &single.target {
                Target::Waiter(waiter) => waiter,
                Target::Member(gather, _) => &gather.waiter,
                Target::Nobody => return !matches!(single.request, Request::GiveBack(_)),
            },
            Op::Line(line) => &line.gather.waiter,
            Op::Everywhere(everywhere) => &everywhere.gather.waiter,
        };
        Python::attach(|py| waiter.is_done(py))
    }
}

impl Op {
    /// What follows now that it is over, successfully unless there is an error. `in_time`: there is time to ask again.
    pub(crate) fn finish(&mut self, py: Python<'_>, error: Option<Error>, in_time: bool) -> Outcome {
        match self {
            Op::Single(single) => single.finish(py, error),
            Op::Line(line) => line.finish(py, error, in_time),
            Op::Everywhere(everywhere) => everywhere.finish(py, error),
        }
    }
}

impl Single {
    /// In the memory of one that is over, where there is one.
    pub(crate) fn boxed(self, over: Option<Box<Single>>) -> Box<Single> {
        let Some(mut place) = over else { return Box::new(self) };
        *place = self;
        place
    }

    /// What it holds of Python's is given up.
    pub(crate) fn clear(&mut self) {
        self.key = SentKey::Rewritten { wire: Vec::new(), base64: false, routed: Vec::new() };
        self.data = Kept::Nothing;
    }

    /// Gives a lease back that it has won.
    fn giving_back(&mut self, win: Win) -> Self {
        self.followed_by(Request::GiveBack(win), Shape::Done, Target::Nobody)
    }

    /// Asks again, by a command that tells a placeholder.
    fn asking_alone(&mut self, cas: bool) -> Self {
        let target = std::mem::replace(&mut self.target, Target::Nobody);
        let default = self.default.take();
        Self { alone: true, default, ..self.followed_by(Request::Get { cas }, Shape::found(cas), target) }
    }

    /// Another request for the same key.
    fn followed_by(&mut self, request: Request, shape: Shape, target: Target) -> Self {
        let nothing = SentKey::Rewritten { wire: Vec::new(), base64: false, routed: Vec::new() };
        Self {
            codec: self.codec.clone(),
            key: std::mem::replace(&mut self.key, nothing),
            request,
            data: Kept::Nothing,
            alone: false,
            answer: Answer::new(shape),
            policy: self.policy,
            longest_ttl: None,
            default: None,
            target,
        }
    }

    fn finish(&mut self, py: Python<'_>, error: Option<Error>) -> Outcome {
        let answer = std::mem::replace(&mut self.answer, Answer::new(Shape::Done));
        if let (Request::Get { cas }, true, None) = (self.request, answer.is_in_doubt && !self.alone, &error) {
            return Outcome::Ask(vec![self.asking_alone(cas)]);
        }
        let default = self.default.take();
        match std::mem::replace(&mut self.target, Target::Nobody) {
            Target::Nobody => Outcome::Open,
            Target::Waiter(waiter) if matches!(self.request, Request::Lease { .. }) && waiter.is_done(py) => {
                answer.win(py).map_or(Outcome::Open, |win| Outcome::GiveBack(self.giving_back(win).into()))
            }
            Target::Waiter(waiter) => {
                let answer = match &error {
                    Some(error) if self.policy.forgives(error) => answer.into_lost(),
                    Some(error) => return Outcome::Answered(waiter, Err(Box::new(from_core(py, error)))),
                    None => answer,
                };
                let answered = answer
                    .finish(py, default.map(|default| default.into_bound(py)))
                    .map(Bound::unbind)
                    .map_err(|error| Box::new(self.key.unreadable(py, error, self.request)));
                Outcome::Answered(waiter, answered)
            }
            Target::Member(gather, index) => gather.finished(py, |state| match error {
                Some(error) => state.failed(py, error),
                None => state.member(py, gather.name, &gather.keys, index, answer),
            }),
        }
    }
}

impl Line {
    fn take(&mut self, py: Python<'_>, reply: Reply<'_>) {
        if reply.head.status != Status::Hit {
            return;
        }
        if reply.head.may_be_placeholder() {
            return self.in_doubt.push(reply.index);
        }
        let index = self.keys[reply.index];
        let value = found(py, &self.codec, reply, self.cas);
        let Gather { name, keys, .. } = &*self.gather;
        self.gather.lock().found(py, name, &keys[index], value.map(Bound::unbind));
    }

    fn finish(&mut self, py: Python<'_>, error: Option<Error>, in_time: bool) -> Outcome {
        if let Some(error) = &error {
            if !error.may_pass() || !in_time {
                return self.gather.finished(py, |state| state.failed(py, error.clone()));
            }
        } else if self.in_doubt.is_empty() {
            return self.gather.finished(py, |_| {});
        }
        let wires = self.text.split(|byte| *byte == b' ').zip(self.keys.iter().copied()).enumerate();
        let again = wires.filter(|(place, _)| error.is_some() || self.in_doubt.contains(place));
        let alone = error.is_none();
        let singles = again.map(|(_, (wire, index))| self.member(py, wire, index, alone)).collect::<PyResult<Vec<_>>>();
        let singles = match singles {
            Ok(singles) => singles,
            Err(error) => {
                return self.gather.finished(py, |state| {
                    state.error.get_or_insert(error);
                })
            }
        };
        self.gather.lock().open += singles.len() - 1;
        match error {
            Some(error) => Outcome::Again(singles, Box::new(error)),
            None => Outcome::Ask(singles),
        }
    }
}

impl Line {
    /// One of its keys, to be asked by itself; `alone`: and not joined with others again.
    fn member(&self, py: Python<'_>, wire: &[u8], index: usize, alone: bool) -> PyResult<Single> {
        let given = self.gather.keys[index].bind(py);
        Ok(Single {
            codec: self.codec.clone(),
            key: SentKey::new(wire, false, given, &self.routing.key(given, key_bytes(given)?)?)?,
            request: Request::Get { cas: self.cas },
            data: Kept::Nothing,
            alone,
            answer: Answer::new(Shape::found(self.cas)),
            policy: self.gather.policy,
            longest_ttl: None,
            default: None,
            target: Target::Member(self.gather.clone(), index),
        })
    }
}

impl About {
    fn command(&self) -> Command<'_> {
        match self {
            About::Version => Command::Version,
            About::Stats(kind) => Command::Stats(StatsKind::new(kind).unwrap_or_default()),
            About::FlushAll { delay } => Command::FlushAll { delay: *delay },
        }
    }
}

impl Everywhere {
    fn finish(&mut self, py: Python<'_>, error: Option<Error>) -> Outcome {
        let lines = std::mem::take(&mut self.lines);
        let (error, name) = match (error, self.server.take()) {
            (None, None) => return Outcome::Spread(self.of_server(None)),
            (error, server) => (error, server.map(|(_, name)| name)),
        };
        self.gather.finished(py, |state| match (error, &mut state.answer) {
            (Some(error), _) => state.failed(py, error),
            (None, Gathered::Versions(servers) | Gathered::Stats(servers)) => {
                servers.extend(name.map(|name| (name, lines)))
            }
            (None, _) => {}
        })
    }

    /// The same command, for a server.
    fn of_server(&self, server: Option<(usize, Arc<str>)>) -> Self {
        Self { server, what: self.what.clone(), lines: Vec::new(), gather: self.gather.clone() }
    }

    /// The same command, for each of these servers, in place of the one that waited for them to become known.
    pub(crate) fn spread(&self, fleet: &Fleet) -> Vec<Op> {
        let servers = fleet.members().map(|index| (index, fleet.servers()[index].name.clone()));
        let operations: Vec<Op> = servers.map(|server| Op::Everywhere(self.of_server(Some(server)).into())).collect();
        self.gather.lock().open += operations.len() - 1;
        operations
    }
}

impl Gather {
    /// An answer made of so many exchanges.
    pub(crate) fn new(
        waiter: Waiter,
        name: &'static str,
        policy: Policy,
        keys: Vec<Py<PyAny>>,
        open: usize,
        answer: Gathered,
    ) -> Arc<Self> {
        let state = State { open, answer, error: None, failures: Vec::new() };
        Arc::new(Self { waiter, keys, name, policy, state: Mutex::new(state) })
    }

    /// Nothing is to be waited for.
    pub(crate) fn is_complete(&self) -> bool {
        self.lock().open == 0
    }

    /// One exchange is over, with this effect; the last one gives the answer.
    fn finished(&self, py: Python<'_>, effect: impl FnOnce(&mut State)) -> Outcome {
        let mut state = self.lock();
        effect(&mut state);
        state.open -= 1;
        if state.open > 0 {
            return Outcome::Open;
        }
        drop(state);
        let (waiter, answer) = self.answered(py);
        Outcome::Answered(waiter, answer)
    }

    /// The answer, once nothing is open.
    fn answer(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let mut state = self.lock();
        if let Some(error) = state.error.take() {
            return Err(match &state.answer {
                Gathered::Values { found, .. } => beside(py, error, found.bind(py)),
                _ => error,
            });
        }
        let mut failures = std::mem::take(&mut state.failures);
        let answer = match std::mem::replace(&mut state.answer, Gathered::Nothing) {
            Gathered::Values { found, failed } => {
                failures = note_failed(failed.map(|failed| failed.into_bound(py)).as_ref(), failures, self.name)?;
                found.into_bound(py).into_any()
            }
            Gathered::Deleted(count) => count.into_bound_py_any(py)?,
            Gathered::Stored(known) => {
                let failed = self.keys.iter().zip(known).filter(|(_, stored)| !stored).map(|(key, _)| key);
                PyList::new(py, failed.collect::<Vec<_>>())?.into_any()
            }
            Gathered::Versions(lines) => versions(py, lines)?.into_any(),
            Gathered::Stats(lines) => statistics(py, lines)?.into_any(),
            Gathered::Nothing => py.None().into_bound(py),
        };
        outcome(answer, failures, self.name, self.policy).map(Bound::unbind)
    }

    /// What the coroutine that waits for it is resumed with.
    pub(crate) fn answered(&self, py: Python<'_>) -> (Waiter, waiter::Answer) {
        (self.waiter.clone_ref(py), self.answer(py).map_err(Box::new))
    }

    /// Something of it failed before it was begun.
    pub(crate) fn fail(&self, py: Python<'_>, error: Error) {
        self.lock().failed(py, error);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn failed(&mut self, py: Python<'_>, error: Error) {
        let refused = !error.blames_server() && !matches!(error.kind, Kind::Down | Kind::Closed | Kind::Busy);
        match self.answer {
            // The server answered that it did not store it, which is what the answer says.
            Gathered::Stored(_) if refused => {}
            _ if refused => drop(self.error.get_or_insert_with(|| from_core(py, &error))),
            _ => add_server(&mut self.failures, error),
        }
    }

    fn member(&mut self, py: Python<'_>, name: &'static str, keys: &[Py<PyAny>], index: usize, answer: Answer) {
        let done = answer.is_done();
        match &mut self.answer {
            Gathered::Stored(known) => known[index] = done,
            Gathered::Deleted(count) => *count += usize::from(done),
            _ => {
                if let Some(value) = answer.into_value() {
                    self.found(py, name, &keys[index], value);
                }
            }
        }
    }

    fn found(&mut self, py: Python<'_>, name: &'static str, key: &Py<PyAny>, value: PyResult<Py<PyAny>>) {
        let Gathered::Values { found, .. } = &self.answer else { return };
        if let Err(error) = value.and_then(|value| found.bind(py).set_item(key, value)) {
            self.error.get_or_insert_with(|| stored_under(py, error, name, key.bind(py)));
        }
    }
}
