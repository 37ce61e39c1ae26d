//! Greenlets, which wait by switching to others.
//!
//! A greenlet that begins to wait switches straight to the next greenlet with an outcome, and to the hub only if there
//! is none. A waiting greenlet keeps a copy of its stack, so the functions on the way to the switch have small frames.

use std::sync::Arc;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;

use crate::errors::{exception, ErrorKind};
use crate::futures::Answer;
use pinyon_cache::spare::Spare;

/// How greenlets wait: they switch to the hub, which switches back.
pub(crate) struct Greenlets {
    driver: GreenletDriver,
    switch_to_hub: Py<PyAny>,
    /// The method of the usual class.
    switch: Py<PyAny>,
    spare_slots: Spare<Arc<Slot>>,
}

/// The attributes of a driver for greenlets, as in `pinyon._loop_driver.LoopDriver`.
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

    /// A place for the outcome of a greenlet that is about to wait.
    pub(crate) fn slot(&self) -> Arc<Slot> {
        self.spare_slots.take().unwrap_or_default()
    }

    /// Returns or raises the outcome. The slot's memory is reused.
    #[inline(never)]
    pub(crate) fn take_outcome<'py>(&self, py: Python<'py>, mut slot: Arc<Slot>) -> PyResult<Bound<'py, PyAny>> {
        let Some(unshared) = Arc::get_mut(&mut slot) else { return outcome(py, &slot) };
        let taken = unshared.take();
        self.spare_slots.give(slot);
        match taken {
            Some(Ok(value)) => Ok(value.into_bound(py)),
            Some(Err(unsettled)) => unsettled.settle(py),
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

/// The place for a greenlet's outcome.
pub(crate) type Slot = pinyon_net::driven::Slot<Py<PyAny>, Answer>;

/// Returns or raises the outcome, once it is known.
#[inline(never)]
pub(crate) fn outcome<'py>(py: Python<'py>, slot: &Slot) -> PyResult<Bound<'py, PyAny>> {
    match slot.take_shared() {
        Some(Ok(value)) => Ok(value.into_bound(py)),
        Some(Err(unsettled)) => unsettled.settle(py),
        None => Err(resumed_early(py)),
    }
}

#[cold]
fn resumed_early(py: Python<'_>) -> PyErr {
    exception(py, ErrorKind::UsageError, "the greenlet was resumed by something else while it waited for a reply")
}
