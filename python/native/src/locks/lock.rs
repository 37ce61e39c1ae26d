//! Locks, and what their holder can do with them.
//!
//! A `Held` is the same in every concurrency model: the core's, and what Python adds to it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use pinyon_locks::settings::{lock_ttl, LockTerms, OnFailure};
use pinyon_locks::{LockRequest, Mode, Ticket};
use pyo3::exceptions::PyException;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

use super::answers::raised;
use super::client::{time_to_wait, Locks};
use super::drivers::{self, Drivers, Grant, Operation};
use super::leader::Candidate;
use super::names::{lock_names, names_in, texts, GivenNames};
use super::telling::Listener;
use super::wanted::Shared;
use crate::arguments::seconds;
use crate::errors::{checked, exception, unsupported, ErrorKind};

/// Names to be locked, and how. `pinyon.Locks.lock` documents its arguments.
#[pyclass(frozen, subclass, module = "pinyon._native")]
pub(crate) struct Lock {
    /// The class of what is held: a subclass of [`Held`].
    held: Py<PyType>,
    locks: Py<Locks>,
    /// The client of these names. It lives as long as this object may need it.
    client: Arc<Drivers>,
    names: GivenNames,
    /// The request, without the owner.
    request: LockRequest,
    on_lost: Option<Py<PyAny>>,
    /// The acquired locks to release, in the order of acquisition.
    taken: Mutex<Vec<Taken>>,
}

/// A lock that was acquired, and its owner.
struct Taken {
    owner: u64,
    held: Py<Held>,
    /// Whether the end of a block releases it, rather than a call.
    by_block: bool,
    /// The thread that took it by a call and has not taken another since: it may not know of it yet.
    fresh: Option<ThreadId>,
}

#[pymethods]
impl Lock {
    #[new]
    #[pyo3(signature = (held = None, locks = None, names = None, ttl = None, timeout = None, read = None,
                        permits = None, renew = true, max_hold = None, reentrant = None, on_lost = None,
                        on_failure = None, note = None, at_least = None, ticket = None, /, **_others),
           text_signature = "(held, locks, names, ttl, timeout, read=None, permits=None, renew=True, max_hold=None, \
                             reentrant=None, on_lost=None, on_failure=None, note=None, at_least=None, ticket=None, /)")]
    #[allow(clippy::too_many_arguments)] // those of `lock` in Python
    fn new(
        py: Python<'_>,
        held: Option<&Bound<'_, PyAny>>,
        locks: Option<&Bound<'_, PyAny>>,
        names: Option<&Bound<'_, PyAny>>,
        ttl: Option<&Bound<'_, PyAny>>,
        timeout: Option<&Bound<'_, PyAny>>,
        read: Option<&Bound<'_, PyTuple>>,
        permits: Option<&Bound<'_, PyTuple>>,
        renew: bool,
        max_hold: Option<&Bound<'_, PyAny>>,
        reentrant: Option<bool>,
        on_lost: Option<&Bound<'_, PyAny>>,
        on_failure: Option<&str>,
        note: Option<&Bound<'_, PyAny>>,
        at_least: Option<&Bound<'_, PyAny>>,
        ticket: Option<&Bound<'_, PyAny>>,
        _others: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let made_by_client =
            (held.map(Bound::cast::<PyType>), locks.map(Bound::cast::<Locks>), names.map(Bound::cast::<PyTuple>));
        let (Some(Ok(held)), Some(Ok(locks)), Some(Ok(names))) = made_by_client else {
            return Err(made_by_hand(py));
        };
        on_lost.map_or(Ok(()), Listener::check)?;
        let py = locks.py();
        let ticket = ticket.map(ticket_of).transpose()?;
        let names = &ticket.as_ref().map_or_else(|| Ok(names.clone()), |ticket| names_in(py, ticket))?;
        let usual = &locks.get().usual;
        let time = |given: Option<&Bound<'_, PyAny>>, name| given.map(|given| seconds(given, name)).transpose();
        let terms = LockTerms {
            ttl: time(ttl, "ttl")?.unwrap_or(usual.ttl),
            timeout: time(timeout, "timeout")?.unwrap_or(usual.timeout),
            renew,
            max_hold: time(max_hold, "max_hold")?,
            reentrant: reentrant.unwrap_or(usual.reentrant),
            at_least: time(at_least, "at_least")?,
            on_failure: checked(py, on_failure.map_or(Ok(OnFailure::Raise), OnFailure::named))?,
            note: note.map(text_of).transpose()?,
        };
        let shared = (read.is_some() || permits.is_some()).then(|| Shared {
            read: read.map_or_else(|| PyTuple::empty(py), Clone::clone),
            permits: permits.map_or_else(|| PyTuple::empty(py), Clone::clone),
        });
        let of_locks = |names: &Bound<'_, PyTuple>| GivenNames::Locks(names.clone().unbind());
        let (names, client, request) = match (shared, &ticket) {
            (None, None) => (of_locks(names), locks.get().of(names)?, terms.request(lock_names(names)?)),
            (None, Some(ticket)) => {
                let client = locks.get().of(names)?;
                let request = terms.adopting(ticket, client.settings());
                (of_locks(names), client, request)
            }
            (Some(shared), _) => {
                let (names, client, wanted) = shared.of(locks.get(), names)?;
                (names, client, terms.request(wanted))
            }
        };
        Ok(Self {
            held: held.clone().unbind(),
            client,
            request: checked(py, request)?,
            names,
            on_lost: on_lost.map(|callback| callback.clone().unbind()),
            taken: Mutex::new(Vec::with_capacity(1)),
            locks: locks.clone().unbind(),
        })
    }

    /// The names to write and to read, as they were given; those of the pools if there are only permits.
    #[getter]
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.names.names(py)
    }

    /// The limit that was given with permits of one pool.
    #[getter]
    fn _limit(&self) -> Option<u32> {
        match self.request.names.modes() {
            Some([Mode::Permits { limit, .. }]) => Some(*limit),
            _ => None,
        }
    }

    /// Acquires the lock for a `with` block. Tasks cannot use it, since they must await.
    fn _take_by_with<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let held = slf.get().held.bind(slf.py()).call1((slf,))?;
        Self::keep(slf, &held, true, None)?;
        Ok(held)
    }

    /// Asks for the names. Returns a `Held`, whose `_answer` a task awaits.
    #[pyo3(signature = (at_once = false, timeout = None, /))]
    fn _ask<'py>(
        slf: &Bound<'py, Self>,
        at_once: bool,
        timeout: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.get().held.bind(slf.py()).call1((slf, at_once, timeout))
    }

    /// Acquires the lock, and keeps it until `_release`, or until its block ends. Returns None if it was not free
    /// `at_once`. Not for tasks.
    #[pyo3(signature = (at_once, timeout, by_block = false, /))]
    fn _take<'py>(
        slf: &Bound<'py, Self>,
        at_once: bool,
        timeout: Option<Bound<'py, PyAny>>,
        by_block: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let thread = std::thread::current().id();
        let before = |taken: &&mut Taken| taken.fresh == Some(thread);
        slf.get().lock_taken().iter_mut().filter(before).for_each(|taken| taken.fresh = None);
        let held = Self::_ask(slf, at_once, timeout)?;
        if at_once && held.cast::<Held>()?.get()._answer().is_none_or(|answer| answer.is_none(slf.py())) {
            return Ok(None);
        }
        Self::keep(slf, &held, by_block, Some(thread))?;
        Ok(Some(held))
    }

    /// Releases what `_take` has acquired last, for a caller that was interrupted before it knew. Nobody waits for it.
    fn _untake(&self, py: Python<'_>) -> PyResult<()> {
        let thread = Some(std::thread::current().id());
        if !self.lock_taken().iter().any(|taken| taken.fresh == thread) {
            return Ok(());
        }
        let owner = self.owner(py)?;
        let mut taken = self.lock_taken();
        let last = taken.iter().rposition(|taken| taken.fresh == thread && taken.owner == owner);
        let untaken = last.map(|last| taken.remove(last).held);
        drop(taken);
        untaken.map_or(Ok(()), |held| held.get().give_up())
    }

    /// Releases the lock of a `with` block. The block's exception takes precedence over one from releasing.
    fn _give_back_by_with(
        slf: &Bound<'_, Self>,
        _kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = slf.py();
        let held = slf.get()._leave(py, true)?.into_bound(py);
        if held.get()._ends_quietly() {
            return Ok(());
        }
        match held.get()._release(py, false).and_then(|kept| kept.is_truthy()) {
            Ok(false) if error.is_none() => Err(PyErr::from_value(held.get()._lost_inside(py))),
            Err(raised) if error.is_none() || !raised.is_instance_of::<PyException>(py) => Err(raised),
            _ => Ok(()),
        }
    }

    /// Keeps an acquired lock until `_leave`, and registers the callback for its loss. Drops those that were released
    /// through their `Held`.
    fn _keep(slf: &Bound<'_, Self>, held: &Bound<'_, PyAny>, by_block: bool) -> PyResult<()> {
        Self::keep(slf, held, by_block, None)
    }

    /// Returns and forgets the lock that the caller acquired last. If there is only one, another task may release it.
    fn _leave(&self, py: Python<'_>, by_block: bool) -> PyResult<Py<Held>> {
        let mut taken = self.lock_taken();
        let owner = match only_owner(&taken) {
            Some(owner) => owner,
            None => {
                drop(taken);
                let owner = self.owner(py)?;
                taken = self.lock_taken();
                owner
            }
        };
        let last = taken.iter().rposition(|taken| taken.owner == owner && taken.by_block == by_block);
        if let Some(last) = last {
            return Ok(taken.remove(last).held);
        }
        drop(taken);
        Err(self.not_acquired(py, by_block))
    }

    /// Returns the lock that the caller acquired last, in whatever way.
    fn _last(&self, py: Python<'_>) -> PyResult<Py<Held>> {
        self.last(py)?.ok_or_else(|| self.not_acquired(py, false))
    }

    /// Return whether the caller holds the names, acquired through this object. No server is asked.
    fn owned(&self, py: Python<'_>) -> PyResult<bool> {
        let held = self.last(py)?;
        held.map_or(Ok(false), |held| Ok(held.get()._left()?.is_some()))
    }

    /// The client that made it.
    #[getter]
    fn _locks(&self, py: Python<'_>) -> Py<Locks> {
        self.locks.clone_ref(py)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(format!("<{} on {}>", class_name(slf)?, slf.get().names.listed(slf.py())?))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.held)?;
        visit.call(&self.locks)?;
        visit.call(&self.on_lost)?;
        let Ok(taken) = self.taken.try_lock() else { return Ok(()) };
        taken.iter().try_for_each(|taken| visit.call(&taken.held))
    }

    fn __clear__(&self) {
        let taken = std::mem::take(&mut *self.lock_taken());
        drop(taken);
    }
}

impl Lock {
    /// See [`Self::_keep`].
    fn keep(slf: &Bound<'_, Self>, held: &Bound<'_, PyAny>, by_block: bool, fresh: Option<ThreadId>) -> PyResult<()> {
        if let Some(callback) = &slf.get().on_lost {
            let callback = callback.bind(slf.py()).clone();
            if let Err(raised) = Held::listen(held.cast()?, callback) {
                held.cast::<Held>()?.get().give_up()?;
                return Err(raised);
            }
        }
        let held = held.cast::<Held>()?.clone().unbind();
        let mut taken = slf.get().lock_taken();
        let released = |taken: &Taken| !taken.by_block && taken.held.get()._given_back();
        let mut gone = Vec::new();
        while let Some(index) = taken.iter().position(released) {
            gone.push(taken.remove(index));
        }
        taken.push(Taken { owner: held.get().owner(), held, by_block, fresh });
        drop(taken);
        drop(gone);
        Ok(())
    }

    /// The number of the calling thread, greenlet or task.
    pub(super) fn owner(&self, py: Python<'_>) -> PyResult<u64> {
        self.client.loops().owner(py)
    }

    fn last(&self, py: Python<'_>) -> PyResult<Option<Py<Held>>> {
        let owner = self.owner(py)?;
        let taken = self.lock_taken();
        let last = taken.iter().rev().find(|taken| taken.owner == owner && !taken.held.get()._given_back());
        Ok(last.map(|taken| taken.held.clone_ref(py)))
    }

    #[cold]
    fn not_acquired(&self, py: Python<'_>, by_block: bool) -> PyErr {
        let why = match by_block {
            true => "is left by a caller that has not entered it",
            false => "was not acquired by the caller: acquire it first",
        };
        match self.names.listed(py) {
            Ok(names) => exception(py, ErrorKind::UsageError, &format!("the lock on {names} {why}")),
            Err(raised) => raised,
        }
    }

    /// `at_once`: without waiting. `timeout`: how long to wait, unless as long as the lock says.
    pub(super) fn request(
        &self,
        owner: u64,
        at_once: bool,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<LockRequest> {
        let wait = match timeout {
            _ if at_once => None,
            None => self.request.wait,
            Some(timeout) => Some(time_to_wait(timeout)?),
        };
        Ok(LockRequest { owner, wait, ..self.request.clone() })
    }

    fn lock_taken(&self) -> MutexGuard<'_, Vec<Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The only owner that has acquired something, however often.
fn only_owner(taken: &[Taken]) -> Option<u64> {
    let (first, rest) = taken.split_first()?;
    rest.iter().all(|taken| taken.owner == first.owner).then_some(first.owner)
}

/// A lock that was asked for and is held once granted: the base of `pinyon.Held` in every concurrency model.
#[pyclass(frozen, subclass, module = "pinyon._native")]
pub(crate) struct Held {
    names: GivenNames,
    owner: u64,
    /// It keeps the client alive. It does not keep the `Lock`, which may refer back to this.
    held: drivers::Held,
    answer: Mutex<Option<Py<PyAny>>>,
}

impl Held {
    pub(super) fn owner(&self) -> u64 {
        self.owner
    }

    fn run<'py>(&self, py: Python<'py>, operation: Operation) -> PyResult<Bound<'py, PyAny>> {
        drivers::run(py, self.held.driver(), operation)
    }

    /// Releases it for a caller that does not know of it.
    #[cold]
    fn give_up(&self) -> PyResult<()> {
        self.held.give_back();
        self.held.cancel()
    }

    /// See [`Self::_tell`]. The callback was checked.
    fn listen(slf: &Bound<'_, Self>, callback: Bound<'_, PyAny>) -> PyResult<()> {
        match slf.get().held.grant().listen(Listener::new(slf, callback.clone())?) {
            Ok(()) => Ok(()),
            Err(_) => callback.call1((slf,)).map(drop),
        }
    }
}

#[pymethods]
impl Held {
    /// Asks for the names, `at_once` or within the lock's time to wait. A thread or greenlet waits here. `candidate`: may
    /// end the wait.
    #[new]
    #[pyo3(signature = (lock, at_once = false, timeout = None, candidate = None, /))]
    fn new(
        lock: &Bound<'_, Lock>,
        at_once: bool,
        timeout: Option<&Bound<'_, PyAny>>,
        candidate: Option<&Bound<'_, Candidate>>,
    ) -> PyResult<Self> {
        let (py, asked) = (lock.py(), lock.get());
        let owner = asked.owner(py)?;
        let request = asked.request(owner, at_once, timeout)?;
        let (grant, driver) = (Grant::of(&request), drivers::of_caller(py, &asked.client)?);
        let relock = asked.request.wait.unwrap_or_default();
        let held = pinyon_locks::Held::new(grant, driver, relock, asked.client.clone());
        if let Some(candidate) = candidate {
            candidate.get().asks(py, &held)?;
        }
        let answer = drivers::run(py, held.driver(), held.acquire(request))?.unbind();
        Ok(Self { names: asked.names.clone_ref(py), owner, held, answer: Mutex::new(Some(answer)) })
    }

    /// The names, as they were asked for.
    #[getter]
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.names.names(py)
    }

    /// The result of asking, once: None if the names were taken and the caller does not wait. A task awaits it.
    fn _answer(&self) -> Option<Py<PyAny>> {
        self.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The fencing token: a number that is higher than that of any earlier lock on any of the names.
    ///
    /// A process that was stopped for longer than the ttl does not know that it has lost the lock. So storage that is
    /// written under the lock should refuse writers with a lower token.
    #[getter]
    fn token(&self) -> u64 {
        self.held.grant().token()
    }

    /// What its holder says about it, for people who look who holds it; None if nothing.
    #[getter]
    fn note(&self) -> Option<&str> {
        self.held.grant().note()
    }

    /// The seconds for which it remains held without renewal; None if it is not held.
    fn _left(&self) -> PyResult<Option<f64>> {
        Ok(self.held.remaining()?.map(|remaining| remaining.as_secs_f64()))
    }

    /// Raises `LockLost` unless it is held still.
    fn _check(&self, py: Python<'_>) -> PyResult<()> {
        match self.held.remaining()? {
            Some(_) => Ok(()),
            None => Err(raised(py, self.held.grant().not_held())),
        }
    }

    /// The exception at the end of a block in which the lock was lost.
    pub(super) fn _lost_inside<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        raised(py, self.held.grant().lost_early()).into_value(py).into_bound(py).into_any()
    }

    /// Registers a callback for the loss of the lock. Calls it at once if the lock is lost already.
    fn _tell(slf: &Bound<'_, Self>, callback: Bound<'_, PyAny>) -> PyResult<()> {
        Listener::check(&callback)?;
        Self::listen(slf, callback)
    }

    /// Releases the lock. Returns whether it was held until then. `early`: although its names were to stay locked for
    /// longer.
    #[pyo3(signature = (early = false, /))]
    pub(super) fn _release<'py>(&self, py: Python<'py>, early: bool) -> PyResult<Bound<'py, PyAny>> {
        self.run(py, if early { self.held.release_early() } else { self.held.release() })
    }

    /// Hands the lock over to whoever adopts it within `ttl` seconds, or within its own. Returns the ticket.
    fn _hand_over<'py>(&self, py: Python<'py>, ttl: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let ttl = ttl.map(|ttl| checked(py, lock_ttl(seconds(ttl, "ttl")?))).transpose()?;
        self.run(py, self.held.hand_over(ttl))
    }

    /// Whether the lock has been held from its acquisition until now, or until its release.
    ///
    /// False if it was lost, or if ``on_failure="proceed"`` let the work go on without it while the servers were away:
    /// then the work may not have been alone. No server is asked.
    #[getter]
    fn is_certain(&self) -> bool {
        self.held.grant().is_certain()
    }

    /// Whether a block ends without an error although the lock is not held.
    #[getter]
    fn _ends_quietly(&self) -> bool {
        self.held.ends_quietly()
    }

    /// Writes what it has read: these names, or all. Waits for at most `timeout` seconds, or as long as the lock says.
    fn _upgrade<'py>(
        &self,
        names: &Bound<'py, PyTuple>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, timeout) = (names.py(), timeout.map(time_to_wait).transpose()?);
        self.run(py, checked(py, self.held.upgrade(&texts(names)?, timeout))?)
    }

    /// Reads what it has written: these names, or all.
    fn _downgrade<'py>(&self, names: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = names.py();
        self.run(py, checked(py, self.held.downgrade(&texts(names)?))?)
    }

    /// Whether its holder has released it, in time or not.
    #[getter]
    pub(super) fn _given_back(&self) -> bool {
        self.held.is_given_back()
    }

    /// Extends the lock to `ttl` seconds from now. Returns whether it is still held.
    fn _extend<'py>(&self, ttl: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = ttl.py();
        let ttl = checked(py, lock_ttl(seconds(ttl, "ttl")?))?;
        self.run(py, self.held.extend(ttl))
    }

    /// Releases the names until it is notified, for at most `wait` seconds, then takes them again. Returns whether it
    /// was notified.
    fn _park<'py>(&self, py: Python<'py>, wait: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        self.run(py, self.held.park(wait.map(time_to_wait).transpose()?))
    }

    /// Notifies `most` of the locks parked on the same names, or all if 0. Returns how many.
    fn _notify<'py>(&self, py: Python<'py>, most: u32) -> PyResult<Bound<'py, PyAny>> {
        self.run(py, self.held.notify(most))
    }

    /// Releases it without waiting for the answer, because its caller is gone.
    fn _cancel(&self) -> PyResult<()> {
        self.held.cancel()
    }

    /// Stops waiting for other modes, because its caller is gone. It stays held.
    fn _stay(&self) -> PyResult<()> {
        self.held.stay()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let (py, held) = (slf.py(), slf.get());
        let state = held._left()?.map_or_else(|| "not held".to_owned(), |left| format!("{left:.3} s left"));
        let names = held.names.listed(py)?;
        Ok(format!("<{} {names}, token {}, {state}>", class_name(slf)?, held.token()))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let visit_all = |listeners: &[Listener]| listeners.iter().try_for_each(|listener| listener.traverse(&visit));
        self.held.grant().with_listeners(visit_all).unwrap_or(Ok(()))
    }

    fn __clear__(&self) {
        drop(self.held.grant().take_listeners());
    }
}

/// The name of an object's class, with its module.
fn class_name(object: &Bound<'_, PyAny>) -> PyResult<String> {
    let class = object.get_type();
    Ok(format!("{}.{}", class.module()?, class.qualname()?))
}

fn text_of<'n>(note: &'n Bound<'_, PyAny>) -> PyResult<&'n str> {
    note.cast::<PyString>().map_err(|_| unsupported(note, "a note is str"))?.to_str()
}

fn ticket_of(given: &Bound<'_, PyAny>) -> PyResult<Ticket> {
    match given.cast::<PyString>() {
        Ok(text) => checked(given.py(), Ticket::parse(text.to_str()?.as_bytes())),
        Err(_) => Err(unsupported(given, "a ticket is str")),
    }
}

#[cold]
fn made_by_hand(py: Python<'_>) -> PyErr {
    let message = "locks are made by their client: Locks(\"redis://host:port\").lock(\"name\")";
    exception(py, ErrorKind::UsageError, message)
}
