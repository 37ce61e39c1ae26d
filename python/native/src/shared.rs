//! Clients whose coroutines share connections: between the core's shared sessions and an event loop's driver, which
//! is written in Python.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use pinyon_core::fleet::Fleet;
use pinyon_core::shared::{Action, Finished, Shared};
use pinyon_core::{fork, Address};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::errors::usage;
use crate::operations::{Gather, Op, Outcome};

/// The connections of one event loop.
///
/// Its `host` is the driver in Python, with the methods `waiter()`, `end_turn()`, `watch(lane, fd, write)`,
/// `forget(lane, fd)`, `resolve(lane, name, port)`, `wake_in(seconds)`, `resume([(waiter, value, error), …])`,
/// `resume_soon`, which does so from the loop, and `forget_inherited(lane, fd)` for a forked child. What the host calls
/// returns what it is to resume, so that no native frame is on the stack when a coroutine goes on.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct Driver {
    shared: Mutex<Shared<Op>>,
    host: Host,
    /// When the host was told to wake it.
    alarm: Mutex<Option<Instant>>,
    timeout: Duration,
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
    resume_soon: Py<PyAny>,
    forget_inherited: Py<PyAny>,
}

/// What the host is to resume: `[(waiter, value, error), …]`, or None.
type Resumed<'py> = Option<Bound<'py, PyList>>;

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
            resume_soon: method("resume_soon")?,
            forget_inherited: method("forget_inherited")?,
        };
        let timeout = fleet.options().timeout;
        let shared = Mutex::new(Shared::new(fleet, connections));
        Ok(Self { shared, host, alarm: Mutex::default(), timeout, generation: fork::generation() })
    }

    pub(crate) fn waiter<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.host.waiter.bind(py).call0()
    }

    pub(crate) fn start(&self, py: Python<'_>, operation: Op) -> PyResult<()> {
        let actions = {
            let (mut shared, now) = (self.lock(py)?, Instant::now());
            shared.start(operation, now + self.timeout, now);
            shared.take_actions()
        };
        self.begun(py, actions)
    }

    /// Does what follows from a beginning. The alarm is looked at when something has changed for the host.
    fn begun(&self, py: Python<'_>, actions: Vec<Action>) -> PyResult<()> {
        if actions.is_empty() {
            return Ok(());
        }
        self.act(py, actions)?;
        self.set_alarm(py)
    }

    /// Begins the operations of one answer, which is given at once when there are none.
    pub(crate) fn start_all(&self, py: Python<'_>, operations: Vec<Op>, gather: &Gather) -> PyResult<()> {
        if gather.is_complete() {
            let resumed = to_list(py, vec![gather.resume(py)])?;
            return self.host.resume.bind(py).call1((resumed,)).map(drop);
        }
        let actions = {
            let (mut shared, now) = (self.lock(py)?, Instant::now());
            operations.into_iter().for_each(|operation| shared.start(operation, now + self.timeout, now));
            shared.take_actions()
        };
        self.begun(py, actions)
    }

    /// Fails everything in flight, and lets the host resume what waited for it. In a forked child the connections
    /// are the parent's, and nothing is done.
    pub(crate) fn shut(&self, py: Python<'_>) -> PyResult<()> {
        if !self.is_of_this_process() {
            return Ok(());
        }
        match self.change(py, Shared::close)? {
            None => Ok(()),
            Some(resumed) => self.host.resume_soon.bind(py).call1((resumed,)).map(drop),
        }
    }

    /// In a forked child: the parent's connections are not watched any more.
    fn leave_watched(&self, py: Python<'_>) -> PyResult<()> {
        let watched: Vec<_> = self.lock(py)?.watched().collect();
        let forget = self.host.forget_inherited.bind(py);
        watched.into_iter().try_for_each(|(lane, fd)| forget.call1((lane, fd)).map(drop))
    }

    fn is_of_this_process(&self) -> bool {
        self.generation == fork::generation()
    }

    /// Held while replies are read, and so while a serializer's `load` runs.
    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Shared<Op>>> {
        match self.shared.try_lock() {
            Ok(shared) => Ok(shared),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                let message = "the client cannot be used while it reads a reply, as from a serializer's load";
                Err(usage(py, "UsageError", message))
            }
        }
    }

    /// Changes the connections' state, then does what follows from it, with the lock given up: the host may come
    /// back at once.
    fn change<'py>(&self, py: Python<'py>, change: impl FnOnce(&mut Shared<Op>, Instant)) -> PyResult<Resumed<'py>> {
        if !self.is_of_this_process() {
            return Ok(None);
        }
        let mut resumed = Vec::new();
        let (mut actions, mut finished) = {
            let mut shared = self.lock(py)?;
            change(&mut shared, Instant::now());
            (shared.take_actions(), shared.take_finished())
        };
        while !actions.is_empty() || !finished.is_empty() {
            self.act(py, actions)?;
            self.settle(py, finished, &mut resumed)?;
            let mut shared = self.lock(py)?;
            (actions, finished) = (shared.take_actions(), shared.take_finished());
        }
        self.set_alarm(py)?;
        match resumed.is_empty() {
            true => Ok(None),
            false => to_list(py, resumed).map(Some),
        }
    }

    fn act(&self, py: Python<'_>, actions: Vec<Action>) -> PyResult<()> {
        for action in actions {
            match action {
                Action::EndTurn => self.host.end_turn.bind(py).call0()?,
                Action::Watch { lane, fd, write } => self.host.watch.bind(py).call1((lane, fd, write))?,
                Action::Resolve { lane, name, port } => self.host.resolve.bind(py).call1((lane, name, port))?,
                Action::Forget { lane, fd } => {
                    let forgotten = self.host.forget.bind(py).call1((lane, fd))?;
                    self.lock(py)?.forgotten(lane, Instant::now());
                    forgotten
                }
            };
        }
        Ok(())
    }

    /// Collects the coroutines that go on because their operations are over.
    fn settle(&self, py: Python<'_>, finished: Vec<Finished<Op>>, resumed: &mut Vec<Answered>) -> PyResult<()> {
        for Finished { operation, error, deadline } in finished {
            let in_time = error.is_some() && Instant::now() < deadline;
            match operation.finish(py, error, in_time) {
                Outcome::Resume(waiter, answer) => resumed.push((waiter, answer)),
                Outcome::Open => {}
                Outcome::Again(singles) => {
                    let (mut shared, now) = (self.lock(py)?, Instant::now());
                    singles.into_iter().for_each(|single| shared.start(Op::Single(single), deadline, now));
                }
            }
        }
        Ok(())
    }

    fn set_alarm(&self, py: Python<'_>) -> PyResult<()> {
        let Some(deadline) = self.lock(py)?.deadline() else { return Ok(()) };
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

type Answered = (Py<PyAny>, PyResult<Py<PyAny>>);

fn to_list(py: Python<'_>, resumed: Vec<Answered>) -> PyResult<Bound<'_, PyList>> {
    let entry = |(waiter, answer): Answered| match answer {
        Ok(value) => (waiter, value, py.None()).into_pyobject(py),
        Err(error) => (waiter, py.None(), error.into_value(py).into_any()).into_pyobject(py),
    };
    PyList::new(py, resumed.into_iter().map(entry).collect::<PyResult<Vec<_>>>()?)
}

#[pymethods]
impl Driver {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Host { waiter, end_turn, watch, forget, resolve, wake_in, resume, resume_soon, forget_inherited } =
            &self.host;
        for method in [waiter, end_turn, watch, forget, resolve, wake_in, resume, resume_soon, forget_inherited] {
            visit.call(method)?;
        }
        Ok(())
    }

    /// The turn that `end_turn` was called in is over.
    fn turn<'py>(&self, py: Python<'py>) -> PyResult<Resumed<'py>> {
        self.change(py, Shared::turn)
    }

    /// A watched descriptor is ready.
    fn ready<'py>(&self, py: Python<'py>, lane: usize) -> PyResult<Resumed<'py>> {
        self.change(py, |shared, now| shared.ready(lane, now))
    }

    /// The time that `wake_in` was told has passed.
    fn woken<'py>(&self, py: Python<'py>) -> PyResult<Resumed<'py>> {
        *self.alarm.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.change(py, Shared::expire)
    }

    /// The addresses of a name, as the texts of IP addresses; none, and why, when it could not be resolved.
    #[pyo3(signature = (lane, port, addresses, why = ""))]
    fn resolved<'py>(
        &self,
        py: Python<'py>,
        lane: usize,
        port: u16,
        addresses: Vec<String>,
        why: &str,
    ) -> PyResult<Resumed<'py>> {
        let parsed = addresses.iter().filter_map(|text| text.parse().ok());
        let addresses: Vec<_> = parsed.map(|ip| Address::Tcp(std::net::SocketAddr::new(ip, port))).collect();
        let resolved = if addresses.is_empty() { Err(why.to_owned()) } else { Ok(addresses) };
        self.change(py, |shared, now| shared.connect(lane, resolved, now))
    }
}

/// What one greenlet waits for, or may wait for later.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct Waiter(Mutex<WaiterState>);

enum WaiterState {
    Open,
    /// This greenlet waits.
    Armed(Py<PyAny>),
    Finished(Py<PyAny>, Option<Py<PyAny>>),
    Abandoned,
}

impl WaiterState {
    fn is_over(&self) -> bool {
        matches!(self, WaiterState::Finished(..) | WaiterState::Abandoned)
    }
}

impl Waiter {
    fn lock(&self) -> MutexGuard<'_, WaiterState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Waiter {
    #[new]
    fn new() -> Self {
        Self(Mutex::new(WaiterState::Open))
    }

    /// Registers the greenlet that is about to wait. Returns whether it has to.
    fn arm(&self, greenlet: Py<PyAny>) -> bool {
        let mut state = self.lock();
        let open = matches!(*state, WaiterState::Open);
        if open {
            *state = WaiterState::Armed(greenlet);
        }
        open
    }

    /// The greenlet waits no more, whatever ended its wait.
    fn abandon(&self) {
        let mut state = self.lock();
        if !state.is_over() {
            *state = WaiterState::Abandoned;
        }
    }

    /// Whether nothing is awaited any more.
    fn done(&self) -> bool {
        self.lock().is_over()
    }

    /// Keeps the outcome, and returns the greenlet that waits for it, if one does.
    fn finish(&self, value: Py<PyAny>, error: Option<Py<PyAny>>) -> Option<Py<PyAny>> {
        let mut state = self.lock();
        if state.is_over() {
            return None;
        }
        match std::mem::replace(&mut *state, WaiterState::Finished(value, error)) {
            WaiterState::Armed(greenlet) => Some(greenlet),
            _ => None,
        }
    }

    /// The outcome that was kept; an error is raised.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &*self.lock() {
            WaiterState::Finished(_, Some(error)) => Err(PyErr::from_value(error.bind(py).clone())),
            WaiterState::Finished(value, None) => Ok(value.bind(py).clone()),
            _ => Err(usage(py, "UsageError", "the outcome is not known")),
        }
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
            if over(&of)? {
                driver.get().lock(py)?.discard();
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
