//! One lock that was asked for: what its holder can do with it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use foldhash::HashMap;
use pinyon_core::locks::call::Names;
use pinyon_core::locks::client::{Outcome, Wish};
use pinyon_core::locks::machine::Loss;
use pinyon_core::settings::waiting_time;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyWeakrefReference};

use super::backend::Backend;
use super::client::ttl_of;
use super::lock::Lock;
use crate::errors::usage;
use crate::settings::checked;

/// For how many seconds at least a condition's wait tries to take its names again.
const RELOCK_AT_LEAST: f64 = 1.0;

/// A lock that was asked for, and is held once it is granted: what `Held` is in every concurrency model.
#[pyclass(frozen, subclass, module = "pinyon._native")]
pub(crate) struct Grant {
    /// By it, what renews it lives as long as it does.
    lock: Py<Lock>,
    owner: u64,
    state: Arc<GrantState>,
    answer: Mutex<Option<Py<PyAny>>>,
    given_back: AtomicBool,
}

/// What whoever waits for it shares with it.
pub(crate) struct GrantState {
    pub(crate) names: Names,
    pub(super) backend: Backend,
    number: AtomicU64,
    token: AtomicU64,
    lost: Mutex<Lost>,
}

#[derive(Default)]
struct Lost {
    why: Option<Loss>,
    /// Called with what was held, which they do not keep alive: what is thrown away is not renewed.
    callbacks: Vec<(Py<PyWeakrefReference>, Py<PyAny>)>,
}

impl GrantState {
    fn new(names: Names, backend: Backend) -> Arc<Self> {
        let (number, token) = (AtomicU64::default(), AtomicU64::default());
        Arc::new(Self { names, backend, number, token, lost: Mutex::default() })
    }

    pub(crate) fn begun(&self, number: u64) {
        self.number.store(number, Ordering::Relaxed);
    }

    pub(crate) fn granted(&self, number: u64, token: u64) {
        self.number.store(number, Ordering::Relaxed);
        self.token.store(token, Ordering::Relaxed);
    }

    pub(super) fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    fn token(&self) -> u64 {
        self.token.load(Ordering::Relaxed)
    }

    /// It is not held any more: whoever wanted to know is told.
    fn lose(&self, py: Python<'_>, why: Loss) {
        let callbacks = {
            let mut lost = self.lost();
            lost.why = Some(why);
            std::mem::take(&mut lost.callbacks)
        };
        for (held, callback) in callbacks {
            let Some(held) = held.bind(py).upgrade() else { continue };
            if let Err(raised) = callback.call1(py, (held,)) {
                raised.write_unraisable(py, Some(callback.bind(py)));
            }
        }
    }

    fn lost(&self) -> MutexGuard<'_, Lost> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What was not given back is not renewed for ever.
impl Drop for GrantState {
    fn drop(&mut self) {
        self.backend.forsake(self);
    }
}

/// The locks of one client that are asked for or held, to tell them when they are lost.
#[derive(Default)]
pub(crate) struct Registry(Mutex<HashMap<u64, Vec<Weak<GrantState>>>>);

impl Registry {
    fn add(&self, number: u64, state: &Arc<GrantState>) {
        let mut states = self.lock();
        let of_number = states.entry(number).or_default();
        if !of_number.iter().any(|other| std::ptr::eq(other.as_ptr(), &**state)) {
            of_number.push(Arc::downgrade(state));
        }
        if of_number.len() > 1 {
            let all: Vec<Arc<GrantState>> = of_number.iter().filter_map(Weak::upgrade).collect();
            // The last reference to one comes back here.
            drop(states);
            // Taken several times, all of them have another token once one has waited.
            all.iter().for_each(|other| other.granted(number, state.token()));
        }
    }

    /// What came of something about a lock says whether it has something to lose.
    pub(crate) fn follow(&self, outcome: &Outcome, state: &Arc<GrantState>) {
        match outcome {
            Outcome::Granted { number, token, .. } => {
                state.granted(*number, *token);
                self.add(*number, state);
            }
            Outcome::Released { .. } => self.remove(state),
            _ => {}
        }
    }

    /// One that is not held any more has nothing to lose.
    pub(crate) fn remove(&self, state: &Arc<GrantState>) {
        self.take(state);
        // They may keep it alive that they are to be told of.
        let kept_alive = std::mem::take(&mut state.lost().callbacks);
        drop(kept_alive);
    }

    /// Forgets it. Returns whether it was the last that could give its lock back.
    pub(crate) fn take(&self, state: &GrantState) -> bool {
        let mut states = self.lock();
        let Some(of_number) = states.get_mut(&state.number()) else { return false };
        of_number.retain(|other| other.strong_count() > 0 && !std::ptr::eq(other.as_ptr(), state));
        let was_last = of_number.is_empty();
        if was_last {
            states.remove(&state.number());
        }
        was_last
    }

    pub(crate) fn lose(&self, py: Python<'_>, number: u64, why: Loss) {
        let states = self.lock().remove(&number).unwrap_or_default();
        states.iter().filter_map(Weak::upgrade).for_each(|state| state.lose(py, why));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Vec<Weak<GrantState>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Grant {
    pub(super) fn owner(&self) -> u64 {
        self.owner
    }

    fn run<'py>(&self, py: Python<'py>, wish: Wish) -> PyResult<Bound<'py, PyAny>> {
        self.state.backend.run(py, wish, Some(&self.state))
    }
}

#[pymethods]
impl Grant {
    /// Asks for the names, `at_once` or for as long as the lock waits. A thread or greenlet waits here.
    #[new]
    #[pyo3(signature = (lock, at_once = false, /))]
    fn new(lock: Bound<'_, Lock>, at_once: bool) -> PyResult<Self> {
        let (py, asked) = (lock.py(), lock.get());
        let owner = asked.owner(py)?;
        let request = asked.request(py, owner, at_once)?;
        let state = GrantState::new(request.names.clone(), asked.locks().backend(py)?);
        let answer = state.backend.run(py, Wish::Lock(request), Some(&state))?.unbind();
        let (answer, given_back) = (Mutex::new(Some(answer)), AtomicBool::new(false));
        Ok(Self { lock: lock.unbind(), owner, state, answer, given_back })
    }

    /// What came of asking, once: None where the names were not to be had at once. A task awaits it.
    fn _answer(&self) -> Option<Py<PyAny>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The names, as they were asked for.
    #[getter]
    fn names(&self, py: Python<'_>) -> Py<PyTuple> {
        self.lock.get().names(py)
    }

    /// The fencing token: higher than that of any earlier lock on any of the names.
    ///
    /// Whatever is written under the lock can refuse writers with lower tokens: a holder that was stopped for longer
    /// than the ttl does not know that it has lost the lock.
    #[getter]
    fn token(&self) -> u64 {
        self.state.token()
    }

    /// How many seconds it is still held, if nothing prolongs it; None when it is not held.
    fn _left(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let held = self.state.backend.held(py, self.state.number())?;
        Ok(held.map(|(_, remaining)| remaining.as_secs_f64()))
    }

    /// Why it was lost, as a phrase; None while it is held, and when it was given back.
    #[getter]
    fn _why_lost(&self) -> Option<&'static str> {
        if !self.state.backend.is_here() {
            return Some("it belongs to the process that this one was forked from");
        }
        match self.state.lost().why {
            Some(Loss::Expired) => Some("its ttl passed before a renewal was confirmed"),
            Some(Loss::Gone) => Some("the server does not have it any more"),
            Some(Loss::Forced) => Some("somebody released it by force"),
            None => self.lock.get().locks().is_closed().then_some("its locks were closed"),
        }
    }

    /// Calls back once with what was held when it is lost; at once, if it is lost already.
    fn _tell(slf: &Bound<'_, Self>, callback: Bound<'_, PyAny>) -> PyResult<()> {
        check_called(&callback)?;
        let held = PyWeakrefReference::new(slf)?;
        {
            let mut lost = slf.get().state.lost();
            if lost.why.is_none() {
                lost.callbacks.push((held.unbind(), callback.unbind()));
                return Ok(());
            }
        }
        callback.call1((slf,)).map(drop)
    }

    /// Gives it back. Returns whether it was held to the end.
    pub(super) fn _release<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.given_back.store(true, Ordering::Relaxed);
        self.run(py, Wish::Release { number: self.state.number() })
    }

    /// Whether its holder has given it back, in time or not.
    #[getter]
    pub(super) fn _given_back(&self) -> bool {
        self.given_back.load(Ordering::Relaxed)
    }

    /// Lets it last for `ttl` seconds from now. Returns whether it is held still.
    fn _extend<'py>(&self, py: Python<'py>, ttl: f64) -> PyResult<Bound<'py, PyAny>> {
        let (number, ttl) = (self.state.number(), ttl_of(py, ttl)?);
        self.run(py, Wish::Extend { number, ttl })
    }

    /// Gives the names back until it is notified, for at most `wait` seconds, then takes them again. Returns whether it
    /// was notified.
    fn _park<'py>(&self, py: Python<'py>, wait: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        let wait = wait.map(|wait| seconds(py, "timeout", wait)).transpose()?;
        let relock = seconds(py, "timeout", self.lock.get().timeout().max(RELOCK_AT_LEAST))?;
        self.run(py, Wish::Park { number: self.state.number(), wait, relock })
    }

    /// Notifies those that are parked on the same names, `most` of them, 0 for all. Returns how many.
    fn _notify<'py>(&self, py: Python<'py>, most: u32) -> PyResult<Bound<'py, PyAny>> {
        self.run(py, Wish::Notify { number: self.state.number(), most })
    }

    /// Nobody waits for it, or holds it, any more: given back without waiting for the answer.
    fn _cancel(&self, py: Python<'_>) -> PyResult<()> {
        self.state.backend.cancel(py, &self.state)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.lock)?;
        let Ok(lost) = self.state.lost.try_lock() else { return Ok(()) };
        lost.callbacks.iter().try_for_each(|(held, callback)| {
            visit.call(held)?;
            visit.call(callback)
        })
    }

    fn __clear__(&self) {
        let callbacks = std::mem::take(&mut self.state.lost().callbacks);
        drop(callbacks);
    }
}

/// What is to be told of a loss is called, and nobody would await what it returns.
pub(super) fn check_called(callback: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = callback.py();
    let message = match callback.is_callable() {
        true => {
            let inspect = py.import(intern!(py, "inspect"))?;
            if !inspect.call_method1(intern!(py, "iscoroutinefunction"), (callback,))?.is_truthy()? {
                return Ok(());
            }
            "on_lost is called and not awaited: make it an ordinary function, which may start a task".to_owned()
        }
        false => format!("on_lost is called with what was held, which {} cannot be", callback.get_type().name()?),
    };
    Err(usage(py, "UsageError", &message))
}

/// A time to wait: any, also none and without end.
pub(crate) fn seconds(py: Python<'_>, name: &str, seconds: f64) -> PyResult<Duration> {
    checked(py, waiting_time(name, seconds))
}
