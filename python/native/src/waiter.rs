//! Waiters: the handles of coroutines that wait.
//!
//! Coroutines resume as soon as their outcome is known, from the callback that received their reply. The requests that
//! they submit meanwhile leave when the last of them waits again. No lock is held while a coroutine runs. A coroutine
//! that raises into the loop does not keep the others from their turn.

use std::sync::Arc;

use pinyon_net::driven::Answered;
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;

use crate::futures::{is_done, Futures};
pub(crate) use crate::futures::{Answer, Unsettled};
use crate::greenlets::{Greenlets, Slot};

/// The handle of a waiting coroutine.
pub(crate) enum Waiter {
    /// An asyncio future.
    Future(Py<PyAny>),
    Greenlet(Arc<Slot>),
}

/// How coroutines wait.
pub(crate) enum Coroutines {
    Tasks {
        futures: Futures,
        /// See `pinyon._loop_driver.TaskDriver`.
        warn_if_forgotten: Py<PyAny>,
    },
    /// They switch to the hub, which switches back.
    Greenlets(Greenlets),
}

/// The waiting coroutines of an event loop.
#[derive(Clone, Copy)]
pub(crate) struct Waiting<'l> {
    pub(crate) coroutines: &'l Coroutines,
    /// Outcomes that their coroutines have not received yet.
    pub(crate) answered: &'l Answered<Waiter, Answer>,
}

impl Waiter {
    pub(crate) fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Waiter::Future(future) => Waiter::Future(future.clone_ref(py)),
            Waiter::Greenlet(slot) => Waiter::Greenlet(slot.clone()),
        }
    }

    /// Whether the wait is over.
    pub(crate) fn is_done(&self, py: Python<'_>) -> bool {
        match self {
            Waiter::Future(future) => is_done(future.bind(py)).unwrap_or(false),
            Waiter::Greenlet(slot) => slot.is_done(),
        }
    }

    /// Whether something other than the outcome ended a greenlet's wait.
    pub(crate) fn was_abandoned(&self) -> bool {
        match self {
            Waiter::Future(_) => false,
            Waiter::Greenlet(slot) => slot.was_abandoned(),
        }
    }

    /// Whether nothing but this object refers to the future, so that nobody can await it. Only a callback of its own may
    /// still make use of it.
    #[inline(always)]
    pub(crate) fn is_dropped(&self) -> bool {
        match self {
            // SAFETY: the object is alive. At worst the count is an old one, in a thread without the GIL.
            Waiter::Future(future) => unsafe { ffi::Py_REFCNT(future.as_ptr()) == 1 },
            Waiter::Greenlet(_) => false,
        }
    }

    /// Delivers the outcome, and lets the waiting coroutines run until they wait again.
    pub(crate) fn resume(self, waiting: Waiting<'_>, py: Python<'_>, answer: Answer) -> PyResult<()> {
        match (self, waiting.coroutines) {
            (Waiter::Future(future), Coroutines::Tasks { futures, .. }) => futures.resume(future.bind(py), answer),
            (Waiter::Greenlet(slot), Coroutines::Greenlets(greenlets)) => {
                let greenlet = slot.finish(answer);
                drop(slot); // it is reused if its greenlet alone has it
                greenlet.map_or(Ok(()), |greenlet| greenlets.switch_to(greenlet.bind(py)))
            }
            _ => unreachable!("a loop has coroutines of one kind"),
        }
    }
}

impl Coroutines {
    /// `driver`: the driver in Python. It has a hub if its coroutines are greenlets.
    pub(crate) fn new(driver: &Bound<'_, PyAny>) -> PyResult<Self> {
        match driver.getattr("current_greenlet")?.is_none() {
            true => {
                let warn_if_forgotten = driver.getattr("warn_if_forgotten")?.unbind();
                Ok(Self::Tasks { futures: Futures::new(driver)?, warn_if_forgotten })
            }
            false => Ok(Self::Greenlets(Greenlets::new(driver)?)),
        }
    }

    /// Whether a coroutine that is resumed may run its loop, instead of waiting.
    #[inline(always)]
    pub(crate) fn may_nest(&self, py: Python<'_>) -> PyResult<bool> {
        match self {
            Self::Tasks { futures, .. } => futures.may_nest(py),
            Self::Greenlets(_) => Ok(false),
        }
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::Tasks { futures, warn_if_forgotten } => {
                visit.call(warn_if_forgotten)?;
                futures.traverse(visit)
            }
            Self::Greenlets(greenlets) => greenlets.traverse(visit),
        }
    }

    /// Warns if a [dropped](Waiter::is_dropped) future was forgotten: nothing makes use of its outcome. `method`: the one
    /// that returned it.
    #[cold]
    pub(crate) fn warn_if_forgotten(&self, py: Python<'_>, waiter: &Waiter, method: &str) {
        let (Self::Tasks { warn_if_forgotten, .. }, Waiter::Future(future)) = (self, waiter) else { return };
        // If warnings are errors, there is no caller to raise it to.
        if let Err(raised) = warn_if_forgotten.call1(py, (future, method)) {
            raised.write_unraisable(py, Some(future.bind(py)));
        }
    }
}

impl<'l> Waiting<'l> {
    /// Makes a waiter for a coroutine.
    pub(crate) fn waiter(&self, py: Python<'_>) -> PyResult<Waiter> {
        match self.coroutines {
            Coroutines::Tasks { futures, .. } => futures.create(py).map(Waiter::Future),
            Coroutines::Greenlets(greenlets) => Ok(Waiter::Greenlet(greenlets.slot())),
        }
    }

    /// A future that has this value.
    pub(crate) fn ready<'py>(&self, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self.coroutines {
            Coroutines::Tasks { futures, .. } => futures.ready(value),
            Coroutines::Greenlets(_) => Ok(value),
        }
    }

    pub(crate) fn greenlets(self) -> &'l Greenlets {
        let Coroutines::Greenlets(greenlets) = self.coroutines else { unreachable!("tasks do not switch") };
        greenlets
    }

    /// Lets other greenlets run until the slot has its outcome. If something else ends the wait, such as a timeout or a
    /// kill, the request is abandoned.
    pub(crate) fn wait(self, slot: &Slot, greenlet: &Bound<'_, PyAny>) -> PyResult<()> {
        if !slot.begin(|| greenlet.clone().unbind()) {
            return Ok(());
        }
        self.switch_from(greenlet).inspect_err(|_| slot.abandon())
    }

    /// Lets other greenlets run: the next one with an outcome, without a detour by the hub, or else the hub.
    fn switch_from(self, current: &Bound<'_, PyAny>) -> PyResult<()> {
        let greenlets = self.greenlets();
        let next = if greenlets.is_hub(current) { None } else { self.next_greenlet() };
        match next {
            Some(greenlet) => greenlets.switch_to(greenlet.bind(current.py())),
            None => greenlets.switch_to_hub(current.py()),
        }
    }

    /// The next greenlet with an outcome. It has a frame of its own, which is gone before the switch.
    #[inline(never)]
    fn next_greenlet(self) -> Option<Py<PyAny>> {
        loop {
            let (waiter, answer) = self.answered.next()?;
            let Waiter::Greenlet(slot) = waiter else { unreachable!("only greenlets switch") };
            if let Some(greenlet) = slot.finish(answer) {
                return Some(greenlet);
            }
        }
    }
}
