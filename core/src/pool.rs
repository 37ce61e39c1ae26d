//! The sessions of one server, which threads use in turn.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::doorbell::{Doorbell, Wake};
use crate::metrics::Metrics;
use crate::session::Session;

/// A connection that was idle for so long is checked before use: the server may have closed it.
pub(crate) const TRUSTED_REST: Duration = Duration::from_millis(10);

/// Idle connections, the number of open ones, and the metrics.
#[derive(Debug)]
pub struct Pool {
    limit: usize,
    sessions: Mutex<Sessions>,
    pub(crate) metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Sessions {
    idle: Vec<Idle>,
    /// The number of sessions, idle or lent.
    open: usize,
    /// Whether it keeps no idle sessions any more.
    closed: bool,
    waiting: VecDeque<Arc<Waiter>>,
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} open, {} idle, {} waiting", self.open, self.idle.len(), self.waiting.len())
    }
}

struct Idle {
    session: Box<Session>,
    trusted_until: Instant,
}

/// The right to use a session or to open one. It returns to the pool when dropped.
pub struct Loan {
    pool: Arc<Pool>,
    session: Option<Box<Session>>,
    /// Counted from when it was lent: reading the clock again at its return would gain little.
    trusted_until: Instant,
}

/// The result of [`Pool::lend`].
pub enum Offer {
    /// With a ready session, or without one: then the caller opens one.
    Loan(Loan),
    /// All are in use. The caller waits for its turn.
    Wait(Turn),
}

/// A place in the queue for a session. If it is dropped, a session that was already handed to it goes to the next
/// caller.
pub struct Turn {
    pool: Arc<Pool>,
    waiter: Arc<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    doorbell: Doorbell,
    grant: Mutex<Permit>,
}

enum Permit {
    Awaited,
    Given(Option<Box<Session>>),
    Over,
}

impl std::fmt::Debug for Permit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Permit::Awaited => "Awaited",
            Permit::Given(_) => "Given",
            Permit::Over => "Over",
        })
    }
}

impl Pool {
    /// A pool that opens at most `limit` connections.
    pub fn new(limit: usize) -> Self {
        Self { limit, sessions: Mutex::default(), metrics: Arc::default() }
    }

    /// Lends an idle session that was in use just now, if there is one: the usual case.
    #[inline]
    pub fn lend_trusted(self: &Arc<Self>, now: Instant) -> Option<Loan> {
        let mut sessions = self.lock();
        if sessions.idle.last().is_none_or(|idle| now >= idle.trusted_until) {
            return None;
        }
        let Idle { session, .. } = sessions.idle.pop()?;
        drop(sessions);
        Some(Loan { pool: self.clone(), session: Some(session), trusted_until: now + TRUSTED_REST })
    }

    /// Lends a session, or gives the caller a place in the queue.
    pub fn lend(self: &Arc<Self>, now: Instant) -> io::Result<Offer> {
        let mut sessions = self.lock();
        let trusted_until = now + TRUSTED_REST;
        while let Some(idle) = sessions.idle.pop() {
            if now < idle.trusted_until || idle.session.stream().is_some_and(|stream| stream.is_at_rest()) {
                return Ok(Offer::Loan(Loan { pool: self.clone(), session: Some(idle.session), trusted_until }));
            }
            sessions.open -= 1;
        }
        if sessions.open < self.limit {
            sessions.open += 1;
            return Ok(Offer::Loan(Loan { pool: self.clone(), session: None, trusted_until }));
        }
        let waiter = Arc::new(Waiter { doorbell: Doorbell::new()?, grant: Mutex::new(Permit::Awaited) });
        sessions.waiting.push_back(waiter.clone());
        Ok(Offer::Wait(Turn { pool: self.clone(), waiter }))
    }

    /// Drops the idle sessions, for example after the server was restarted.
    pub fn drop_idle(&self) {
        let mut sessions = self.lock();
        sessions.open -= sessions.idle.len();
        sessions.idle.clear();
    }

    /// Drops the idle sessions now, and the others when they are returned.
    pub fn close(&self) {
        self.lock().closed = true;
        self.drop_idle();
    }

    /// Drops the idle sessions, unless the mutex is locked: in a forked child it may stay locked forever.
    pub(crate) fn try_drop_idle(&self) {
        if let Ok(mut sessions) = self.sessions.try_lock() {
            sessions.idle.clear();
        }
    }

    /// The number of connections, and how many of them are idle.
    pub fn open_and_idle(&self) -> (usize, usize) {
        let sessions = self.lock();
        (sessions.open, sessions.idle.len())
    }

    fn give_back(&self, session: Option<Box<Session>>, trusted_until: Instant) {
        let mut sessions = self.lock();
        while let Some(waiter) = sessions.waiting.pop_front() {
            let mut grant = waiter.grant.lock().unwrap_or_else(PoisonError::into_inner);
            if matches!(*grant, Permit::Over) {
                continue;
            }
            *grant = Permit::Given(session);
            waiter.doorbell.ring();
            return;
        }
        match session {
            Some(session) if !sessions.closed => sessions.idle.push(Idle { session, trusted_until }),
            _ => sessions.open -= 1,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Loan {
    /// The session, if there is one.
    pub fn session(&mut self) -> Option<&mut Session> {
        self.session.as_deref_mut()
    }

    /// Replaces the loan's session.
    pub fn hold(&mut self, session: Box<Session>) {
        self.session = Some(session);
    }

    pub fn pool(&self) -> &Pool {
        &self.pool
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let mut clean = self.session.take().filter(|session| session.is_clean());
        // The host does not watch the descriptors of addresses that did not answer.
        clean.iter_mut().for_each(|session| session.release());
        self.pool.give_back(clean, self.trusted_until);
    }
}

impl Turn {
    /// Waits for a session. After [`Wake::Interrupted`], call it again; after [`Wake::Ready`], call [`Self::take`].
    pub fn wait(&self, deadline: Instant) -> Wake {
        self.waiter.doorbell.wait(deadline)
    }

    /// The loan that was handed over, if any.
    pub fn take(&self) -> Option<Loan> {
        let mut grant = self.waiter.grant.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *grant, Permit::Over) {
            Permit::Given(session) => {
                Some(Loan { pool: self.pool.clone(), session, trusted_until: Instant::now() + TRUSTED_REST })
            }
            before => {
                *grant = before;
                None
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut grant = self.waiter.grant.lock().unwrap_or_else(PoisonError::into_inner);
        let given = std::mem::replace(&mut *grant, Permit::Over);
        drop(grant);
        match given {
            Permit::Given(session) => self.pool.give_back(session, Instant::now() + TRUSTED_REST),
            Permit::Awaited => self.pool.lock().waiting.retain(|waiter| !Arc::ptr_eq(waiter, &self.waiter)),
            Permit::Over => {}
        }
    }
}
