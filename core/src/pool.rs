//! The sessions of one server, for threads to take turns with.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::doorbell::{Doorbell, Wake};
use crate::metrics::Metrics;
use crate::session::Session;

/// A connection that has rested this long is looked at before it is used: the server may have closed it.
pub(crate) const TRUSTED_REST: Duration = Duration::from_millis(10);

/// Connections at rest, how many are open in all, and what was counted on them.
#[derive(Debug)]
pub struct Pool {
    limit: usize,
    state: Mutex<State>,
    pub(crate) metrics: Arc<Metrics>,
}

#[derive(Default)]
struct State {
    idle: Vec<Idle>,
    /// Sessions at rest and with their users.
    open: usize,
    /// Nothing rests here any more.
    closed: bool,
    waiting: VecDeque<Arc<Waiter>>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} open, {} idle, {} waiting", self.open, self.idle.len(), self.waiting.len())
    }
}

struct Idle {
    session: Box<Session>,
    trusted_until: Instant,
}

/// The right to use a session, or to open one. It goes back to the pool when dropped.
pub struct Loan {
    pool: Arc<Pool>,
    session: Option<Box<Session>>,
    /// Reckoned from when it was taken: reading the clock again when it goes back would tell little more.
    trusted_until: Instant,
}

/// What [`Pool::lend`] has for the caller.
pub enum Offer {
    /// With a ready session, or none: then the caller opens one.
    Loan(Loan),
    /// All are in use; the caller waits its turn.
    Wait(Turn),
}

/// A place in the queue for a session. Dropped, it is given up, and what was handed to it goes on to the next.
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
        Self { limit, state: Mutex::default(), metrics: Arc::default() }
    }

    /// A session to use now, or a place in the queue.
    pub fn lend(self: &Arc<Self>, now: Instant) -> io::Result<Offer> {
        let mut state = self.lock();
        let trusted_until = now + TRUSTED_REST;
        while let Some(idle) = state.idle.pop() {
            if now < idle.trusted_until || idle.session.stream().is_some_and(|stream| stream.is_at_rest()) {
                return Ok(Offer::Loan(Loan { pool: self.clone(), session: Some(idle.session), trusted_until }));
            }
            state.open -= 1;
        }
        if state.open < self.limit {
            state.open += 1;
            return Ok(Offer::Loan(Loan { pool: self.clone(), session: None, trusted_until }));
        }
        let waiter = Arc::new(Waiter { doorbell: Doorbell::new()?, grant: Mutex::new(Permit::Awaited) });
        state.waiting.push_back(waiter.clone());
        Ok(Offer::Wait(Turn { pool: self.clone(), waiter }))
    }

    /// Drops the sessions at rest, as when the server was restarted and they are all dead.
    pub fn drop_idle(&self) {
        let mut state = self.lock();
        state.open -= state.idle.len();
        state.idle.clear();
    }

    /// Drops the sessions at rest, and from now on those that come back.
    pub fn close(&self) {
        self.lock().closed = true;
        self.drop_idle();
    }

    /// Drops the sessions at rest unless the lock is held, as it may be for ever in a forked child.
    pub(crate) fn try_drop_idle(&self) {
        if let Ok(mut state) = self.state.try_lock() {
            state.idle.clear();
        }
    }

    /// How many connections are open, and how many of them are at rest.
    pub fn open_and_idle(&self) -> (usize, usize) {
        let state = self.lock();
        (state.open, state.idle.len())
    }

    fn give_back(&self, session: Option<Box<Session>>, trusted_until: Instant) {
        let mut state = self.lock();
        while let Some(waiter) = state.waiting.pop_front() {
            let mut grant = waiter.grant.lock().unwrap_or_else(PoisonError::into_inner);
            if matches!(*grant, Permit::Over) {
                continue;
            }
            *grant = Permit::Given(session);
            waiter.doorbell.ring();
            return;
        }
        match session {
            Some(session) if !state.closed => state.idle.push(Idle { session, trusted_until }),
            _ => state.open -= 1,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Loan {
    /// The session, if there is one yet.
    pub fn session(&mut self) -> Option<&mut Session> {
        self.session.as_deref_mut()
    }

    /// Puts a session in the loan, in place of what it held.
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
        // Nobody watches the descriptors of addresses that did not answer.
        clean.iter_mut().for_each(|session| session.release());
        self.pool.give_back(clean, self.trusted_until);
    }
}

impl Turn {
    /// Waits for a session. Call it again after [`Wake::Interrupted`]; after [`Wake::Ready`], take it.
    pub fn wait(&self, deadline: Instant) -> Wake {
        self.waiter.doorbell.wait(deadline)
    }

    /// What was handed over, if something was.
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
