//! Commands for many keys: which server gets which, what came back, and what is asked again elsewhere.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Instant;

use pinyon_core::blocking::{known, scatter, Failure, Timer, Work};
use pinyon_core::fleet::{Choice, Fleet};
use pinyon_core::session::{Destination, Session, Ticket, BYTES_PER_LINE, KEYS_PER_LINE};
use pinyon_core::{Data, Error, Refused, Reply, Sent};
use pinyon_proto::{Command, Head, Key, Mode, Status, Store};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use pyo3::IntoPyObjectExt;

use crate::client::Client;
use crate::errors::{beside, exception, from_core, invalid_key, stored_under, unstorable, usage, with_partial};
use crate::host::PythonHost;
use crate::keys::{key_bytes, Routing};
use crate::policy::Policy;
use crate::requests::found;
use crate::ttl::Ttl;
use crate::values::{destination, Codec};

/// Python keys with their bytes as they are sent.
pub(crate) struct Keys<'py> {
    routing: Routing,
    objects: Vec<Bound<'py, PyAny>>,
    wire: Vec<u8>,
    ranges: Vec<(Range<usize>, bool)>,
}

impl<'py> Keys<'py> {
    fn new(client: &Client, keys: &Bound<'py, PyAny>) -> PyResult<Self> {
        let py = keys.py();
        if keys.is_instance_of::<PyString>() || keys.is_instance_of::<PyBytes>() {
            return Err(usage(py, "UnsupportedType", "expected several keys, not one; put it in a list"));
        }
        let objects = keys.try_iter()?.collect::<PyResult<Vec<_>>>()?;
        let mut wire = Vec::with_capacity(objects.len() * 40);
        let mut ranges = Vec::with_capacity(objects.len());
        for key in &objects {
            let start = wire.len();
            let base64 = client.keys.push(key_bytes(key)?, &mut wire).map_err(|error| invalid_key(py, &error))?;
            ranges.push((start..wire.len(), base64));
        }
        Ok(Self { routing: client.routing, objects, wire, ranges })
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn wire(&self, index: usize) -> (&[u8], bool) {
        let (range, base64) = &self.ranges[index];
        (&self.wire[range.clone()], *base64)
    }

    pub(crate) fn is_base64(&self, index: usize) -> bool {
        self.ranges[index].1
    }

    /// The keys as the caller gave them.
    pub(crate) fn unbound(&self) -> Vec<Py<PyAny>> {
        self.objects.iter().map(|key| key.clone().unbind()).collect()
    }

    /// Joins plain keys from `first` on into the text of one `get` line; returns where the next line begins.
    pub(crate) fn join(&self, indexes: &[u32], first: usize, line: &mut Vec<u8>) -> usize {
        line.clear();
        for (position, index) in indexes.iter().enumerate().skip(first).take(KEYS_PER_LINE) {
            let (wire, base64) = self.wire(*index as usize);
            if base64 || line.len() + wire.len() > BYTES_PER_LINE {
                return position;
            }
            if position > first {
                line.push(b' ');
            }
            line.extend_from_slice(wire);
        }
        (first + KEYS_PER_LINE).min(indexes.len())
    }

    fn key(&self, index: usize) -> Key<'_> {
        let (wire, base64) = self.wire(index);
        Key::new(wire, base64).unwrap_or_else(|_| unreachable!("the rules write keys that can be sent"))
    }
}

/// The keys of one server, by index, and how far they have come.
pub(crate) struct Part {
    pub(crate) choice: Choice,
    pub(crate) keys: Vec<u32>,
    /// What is stored on this server must expire within so many seconds.
    longest_ttl: Option<i32>,
    submitted: usize,
    /// Exchanges in flight: the first key each is about, by position in `keys`, and how many.
    flight: VecDeque<(Ticket, Range<usize>)>,
}

impl Part {
    /// Which keys the exchange was about.
    fn take(&mut self, ticket: Ticket, last: bool) -> Range<usize> {
        let position = self.flight.iter().position(|(of, _)| *of == ticket);
        let position = position.unwrap_or_else(|| unreachable!("every exchange is in flight once"));
        match last {
            true => self.flight.remove(position).map(|(_, range)| range).unwrap_or_default(),
            false => self.flight[position].1.clone(),
        }
    }
}

/// Distributes the keys over the servers that are up. Keys whose server is down, with nobody in its place, are
/// left out, and the errors say why, one for each server.
pub(crate) fn distribute(
    fleet: &Fleet,
    failover: bool,
    keys: &Keys<'_>,
    wanted: Vec<u32>,
) -> PyResult<(Vec<Part>, Vec<Error>)> {
    let now = Instant::now();
    let part = |choice: Choice, keys| {
        let longest_ttl = fleet.longest_ttl(choice.server);
        Part { choice, keys, longest_ttl, submitted: 0, flight: VecDeque::new() }
    };
    if wanted.is_empty() {
        return Ok(Default::default());
    }
    if fleet.has_one_server() {
        return Ok(match fleet.choose(&[], failover, now) {
            Ok(choice) => (vec![part(choice, wanted)], Vec::new()),
            Err(error) => (Vec::new(), vec![error]),
        });
    }
    let mut by_server = vec![(false, Vec::new()); fleet.servers().len()];
    let mut down = Vec::new();
    for index in wanted {
        let key = &keys.objects[index as usize];
        match fleet.choose(&keys.routing.key(key, key_bytes(key)?)?, failover, now) {
            Ok(choice) => {
                let (probe, keys) = &mut by_server[choice.server];
                *probe |= choice.probe;
                keys.push(index);
            }
            Err(error) => add_server(&mut down, error),
        }
    }
    let parts = by_server.into_iter().enumerate().filter(|(_, (_, keys))| !keys.is_empty());
    Ok((parts.map(|(server, (probe, keys))| part(Choice { server, probe }, keys)).collect(), down))
}

/// Keeps the first error of each server.
pub(crate) fn add_server(errors: &mut Vec<Error>, error: Error) {
    if errors.iter().all(|known| known.server != error.server) {
        errors.push(error);
    }
}

/// Work on many keys, in as many rounds as it takes to find servers for those whose server failed.
trait Rounds: Work {
    /// Begins a round; returns its servers, ascending.
    fn begin(&mut self, parts: Vec<Part>) -> Vec<Choice>;
    /// The keys that nothing was learned about and that may be asked again.
    fn left(&mut self) -> Vec<u32>;
    /// Whether there is something to be asked though no server has failed.
    fn is_in_doubt(&self) -> bool {
        false
    }
}

/// Returns the errors that remained, one for each server that failed. `name` is the command's.
fn run(
    py: Python<'_>,
    client: &Client,
    keys: &Keys<'_>,
    name: &'static str,
    work: &mut impl Rounds,
) -> PyResult<Vec<Error>> {
    let errors = rounds(py, client, keys, name, work);
    client.watcher.tell(py, &client.directory)?;
    errors
}

fn rounds(
    py: Python<'_>,
    client: &Client,
    keys: &Keys<'_>,
    name: &'static str,
    work: &mut impl Rounds,
) -> PyResult<Vec<Error>> {
    let host = PythonHost(py);
    let fleet = match known(&client.directory, &host).map_err(|failure| failure.before(name)) {
        Ok(fleet) => fleet,
        Err(Failure::Error(error)) => return Ok(vec![error]),
        Err(interrupted) => return Err(exception(py, interrupted)),
    };
    let mut timer = Timer::start(Instant::now(), fleet.options().timeout);
    let mut wanted: Vec<u32> = (0..keys.len() as u32).collect();
    let mut earlier = Vec::new();
    while !wanted.is_empty() {
        let (parts, down) = distribute(&fleet, client.policy.failover, keys, wanted)?;
        if earlier.is_empty() {
            down.iter().for_each(|error| fleet.unsubmitted(error, name));
        }
        if !parts.is_empty() {
            earlier.iter().for_each(|error| fleet.retrying(error, name));
        }
        let servers = work.begin(parts);
        let failures =
            scatter(&fleet, &host, &servers, name, &mut timer, work).map_err(|failure| exception(py, failure))?;
        let failures: Vec<Error> = failures.into_iter().map(|(_, error)| error).collect();
        if !down.is_empty() {
            failures.into_iter().chain(down).for_each(|error| add_server(&mut earlier, error));
            return Ok(earlier);
        }
        let hopeful = match failures.is_empty() {
            true => work.is_in_doubt(),
            false => failures.iter().all(Error::may_pass),
        };
        wanted = work.left();
        if wanted.is_empty() || !hopeful || Instant::now() >= timer.deadline {
            return Ok(failures);
        }
        earlier = failures;
    }
    Ok(Vec::new())
}

/// What many keys came to, or the first error of the servers that failed, with what was achieved beside it, unless the
/// policy forgives it.
pub(crate) fn outcome<'py>(
    achieved: Bound<'py, PyAny>,
    errors: Vec<Error>,
    name: &'static str,
    policy: Policy,
) -> PyResult<Bound<'py, PyAny>> {
    match errors.into_iter().find(|error| !policy.forgives(error)) {
        None => Ok(achieved),
        Some(error) => Err(with_partial(error, name, &achieved)),
    }
}

fn dict_for_failures(failed: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyDict>> {
    if let Ok(failed) = failed.cast::<PyDict>() {
        return Ok(failed.clone());
    }
    let message = format!("failed is a dict, which receives errors by server, not {}", failed.get_type().name()?);
    Err(usage(failed.py(), "UnsupportedType", &message))
}

/// Notes in `failed` which servers failed, where it is asked for: what is returned is no error then.
pub(crate) fn note_failed(
    failed: Option<&Bound<'_, PyDict>>,
    errors: Vec<Error>,
    name: &'static str,
) -> PyResult<Vec<Error>> {
    let Some(failed) = failed else { return Ok(errors) };
    for error in errors {
        let error = Error { command: name, ..error };
        failed.set_item(&*error.server, from_core(failed.py(), &error).into_value(failed.py()))?;
    }
    Ok(Vec::new())
}

fn name_of(cas: bool) -> &'static str {
    match cas {
        true => "gets_many",
        false => "get_many",
    }
}

/// Reads values.
struct Fetch<'w, 'py> {
    py: Python<'py>,
    keys: &'w Keys<'py>,
    codec: &'w Codec,
    /// With their CAS tokens.
    cas: bool,
    parts: Vec<Part>,
    line: Vec<u8>,
    found: Bound<'py, PyDict>,
    /// Keys that may have a placeholder: they are asked by commands that tell.
    in_doubt: Vec<u32>,
    /// Each key is asked by a command of its own.
    alone: bool,
    error: Option<PyErr>,
}

impl Rounds for Fetch<'_, '_> {
    fn begin(&mut self, parts: Vec<Part>) -> Vec<Choice> {
        self.parts = parts;
        self.parts.iter().map(|part| part.choice).collect()
    }

    fn left(&mut self) -> Vec<u32> {
        let unanswered = |part: &Part| {
            let first = part.flight.front().map_or(part.submitted, |(_, range)| range.start);
            part.keys[first..].to_vec()
        };
        self.alone |= self.is_in_doubt();
        self.parts.iter().flat_map(unanswered).chain(std::mem::take(&mut self.in_doubt)).collect()
    }

    fn is_in_doubt(&self) -> bool {
        !self.in_doubt.is_empty() && self.error.is_none()
    }
}

impl Work for Fetch<'_, '_> {
    fn submit(&mut self, server: usize, session: &mut Session, deadline: Instant) -> Result<(), Refused> {
        let part = part_of(&mut self.parts, server);
        while part.submitted < part.keys.len() {
            if !session.accepts() {
                return Err(Refused::Full);
            }
            let first = part.submitted;
            let (_, base64) = self.keys.wire(part.keys[first] as usize);
            let (ticket, end) = match base64 || self.alone {
                true => {
                    let key = self.keys.key(part.keys[first] as usize);
                    (session.submit(&Command::Get { key, cas: self.cas }, Data::None, deadline)?, first + 1)
                }
                false => {
                    let end = self.keys.join(&part.keys, first, &mut self.line);
                    let command = Command::GetMany { keys: &self.line, cas: self.cas };
                    (session.submit(&command, Data::None, deadline)?, end)
                }
            };
            part.flight.push_back((ticket, first..end));
            part.submitted = end;
        }
        Ok(())
    }

    fn reply(&mut self, server: usize, ticket: Ticket, reply: Reply<'_>) {
        let part = part_of(&mut self.parts, server);
        let last = reply.head.status != Status::Hit || reply.head.opaque.is_some();
        let range = part.take(ticket, last);
        if reply.head.status != Status::Hit || reply.head.is_placeholder() {
            return;
        }
        let index = part.keys[range.start + reply.index];
        if reply.head.may_be_placeholder() && !self.alone {
            return self.in_doubt.push(index);
        }
        let key = &self.keys.objects[index as usize];
        let value = found(self.py, self.codec, reply, self.cas);
        if let Err(error) = value.and_then(|value| self.found.set_item(key, value)) {
            self.error.get_or_insert_with(|| stored_under(self.py, error, name_of(self.cas), key));
        }
    }

    fn failed(&mut self, _server: usize, _ticket: Ticket, error: Error) {
        if !error.blames_server() && self.error.is_none() {
            self.error = Some(from_core(self.py, &error));
        }
    }

    fn destination(&mut self, head: &Head) -> Box<dyn Destination> {
        destination(self.py, self.codec, head)
    }
}

fn part_of(parts: &mut [Part], server: usize) -> &mut Part {
    let part = parts.iter_mut().find(|part| part.choice.server == server);
    part.unwrap_or_else(|| unreachable!("a round is about the servers it began with"))
}

/// Changes items, each by a quiet command of its own; by a loud one where the server did not say which it failed.
struct Change<'w, 'py> {
    keys: &'w Keys<'py>,
    parts: Vec<Part>,
    what: What<'w>,
    outcomes: Vec<Outcome>,
    loud: bool,
}

/// What to do with every key.
enum What<'w> {
    Delete,
    /// Store the block of the same index.
    Store(&'w [Block<'w>], Ttl),
}

/// A value to store.
pub(crate) struct Block<'v> {
    pub(crate) data: Data<'v>,
    pub(crate) size: usize,
    pub(crate) client_flags: u32,
}

impl What<'_> {
    fn command<'k>(&self, index: usize, key: Key<'k>) -> (Command<'k>, Data<'_>) {
        match self {
            What::Delete => (Command::Delete { key }, Data::None),
            What::Store(blocks, Ttl(ttl)) => {
                let Block { data, size, client_flags } = &blocks[index];
                let (size, client_flags, ttl) = (*size, *client_flags, *ttl);
                let store = Store { mode: Mode::Set, key, size, client_flags, ttl, cas: None };
                (Command::Store(store), data.clone())
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Nothing of it was sent.
    Unsent,
    Unknown,
    /// The server failed one of several, and storing again says which.
    InDoubt,
    Done,
    /// The server answered that it did not do it.
    Refused,
}

impl Rounds for Change<'_, '_> {
    fn begin(&mut self, parts: Vec<Part>) -> Vec<Choice> {
        self.parts = parts;
        self.parts.iter().map(|part| part.choice).collect()
    }

    fn left(&mut self) -> Vec<u32> {
        self.loud |= self.is_in_doubt();
        let again = |index: &u32| matches!(self.outcomes[*index as usize], Outcome::Unsent | Outcome::InDoubt);
        (0..self.keys.len() as u32).filter(again).collect()
    }

    fn is_in_doubt(&self) -> bool {
        self.outcomes.contains(&Outcome::InDoubt)
    }
}

impl Work for Change<'_, '_> {
    fn submit(&mut self, server: usize, session: &mut Session, deadline: Instant) -> Result<(), Refused> {
        let part = part_of(&mut self.parts, server);
        while let Some(index) = part.keys.get(part.submitted) {
            let index = *index as usize;
            let (command, data) = self.what.command(index, self.keys.key(index));
            let command = part.longest_ttl.map_or(command, |most| command.expiring_within(most));
            let ticket = match self.loud {
                true => session.submit(&command, data, deadline)?,
                false => session.submit_quiet(&command, data, deadline)?,
            };
            part.flight.push_back((ticket, part.submitted..part.submitted + 1));
            self.outcomes[index] = Outcome::Unknown;
            part.submitted += 1;
        }
        session.end_quiet_run(deadline);
        Ok(())
    }

    fn reply(&mut self, server: usize, ticket: Ticket, reply: Reply<'_>) {
        let outcome = match reply.head.status {
            Status::Done => Outcome::Done,
            _ => Outcome::Refused,
        };
        self.settle(server, ticket, outcome);
    }

    fn failed(&mut self, server: usize, ticket: Ticket, error: Error) {
        let outcome = match error.sent {
            Sent::No => Outcome::Unsent,
            _ if error.is_unattributed() && matches!(self.what, What::Store(..)) => Outcome::InDoubt,
            _ if error.blames_server() => Outcome::Unknown,
            _ => Outcome::Refused,
        };
        self.settle(server, ticket, outcome);
    }
}

impl Change<'_, '_> {
    fn settle(&mut self, server: usize, ticket: Ticket, outcome: Outcome) {
        let part = part_of(&mut self.parts, server);
        let range = part.take(ticket, true);
        self.outcomes[part.keys[range.start] as usize] = outcome;
    }
}

impl Client {
    pub(crate) fn fetch_many<'py>(
        &self,
        keys: &Bound<'py, PyAny>,
        failed: Option<Bound<'py, PyAny>>,
        cas: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = keys.py();
        self.check_open(py)?;
        let failed = failed.map(dict_for_failures).transpose()?;
        let name = name_of(cas);
        let keys = Keys::new(self, keys)?;
        if self.loops.get().is_some() {
            return self.gather_values(py, keys, failed, name, cas);
        }
        let found = PyDict::new(py);
        let parts = Vec::new();
        let (line, in_doubt) = (Vec::new(), Vec::new());
        let codec = &self.codec;
        let mut fetch = Fetch { py, keys: &keys, codec, cas, parts, line, found, in_doubt, alone: false, error: None };
        let errors = run(py, self, &keys, name, &mut fetch)?;
        match fetch.error {
            Some(error) => Err(beside(py, error, &fetch.found)),
            None => outcome(fetch.found.into_any(), note_failed(failed.as_ref(), errors, name)?, name, self.policy),
        }
    }

    pub(crate) fn store_many<'py>(&self, mapping: &Bound<'py, PyAny>, ttl: Ttl) -> PyResult<Bound<'py, PyAny>> {
        let py = mapping.py();
        self.check_open(py)?;
        let pairs = PyDict::new(py);
        pairs.update(mapping.cast::<pyo3::types::PyMapping>()?)?;
        let keys = Keys::new(self, pairs.as_any())?;
        let values: Vec<_> = pairs.values().iter().collect();
        let encode = |(value, key)| self.codec.encode(value).map_err(|error| unstorable(py, error, key));
        let encoded = values.iter().zip(&keys.objects).map(encode).collect::<PyResult<Vec<_>>>()?;
        let mut blocks = Vec::with_capacity(encoded.len());
        for ((value, client_flags), key) in encoded.iter().zip(&keys.objects) {
            let size = value.bytes()?.len();
            self.check_size(key, size)?;
            blocks.push(Block { data: value.data()?, size, client_flags: *client_flags });
        }
        if self.loops.get().is_some() {
            return self.gather_stored(py, &keys, &blocks, ttl);
        }
        let outcomes = vec![Outcome::Unsent; keys.len()];
        let mut change =
            Change { keys: &keys, parts: Vec::new(), what: What::Store(&blocks, ttl), outcomes, loud: false };
        let errors = run(py, self, &keys, "set_many", &mut change)?;
        let failed = keys.objects.iter().zip(&change.outcomes).filter(|(_, outcome)| **outcome != Outcome::Done);
        let failed = PyList::new(py, failed.map(|(key, _)| key).collect::<Vec<_>>())?;
        outcome(failed.into_any(), errors, "set_many", self.policy)
    }

    fn check_size(&self, key: &Bound<'_, PyAny>, size: usize) -> PyResult<()> {
        let limit = self.directory.options().limits.value;
        if size <= limit {
            return Ok(());
        }
        let message = format!(
            "the value of {} has {size} bytes, more than the client's limit (max_value_size) of {limit}; nothing was \
             stored",
            key.repr()?
        );
        Err(usage(key.py(), "ValueTooLarge", &message))
    }

    pub(crate) fn delete_items<'py>(&self, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = keys.py();
        self.check_open(py)?;
        let keys = Keys::new(self, keys)?;
        if self.loops.get().is_some() {
            return self.gather_deleted(py, &keys);
        }
        let outcomes = vec![Outcome::Unsent; keys.len()];
        let mut change = Change { keys: &keys, parts: Vec::new(), what: What::Delete, outcomes, loud: false };
        let errors = run(py, self, &keys, "delete_many", &mut change)?;
        let deleted = change.outcomes.iter().filter(|outcome| **outcome == Outcome::Done).count();
        outcome(deleted.into_bound_py_any(py)?, errors, "delete_many", self.policy)
    }
}
