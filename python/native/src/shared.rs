//! Clients whose coroutines share connections: between the core's shared sessions and an event loop's driver, which
//! is written in Python.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pinyon_core::fleet::Fleet;
use pinyon_core::session::{Destination, Session, Ticket};
use pinyon_core::shared::{Action, Finished, Operation, Route, Shared};
use pinyon_core::{fork, Address, Refused, Reply};
use pinyon_proto::{Head, Key};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::errors::{from_core, usage};
use crate::requests::{Answer, Request};
use crate::values::{destination, Codec, Kept};

/// One request of one coroutine.
pub(crate) struct Single {
    pub(crate) codec: Arc<Codec>,
    /// The key as it is sent, and whether as base64.
    pub(crate) wire: (Vec<u8>, bool),
    /// What the ring is asked about, where that is not the key as it is sent.
    pub(crate) routing: Option<Vec<u8>>,
    pub(crate) request: Request,
    pub(crate) data: Kept,
    pub(crate) answer: Answer,
    pub(crate) default: Option<Py<PyAny>>,
    /// What the coroutine waits for: an asyncio future, or what the driver has in its place.
    pub(crate) waiter: Py<PyAny>,
}

impl Single {
    fn key(&self) -> Key<'_> {
        let (wire, base64) = &self.wire;
        Key::new(wire, *base64).unwrap_or_else(|_| unreachable!("the rules write keys that can be sent"))
    }
}

impl Operation for Single {
    fn name(&self) -> &'static str {
        self.request.command(self.key()).name()
    }

    fn route(&self) -> Route<'_> {
        Route::Key(self.routing.as_ref().unwrap_or(&self.wire.0))
    }

    fn submit(&mut self, session: &mut Session, deadline: Instant) -> Result<Ticket, Refused> {
        session.submit(&self.request.command(self.key()), self.data.data(), deadline)
    }

    fn reply(&mut self, reply: Reply<'_>) {
        let Self { answer, codec, .. } = self;
        Python::attach(|py| answer.take(py, codec, reply));
    }

    fn destination(&mut self, head: &Head) -> Box<dyn Destination> {
        Python::attach(|py| destination(py, &self.codec, head))
    }

    fn is_idempotent(&self) -> bool {
        self.request.command(self.key()).is_idempotent()
    }

    fn is_abandoned(&self) -> bool {
        Python::attach(|py| {
            let done = self.waiter.bind(py).call_method0(intern!(py, "done"));
            done.is_ok_and(|done| done.is_truthy().unwrap_or(false))
        })
    }
}

/// The connections of one event loop. Its `host` is the driver in Python, which has the methods `waiter()`,
/// `end_turn()`, `watch(lane, fd, write)`, `forget(lane, fd)`, `resolve(lane, name, port)`, `wake_in(seconds)` and
/// `resume([(waiter, value, error), …])`.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct Driver {
    shared: Mutex<Shared<Single>>,
    host: Host,
    /// When the host was told to wake it.
    alarm: Mutex<Option<Instant>>,
    generation: u64,
}

struct Host {
    waiter: Py<PyAny>,
    end_turn: Py<PyAny>,
    watch: Py<PyAny>,
    forget: Py<PyAny>,
    resolve: Py<PyAny>,
    wake_in: Py<PyAny>,
    resume: Py<PyAny>,
}

impl Driver {
    pub(crate) fn new(host: &Bound<'_, PyAny>, fleet: Arc<Fleet>, connections: usize) -> PyResult<Self> {
        let method = |name| -> PyResult<Py<PyAny>> { Ok(host.getattr(name)?.unbind()) };
        let host = Host {
            waiter: method("waiter")?,
            end_turn: method("end_turn")?,
            watch: method("watch")?,
            forget: method("forget")?,
            resolve: method("resolve")?,
            wake_in: method("wake_in")?,
            resume: method("resume")?,
        };
        let shared = Mutex::new(Shared::new(fleet, connections));
        Ok(Self { shared, host, alarm: Mutex::default(), generation: fork::generation() })
    }

    pub(crate) fn waiter<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.host.waiter.bind(py).call0()
    }

    pub(crate) fn start(&self, py: Python<'_>, operation: Single) -> PyResult<()> {
        self.change(py, |shared, now| shared.start(operation, now))
    }

    pub(crate) fn is_of_this_process(&self) -> bool {
        self.generation == fork::generation()
    }

    fn lock(&self) -> MutexGuard<'_, Shared<Single>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the connections' state, then does what follows from it: never with the lock held, for the host may
    /// come back at once.
    fn change(&self, py: Python<'_>, change: impl FnOnce(&mut Shared<Single>, Instant)) -> PyResult<()> {
        let (mut actions, mut finished) = {
            let mut shared = self.lock();
            change(&mut shared, Instant::now());
            (shared.take_actions(), shared.take_finished())
        };
        while !actions.is_empty() || !finished.is_empty() {
            for action in actions {
                self.act(py, action)?;
            }
            self.resume(py, finished)?;
            let mut shared = self.lock();
            (actions, finished) = (shared.take_actions(), shared.take_finished());
        }
        self.set_alarm(py)
    }

    fn act(&self, py: Python<'_>, action: Action) -> PyResult<()> {
        match action {
            Action::EndTurn => self.host.end_turn.bind(py).call0().map(drop),
            Action::Watch { lane, fd, write } => self.host.watch.bind(py).call1((lane, fd, write)).map(drop),
            Action::Resolve { lane, name, port } => self.host.resolve.bind(py).call1((lane, name, port)).map(drop),
            Action::Forget { lane, fd } => {
                self.host.forget.bind(py).call1((lane, fd))?;
                self.lock().forgotten(lane, Instant::now());
                Ok(())
            }
        }
    }

    fn resume(&self, py: Python<'_>, finished: Vec<Finished<Single>>) -> PyResult<()> {
        if finished.is_empty() {
            return Ok(());
        }
        let list = PyList::empty(py);
        for Finished { operation: Single { answer, default, waiter, .. }, error } in finished {
            let outcome = match error {
                Some(error) => Err(from_core(py, &error)),
                None => answer.finish(py, default.map(|default| default.into_bound(py))),
            };
            match outcome {
                Ok(value) => list.append((waiter, value, py.None()))?,
                Err(error) => list.append((waiter, py.None(), error.into_value(py)))?,
            }
        }
        self.host.resume.bind(py).call1((list,)).map(drop)
    }

    fn set_alarm(&self, py: Python<'_>) -> PyResult<()> {
        let Some(deadline) = self.lock().deadline() else { return Ok(()) };
        {
            let mut alarm = self.alarm.lock().unwrap_or_else(PoisonError::into_inner);
            if alarm.is_some_and(|alarm| alarm <= deadline) {
                return Ok(());
            }
            *alarm = Some(deadline);
        }
        let seconds = deadline.saturating_duration_since(Instant::now()).as_secs_f64();
        self.host.wake_in.bind(py).call1((seconds,)).map(drop)
    }
}

#[pymethods]
impl Driver {
    /// The turn that `end_turn` was called in is over.
    fn turn(&self, py: Python<'_>) -> PyResult<()> {
        self.change(py, Shared::turn)
    }

    /// A watched descriptor is ready.
    fn ready(&self, py: Python<'_>, lane: usize) -> PyResult<()> {
        self.change(py, |shared, now| shared.ready(lane, now))
    }

    /// The time that `wake_in` was told has passed.
    fn woken(&self, py: Python<'_>) -> PyResult<()> {
        *self.alarm.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.change(py, Shared::expire)
    }

    /// The addresses of a name, as the texts of IP addresses; none, and why, when it could not be resolved.
    #[pyo3(signature = (lane, port, addresses, why = ""))]
    fn resolved(&self, py: Python<'_>, lane: usize, port: u16, addresses: Vec<String>, why: &str) -> PyResult<()> {
        let parsed = addresses.iter().filter_map(|text| text.parse().ok());
        let addresses: Vec<_> = parsed.map(|ip| Address::Tcp(std::net::SocketAddr::new(ip, port))).collect();
        let resolved = if addresses.is_empty() { Err(why.to_owned()) } else { Ok(addresses) };
        self.change(py, |shared, now| shared.connect(lane, resolved, now))
    }

    /// Fails everything in flight and closes the connections.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.change(py, Shared::close)
    }
}

/// How a client finds the connections of the event loop it is used in.
pub(crate) struct Loops {
    /// Returns the running loop, or raises.
    current: Py<PyAny>,
    /// Makes a driver in Python for a loop.
    make: Py<PyAny>,
    connections: usize,
    drivers: Mutex<Vec<(Py<PyAny>, Py<Driver>)>>,
}

impl Loops {
    pub(crate) fn new(py: Python<'_>, current: Py<PyAny>, make: Py<PyAny>, connections: usize) -> PyResult<Self> {
        if connections == 0 {
            return Err(usage(py, "UsageError", "connections must be at least 1"));
        }
        Ok(Self { current, make, connections, drivers: Mutex::default() })
    }

    /// The driver of the running loop.
    pub(crate) fn driver<'py>(&self, py: Python<'py>, fleet: &Arc<Fleet>) -> PyResult<Bound<'py, Driver>> {
        let current = self.current.bind(py).call0()?;
        let known = self.lock().iter().find(|(of, _)| of.is(&current)).map(|(_, driver)| driver.clone_ref(py));
        match known.filter(|driver| driver.get().is_of_this_process()) {
            Some(driver) => Ok(driver.into_bound(py)),
            None => self.add(py, fleet, current),
        }
    }

    /// The drivers of all loops.
    pub(crate) fn take_drivers(&self) -> Vec<Py<Driver>> {
        std::mem::take(&mut *self.lock()).into_iter().map(|(_, driver)| driver).collect()
    }

    #[cold]
    fn add<'py>(
        &self,
        py: Python<'py>,
        fleet: &Arc<Fleet>,
        current: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Driver>> {
        let host = self.make.bind(py).call1((&current,))?;
        let driver = Bound::new(py, Driver::new(&host, fleet.clone(), self.connections)?)?;
        host.call_method1("attach", (&driver,))?;
        let over =
            |of: &Py<PyAny>| -> PyResult<bool> { self.make.bind(py).getattr("is_over")?.call1((of,))?.is_truthy() };
        let earlier = std::mem::take(&mut *self.lock());
        let mut kept = vec![(current.unbind(), driver.clone().unbind())];
        for (of, driver) in earlier {
            if !of.is(&kept[0].0) && !over(&of)? {
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
