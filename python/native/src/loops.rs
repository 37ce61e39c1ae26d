//! How a client finds the connections of the event loop that it is used in.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pinyon_core::fleet::Fleet;
use pyo3::prelude::*;

use crate::driver::Driver;
use crate::errors::usage;

pub(crate) struct Loops {
    /// Returns the running loop, or None.
    current: Py<PyAny>,
    /// The driver's class in Python, which makes one for a loop. `is_over(loop)` says whether a loop has ended, and
    /// `NO_LOOP` what it means that none runs.
    make: Py<PyAny>,
    connections: usize,
    drivers: Mutex<Vec<(Py<PyAny>, Py<Driver>)>>,
}

impl Loops {
    pub(crate) fn new(current: Py<PyAny>, make: Py<PyAny>, connections: usize) -> Self {
        Self { current, make, connections, drivers: Mutex::default() }
    }

    /// The driver of the running loop.
    pub(crate) fn driver<'py>(&self, py: Python<'py>, fleet: &Arc<Fleet>) -> PyResult<Bound<'py, Driver>> {
        let current = self.current.bind(py).call0()?;
        let known = self.lock().iter().find(|(of, _)| of.is(&current)).map(|(_, driver)| driver.clone_ref(py));
        match known {
            Some(driver) if driver.get().is_of_this_process() => Ok(driver.into_bound(py)),
            Some(inherited) => {
                inherited.get().leave_watched(py)?;
                self.add(py, fleet, current)
            }
            None => self.add(py, fleet, current),
        }
    }

    /// The drivers of all loops.
    pub(crate) fn take_drivers(&self) -> Vec<Py<Driver>> {
        std::mem::take(&mut *self.lock()).into_iter().map(|(_, driver)| driver).collect()
    }

    /// How many connections the drivers of all loops have to each server.
    pub(crate) fn open_connections(&self, py: Python<'_>, server: usize) -> PyResult<usize> {
        self.lock().iter().map(|(_, driver)| driver.get().open_connections(py, server)).sum()
    }

    #[cold]
    fn add<'py>(
        &self,
        py: Python<'py>,
        fleet: &Arc<Fleet>,
        current: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Driver>> {
        let make = self.make.bind(py);
        if current.is_none() {
            return Err(usage(py, "UsageError", &make.getattr("NO_LOOP")?.extract::<String>()?));
        }
        let host = make.call1((&current,))?;
        let driver = Bound::new(py, Driver::new(&host, fleet.clone(), self.connections)?)?;
        host.call_method1("attach", (&driver,))?;
        let is_over = make.getattr("is_over")?;
        let earlier = std::mem::take(&mut *self.lock());
        let mut kept = vec![(current.unbind(), driver.clone().unbind())];
        for (of, driver) in earlier {
            if is_over.call1((&of,))?.is_truthy()? {
                driver.get().discard(py)?;
            } else if !of.is(&kept[0].0) {
                kept.push((of, driver));
            }
        }
        *self.lock() = kept;
        Ok(driver)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Py<PyAny>, Py<Driver>)>> {
        self.drivers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
