//! Clients whose coroutines share connections: between a machine of the core and an event loop's driver, which is
//! written in Python.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

use pinyon_core::driven::{Action, Driven};
use pinyon_core::{fork, Address};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;

use crate::errors::usage;
use crate::futures::Futures;
use crate::spare::Spare;
use crate::waiter::{Answer, Slot, Waiter};

/// A machine whose outcomes coroutines wait for.
pub(crate) trait Machine: Driven + Sized {
    /// What [`Self::settle`] needs besides the outcomes.
    type Context;

    /// Collects the outcomes of what is over: [`Waiting::answer`] takes them. Nothing is locked meanwhile.
    fn settle(event_loop: &EventLoop<Self>, py: Python<'_>, finished: Vec<Self::Finished>) -> PyResult<()>;

    /// Something has happened: tells whoever watches. Nothing is locked meanwhile.
    fn report(_event_loop: &EventLoop<Self>, _py: Python<'_>) -> PyResult<()> {
        Ok(())
    }
}

/// A machine, driven by one event loop.
pub(crate) struct EventLoop<M: Machine> {
    shared: Mutex<M>,
    context: M::Context,
    host: Host,
    waiting: Waiting,
    /// The thread in which coroutines are being resumed, 0 for none. What they submit is sent when all of them have
    /// been.
    resuming_in: AtomicUsize,
    turn_is_due: AtomicBool,
    /// Nobody is left who could begin anything: when nothing is on its way any more, the connections are closed.
    is_retired: AtomicBool,
    /// When the host was told to wake it.
    alarm: Mutex<Option<Instant>>,
    generation: u64,
}

/// The coroutines that wait, whatever for.
pub(crate) struct Waiting {
    coroutines: Coroutines,
    /// Outcomes that have not been given to their coroutines yet.
    answered: Mutex<VecDeque<(Waiter, Answer)>>,
    spare_slots: Spare<Arc<Slot>>,
}

/// What the driver in Python does with its event loop.
struct Host {
    /// `end_turn()`: call `turn` soon.
    end_turn: Py<PyAny>,
    /// `end_turn_from_outside()`: the same, from any thread.
    end_turn_from_outside: Py<PyAny>,
    /// `watch(lane, fd, write)`: call `ready(lane)` when the descriptor is readable, or writable where that is asked.
    watch: Py<PyAny>,
    /// `forget(lane, fd)`: watch it no more.
    forget: Py<PyAny>,
    /// `forget_inherited(lane, fd)`: the same, in a forked child.
    forget_inherited: Py<PyAny>,
    /// `resolve(lane, name, port)`: call `resolved` with the addresses of a name.
    resolve: Py<PyAny>,
    /// `wake_in(seconds)`: call `woken` then.
    wake_in: Py<PyAny>,
}

/// How coroutines wait.
enum Coroutines {
    Tasks(Futures),
    /// By switching to the hub, which switches back.
    Greenlets {
        hub: Py<PyAny>,
        switch: Py<PyAny>,
        current: Py<PyAny>,
        usual: Usual,
    },
}

/// The class that most greenlets are of, and its method that switches to one, looked up once.
struct Usual {
    class: Py<PyAny>,
    switch: Py<PyAny>,
}

impl<M: Machine> EventLoop<M> {
    /// `host`: the driver in Python. Where it has no `current_greenlet`, coroutines are tasks of its `loop`; otherwise
    /// they are greenlets of its `hub`.
    pub(crate) fn new(host: &Bound<'_, PyAny>, machine: M, context: M::Context) -> PyResult<Self> {
        let attribute = |name| -> PyResult<Py<PyAny>> { Ok(host.getattr(name)?.unbind()) };
        let current = attribute("current_greenlet")?;
        let coroutines = match current.is_none(host.py()) {
            true => Coroutines::Tasks(Futures::new(host)?),
            false => {
                let hub = attribute("hub")?;
                let switch = hub.getattr(host.py(), "switch")?;
                let class = attribute("usual_greenlet")?;
                let usual = Usual { switch: class.getattr(host.py(), "switch")?, class };
                Coroutines::Greenlets { hub, switch, current, usual }
            }
        };
        let host = Host {
            end_turn: attribute("end_turn")?,
            end_turn_from_outside: attribute("end_turn_from_outside")?,
            watch: attribute("watch")?,
            forget: attribute("forget")?,
            forget_inherited: attribute("forget_inherited")?,
            resolve: attribute("resolve")?,
            wake_in: attribute("wake_in")?,
        };
        Ok(Self {
            shared: Mutex::new(machine),
            context,
            host,
            waiting: Waiting { coroutines, answered: Mutex::default(), spare_slots: Spare::default() },
            resuming_in: AtomicUsize::default(),
            turn_is_due: AtomicBool::default(),
            is_retired: AtomicBool::default(),
            alarm: Mutex::default(),
            generation: fork::generation(),
        })
    }

    /// Begins something that a coroutine asks for. What fails at once is left for the end of the turn.
    pub(crate) fn begin<T>(&self, py: Python<'_>, begin: impl FnOnce(&mut M, Instant) -> T) -> PyResult<T> {
        let (begun, actions) = {
            let (mut shared, now) = (self.lock(py)?, Instant::now());
            (begin(&mut shared, now), shared.take_actions())
        };
        self.begun(py, actions).map(|()| begun)
    }

    /// Does what follows from a beginning. The alarm is looked at when something has changed for the host.
    fn begun(&self, py: Python<'_>, actions: Vec<Action>) -> PyResult<()> {
        if actions.is_empty() {
            return Ok(());
        }
        self.act(py, actions)?;
        self.set_alarm(py)
    }

    /// Fails everything in flight; what waited for it is resumed by its loop. In a forked child the connections are
    /// the parent's, and nothing is done.
    pub(crate) fn shut(&self, py: Python<'_>) -> PyResult<()> {
        if !self.is_of_this_process() {
            return Ok(());
        }
        self.change(py, M::close)?;
        if self.waiting.answered().is_empty() {
            return Ok(());
        }
        self.host.end_turn_from_outside.call0(py).map(drop)
    }

    /// Nobody is left who could use it: its connections are closed once nothing is on its way, and by their own loop, from
    /// whatever thread this is called.
    pub(crate) fn retire(&self, py: Python<'_>) -> PyResult<()> {
        if !self.is_of_this_process() {
            return Ok(());
        }
        self.is_retired.store(true, Ordering::Relaxed);
        self.host.end_turn_from_outside.call0(py).map(drop)
    }

    /// Closes the connections of a loop that is over: there is nobody left to resume.
    pub(crate) fn discard(&self, py: Python<'_>) -> PyResult<()> {
        self.lock(py)?.discard();
        Ok(())
    }

    /// In a forked child: the parent's connections are not watched any more.
    pub(crate) fn leave_watched(&self, py: Python<'_>) -> PyResult<()> {
        let watched: Vec<_> = self.lock(py)?.watched().collect();
        let forget = self.host.forget_inherited.bind(py);
        watched.into_iter().try_for_each(|(lane, fd)| forget.call1((lane, fd)).map(drop))
    }

    pub(crate) fn context(&self) -> &M::Context {
        &self.context
    }

    pub(crate) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// Whether it is from its own loop that the calling coroutine was resumed.
    pub(crate) fn is_resuming_here(&self) -> bool {
        self.resuming_in.load(Ordering::Relaxed) == this_thread()
    }

    pub(crate) fn is_of_this_process(&self) -> bool {
        self.generation == fork::generation()
    }

    /// How many connections it has to a server.
    pub(crate) fn open_connections(&self, py: Python<'_>, server: usize) -> PyResult<usize> {
        match self.is_of_this_process() {
            true => Ok(self.lock(py)?.open_connections(server)),
            false => Ok(0),
        }
    }

    /// Held while replies are read, and so while a serializer's `load` runs.
    pub(crate) fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, M>> {
        match self.shared.try_lock() {
            Ok(shared) => Ok(shared),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                let message = "the client cannot be used while it reads a reply, as from a serializer's load";
                Err(usage(py, "UsageError", message))
            }
        }
    }
}

impl Waiting {
    /// What a coroutine is to wait for.
    pub(crate) fn waiter(&self, py: Python<'_>) -> PyResult<Waiter> {
        match &self.coroutines {
            Coroutines::Tasks(futures) => Ok(Waiter::Future(futures.create(py)?)),
            Coroutines::Greenlets { .. } => Ok(Waiter::Greenlet(self.spare_slots.take().unwrap_or_default())),
        }
    }

    /// A greenlet has got its outcome: the memory it came in serves another.
    pub(crate) fn reuse(&self, mut slot: Arc<Slot>) {
        if let Some(unshared) = Arc::get_mut(&mut slot) {
            unshared.clear();
            self.spare_slots.give(slot);
        }
    }

    pub(crate) fn current_greenlet<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.coroutines {
            Coroutines::Greenlets { current, .. } => current.bind(py).call0(),
            Coroutines::Tasks(_) => unreachable!("tasks do not switch"),
        }
    }

    /// Lets other greenlets run: the next one whose outcome is known, without a detour by the hub, or else the hub.
    pub(crate) fn switch_from(&self, current: &Bound<'_, PyAny>) -> PyResult<()> {
        let Coroutines::Greenlets { hub, switch, .. } = &self.coroutines else { unreachable!("tasks do not switch") };
        let next = if current.is(hub) { None } else { self.next_greenlet() };
        match next {
            Some(greenlet) => self.switch_to(greenlet.bind(current.py())),
            None => call(switch.bind(current.py())),
        }
    }

    /// The next greenlet whose outcome is known. In a frame of its own, as what it does is done before the switch.
    #[inline(never)]
    fn next_greenlet(&self) -> Option<Py<PyAny>> {
        loop {
            let (waiter, answer) = self.next_answered()?;
            if let Some(greenlet) = waiter.awaken(answer) {
                return Some(greenlet);
            }
        }
    }

    /// Gives the future of a task its outcome, and lets the task run.
    pub(crate) fn resume_task(&self, future: &Bound<'_, PyAny>, answer: Answer) -> PyResult<()> {
        let Coroutines::Tasks(futures) = &self.coroutines else { unreachable!("greenlets have no futures") };
        futures.resume(future, answer)
    }

    pub(crate) fn switch_to(&self, greenlet: &Bound<'_, PyAny>) -> PyResult<()> {
        let Coroutines::Greenlets { usual, .. } = &self.coroutines else { unreachable!("tasks do not switch") };
        match greenlet.get_type().is(&usual.class) {
            true => usual.switch.bind(greenlet.py()).call1((greenlet,)).map(drop),
            false => switch_to_unusual(greenlet),
        }
    }

    /// A coroutine is to go on, after those that were to before.
    pub(crate) fn answer(&self, waiter: Waiter, answer: Answer) {
        self.answered().push_back((waiter, answer));
    }

    fn answered(&self) -> MutexGuard<'_, VecDeque<(Waiter, Answer)>> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_answered(&self) -> Option<(Waiter, Answer)> {
        self.answered().pop_front()
    }
}

impl<M: Machine> EventLoop<M> {
    /// Something has happened in the loop. Coroutines whose outcome is known go on, and what they submit is sent.
    fn advance(&self, py: Python<'_>, change: impl FnOnce(&mut M, Instant)) -> PyResult<()> {
        if !self.is_of_this_process() {
            return Ok(());
        }
        self.change(py, change)?;
        let resumed = self.resume(py);
        if self.turn_is_due.swap(false, Ordering::Relaxed) {
            self.change(py, M::turn)?;
        }
        if !self.waiting.answered().is_empty() {
            self.host.end_turn.call0(py)?;
        }
        if self.is_retired.load(Ordering::Relaxed) && self.lock(py)?.is_idle() {
            self.is_retired.store(false, Ordering::Relaxed);
            self.change(py, M::close)?;
        }
        resumed
    }

    /// Resumes the coroutines whose outcome is known. An error is one that a greenlet died of, or that ends the loop;
    /// the others are resumed in the next turn then.
    fn resume(&self, py: Python<'_>) -> PyResult<()> {
        self.resuming_in.store(this_thread(), Ordering::Relaxed);
        let mut resumed = Ok(());
        while let (Ok(()), Some((waiter, answer))) = (&resumed, self.waiting.next_answered()) {
            resumed = waiter.resume(&self.waiting, py, answer);
        }
        self.resuming_in.store(0, Ordering::Relaxed);
        resumed
    }

    /// Changes the connections' state, then does what follows from it, with the lock given up: the host may come
    /// back at once.
    fn change(&self, py: Python<'_>, change: impl FnOnce(&mut M, Instant)) -> PyResult<()> {
        let (mut actions, mut finished) = {
            let mut shared = self.lock(py)?;
            change(&mut shared, Instant::now());
            (shared.take_actions(), shared.take_finished())
        };
        while !actions.is_empty() || !finished.is_empty() {
            self.act(py, actions)?;
            M::settle(self, py, finished)?;
            let mut shared = self.lock(py)?;
            (actions, finished) = (shared.take_actions(), shared.take_finished());
        }
        M::report(self, py)?;
        self.set_alarm(py)
    }

    fn act(&self, py: Python<'_>, actions: Vec<Action>) -> PyResult<()> {
        for action in actions {
            match action {
                Action::EndTurn if self.is_resuming_here() => {
                    self.turn_is_due.store(true, Ordering::Relaxed);
                }
                Action::EndTurn => drop(self.host.end_turn.call0(py)?),
                Action::Watch { lane, fd, write } => drop(self.host.watch.call1(py, (lane, fd, write))?),
                Action::Resolve { lane, name, port } => drop(self.host.resolve.call1(py, (lane, name, port))?),
                Action::Forget { lane, fd } => {
                    let forgotten = self.host.forget.call1(py, (lane, fd));
                    self.lock(py)?.forgotten(lane, Instant::now());
                    forgotten?;
                }
            };
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
        self.host.wake_in.call1(py, (seconds,)).map(drop)
    }
}

#[inline(never)]
fn call(switch: &Bound<'_, PyAny>) -> PyResult<()> {
    switch.call0().map(drop)
}

#[inline(never)]
fn switch_to_unusual(greenlet: &Bound<'_, PyAny>) -> PyResult<()> {
    greenlet.call_method0(intern!(greenlet.py(), "switch")).map(drop)
}

/// A number from 1 on that no other thread of the process has or had: a thread may end while it is resuming.
fn this_thread() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(1);
    thread_local!(static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed));
    NUMBER.with(|number| *number)
}

/// What the driver in Python calls.
impl<M: Machine> EventLoop<M> {
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Host { end_turn, end_turn_from_outside, watch, forget, forget_inherited, resolve, wake_in } = &self.host;
        let methods = [end_turn, end_turn_from_outside, watch, forget, forget_inherited, resolve, wake_in];
        methods.into_iter().try_for_each(|method| visit.call(method))?;
        match &self.waiting.coroutines {
            Coroutines::Tasks(futures) => futures.traverse(visit),
            Coroutines::Greenlets { hub, switch, current, usual: Usual { class, switch: usual } } => {
                [hub, switch, current, class, usual].into_iter().try_for_each(|object| visit.call(object))
            }
        }
    }

    /// The turn that `end_turn` was called in is over.
    pub(crate) fn turn(&self, py: Python<'_>) -> PyResult<()> {
        self.advance(py, M::turn)
    }

    /// A watched descriptor is ready.
    pub(crate) fn ready(&self, py: Python<'_>, lane: usize) -> PyResult<()> {
        self.advance(py, |shared, now| shared.ready(lane, now))
    }

    /// The time that `wake_in` was told has passed.
    pub(crate) fn woken(&self, py: Python<'_>) -> PyResult<()> {
        *self.alarm.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.advance(py, M::expire)
    }

    /// The addresses of a name, as the texts of IP addresses; none, and why, when it could not be resolved.
    pub(crate) fn resolved(
        &self,
        py: Python<'_>,
        lane: usize,
        port: u16,
        addresses: Vec<String>,
        why: &str,
    ) -> PyResult<()> {
        let parsed = addresses.iter().filter_map(|text| text.parse().ok());
        let addresses: Vec<_> = parsed.map(|ip| Address::Tcp(std::net::SocketAddr::new(ip, port))).collect();
        let resolved = if addresses.is_empty() { Err(why.to_owned()) } else { Ok(addresses) };
        self.advance(py, |shared, now| shared.connect(lane, resolved, now))
    }
}
