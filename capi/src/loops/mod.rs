//! Event loops, whose hosts carry out actions and take replies.
//!
//! A caller may leave at any time (`pinyon_abandon`) and free its memory. From then on a value on its way into that
//! memory goes elsewhere. The library gives back a lease or a lock that such a caller won, even if the reply was
//! already waiting to be taken.

pub mod batch;
mod client;
mod lanes;
mod locks;
mod migrating;
mod reading;
pub mod structs;

use std::ffi::c_void;
use std::time::Instant;

use pinyon_net::driven::Order;
use pinyon_net::error::kinds::ErrorKind;

use crate::client::Client;
use crate::errors::{self, Error, Failure};
use crate::exported::exported;
use crate::guard::{free, with, with_mut, Handle, Poison};
use crate::locks::client::Locks;
use crate::many::keys::of_two_pools;
use crate::status::Status;
use crate::structs::{empty, given, to_fill, Place, Reply, Request};
use crate::wishes::wanted::Wish;
use batch::LoopBatch;
use client::ClientLoop;
use locks::LocksLoop;
use migrating::MigratingLoop;
use structs::{Action, Reading};

/// An event loop of a client or of locks.
pub struct Loop {
    kind: Kind,
    is_closed: bool,
    poison: Poison,
}

enum Kind {
    Client(Box<ClientLoop>),
    Locks(Box<LocksLoop>),
    Migrating(Box<MigratingLoop>),
}

impl Handle for Loop {
    const NAME: &'static str = "pinyon_loop";

    fn poison(&self) -> &Poison {
        &self.poison
    }
}

/// Calls the machine of a loop, whatever its kind.
macro_rules! machine {
    ($event_loop:expr, $machine:ident => $call:expr) => {
        match &mut $event_loop.kind {
            Kind::Client(of_client) => {
                let $machine = of_client.machine();
                $call
            }
            Kind::Locks($machine) => $call,
            Kind::Migrating($machine) => $call,
        }
    };
}

impl Loop {
    fn new(kind: Kind) -> Self {
        Self { kind, is_closed: false, poison: Poison::default() }
    }

    fn check_open(&self) -> Result<(), Error> {
        match self.is_closed {
            false => Ok(()),
            true => {
                let closed = ErrorKind::Closed;
                Err(Failure::of_kind(
                    errors::Kind::Core(closed),
                    "the client or its event loop was closed: make another",
                ))
            }
        }
    }

    fn close(&mut self) {
        self.is_closed = true;
        let Self { kind, poison, .. } = self;
        match kind {
            Kind::Migrating(of_both) => poison.while_refused(|| of_both.close()),
            _ => machine!(self, machine => machine.close()),
        }
    }

    /// After replies may have come: what uses two pools goes on. Converting values must not come back here.
    fn go_on(&mut self) {
        let Self { kind, poison, .. } = self;
        if let Kind::Migrating(of_both) = kind {
            poison.while_refused(|| of_both.go_on());
        }
    }

    /// # Safety
    /// As for [`ClientLoop::begin`].
    #[inline(always)]
    unsafe fn begin(&mut self, view: Option<&Client>, request: &Request) -> Result<u64, Error> {
        self.check_open()?;
        match &mut self.kind {
            // SAFETY: the caller keeps the request's bytes as they are during the call.
            Kind::Client(of_client) => unsafe { of_client.begin(view, request) },
            // SAFETY: the caller keeps the request's bytes as they are during the call.
            Kind::Migrating(of_both) => unsafe { of_both.begin(view, request) },
            Kind::Locks(_) => Err(of_locks()),
        }
    }

    /// # Safety
    /// As for [`LocksLoop::begin`].
    unsafe fn begin_wish(&mut self, wish: &Wish) -> Result<u64, Error> {
        self.check_open()?;
        match &mut self.kind {
            // SAFETY: the caller keeps what the wish points to as it is during the call.
            Kind::Locks(of_locks) => unsafe { of_locks.begin(wish) },
            _ => Err(Failure::usage("this event loop is of caches: begin requests there (pinyon_begin)")),
        }
    }

    pub fn batch(&mut self, view: Option<&Client>) -> Result<LoopBatch, Error> {
        self.with_batches()?.batch(view)
    }

    /// # Safety
    /// As for [`ClientLoop::begin_in_batch`].
    pub unsafe fn begin_in_batch(&mut self, batch: &LoopBatch, request: &Request) -> Result<(), Error> {
        // SAFETY: the caller keeps the request's bytes as they are during the call.
        unsafe { self.with_batches()?.begin_in_batch(batch, request) }
    }

    pub fn begin_finish(&mut self, batch: &LoopBatch, context: *mut c_void) -> Result<u64, Error> {
        self.with_batches()?.begin_finish(batch, context)
    }

    fn with_readings(&mut self) -> Result<&mut ClientLoop, Error> {
        self.check_open()?;
        match &mut self.kind {
            Kind::Client(of_client) => Ok(of_client),
            Kind::Locks(_) => Err(of_locks()),
            Kind::Migrating(_) => Err(of_two_pools("pinyon_begin_reading", "pinyon_begin_using")),
        }
    }

    fn with_batches(&mut self) -> Result<&mut ClientLoop, Error> {
        self.check_open()?;
        match &mut self.kind {
            Kind::Client(of_client) => Ok(of_client),
            Kind::Locks(_) => Err(Failure::usage("this event loop is of locks, which have no batches")),
            Kind::Migrating(of_both) => Err(of_both.no_batches()),
        }
    }

    fn abandon(&mut self, ticket: u64) {
        match &mut self.kind {
            Kind::Client(of_client) => of_client.abandon(ticket),
            Kind::Migrating(of_both) => of_both.abandon(ticket),
            Kind::Locks(of_locks) => of_locks.abandon(ticket),
        }
    }

    fn next_reply(&mut self, reply: &mut Reply) -> bool {
        match &mut self.kind {
            Kind::Client(of_client) => of_client.next_reply(reply),
            Kind::Migrating(of_both) => of_both.next_reply(reply),
            Kind::Locks(of_locks) => of_locks.next_reply(reply),
        }
    }

    fn is_idle(&self) -> bool {
        match &self.kind {
            Kind::Client(of_client) => of_client.is_idle(),
            Kind::Migrating(of_both) => of_both.is_idle(),
            Kind::Locks(of_locks) => of_locks.is_idle(),
        }
    }
}

#[cold]
fn of_locks() -> Error {
    Failure::usage("this event loop is of locks: begin wishes there (pinyon_lock_begin)")
}

impl Action {
    fn fill(&mut self, order: Order) {
        let empty = Self { size: self.size, ..empty() };
        *self = match order {
            Order::Watch { lane, fd, write } => Self { kind: 0, lane, fd, write: write.into(), ..empty },
            Order::Forget { lane, fd } => Self { kind: 1, lane, fd, ..empty },
            Order::EndTurn => Self { kind: 2, ..empty },
            Order::Alarm(time) => Self { kind: 3, seconds: time.as_secs_f64(), ..empty },
        };
    }
}

/// Leaves the ticket of what was begun.
///
/// # Safety
/// The place is null, or can be written to.
#[inline]
pub unsafe fn give_ticket(number: u64, ticket: *mut u64) -> Status {
    if !ticket.is_null() {
        // SAFETY: the caller's place is null, or can be written to.
        unsafe { ticket.write(number) };
    }
    Status::Done
}

exported! {
    fn pinyon_loop_of_client(client: &Client, place: Option<Place>) -> Result<*mut Loop> {
        Ok(Loop::new(match client.migrating {
            None => Kind::Client(ClientLoop::new(client.clone(), place)?.into()),
            Some(_) => Kind::Migrating(MigratingLoop::new(client.clone(), place)?.into()),
        }))
    }

    fn pinyon_loop_of_locks(locks: &Locks) -> Result<*mut Loop> {
        Ok(Loop::new(Kind::Locks(LocksLoop::new(locks.clone())?.into())))
    }

    fn pinyon_loop_close(event_loop: &mut Loop) { event_loop.close() }

    fn pinyon_loop_free(event_loop: *mut Loop) { free(event_loop) }

    fn pinyon_begin(event_loop: &mut Loop, request: *const Request, ticket: *mut u64) -> Result<i32> {
        event_loop.begin(None, &given(request)?).map(|number| give_ticket(number, ticket))
    }

    fn pinyon_begin_using(
        event_loop: &mut Loop, view: *const Client, request: *const Request, ticket: *mut u64
    ) -> Result<i32> {
        let begun = with(view, |view| {
            let request = given(request)?;
            event_loop.begin(Some(view), &request)
        });
        begun.map(|number| give_ticket(number, ticket))
    }

    fn pinyon_begin_reading(
        event_loop: &mut Loop, view: *const Client, reading: *const Reading, ticket: *mut u64
    ) -> Result<i32> {
        let reading = given(reading)?;
        let begun = event_loop.with_readings()?.begin_reading(view.as_ref(), &reading);
        begun.map(|number| give_ticket(number, ticket))
    }

    fn pinyon_lock_begin(event_loop: &mut Loop, wish: *const Wish, ticket: *mut u64) -> Result<i32> {
        event_loop.begin_wish(&given(wish)?).map(|number| give_ticket(number, ticket))
    }

    fn pinyon_abandon(event_loop: &mut Loop, ticket: u64) { event_loop.abandon(ticket) }

    fn pinyon_next_action(event_loop: &mut Loop, action: *mut Action) -> bool {
        let action = to_fill(action)?;
        let order = machine!(event_loop, machine => machine.next_order());
        order.inspect(|order| action.fill(*order)).is_some()
    }

    fn pinyon_next_reply(event_loop: &mut Loop, reply: *mut Reply) -> bool { event_loop.next_reply(to_fill(reply)?) }

    fn pinyon_ready(event_loop: &mut Loop, lane: usize) {
        machine!(event_loop, machine => machine.ready(lane));
        event_loop.go_on();
    }

    fn pinyon_turn(event_loop: &mut Loop) {
        machine!(event_loop, machine => machine.turn());
        event_loop.go_on();
    }

    fn pinyon_expire(event_loop: &mut Loop) {
        machine!(event_loop, machine => machine.expire());
        event_loop.go_on();
    }

    fn pinyon_due_in(event_loop: *const Loop) -> f64 {
        // One thread at a time uses a loop.
        let due = with_mut(event_loop.cast_mut(), |event_loop| Ok(machine!(event_loop, machine => machine.deadline())));
        let left = due.unwrap_or_default().map(|due| due.saturating_duration_since(Instant::now()));
        left.map_or(-1.0, |left| left.as_secs_f64())
    }

    fn pinyon_loop_is_idle(event_loop: *const Loop) -> bool {
        with(event_loop, |event_loop| Ok(event_loop.is_idle())).unwrap_or(true)
    }
}
