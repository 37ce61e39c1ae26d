//! What coroutines wait for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;

use crate::driver::Waiting;
use crate::errors::usage;
use crate::futures::is_done;
use crate::loops::LoopDriver;

/// What a coroutine waits for.
pub(crate) enum Waiter {
    /// An asyncio future.
    Future(Py<PyAny>),
    Greenlet(Arc<Slot>),
}

/// What it is resumed with. It passes through many hands, and an error, which is large, is rare.
pub(crate) type Answer = Result<Py<PyAny>, Box<PyErr>>;

impl Waiter {
    pub(crate) fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Waiter::Future(future) => Waiter::Future(future.clone_ref(py)),
            Waiter::Greenlet(slot) => Waiter::Greenlet(slot.clone()),
        }
    }

    /// Whether nothing is awaited any more.
    pub(crate) fn is_done(&self, py: Python<'_>) -> bool {
        match self {
            Waiter::Future(future) => is_done(future.bind(py)).unwrap_or(false),
            Waiter::Greenlet(slot) => slot.is_done(),
        }
    }

    /// Whether a greenlet's wait was ended by something else than its outcome.
    pub(crate) fn was_abandoned(&self) -> bool {
        match self {
            Waiter::Future(_) => false,
            Waiter::Greenlet(slot) => slot.lock().abandoned,
        }
    }

    /// Gives it its outcome, and lets the coroutines that wait for it run until they wait again.
    pub(crate) fn resume(self, waiting: &Waiting, py: Python<'_>, answer: Answer) -> PyResult<()> {
        match self {
            Waiter::Future(future) => waiting.resume_task(future.bind(py), answer),
            Waiter::Greenlet(slot) => match slot.finish(answer) {
                Some(greenlet) => waiting.switch_to(greenlet.bind(py)),
                None => Ok(()),
            },
        }
    }

    /// Gives a greenlet its outcome. Returns the greenlet, to be switched to, if it waits.
    pub(crate) fn awaken(self, answer: Answer) -> Option<Py<PyAny>> {
        let Waiter::Greenlet(slot) = self else { unreachable!("only greenlets switch") };
        slot.finish(answer)
    }
}

/// Where a greenlet's outcome is put.
#[derive(Default)]
pub(crate) struct Slot(Mutex<State>);

#[derive(Default)]
struct State {
    /// Who waits.
    greenlet: Option<Py<PyAny>>,
    outcome: Option<Answer>,
    abandoned: bool,
}

impl Slot {
    /// Lets other greenlets run until it is done, and returns the outcome, or raises it. Whatever ends the wait
    /// otherwise, as a timeout or a kill does, abandons the request.
    pub(crate) fn wait<'py>(&self, waiting: &Waiting, greenlet: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if self.begin(greenlet) {
            if let Err(interruption) = waiting.switch_from(greenlet) {
                self.abandon();
                return Err(interruption);
            }
        }
        self.outcome(greenlet.py())
    }

    /// Makes it as new.
    pub(crate) fn clear(&mut self) {
        *self.0.get_mut().unwrap_or_else(PoisonError::into_inner) = State::default();
    }

    /// Keeps the outcome. Returns the greenlet that waits for it, if one does.
    fn finish(&self, answer: Answer) -> Option<Py<PyAny>> {
        let mut state = self.lock();
        if state.abandoned || state.outcome.is_some() {
            return None;
        }
        state.outcome = Some(answer);
        state.greenlet.take()
    }

    /// Registers the greenlet that is about to wait. Returns whether it has to.
    #[inline(never)]
    fn begin(&self, greenlet: &Bound<'_, PyAny>) -> bool {
        let mut state = self.lock();
        let open = state.outcome.is_none();
        if open {
            state.greenlet = Some(greenlet.clone().unbind());
        }
        open
    }

    /// Nobody waits any more, whatever ended the wait.
    #[inline(never)]
    fn abandon(&self) {
        let mut state = self.lock();
        state.abandoned = true;
        state.greenlet = None;
    }

    fn is_done(&self) -> bool {
        let state = self.lock();
        state.abandoned || state.outcome.is_some()
    }

    #[inline(never)]
    fn outcome<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut state = self.lock();
        match &state.outcome {
            Some(Ok(value)) => Ok(value.bind(py).clone()),
            Some(Err(error)) => Err((**error).clone_ref(py)),
            None => {
                state.abandoned = true;
                let message = "the greenlet was resumed by something else while it waited for a reply";
                Err(usage(py, "UsageError", message))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a greenlet may wait for later.
#[pyclass(frozen, name = "Waiter", module = "pinyon._native")]
pub(crate) struct GreenletWaiter {
    slot: Arc<Slot>,
    /// The driver of its loop, of any client.
    driver: Py<PyAny>,
    waiting: for<'d> fn(&'d Bound<'_, PyAny>) -> &'d Waiting,
}

impl GreenletWaiter {
    pub(crate) fn new<D: LoopDriver>(slot: Arc<Slot>, driver: Bound<'_, D>) -> Self {
        Self { slot, driver: driver.into_any().unbind(), waiting: waiting_for::<D> }
    }
}

fn waiting_for<'d, D: LoopDriver>(driver: &'d Bound<'_, PyAny>) -> &'d Waiting {
    let driver = driver.cast::<D>().unwrap_or_else(|_| unreachable!("it is made with a driver of this class"));
    driver.get().event_loop().waiting()
}

#[pymethods]
impl GreenletWaiter {
    /// Lets other greenlets run until it is done, and returns the outcome, or raises it.
    fn wait<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let waiting = (self.waiting)(self.driver.bind(py));
        self.slot.wait(waiting, &waiting.current_greenlet(py)?)
    }

    /// Whether nothing is awaited any more.
    fn done(&self) -> bool {
        self.slot.is_done()
    }

    /// The outcome, once it is known; an error is raised.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.slot.outcome(py)
    }
}
