//! Event loops, whose hosts carry out actions and take replies.

mod batch;
mod callers;
mod client;
mod locks;
mod migrating;
mod reading;
pub mod structs;
mod values;

use std::ffi::c_void;
use std::time::Instant;

use pinyon_net::driven::Order;
use pinyon_net::error::kinds::ErrorKind;

use crate::client::Client;
use crate::errors::{self, Error, Failure};
use crate::guard::{free, made, with, with_mut, Handle, Poison};
use crate::locks::structs::Wish;
use crate::locks::Locks;
use crate::many::keys::of_two_pools;
use crate::replies::Status;
use crate::structs::{given, to_fill, Place, Reply, Request};
pub use batch::LoopBatch;
use client::ClientLoop;
pub use locks::LockMachine;
use locks::{renumbered, LocksLoop};
use migrating::MigratingLoop;
pub use reading::pinyon_begin_reading;
use structs::Action;

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
            // SAFETY: the caller says so.
            Kind::Client(of_client) => unsafe { of_client.begin(view, request) },
            // SAFETY: as above.
            Kind::Migrating(of_both) => unsafe { of_both.begin(view, request) },
            Kind::Locks(_) => Err(of_locks()),
        }
    }

    /// # Safety
    /// As for [`LocksLoop::begin`].
    unsafe fn begin_wish(&mut self, wish: &Wish) -> Result<u64, Error> {
        self.check_open()?;
        match &mut self.kind {
            // SAFETY: the caller says so.
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
        // SAFETY: the caller says so.
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
        let empty = Self { size: self.size, ..crate::structs::empty() };
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
/// Both places are null, or can be written to.
pub unsafe fn begun(begun: Result<u64, Error>, ticket: *mut u64, error: *mut *mut Error) -> i32 {
    match begun {
        Ok(number) => {
            if !ticket.is_null() {
                // SAFETY: the caller says so.
                unsafe { ticket.write(number) };
            }
            Status::Done as i32
        }
        Err(why) => {
            // SAFETY: the caller says so.
            unsafe { why.leave(error) };
            Status::Failed as i32
        }
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_loop_of_client(
    client: *const Client,
    place: Option<Place>,
    error: *mut *mut Error,
) -> *mut Loop {
    let of_client = |client: &Client| {
        Ok(Loop::new(match client.migrating {
            None => Kind::Client(ClientLoop::new(client.clone(), place)?.into()),
            Some(_) => Kind::Migrating(MigratingLoop::new(client.clone(), place)?.into()),
        }))
    };
    // SAFETY: the header says so.
    unsafe { made(with(client, of_client), error) }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_loop_of_locks(locks: *const Locks, error: *mut *mut Error) -> *mut Loop {
    let of_locks = |locks: &Locks| Ok(Loop::new(Kind::Locks(LocksLoop::new(locks.clone())?.into())));
    // SAFETY: the header says so.
    unsafe { made(with(locks, of_locks), error) }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_loop_close(event_loop: *mut Loop) {
    // SAFETY: the header says so.
    unsafe { call(event_loop, Loop::close) }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_loop_free(event_loop: *mut Loop) {
    // SAFETY: the header says so.
    unsafe { free(event_loop) }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_begin(
    event_loop: *mut Loop,
    request: *const Request,
    ticket: *mut u64,
    error: *mut *mut Error,
) -> i32 {
    // SAFETY: the header says so.
    unsafe { begun(with_mut(event_loop, |event_loop| event_loop.begin(None, &given(request)?)), ticket, error) }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_begin_using(
    event_loop: *mut Loop,
    view: *const Client,
    request: *const Request,
    ticket: *mut u64,
    error: *mut *mut Error,
) -> i32 {
    // SAFETY: the header says so.
    unsafe {
        let begin = |event_loop: &mut Loop| {
            with(view, |view| {
                let request = given(request)?;
                event_loop.begin(Some(view), &request)
            })
        };
        begun(with_mut(event_loop, begin), ticket, error)
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_lock_begin(
    event_loop: *mut Loop,
    wish: *const Wish,
    ticket: *mut u64,
    error: *mut *mut Error,
) -> i32 {
    // SAFETY: the header says so.
    unsafe { begun(with_mut(event_loop, |event_loop| event_loop.begin_wish(&given(wish)?)), ticket, error) }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_abandon(event_loop: *mut Loop, ticket: u64) {
    // SAFETY: the header says so.
    unsafe { call(event_loop, |event_loop| event_loop.abandon(ticket)) }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_next_action(event_loop: *mut Loop, action: *mut Action) -> bool {
    let next = |event_loop: &mut Loop| {
        // SAFETY: the header says so.
        let action = unsafe { to_fill(action) }?;
        let order = machine!(event_loop, machine => machine.next_order());
        Ok(order.inspect(|order| action.fill(*order)).is_some())
    };
    // SAFETY: the header says so.
    unsafe { with_mut(event_loop, next) }.unwrap_or(false)
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_next_reply(event_loop: *mut Loop, reply: *mut Reply) -> bool {
    // SAFETY: the header says so.
    unsafe { with_mut(event_loop, |event_loop| Ok(event_loop.next_reply(to_fill(reply)?))) }.unwrap_or(false)
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_ready(event_loop: *mut Loop, lane: usize) {
    // SAFETY: the header says so.
    unsafe {
        call(event_loop, |event_loop| {
            machine!(event_loop, machine => machine.ready(lane));
            event_loop.go_on();
        })
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_turn(event_loop: *mut Loop) {
    // SAFETY: the header says so.
    unsafe {
        call(event_loop, |event_loop| {
            machine!(event_loop, machine => machine.turn());
            event_loop.go_on();
        })
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_expire(event_loop: *mut Loop) {
    // SAFETY: the header says so.
    unsafe {
        call(event_loop, |event_loop| {
            machine!(event_loop, machine => machine.expire());
            event_loop.go_on();
        })
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_due_in(event_loop: *const Loop) -> f64 {
    let due = |event_loop: &mut Loop| Ok(machine!(event_loop, machine => machine.deadline()));
    // SAFETY: the header says so, and that one thread at a time uses a loop.
    let due = unsafe { with_mut(event_loop.cast_mut(), due) };
    let due = due.unwrap_or_default();
    due.map_or(-1.0, |due| due.saturating_duration_since(Instant::now()).as_secs_f64())
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_loop_is_idle(event_loop: *const Loop) -> bool {
    // SAFETY: the header says so.
    unsafe { with(event_loop, |event_loop| Ok(event_loop.is_idle())) }.unwrap_or(true)
}

/// Calls a loop that has no way to say what was wrong: without a loop, or after a panic, nothing is done.
///
/// # Safety
/// As for [`with_mut`].
unsafe fn call(event_loop: *mut Loop, call: impl FnOnce(&mut Loop)) {
    // SAFETY: the caller says so.
    let _ = unsafe {
        with_mut(event_loop, |event_loop| {
            call(event_loop);
            Ok::<(), Error>(())
        })
    };
}
