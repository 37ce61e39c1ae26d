//! Greenlets, which wait by switching.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;

use crate::errors::{exception, ErrorKind};
use crate::futures::Answer;
use pinyon_core::spare::Spare;

/// How greenlets wait: by switching to the hub, which switches back.
pub(crate) struct Greenlets {
    driver: GreenletDriver,
    switch_to_hub: Py<PyAny>,
    /// Of the usual class.
    switch: Py<PyAny>,
    spare_slots: Spare<Arc<Slot>>,
}

/// What a driver has where its coroutines are greenlets, `pinyon._loop_driver.LoopDriver`.
#[derive(FromPyObject)]
struct GreenletDriver {
    hub: Py<PyAny>,
    usual_greenlet: Py<PyAny>,
}

impl Greenlets {
    pub(crate) fn new(driver: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (py, driver) = (driver.py(), driver.extract::<GreenletDriver>()?);
        let switch_to_hub = driver.hub.getattr(py, "switch")?;
        let switch = driver.usual_greenlet.getattr(py, "switch")?;
        Ok(Self { driver, switch_to_hub, switch, spare_slots: Spare::default() })
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let GreenletDriver { hub, usual_greenlet } = &self.driver;
        let objects = [hub, usual_greenlet, &self.switch_to_hub, &self.switch];
        objects.into_iter().try_for_each(|object| visit.call(object))
    }

    /// Where the outcome of a greenlet that is about to wait is put.
    pub(crate) fn slot(&self) -> Arc<Slot> {
        self.spare_slots.take().unwrap_or_default()
    }

    /// The outcome, or it is raised. The memory that it came in serves another.
    #[inline(never)]
    pub(crate) fn take_outcome<'py>(&self, py: Python<'py>, mut slot: Arc<Slot>) -> PyResult<Bound<'py, PyAny>> {
        let Some(unshared) = Arc::get_mut(&mut slot) else { return slot.outcome(py) };
        let SlotState { outcome, .. } = std::mem::take(unshared.0.get_mut().unwrap_or_else(PoisonError::into_inner));
        self.spare_slots.give(slot);
        match outcome {
            Some(Ok(value)) => Ok(value.into_bound(py)),
            Some(Err(error)) => Err(*error),
            None => Err(resumed_early(py)),
        }
    }

    pub(crate) fn is_hub(&self, greenlet: &Bound<'_, PyAny>) -> bool {
        greenlet.is(&self.driver.hub)
    }

    #[inline(never)]
    pub(crate) fn switch_to_hub(&self, py: Python<'_>) -> PyResult<()> {
        self.switch_to_hub.bind(py).call0().map(drop)
    }

    pub(crate) fn switch_to(&self, greenlet: &Bound<'_, PyAny>) -> PyResult<()> {
        match greenlet.get_type().is(&self.driver.usual_greenlet) {
            true => self.switch.bind(greenlet.py()).call1((greenlet,)).map(drop),
            false => switch_to_unusual(greenlet),
        }
    }
}

#[inline(never)]
fn switch_to_unusual(greenlet: &Bound<'_, PyAny>) -> PyResult<()> {
    greenlet.call_method0(intern!(greenlet.py(), "switch")).map(drop)
}

/// Where a greenlet's outcome is put.
#[derive(Default)]
pub(crate) struct Slot(Mutex<SlotState>);

#[derive(Default)]
struct SlotState {
    /// Who waits.
    greenlet: Option<Py<PyAny>>,
    outcome: Option<Answer>,
    abandoned: bool,
}

impl Slot {
    /// Keeps the outcome. Returns the greenlet that waits for it, if one does.
    pub(crate) fn finish(&self, answer: Answer) -> Option<Py<PyAny>> {
        let mut state = self.lock();
        if state.abandoned || state.outcome.is_some() {
            return None;
        }
        state.outcome = Some(answer);
        state.greenlet.take()
    }

    /// Registers the greenlet that is about to wait. Returns whether it has to.
    #[inline(never)]
    pub(crate) fn begin(&self, greenlet: &Bound<'_, PyAny>) -> bool {
        let mut state = self.lock();
        let open = state.outcome.is_none();
        if open {
            state.greenlet = Some(greenlet.clone().unbind());
        }
        open
    }

    /// Nobody waits any more, whatever ended the wait.
    #[inline(never)]
    pub(crate) fn abandon(&self) {
        let mut state = self.lock();
        state.abandoned = true;
        state.greenlet = None;
    }

    pub(crate) fn is_done(&self) -> bool {
        let state = self.lock();
        state.abandoned || state.outcome.is_some()
    }

    pub(crate) fn was_abandoned(&self) -> bool {
        self.lock().abandoned
    }

    /// The outcome, once it is known; an error is raised.
    #[inline(never)]
    pub(crate) fn outcome<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut state = self.lock();
        match &state.outcome {
            Some(Ok(value)) => Ok(value.bind(py).clone()),
            Some(Err(error)) => Err((**error).clone_ref(py)),
            None => {
                state.abandoned = true;
                Err(resumed_early(py))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cold]
fn resumed_early(py: Python<'_>) -> PyErr {
    exception(py, ErrorKind::UsageError, "the greenlet was resumed by something else while it waited for a reply")
}
