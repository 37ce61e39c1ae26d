//! Credentials that change: a function of the host's returns them, and is asked before each connection is made.
//!
//! A connection that needs credentials makes an [`Asking`], which it looks at, and a [`Question`], which its driver has
//! answered: by [`Question::put`], or in the host's event loop. So the function is called while nothing of the core is
//! locked, and may take its time.
//!
//! Asking is the first state of a connection, before it opens a socket. Machines learn of an answer as of any
//! deadline: an answer that has come is due at once. A blocking thread waits for a bell. The drivers ring theirs. An
//! event loop gets the action `Ask` and calls the function itself.
//!
//! A `Function` is asked where something may be locked, so it only arranges the call: in a short-lived thread (Python,
//! C), in a thread of Ruby's that sleeps in the core, or in Perl's own thread when it next waits. If a connection
//! gives up during a call, the answer serves the next connection.

mod asking;
mod function;
mod login;
#[cfg(any(test, feature = "testing"))]
pub mod pretended;
mod questions;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use asking::Asking;
pub use asking::Question;
pub use function::{Function, Told};
pub use login::Password;
pub use login::{printable, Login, LoginBy};
pub use questions::Questions;

use crate::fork::PerProcess;
use asking::Asked;

/// The setting that a function was given as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Username,
    Password,
}

impl Part {
    pub fn name(self) -> &'static str {
        match self {
            Part::Username => "username",
            Part::Password => "password",
        }
    }
}

/// Where a client has its credentials from, if a function returns any of them.
pub struct Credentials {
    /// What is given as text.
    username: Option<String>,
    password: Option<Password>,
    /// One, or one for each part.
    functions: Vec<(Part, Arc<dyn Function>)>,
    /// How long a connection waits for an answer.
    patience: Duration,
    /// Calls that no connection waits for any more.
    late: PerProcess<Mutex<Vec<Arc<Asked>>>>,
}

/// What a connection logs in with.
#[derive(Clone, Debug)]
pub struct Answer {
    pub username: Option<String>,
    pub password: Option<Password>,
    /// How long they last, from when they were returned.
    pub lifetime: Option<Duration>,
    /// When they were returned.
    pub at: Instant,
}

impl Credentials {
    /// `patience`: how long a connection waits for an answer.
    pub fn new(
        username: Option<Supplied<String>>,
        password: Option<Supplied<Password>>,
        patience: Duration,
    ) -> Result<Arc<Self>, (Option<String>, Option<Password>)> {
        let (username, by_username) = username.map_or((None, None), Supplied::split);
        let (password, by_password) = password.map_or((None, None), Supplied::split);
        let by_username = by_username.map(|function| (Part::Username, function));
        let by_password = by_password.map(|function| (Part::Password, function));
        let functions: Vec<_> = by_username.into_iter().chain(by_password).collect();
        if functions.is_empty() {
            return Err((username, password));
        }
        Ok(Arc::new(Self { username, password, functions, patience, late: PerProcess::new(Mutex::default()) }))
    }

    /// Begins to ask. The asking side belongs to a connection; the question is for its driver.
    pub fn ask(self: &Arc<Self>, now: Instant) -> (Asking, Question) {
        Question::about(self, now)
    }

    /// What is known before a function is asked.
    fn known(&self, now: Instant) -> Answer {
        let (username, password) = (self.username.clone(), self.password.clone());
        Answer { username, password, lifetime: None, at: now }
    }

    /// A call that no connection waits for any more, and that serves one which asks now.
    fn take_late(&self, now: Instant) -> Option<Arc<Asked>> {
        let mut late = self.late();
        late.retain(|asked| asked.serves(now));
        late.pop()
    }

    fn late(&self) -> MutexGuard<'_, Vec<Arc<Asked>>> {
        let late = self.late.get(|_| Mutex::default());
        late.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For how long credentials of this lifetime are used, before others are asked for.
pub fn used_for(lifetime: Duration) -> Duration {
    lifetime.mul_f64(0.8)
}

/// A part of the credentials, as a setting gives it.
#[derive(Clone)]
pub enum Supplied<T> {
    Fixed(T),
    By(Arc<dyn Function>),
}

impl<T> Supplied<T> {
    fn split(self) -> (Option<T>, Option<Arc<dyn Function>>) {
        match self {
            Supplied::Fixed(value) => (Some(value), None),
            Supplied::By(function) => (None, Some(function)),
        }
    }
}

impl<T> From<&str> for Supplied<T>
where
    T: for<'a> From<&'a str>,
{
    fn from(value: &str) -> Self {
        Supplied::Fixed(value.into())
    }
}

/// A function is the same only as itself.
impl<T: PartialEq> PartialEq for Supplied<T> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Supplied::Fixed(one), Supplied::Fixed(other)) => one == other,
            (Supplied::By(one), Supplied::By(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Supplied<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Supplied::Fixed(value) => value.fmt(f),
            Supplied::By(_) => f.write_str("(a function)"),
        }
    }
}

/// Functions and secrets are not shown.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts: Vec<_> = self.functions.iter().map(|(part, _)| part.name()).collect();
        write!(f, "Credentials(functions: {parts:?})")
    }
}
