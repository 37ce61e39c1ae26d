//! How a client finds the connections of the event loop that it is used in.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;
use pyo3::{PyClass, PyClassInitializer};

use crate::driver::{EventLoop, Machine};
use crate::errors::usage;
use crate::waiter::{GreenletWaiter, Slot, Waiter};

/// What a driver in Python drives: the class of a client's connections in one event loop.
pub(crate) trait LoopDriver: PyClass<Frozen = True> + Into<PyClassInitializer<Self>> + Sync {
    type Machine: Machine;

    /// What the client says of the connections to be made.
    type Settings;

    /// `host`: the driver in Python.
    fn new(host: &Bound<'_, PyAny>, settings: &Self::Settings) -> PyResult<Self>;

    fn event_loop(&self) -> &EventLoop<Self::Machine>;
}

pub(crate) struct Loops<D: LoopDriver> {
    /// Returns the running loop, or None.
    current: Py<PyAny>,
    /// The driver's class in Python, which makes one for a loop. `is_over(loop)` says whether a loop has ended, and
    /// `NO_LOOP` what it means that none runs.
    make: Py<PyAny>,
    /// Returns the running greenlet, where coroutines are greenlets.
    current_greenlet: Option<Py<PyAny>>,
    settings: D::Settings,
    drivers: Mutex<Vec<(Py<PyAny>, Py<D>)>>,
}

/// The coroutine that has called: the connections of its loop, and itself if it is a greenlet.
pub(crate) struct Caller<'py, D> {
    pub(crate) driver: Bound<'py, D>,
    greenlet: Option<Bound<'py, PyAny>>,
}

impl<'py, D: LoopDriver> Caller<'py, D> {
    /// What it is to wait for.
    pub(crate) fn waiter(&self) -> PyResult<Waiter> {
        self.driver.get().event_loop().waiting().waiter(self.driver.py())
    }

    /// Lets it wait, if it is a greenlet; a task is handed what it awaits. So is whoever wants to wait `later`.
    pub(crate) fn wait(self, waiter: Waiter, later: bool) -> PyResult<Bound<'py, PyAny>> {
        let py = self.driver.py();
        match (waiter, self.greenlet) {
            (Waiter::Future(future), _) => Ok(future.into_bound(py)),
            (Waiter::Greenlet(slot), Some(greenlet)) if !later => {
                let waiting = self.driver.get().event_loop().waiting();
                let outcome = slot.wait(waiting, &greenlet);
                waiting.reuse(slot);
                outcome
            }
            (Waiter::Greenlet(slot), _) => wait_later(slot, self.driver),
        }
    }
}

#[inline(never)]
fn wait_later<D: LoopDriver>(slot: Arc<Slot>, driver: Bound<'_, D>) -> PyResult<Bound<'_, PyAny>> {
    let py = driver.py();
    Ok(Bound::new(py, GreenletWaiter::new(slot, driver))?.into_any())
}

impl<D: LoopDriver> Loops<D> {
    pub(crate) fn new(current: Py<PyAny>, make: Bound<'_, PyAny>, settings: D::Settings) -> PyResult<Self> {
        let current_greenlet = Some(make.getattr("current_greenlet")?.unbind());
        let current_greenlet = current_greenlet.filter(|current| !current.is_none(make.py()));
        Ok(Self { current, make: make.unbind(), current_greenlet, settings, drivers: Mutex::default() })
    }

    pub(crate) fn caller<'py>(&self, py: Python<'py>) -> PyResult<Caller<'py, D>> {
        let greenlet = self.current_greenlet.as_ref().map(|current| current.bind(py).call0()).transpose()?;
        let driver = match self.resuming(py) {
            Some(driver) => driver,
            None => self.driver(self.current.bind(py).call0()?)?,
        };
        Ok(Caller { driver, greenlet })
    }

    /// The driver whose loop has resumed the caller: in a busy program nearly always there is one, and that is quicker
    /// to see than to ask for the loop.
    fn resuming<'py>(&self, py: Python<'py>) -> Option<Bound<'py, D>> {
        self.find(py, |_, driver| driver.is_resuming_here())
    }

    /// The driver of a loop.
    fn driver<'py>(&self, current: Bound<'py, PyAny>) -> PyResult<Bound<'py, D>> {
        match self.known(&current) {
            Some(driver) => Ok(driver),
            None => self.add(current),
        }
    }

    fn known<'py>(&self, current: &Bound<'py, PyAny>) -> Option<Bound<'py, D>> {
        self.find(current.py(), |of, _| of.is(current))
    }

    /// A driver of this process, by its loop or itself.
    fn find<'py>(
        &self,
        py: Python<'py>,
        is_it: impl Fn(&Py<PyAny>, &EventLoop<D::Machine>) -> bool,
    ) -> Option<Bound<'py, D>> {
        let drivers = self.lock();
        let (_, driver) = drivers.iter().find(|(of, driver)| is_it(of, driver.get().event_loop()))?;
        driver.get().event_loop().is_of_this_process().then(|| driver.bind(py).clone())
    }

    /// The drivers of all loops.
    pub(crate) fn drivers(&self, py: Python<'_>) -> Vec<Py<D>> {
        self.lock().iter().map(|(_, driver)| driver.clone_ref(py)).collect()
    }

    /// The drivers of all loops, which are forgotten here.
    pub(crate) fn take_drivers(&self) -> Vec<Py<D>> {
        std::mem::take(&mut *self.lock()).into_iter().map(|(_, driver)| driver).collect()
    }

    /// How many connections the drivers of all loops have to each server.
    pub(crate) fn open_connections(&self, py: Python<'_>, server: usize) -> PyResult<usize> {
        self.drivers(py).into_iter().map(|driver| driver.get().event_loop().open_connections(py, server)).sum()
    }

    #[cold]
    fn add<'py>(&self, current: Bound<'py, PyAny>) -> PyResult<Bound<'py, D>> {
        let py = current.py();
        let make = self.make.bind(py);
        if current.is_none() {
            return Err(usage(py, "UsageError", &make.getattr("NO_LOOP")?.extract::<String>()?));
        }
        let inherited = self.lock().iter().find(|(of, _)| of.is(&current)).map(|(_, driver)| driver.clone_ref(py));
        if let Some(inherited) = inherited {
            inherited.get().event_loop().leave_watched(py)?;
        }
        let host = make.call1((&current,))?;
        let driver = Bound::new(py, D::new(&host, &self.settings)?)?;
        host.call_method1("attach", (&driver,))?;
        let is_over = make.getattr("is_over")?;
        let earlier = std::mem::take(&mut *self.lock());
        let mut kept = vec![(current.unbind(), driver.clone().unbind())];
        for (of, driver) in earlier {
            if is_over.call1((&of,))?.is_truthy()? {
                driver.get().event_loop().discard(py)?;
            } else if !of.is(&kept[0].0) {
                kept.push((of, driver));
            }
        }
        *self.lock() = kept;
        Ok(driver)
    }

    /// Nobody is left who could use their connections. What is being raised while the last who could is dropped, as a
    /// coroutine's end is by Python 3.9, is set aside meanwhile: with an exception set no Python code runs.
    pub(crate) fn retire(&self) {
        Python::attach(|py| {
            let being_raised = PyErr::take(py);
            for driver in self.take_drivers() {
                if let Err(raised) = driver.get().event_loop().retire(py) {
                    raised.write_unraisable(py, None);
                }
            }
            if let Some(being_raised) = being_raised {
                being_raised.restore(py);
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Py<PyAny>, Py<D>)>> {
        self.drivers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: LoopDriver> Drop for Loops<D> {
    fn drop(&mut self) {
        self.retire();
    }
}
