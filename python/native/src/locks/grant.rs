//! One lock that was asked for: what its holder can do with it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use foldhash::HashMap;
use pinyon_core::locks::call::Names;
use pinyon_core::locks::client::{Outcome, Wish};
use pinyon_core::locks::machine::Loss;
use pyo3::prelude::*;

use super::backend::Backend;
use super::client::ttl_of;
use crate::errors::usage;

/// A lock that was asked for, and is held once it is granted.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct Grant {
    state: Arc<GrantState>,
    backend: Backend,
}

pub(crate) struct GrantState {
    pub(crate) names: Names,
    number: AtomicU64,
    token: AtomicU64,
    lost: Mutex<Lost>,
}

#[derive(Default)]
struct Lost {
    why: Option<Loss>,
    callbacks: Vec<Py<PyAny>>,
}

impl GrantState {
    pub(crate) fn new(names: Names) -> Arc<Self> {
        let (number, token) = (AtomicU64::default(), AtomicU64::default());
        Arc::new(Self { names, number, token, lost: Mutex::default() })
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
        for callback in callbacks {
            if let Err(raised) = callback.call0(py) {
                raised.write_unraisable(py, Some(callback.bind(py)));
            }
        }
    }

    fn lost(&self) -> MutexGuard<'_, Lost> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
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
            // Taken several times, all of them have another token once one has waited.
            of_number.iter().filter_map(Weak::upgrade).for_each(|other| other.granted(number, state.token()));
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
    pub(crate) fn take(&self, state: &Arc<GrantState>) -> bool {
        let mut states = self.lock();
        let Some(of_number) = states.get_mut(&state.number()) else { return false };
        of_number.retain(|other| other.strong_count() > 0 && !std::ptr::eq(other.as_ptr(), &**state));
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
    pub(crate) fn new(state: Arc<GrantState>, backend: Backend) -> Self {
        Self { state, backend }
    }
}

/// What was not given back is not renewed for ever.
impl Drop for Grant {
    fn drop(&mut self) {
        self.backend.forsake(&self.state);
    }
}

#[pymethods]
impl Grant {
    /// The fencing token: higher than that of any earlier lock on any of the names.
    #[getter]
    fn token(&self) -> u64 {
        self.state.token()
    }

    /// How many seconds it is still held, if nothing prolongs it; None when it is not held.
    fn remaining(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let held = self.backend.held(py, self.state.number())?;
        Ok(held.map(|(_, remaining)| remaining.as_secs_f64()))
    }

    /// Why it was lost, as a phrase; None while it is held, and when it was given back.
    #[getter]
    fn lost(&self) -> Option<&'static str> {
        if !self.backend.is_here() {
            return Some("it belongs to the process that this one was forked from");
        }
        self.state.lost().why.map(|why| match why {
            Loss::Expired => "its ttl passed before a renewal was confirmed",
            Loss::Gone => "the server does not have it any more",
            Loss::Forced => "somebody released it by force",
        })
    }

    /// Calls back once when it is lost; at once, if it is lost already.
    fn on_lost(&self, callback: Bound<'_, PyAny>) -> PyResult<()> {
        {
            let mut lost = self.state.lost();
            if lost.why.is_none() {
                lost.callbacks.push(callback.unbind());
                return Ok(());
            }
        }
        callback.call0().map(drop)
    }

    /// Gives it back. Returns whether it was held to the end.
    fn release<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let number = self.state.number();
        self.backend.run(py, Wish::Release { number }, Some(&self.state))
    }

    /// Lets it last for `ttl` seconds from now. Returns whether it is held still.
    fn extend<'py>(&self, py: Python<'py>, ttl: f64) -> PyResult<Bound<'py, PyAny>> {
        let (number, ttl) = (self.state.number(), ttl_of(py, ttl)?);
        self.backend.run(py, Wish::Extend { number, ttl }, Some(&self.state))
    }

    /// Gives the names back until it is notified, for at most `wait` seconds, then takes them again, for at most
    /// `relock` seconds. Returns whether it was notified.
    fn park<'py>(&self, py: Python<'py>, wait: Option<f64>, relock: f64) -> PyResult<Bound<'py, PyAny>> {
        let wait = wait.map(|wait| seconds(py, "timeout", wait)).transpose()?;
        let relock = seconds(py, "timeout", relock)?;
        let number = self.state.number();
        self.backend.run(py, Wish::Park { number, wait, relock }, Some(&self.state))
    }

    /// Notifies those that are parked on the same names, `most` of them, 0 for all. Returns how many.
    fn notify<'py>(&self, py: Python<'py>, most: u32) -> PyResult<Bound<'py, PyAny>> {
        let number = self.state.number();
        self.backend.run(py, Wish::Notify { number, most }, Some(&self.state))
    }

    /// Nobody waits for it, or holds it, any more: given back without waiting for the answer.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        self.backend.cancel(py, &self.state)
    }
}

/// A time to wait: any, also none and without end.
pub(crate) fn seconds(py: Python<'_>, name: &str, seconds: f64) -> PyResult<Duration> {
    const LONGEST: f64 = 1e9;
    match seconds >= 0.0 {
        true => Ok(Duration::from_secs_f64(seconds.min(LONGEST))),
        false => {
            let message = format!("{name} must be a number of seconds, 0 or more, not {seconds}");
            Err(usage(py, "UsageError", &message))
        }
    }
}
