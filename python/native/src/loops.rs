//! Finds a client's connections for the running event loop.

use std::sync::Arc;

use pinyon_net::driven::Drivers;
use pyo3::prelude::*;

use crate::driver::LoopDriver;
use crate::waiter::Waiter;

/// A client's connections, by event loop.
pub(crate) struct Loops<D: LoopDriver> {
    /// Returns the running loop, or None.
    current: Py<PyAny>,
    /// The driver's class in Python.
    make: Py<PyAny>,
    class: DriverClass,
    connect: Connect<D>,
    drivers: Drivers<Py<PyAny>, Py<D>>,
}

/// Makes the connections for a driver in Python.
pub(crate) type Connect<D> = Arc<dyn Fn(&Bound<'_, PyAny>) -> PyResult<D> + Send + Sync>;

/// The attributes of a driver's class, as in `pinyon._loop_driver.LoopDriver`.
#[derive(FromPyObject)]
struct DriverClass {
    /// Returns the exception of a call without a running loop.
    no_loop: Py<PyAny>,
    /// Whether a loop has ended.
    is_over: Py<PyAny>,
    /// Returns the running greenlet, if coroutines are greenlets.
    current_greenlet: Option<Py<PyAny>>,
    /// Returns what holds locks: the running task or greenlet.
    current_owner: Py<PyAny>,
}

/// The calling coroutine: its loop's connections, and the greenlet if it is one.
pub(crate) struct Caller<'py, D> {
    pub(crate) driver: Bound<'py, D>,
    greenlet: Option<Bound<'py, PyAny>>,
}

impl<'py, D: LoopDriver> Caller<'py, D> {
    /// Makes a waiter for the caller.
    pub(crate) fn waiter(&self) -> PyResult<Waiter> {
        self.driver.get().event_loop().waiting().waiter(self.driver.py())
    }

    /// What a caller gets that has nothing to wait for: a greenlet the value, a task a future that has it.
    pub(crate) fn ready(&self, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match &self.greenlet {
            Some(_) => Ok(value),
            None => self.driver.get().event_loop().waiting().ready(value),
        }
    }

    /// Waits, if the caller is a greenlet. Returns the future if it is a task.
    pub(crate) fn wait(self, waiter: Waiter) -> PyResult<Bound<'py, PyAny>> {
        let py = self.driver.py();
        match (waiter, self.greenlet) {
            (Waiter::Future(future), _) => Ok(future.into_bound(py)),
            (Waiter::Greenlet(slot), Some(greenlet)) => {
                let waiting = self.driver.get().event_loop().waiting();
                waiting.wait(&slot, &greenlet)?;
                waiting.greenlets().take_outcome(py, slot)
            }
            (Waiter::Greenlet(_), None) => unreachable!("greenlets alone wait in slots"),
        }
    }
}

impl<D: LoopDriver> Loops<D> {
    pub(crate) fn new(current: Py<PyAny>, make: Bound<'_, PyAny>, connect: Connect<D>) -> PyResult<Self> {
        Ok(Self { current, class: make.extract()?, make: make.unbind(), connect, drivers: Drivers::default() })
    }

    pub(crate) fn caller<'py>(&self, py: Python<'py>) -> PyResult<Caller<'py, D>> {
        let greenlet = self.class.current_greenlet.as_ref().map(|current| current.bind(py).call0()).transpose()?;
        let driver = match self.resuming(py) {
            Some(driver) => driver,
            None => self.driver(self.current.bind(py).call0()?)?,
        };
        Ok(Caller { driver, greenlet })
    }

    /// The running task or greenlet, which holds locks.
    pub(crate) fn owner<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.class.current_owner.bind(py).call0()
    }

    /// The driver whose loop has resumed the caller. In a busy program there nearly always is one, and finding it this
    /// way is faster than asking for the running loop.
    fn resuming<'py>(&self, py: Python<'py>) -> Option<Bound<'py, D>> {
        self.drivers
            .find(|_, driver| driver.get().event_loop().machine.is_resuming_here().then(|| driver.bind(py).clone()))
    }

    /// The driver of a loop.
    fn driver<'py>(&self, current: Bound<'py, PyAny>) -> PyResult<Bound<'py, D>> {
        let known = self.drivers.find(|of, driver| of.is(&current).then(|| driver.bind(current.py()).clone()));
        match known {
            Some(driver) => Ok(driver),
            None => self.add(current),
        }
    }

    /// The drivers of all loops.
    pub(crate) fn drivers(&self, py: Python<'_>) -> Vec<Py<D>> {
        self.drivers.all(|_, driver| driver.clone_ref(py))
    }

    /// Removes and returns the drivers of all loops.
    pub(crate) fn take_drivers(&self) -> Vec<Py<D>> {
        self.drivers.take()
    }

    #[cold]
    fn add<'py>(&self, current: Bound<'py, PyAny>) -> PyResult<Bound<'py, D>> {
        let py = current.py();
        if current.is_none() {
            return Err(PyErr::from_value(self.class.no_loop.bind(py).call0()?));
        }
        let known = self.drivers.all(|of, driver| (of.clone_ref(py), driver.clone_ref(py)));
        let mut over = Vec::new();
        for (of, inherited) in &known {
            if of.is(&current) {
                let event_loop = inherited.get().event_loop();
                event_loop.machine.leave_watched(&event_loop.host(py))?;
            } else if self.class.is_over.call1(py, (of,))?.is_truthy(py)? {
                over.push(of);
            }
        }
        let host = self.make.bind(py).call1((&current,))?;
        let driver = Bound::new(py, (self.connect)(&host)?)?;
        host.call_method1("attach", (&driver,))?;
        let is_gone = |of: &Py<PyAny>, _: &Py<D>| of.is(&current) || over.iter().any(|over| of.is(*over));
        let gone = self.drivers.add(current.clone().unbind(), driver.clone().unbind(), is_gone);
        gone.iter()
            .filter(|gone| gone.get().event_loop().machine.is_of_this_process())
            .try_for_each(|over| over.get().event_loop().discard(py))?;
        Ok(driver)
    }

    /// Closes connections that nothing can use any more. Python 3.9 drops the last user, a coroutine's end, while an
    /// exception is set. The exception is set aside meanwhile, because Python code cannot run otherwise.
    pub(crate) fn retire(&self) {
        Python::attach(|py| {
            let being_raised = PyErr::take(py);
            let drivers = self.drivers.all(|of, driver| (of.clone_ref(py), driver.clone_ref(py)));
            self.drivers.take();
            for (of, driver) in drivers {
                let event_loop = driver.get().event_loop();
                let retired = match self.class.is_over.call1(py, (of,)).and_then(|over| over.is_truthy(py)) {
                    Ok(true) if event_loop.machine.is_of_this_process() => event_loop.discard(py),
                    Ok(_) => event_loop.machine.retire(&event_loop.host(py)),
                    Err(raised) => Err(raised),
                };
                if let Err(raised) = retired {
                    raised.write_unraisable(py, None);
                }
            }
            if let Some(being_raised) = being_raised {
                being_raised.restore(py);
            }
        });
    }
}

impl<D: LoopDriver> Drop for Loops<D> {
    fn drop(&mut self) {
        self.retire();
    }
}
