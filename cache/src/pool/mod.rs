//! The sessions of one server, which threads use in turn.
//!
//! A pool opens at most `max_connections`, and hands idle sessions to waiting threads in order. A session returns to
//! its pool only at a reply boundary. If anything interrupts an operation, its connection is closed and not reused.
//!
//! An idle connection may rest unwatched for ten milliseconds. If unexpected bytes arrive in this time, the next
//! operation notices them only when it verifies its reply. This is the price of two system calls per operation.

mod growth;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::metrics::Metrics;
use crate::session::{Session, RESTED};
use growth::Growth;
use pinyon_net::doorbell::{wait_for, Doorbell, Wake};
use pinyon_net::sync::{Mutex, MutexGuard, PoisonError};

/// A connection that was idle for so long is checked before use: the server may have closed it.
pub(crate) const TRUSTED_REST: Duration = Duration::from_millis(10);

/// How often a caller looks for its session if nothing can wake it.
const LOOK: Duration = Duration::from_millis(5);

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
    /// How many of them were lent to be opened, and have not served yet.
    fresh: usize,
    growth: Growth,
    /// Why the last one was refused.
    refusal: String,
    /// Whether the next session that returns is closed, for processes that have none.
    makes_room: bool,
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
    /// Whether it was lent without a session.
    is_fresh: bool,
    /// What the server had been heard to say when a session was opened; see [`Metrics::heard`].
    heard: u64,
}

/// The result of [`Pool::lend`].
pub enum Offer {
    /// With a ready session and the time that it has rested, or without one: then the caller opens one.
    Loan(Loan, Duration),
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
    /// `None` if the process has no descriptors left. Then the caller looks now and then.
    doorbell: Option<Doorbell>,
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
        Some(Loan {
            pool: self.clone(),
            session: Some(session),
            trusted_until: now + TRUSTED_REST,
            is_fresh: false,
            heard: 0,
        })
    }

    /// Lends a session, or gives the caller a place in the queue.
    pub fn lend(self: &Arc<Self>, now: Instant) -> Offer {
        let mut sessions = self.lock();
        let trusted_until = now + TRUSTED_REST;
        while let Some(idle) = sessions.idle.pop() {
            let rest = idle.rest(now);
            if rest.is_zero() || idle.session.stream().is_some_and(|stream| stream.is_at_rest()) {
                let session = Some(idle.session);
                let loan = Loan { pool: self.clone(), session, trusted_until, is_fresh: false, heard: 0 };
                return Offer::Loan(loan, rest);
            }
            sessions.open -= 1;
        }
        if sessions.grows(self.limit, now) {
            let loan = Loan { pool: self.clone(), session: None, trusted_until, is_fresh: true, heard: 0 };
            return Offer::Loan(loan, Duration::ZERO);
        }
        let waiter = Arc::new(Waiter { doorbell: Doorbell::new().ok(), grant: Mutex::new(Permit::Awaited) });
        sessions.waiting.push_back(waiter.clone());
        Offer::Wait(Turn { pool: self.clone(), waiter })
    }

    /// Drops the idle sessions, for example after the server was restarted.
    pub fn drop_idle(&self) {
        let mut sessions = self.lock();
        sessions.open -= sessions.idle.len();
        sessions.idle.clear();
    }

    /// Drops the sessions that have rested as long as one that was lost.
    pub(crate) fn drop_rested(&self, now: Instant) {
        let mut sessions = self.lock();
        let before = sessions.idle.len();
        sessions.idle.retain(|idle| idle.rest(now) < RESTED);
        sessions.open -= before - sessions.idle.len();
    }

    /// Takes note that no further session could be opened, and why. Until it tries again, callers share the sessions that work.
    /// Returns whether to tell people.
    pub(crate) fn refused(&self, why: &str, now: Instant) -> bool {
        let mut sessions = self.lock();
        sessions.refusal = why.to_owned();
        let news = sessions.growth.refused(now);
        match sessions.proven() {
            0 => sessions.growth.is_urgent(),
            // Another process may have none at all.
            2.. => sessions.makes_room = true,
            _ => {}
        }
        news
    }

    /// How many sessions have served before.
    pub(crate) fn proven(&self) -> usize {
        self.lock().proven()
    }

    /// Why no further session could be opened.
    pub(crate) fn refusal(&self) -> String {
        self.lock().refusal.clone()
    }

    /// The same, if that was within the last `time`.
    pub(crate) fn refusal_within(&self, time: Duration, now: Instant) -> Option<String> {
        let sessions = self.lock();
        let is_recent = now.checked_sub(time).is_some_and(|since| sessions.growth.refused_since(since));
        is_recent.then(|| sessions.refusal.clone())
    }

    /// Until when no further session is opened, if one was refused.
    pub(crate) fn pauses_until(&self, now: Instant) -> Option<Instant> {
        self.lock().growth.pauses_until(now)
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

    #[inline]
    fn give_back(&self, session: Option<Box<Session>>, trusted_until: Instant, is_fresh: bool) {
        let mut sessions = self.lock();
        match session {
            Some(session) if !is_fresh && sessions.needs_nothing() => {
                sessions.idle.push(Idle { session, trusted_until });
            }
            session => self.pass_on(sessions, session, trusted_until, is_fresh),
        }
    }

    /// Gives a session, or the right to open one, to the first caller that waits, if there is one.
    #[cold]
    fn pass_on(
        &self,
        mut sessions: MutexGuard<'_, Sessions>,
        session: Option<Box<Session>>,
        trusted_until: Instant,
        is_fresh: bool,
    ) {
        sessions.fresh -= usize::from(is_fresh);
        let session = session.filter(|_| !sessions.makes_room || !sessions.make_room());
        if session.is_none() {
            sessions.open -= 1;
            if sessions.waiting.is_empty() || !sessions.grows(self.limit, Instant::now()) {
                return;
            }
        }
        while let Some(waiter) = sessions.waiting.pop_front() {
            let mut grant = waiter.grant.lock().unwrap_or_else(PoisonError::into_inner);
            if matches!(*grant, Permit::Over) {
                continue;
            }
            *grant = Permit::Given(session);
            waiter.doorbell.iter().for_each(Doorbell::ring);
            return;
        }
        match session {
            Some(session) if !sessions.closed => sessions.idle.push(Idle { session, trusted_until }),
            Some(_) => sessions.open -= 1,
            None => sessions.shrink(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sessions {
    /// Whether a session that returns is simply kept.
    #[inline]
    fn needs_nothing(&self) -> bool {
        self.waiting.is_empty() && !self.closed && !self.makes_room
    }

    /// How many sessions have served before.
    fn proven(&self) -> usize {
        self.open - self.fresh
    }

    /// Lets a caller open a further session, if it may. After a refusal the pool pauses; without any session, one caller
    /// tries all the same.
    fn grows(&mut self, limit: usize, now: Instant) -> bool {
        let pauses = self.growth.pauses_until(now).is_some() && self.open > 0;
        if pauses || self.open >= limit {
            return false;
        }
        self.open += 1;
        self.fresh += 1;
        true
    }

    /// Takes back what [`Self::grows`] gave.
    fn shrink(&mut self) {
        self.open -= 1;
        self.fresh -= 1;
    }

    /// Whether a session that returns is to be closed.
    #[cold]
    fn make_room(&mut self) -> bool {
        self.makes_room = false;
        self.proven() > 1
    }
}

impl Idle {
    /// How long it has rested, beyond the time for which it is trusted.
    fn rest(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.trusted_until)
    }
}

impl Loan {
    /// The session, if there is one.
    pub fn session(&mut self) -> Option<&mut Session> {
        self.session.as_deref_mut()
    }

    /// Replaces the loan's session by a new one.
    pub fn hold(&mut self, session: Box<Session>) {
        self.heard = session.heard();
        self.session = Some(session);
    }

    /// Takes the session out of the pool, which may then open another.
    pub(crate) fn take(&mut self) -> Option<Box<Session>> {
        self.session.take()
    }

    pub(crate) fn heard(&self) -> u64 {
        self.heard
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
        self.pool.give_back(clean, self.trusted_until, self.is_fresh);
    }
}

impl Turn {
    /// Waits for a session. After [`Wake::Interrupted`], call it again; after [`Wake::Ready`], call [`Self::take`].
    pub fn wait(&self, deadline: Instant) -> Wake {
        if let Some(doorbell) = &self.waiter.doorbell {
            return doorbell.wait(deadline);
        }
        match wait_for(&mut [], deadline.min(Instant::now() + LOOK)) {
            Wake::Deadline if Instant::now() < deadline => Wake::Interrupted,
            wake => wake,
        }
    }

    /// The loan that was handed over, if any.
    pub fn take(&self) -> Option<Loan> {
        let mut grant = self.waiter.grant.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *grant, Permit::Over) {
            Permit::Given(session) => {
                let (is_fresh, trusted_until) = (session.is_none(), Instant::now() + TRUSTED_REST);
                Some(Loan { pool: self.pool.clone(), session, trusted_until, is_fresh, heard: 0 })
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
            Permit::Given(session) => {
                let is_fresh = session.is_none();
                self.pool.give_back(session, Instant::now() + TRUSTED_REST, is_fresh);
            }
            Permit::Awaited => self.pool.lock().waiting.retain(|waiter| !Arc::ptr_eq(waiter, &self.waiter)),
            Permit::Over => {}
        }
    }
}
