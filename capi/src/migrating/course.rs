//! The course of one operation on both pools, as requests for one or the other and their replies.

use std::sync::Arc;

use pinyon_cache::migration::{self, Plan, Returned, Side, Step, StepOutcome, NEEDS_TTL};
use pinyon_cache::operations::{self, Answer, Compared, Found, Win};
use pinyon_net::error::kinds::ErrorKind;

use crate::answers::Answers;
use crate::client::Migrating;
use crate::errors::{Error, Failure, Kind};
use crate::replies::finding;
use crate::requests::{with as flags, Verb};
use crate::status::{marks, Status};
use crate::structs::{empty, Bytes, Place, Reply, Request, FOREVER};
use crate::values;

/// A reply with all that it has.
pub struct Stash(pub Reply);

impl Default for Stash {
    fn default() -> Self {
        Self(empty())
    }
}

impl Drop for Stash {
    fn drop(&mut self) {
        self.0.clear();
    }
}

/// A value from one of the pools, but for its compression.
#[derive(Clone)]
pub struct Kept(Arc<(Vec<u8>, u32, Side)>);

/// What comes next.
pub enum Next {
    Ask(Side, Request),
    /// Several keys, by index.
    Read {
        pool: Side,
        keys: Vec<usize>,
        cas: bool,
    },
    Over(End),
}

/// What an operation comes to.
pub enum End {
    /// What the user's request came to on the new pool.
    Reply(Stash),
    Value(Kept),
    Status(Status),
    /// The values that were read.
    Values,
    Failed(Error),
}

pub struct Course {
    migrating: Arc<Migrating>,
    verb: Verb,
    kind: Machine,
    /// Whom the last request asked, and what its reply tells.
    asked: Side,
    tells: Tells,
    /// The value on its way to the new pool.
    moved: Vec<u8>,
    /// The failures of which the machine only tells, with the index of the key.
    pub told: Vec<(usize, Error)>,
}

enum Machine {
    Keys(Plan, Box<migration::Migration<Kept, Stash>>),
    /// The new pool alone is asked.
    New,
    /// Both are asked; what the old pool answered.
    Both(Stash),
}

#[derive(Clone, Copy)]
enum Tells {
    Value,
    ValueAndTtl,
    Lease,
    Compared,
    Done,
    Operation,
}

type CoreStep = Step<Kept, Stash, Error>;

impl Course {
    /// That of a request.
    pub fn new(migrating: &Arc<Migrating>, verb: Verb, request: &Request) -> Self {
        let kind = match plan(verb, request) {
            Some(plan) => Machine::Keys(plan, Self::machine(migrating, plan, 1)),
            None if matches!(verb, Verb::Versions | Verb::Stats | Verb::FlushAll) => Machine::Both(Stash::default()),
            None => Machine::New,
        };
        Self::of(migrating, verb, kind)
    }

    /// One that reads many keys.
    pub fn of_many(migrating: &Arc<Migrating>, plan: Plan, keys: usize) -> Self {
        Self::of(migrating, Verb::Get, Machine::Keys(plan, Self::machine(migrating, plan, keys)))
    }

    fn of(migrating: &Arc<Migrating>, verb: Verb, kind: Machine) -> Self {
        let (moved, told) = (Vec::new(), Vec::new());
        Self { migrating: migrating.clone(), verb, kind, asked: Side::New, tells: Tells::Operation, moved, told }
    }

    fn machine(migrating: &Migrating, plan: Plan, keys: usize) -> Box<migration::Migration<Kept, Stash>> {
        Box::new(migration::Migration::new(plan, keys, true, migrating.counts.clone(), migrating.ttl))
    }

    /// The first request. `given` is the user's for a key.
    pub fn begin<'r>(&mut self, given: impl Fn(usize) -> &'r Request) -> Next {
        match &mut self.kind {
            Machine::Keys(_, machine) => {
                let step = machine.begin();
                self.go(step, given)
            }
            Machine::New => Next::Ask(Side::New, *given(0)),
            Machine::Both(_) => {
                self.asked = Side::Old;
                Next::Ask(Side::Old, *given(0))
            }
        }
    }

    /// The index of the key that the last request is about.
    pub fn key(&self) -> usize {
        match &self.kind {
            Machine::Keys(_, machine) => machine.key(),
            _ => 0,
        }
    }

    /// What follows this reply, which may be taken.
    pub fn replied<'r>(&mut self, reply: &mut Stash, given: impl Fn(usize) -> &'r Request) -> Next {
        let machine = match &mut self.kind {
            Machine::Keys(_, machine) => machine,
            Machine::New => return Next::Over(End::Reply(std::mem::take(reply))),
            Machine::Both(old) if self.asked == Side::Old => {
                self.asked = Side::New;
                *old = std::mem::take(reply);
                return Next::Ask(Side::New, *given(0));
            }
            Machine::Both(old) => return Next::Over(End::Reply(joined(std::mem::take(old), std::mem::take(reply)))),
        };
        // SAFETY: a reply has its error until it is cleared.
        let outcome = match unsafe { reply.0.error.as_ref() } {
            Some(error) => StepOutcome::Failed { error: error.clone(), kind: kind_of(error) },
            None if matches!(self.tells, Tells::Operation) => {
                let found = reply.0.status == Status::Done as i32;
                StepOutcome::Operated { answer: std::mem::take(reply), found }
            }
            None => StepOutcome::Answered(answer(self.tells, &reply.0, self.asked)),
        };
        let step = machine.next(outcome);
        self.go(step, given)
    }

    /// What follows after many keys were read.
    pub fn found<'r>(&mut self, found: Vec<usize>, given: impl Fn(usize) -> &'r Request) -> Next {
        let Machine::Keys(_, machine) = &mut self.kind else { unreachable!("it read many keys") };
        let step = machine.next(StepOutcome::Found(found));
        self.go(step, given)
    }

    fn go<'r>(&mut self, mut step: CoreStep, given: impl Fn(usize) -> &'r Request) -> Next {
        let Machine::Keys(plan, machine) = &mut self.kind else { unreachable!("only a machine has steps") };
        loop {
            let request = given(machine.key());
            let next = match step {
                Step::Ask(side, asks) => {
                    self.asked = side;
                    let (tells, request) = asked(&asks, request);
                    self.tells = tells;
                    Next::Ask(side, request)
                }
                Step::Store { value: Kept(value), cas, ttl } => {
                    let (bytes, client_flags, _) = &*value;
                    let converted = match converted(&self.migrating, bytes, *client_flags) {
                        Ok(converted) => converted,
                        Err(Unconverted::Interrupted) => return Next::Over(End::Status(Status::Interrupted)),
                        Err(Unconverted::Refused(error)) => {
                            // It stays where it is, whatever is wrong with it.
                            let kind = ErrorKind::UnsupportedType;
                            step = machine.next(StepOutcome::Failed { error, kind });
                            continue;
                        }
                    };
                    self.moved = converted.0;
                    (self.asked, self.tells) = (Side::New, Tells::Compared);
                    let request = Request {
                        verb: Verb::Set as u32,
                        with: flags::CAS | request.with & flags::NO_FAILOVER,
                        value: Bytes::of(&self.moved),
                        client_flags: converted.1,
                        ttl: if ttl == 0 { FOREVER } else { ttl },
                        cas,
                        ..about(request)
                    };
                    Next::Ask(Side::New, request)
                }
                Step::Operate | Step::Create => {
                    (self.asked, self.tells) = (Side::New, Tells::Operation);
                    let creates = *plan != Plan::Create || matches!(step, Step::Create);
                    let with = if creates { request.with } else { request.with & !flags::INITIAL };
                    Next::Ask(Side::New, Request { with, ..*request })
                }
                Step::Read { pool, keys, cas } => Next::Read { pool, keys, cas },
                Step::Tell(error) => {
                    self.told.push((machine.key(), error));
                    step = machine.next(StepOutcome::Told);
                    continue;
                }
                Step::Return(returned) => Next::Over(match returned {
                    Returned::Value(value) => End::Value(value),
                    Returned::Missing | Returned::Count(_) => End::Status(Status::Miss),
                    Returned::Answer(stash) => End::Reply(stash),
                    Returned::Done(true) => End::Status(Status::Done),
                    Returned::Done(false) if self.verb == Verb::Add => End::Status(Status::NotStored),
                    Returned::Done(false) => End::Status(Status::Miss),
                    Returned::Values => End::Values,
                }),
                Step::Raise(error) => Next::Over(End::Failed(error)),
                Step::NeedTtl(error) => Next::Over(End::Failed(error.completed(NEEDS_TTL))),
            };
            return next;
        }
    }
}

impl End {
    /// Fills the caller's reply. The value goes to the host's memory, if it has a place for it.
    pub fn fill(self, reply: &mut Reply, place: Option<Place>) -> Status {
        let (size, context, ticket) = (reply.size, reply.context, reply.ticket);
        match self {
            End::Reply(mut stash) => {
                reply.clear();
                *reply = Reply { size, context, ticket, ..std::mem::replace(&mut stash.0, empty()) };
                if let (Some(place), true) = (place, reply.value.is_given()) {
                    // SAFETY: a reply has its value until it is cleared, and the header says so of the place.
                    unsafe {
                        let bytes = reply.value.slice();
                        let memory: *mut u8 = place(context, bytes.len(), reply.client_flags).cast();
                        if !memory.is_null() {
                            memory.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
                            reply.value = Bytes::NONE;
                        }
                    }
                }
                Status::of(reply.status)
            }
            End::Value(Kept(value)) => {
                let (bytes, client_flags, side) = &*value;
                reply.place(bytes, *client_flags, place);
                reply.marks |= if *side == Side::Old { marks::OF_OLD } else { 0 };
                reply.finish(Status::Done)
            }
            End::Status(status) => reply.finish(status),
            End::Values => reply.finish(Status::Done),
            End::Failed(error) => reply.fail(error),
        }
    }

    /// The request that gives back a lease which was won for nobody.
    pub fn give_back(&self, request: &Request) -> Option<Request> {
        let End::Reply(Stash(reply)) = self else { return None };
        let won = reply.status == Status::Won as i32 && reply.marks & marks::HAS_CAS != 0;
        let with = if reply.marks & marks::HAS_STALE != 0 { flags::KEEP } else { 0 };
        won.then(|| Request { verb: Verb::GiveBack as u32, with, cas: reply.cas, ..about(request) })
    }
}

/// How a request about a key uses the two pools; `None`: it does not use the old one, or is about no key.
fn plan(verb: Verb, request: &Request) -> Option<Plan> {
    let reads_more = flags::CAS | flags::TTL | flags::METADATA | flags::RAW;
    Some(match verb {
        Verb::Get if request.with & reads_more == 0 => Plan::Get,
        Verb::Get | Verb::Gat | Verb::Touch | Verb::Metadata => Plan::Find,
        Verb::Set if !request.has(flags::CAS) => Plan::Set,
        Verb::Add => Plan::Add,
        Verb::Delete if !request.has(flags::CAS) => Plan::Delete,
        Verb::Incr | Verb::Decr if request.has(flags::INITIAL) => Plan::Create,
        Verb::Set | Verb::Replace | Verb::Append | Verb::Prepend => Plan::Change,
        Verb::Delete | Verb::Incr | Verb::Decr | Verb::MarkStale => Plan::Change,
        Verb::Lease => Plan::Lease,
        Verb::GiveBack | Verb::Versions | Verb::Stats | Verb::FlushAll => return None,
    })
}

/// Another request about the same key.
pub fn about(request: &Request) -> Request {
    let with = request.with & flags::NO_FAILOVER;
    Request { with, key: request.key, route: request.route, context: request.context, ..empty() }
}

/// What the machine asks, and what the reply tells it.
fn asked(asks: &operations::Request, request: &Request) -> (Tells, Request) {
    let asking = about(request);
    let plainly = asking.with;
    match asks {
        operations::Request::Get { .. } => (Tells::Value, Request { verb: Verb::Get as u32, ..asking }),
        operations::Request::GetWithTtl => {
            (Tells::ValueAndTtl, Request { verb: Verb::Get as u32, with: plainly | flags::TTL, ..asking })
        }
        operations::Request::Lease { lease, .. } => {
            (Tells::Lease, Request { verb: Verb::Lease as u32, lease: *lease as u32, ..asking })
        }
        operations::Request::GiveBack(Win { cas, keep }) => {
            let with = plainly | if *keep { flags::KEEP } else { 0 };
            (Tells::Done, Request { verb: Verb::GiveBack as u32, with, cas: *cas, ..asking })
        }
        operations::Request::Delete => (Tells::Done, Request { verb: Verb::Delete as u32, ..asking }),
        _ => unreachable!("no plan asks this"),
    }
}

/// What a reply tells the machine.
fn answer(tells: Tells, reply: &Reply, side: Side) -> Answer<Kept> {
    let is_done = reply.status == Status::Done as i32;
    let value = || {
        // SAFETY: a reply has its value until it is cleared.
        let bytes = unsafe { reply.value.slice() }.to_vec();
        Kept(Arc::new((bytes, reply.client_flags, side)))
    };
    match tells {
        Tells::Value if is_done => Answer::Value(value()),
        Tells::ValueAndTtl if is_done => Answer::ValueAndTtl(value(), u32::try_from(reply.ttl).ok()),
        Tells::Value | Tells::ValueAndTtl => Answer::Missing,
        Tells::Lease => {
            let has_value = reply.marks & marks::HAS_VALUE != 0;
            Answer::Lease(Found { finding: finding(reply), value: has_value.then(value), cas: None }.into())
        }
        Tells::Compared if is_done => Answer::Compared(Compared::Stored),
        Tells::Compared => Answer::Compared(Compared::Changed),
        Tells::Done | Tells::Operation => Answer::Done(is_done),
    }
}

/// Why a value was not converted.
enum Unconverted {
    Refused(Error),
    Interrupted,
}

/// A value of the old pool as the new client stores it.
fn converted(both: &Migrating, bytes: &[u8], client_flags: u32) -> Result<(Vec<u8>, u32), Unconverted> {
    let Some(convert) = both.convert else {
        let (old, new) = (both.client(Side::Old), both.client(Side::New));
        return values::converted(old, new, bytes, client_flags).map_err(Unconverted::Refused);
    };
    let (mut value, mut flags) = (Bytes::NONE, 0);
    // SAFETY: the header says that the function may be called with its context from any thread.
    match Status::of(unsafe { convert(both.context, Bytes::of(bytes), client_flags, &mut value, &mut flags) }) {
        // SAFETY: the header says that the value stays until it is copied, which is now.
        Status::Done => Ok((unsafe { value.slice() }.to_vec(), flags)),
        Status::Interrupted => Err(Unconverted::Interrupted),
        _ => {
            let kind = Kind::Core(ErrorKind::UnsupportedType);
            Err(Unconverted::Refused(Failure::of_kind(kind, "the value was not converted")))
        }
    }
}

fn kind_of(error: &Error) -> ErrorKind {
    match error.kind {
        Kind::Core(kind) => kind,
        Kind::Maker | Kind::Internal => ErrorKind::Error,
    }
}

/// The answers of both pools' servers, and the first error.
fn joined(mut old: Stash, mut new: Stash) -> Stash {
    if !old.0.answers.is_null() && !new.0.answers.is_null() {
        // SAFETY: only this library sets them, and nobody else has them.
        unsafe { Answers::append(&mut *old.0.answers.cast(), &mut *new.0.answers.cast()) };
    }
    if old.0.answers.is_null() {
        std::mem::swap(&mut old.0.answers, &mut new.0.answers);
    }
    if old.0.error.is_null() {
        std::mem::swap(&mut old.0.error, &mut new.0.error);
        old.0.status = new.0.status;
    }
    old
}
