//! The scheduler of the calling fiber: it parks fibers, wakes them, and waits for a descriptor.
//!
//! A `Fiber::Scheduler` parks a fiber until it is unblocked or one descriptor is readable, and has no notion of the
//! end of a turn. `unblock` wakes a fiber. Inside the scheduler's own thread there are cheaper ways: `<<` of async 1's
//! reactor, whose `unblock` writes a byte into a pipe for each fiber, and the adapter of EventMachine, which resumes
//! all fibers of a turn from the event that woke the leader and keeps watching the descriptor between waits.

use std::time::{Duration, Instant};

use magnus::rb_sys::{protect, AsRawId, AsRawValue, FromRawValue};
use magnus::value::{LazyId, ReprValue};
use magnus::{block::Proc, typed_data::Obj, Error, ExceptionClass, Module, RClass, RModule, Ruby, TryConvert, Value};
use pinyon_locks::owners;

use super::{adapter, Known};
use crate::known::This;

/// The variable of a scheduler that holds its drivers. Ruby code cannot see it, as its name is no variable's.
static DRIVERS: LazyId = LazyId::new("__pinyon_drivers__");

/// The variable of a fiber that holds its number.
static OWNER: LazyId = LazyId::new("__pinyon_owner__");

static GO_ON: LazyId = LazyId::new("<<");

/// Ruby's `Fiber::Scheduler`, or an object with its methods `block`, `unblock`, `io_wait` and `fiber`. Its users keep it
/// alive: it is on their stack, or runs them.
#[derive(Clone, Copy)]
pub(crate) struct Scheduler(Value);

impl Scheduler {
    /// The one of the calling fiber, unless the fiber is to block its thread.
    #[inline]
    pub(crate) fn current(ruby: &Ruby) -> Result<Option<Self>, Error> {
        // SAFETY: the caller holds the VM lock. The function only looks.
        let current = unsafe { Value::from_raw(rb_sys::rb_fiber_scheduler_current()) };
        match current.is_nil() {
            false => Ok(Some(Self(current))),
            true => Ok(adapter::current(ruby)?.map(Self)),
        }
    }

    /// What lets fibers go on by `<<`, from the scheduler's own thread. That costs less than `unblock`, for which the
    /// scheduler of async 1 writes a byte into a pipe. A reactor of async 1 is known in its tasks only.
    #[cold]
    pub(super) fn ready(self, ruby: &Ruby) -> Result<Option<Value>, Error> {
        // SAFETY: the name is compared at once.
        match unsafe { &*self.0.classname() } {
            "Pinyon::EventMachine::Adapter" => Ok(Some(self.0)),
            "Async::Scheduler" => self.reactor(ruby),
            _ => Ok(None),
        }
    }

    fn reactor(self, ruby: &Ruby) -> Result<Option<Value>, Error> {
        let asynchronous: RModule = ruby.class_object().const_get("Async")?;
        let task: Value = asynchronous.const_get::<_, RClass>("Task")?.funcall("current?", ())?;
        if task.is_nil() {
            return Ok(None);
        }
        let reactor: Value = task.funcall("reactor", ())?;
        if !reactor.respond_to("scheduler", false)? || !reactor.respond_to("<<", false)? {
            return Ok(None);
        }
        let scheduler: Value = reactor.funcall("scheduler", ())?;
        Ok((scheduler.as_raw() == self.0.as_raw()).then_some(reactor))
    }

    /// The drivers that run on it.
    #[inline]
    pub(super) fn drivers(self, ruby: &Ruby) -> Result<Option<This<Known>>, Error> {
        let variable = LazyId::get_inner_with(&DRIVERS, ruby).as_raw();
        // SAFETY: reading a variable that is not set returns nil, and raises nothing.
        let known = unsafe { Value::from_raw(rb_sys::rb_ivar_get(self.0.as_raw(), variable)) };
        Option::try_convert(known)
    }

    pub(super) fn keep_drivers(self, ruby: &Ruby, known: Obj<Known>) -> Result<(), Error> {
        let variable = LazyId::get_inner_with(&DRIVERS, ruby).as_raw();
        // SAFETY: both objects are alive. `protect` catches what a frozen scheduler raises.
        protect(|| unsafe { rb_sys::rb_ivar_set(self.0.as_raw(), variable, known.as_raw()) }).map(drop)
    }

    /// Parks the calling fiber until it is unblocked, or until something else ends the wait.
    pub(super) fn block(self, blocker: Value) -> Result<(), Error> {
        let forever = rb_sys::Qnil as rb_sys::VALUE;
        // SAFETY: both objects are alive. `protect` catches what ends the wait.
        protect(|| unsafe { rb_sys::rb_fiber_scheduler_block(self.0.as_raw(), blocker.as_raw(), forever) }).map(drop)
    }

    /// The same for at most this time. Returns whether it was unblocked.
    pub(crate) fn block_within(self, ruby: &Ruby, time: Duration) -> Result<bool, Error> {
        let (nobody, seconds) = (ruby.qnil(), ruby.float_from_f64(time.as_secs_f64()));
        // SAFETY: all three are alive. `protect` catches what ends the wait.
        let ended = protect(|| unsafe {
            rb_sys::rb_fiber_scheduler_block(self.0.as_raw(), nobody.as_raw(), seconds.as_raw())
        })?;
        // The fiber is resumed with false when the time is over, and with anything else by `unblock`.
        Ok(ended != rb_sys::Qfalse as rb_sys::VALUE)
    }

    /// Again from [`Self::object`].
    pub(crate) fn of_object(object: Value) -> Self {
        Self(object)
    }

    /// Ruby's object.
    pub(crate) fn object(self) -> Value {
        self.0
    }

    /// Lets a parked fiber continue, later.
    pub(crate) fn unblock(self, blocker: Value, fiber: Value) -> Result<(), Error> {
        // SAFETY: all three are alive.
        protect(|| unsafe { rb_sys::rb_fiber_scheduler_unblock(self.0.as_raw(), blocker.as_raw(), fiber.as_raw()) })
            .map(drop)
    }

    /// The same from the scheduler's own thread. `ready`: as [`Self::ready`] returned it.
    pub(super) fn go_on(self, ruby: &Ruby, ready: Option<Value>, blocker: Value, fiber: Value) -> Result<(), Error> {
        match ready {
            Some(ready) => ready.funcall::<_, _, Value>(LazyId::get_inner_with(&GO_ON, ruby), (fiber,)).map(drop),
            None => self.unblock(blocker, fiber),
        }
    }

    /// Parks the calling fiber until the descriptor is readable, until a time, or until something else ends the wait.
    pub(super) fn io_wait(self, ruby: &Ruby, io: Value, until: Option<Instant>) -> Result<(), Error> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()).as_secs_f64());
        let timeout = left.map_or_else(|| ruby.qnil().as_value(), |left| ruby.float_from_f64(left).as_value());
        let readable = ruby.integer_from_i64(1);
        // SAFETY: all four are alive. `protect` catches what ends the wait.
        let ready = protect(|| unsafe {
            rb_sys::rb_fiber_scheduler_io_wait(self.0.as_raw(), io.as_raw(), readable.as_raw(), timeout.as_raw())
        })?;
        // SAFETY: it is an object that was just returned.
        let is_ready = unsafe { Value::from_raw(ready) }.to_bool();
        match is_ready || until.is_some_and(|until| until <= Instant::now()) {
            true => Ok(()),
            false => self.raise_swallowed(ruby),
        }
    }

    /// Starts a fiber.
    pub(super) fn start(self, block: Proc) -> Result<(), Error> {
        self.0.funcall_with_block::<_, _, Value>("fiber", (), block).map(drop)
    }

    /// The scheduler of async 1 takes the user's `with_timeout` for the timeout of `io_wait`, which returns nil too
    /// early. The user's timeout is raised here instead.
    #[cold]
    fn raise_swallowed(self, ruby: &Ruby) -> Result<(), Error> {
        // SAFETY: the name is copied at once.
        if unsafe { self.0.classname() } != "Async::Scheduler" {
            return Ok(());
        }
        let asynchronous: RModule = ruby.class_object().const_get("Async")?;
        let timeout: ExceptionClass = asynchronous.const_get("TimeoutError")?;
        Err(Error::new(timeout, "execution expired"))
    }
}

/// The number of the calling fiber as an owner of locks. The fiber keeps it.
pub(crate) fn owner_of_this_fiber(ruby: &Ruby) -> Result<u64, Error> {
    let (fiber, variable) = (current_fiber(ruby), LazyId::get_inner_with(&OWNER, ruby).as_raw());
    // SAFETY: reading a variable that is not set returns nil, and raises nothing.
    let known = unsafe { Value::from_raw(rb_sys::rb_ivar_get(fiber.as_raw(), variable)) };
    if let Some(owner) = Option::try_convert(known)? {
        return Ok(owner);
    }
    let owner = owners::new_owner();
    let number = ruby.into_value(owner);
    // SAFETY: both objects are alive. `protect` catches what a frozen fiber raises.
    protect(|| unsafe { rb_sys::rb_ivar_set(fiber.as_raw(), variable, number.as_raw()) })?;
    Ok(owner)
}

/// The calling fiber.
pub(crate) fn current_fiber(_ruby: &Ruby) -> Value {
    // SAFETY: the caller holds the VM lock.
    unsafe { Value::from_raw(rb_sys::rb_fiber_current()) }
}
