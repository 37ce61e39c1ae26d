//! Events of the servers, for monitoring. They are recorded where they happen. The host reports them later, when it
//! holds no lock and no caller waits for it.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::Error;
use crate::fork::PerProcess;

/// The most events that are kept. Further ones are dropped until a host takes them.
const MOST: usize = 4096;

/// An event. Its text ([`Display`](std::fmt::Display)) is a line for people, without keys and values.
#[derive(Clone, Debug)]
pub struct Event {
    pub kind: EventKind,
    /// The server's name.
    pub server: Arc<str>,
    /// The command's protocol name; empty if the event concerns none.
    pub command: &'static str,
    /// What failed.
    pub error: Option<Error>,
    /// How long the server was down, or how long the command took.
    pub duration: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The server was marked down.
    Down,
    /// A probe succeeded, and the server is in use again.
    Up,
    /// A command failed on this server and is tried again.
    Retry,
    /// A command took long.
    Slow,
    /// The servers have changed. The event's `server` names them all.
    Servers,
    /// Discovery failed; the servers known last stay in use.
    Discovery,
    /// The server refuses meta commands, although its version has them.
    Classic,
    /// The files of TLS have changed and were read again.
    Certificates,
    /// The files of TLS have changed, but cannot be used; what was read of them last stays in use.
    StaleCertificates,
}

/// How important an event is, in the words that logs use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Useful for finding a cause.
    Debug,
    /// A change that is not a problem.
    Info,
    /// A problem that may need attention.
    Warning,
}

impl EventKind {
    pub fn as_str(self) -> &'static str {
        match self {
            EventKind::Down => "down",
            EventKind::Up => "up",
            EventKind::Retry => "retry",
            EventKind::Slow => "slow",
            EventKind::Servers => "servers",
            EventKind::Discovery => "discovery",
            EventKind::Classic => "classic",
            EventKind::Certificates => "certificates",
            EventKind::StaleCertificates => "stale_certificates",
        }
    }

    pub fn level(self) -> Level {
        match self {
            EventKind::Retry | EventKind::Slow => Level::Debug,
            EventKind::Servers | EventKind::Classic | EventKind::Certificates => Level::Info,
            // A reader of the warning that a server went down also needs to know that it is back.
            EventKind::Down | EventKind::Up | EventKind::Discovery | EventKind::StaleCertificates => Level::Warning,
        }
    }
}

impl Level {
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warning => "warning",
        }
    }
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Event { server, command, .. } = self;
        let seconds = self.duration.unwrap_or_default().as_secs_f64();
        let error = self.error.as_ref().map(Error::to_string).unwrap_or_default();
        match self.kind {
            EventKind::Down => {
                let why = error.strip_prefix(&**server).and_then(|rest| rest.strip_prefix(": "));
                write!(f, "{server} is marked down: {}", why.unwrap_or(&error))
            }
            EventKind::Up => write!(f, "{server} is up again after {seconds:.1} s"),
            EventKind::Retry => write!(f, "{command} is tried again: {error}"),
            EventKind::Slow => write!(f, "{server}: {command} took {seconds:.3} s"),
            EventKind::Servers => write!(f, "the servers are now {server}"),
            EventKind::Classic => {
                write!(f, "{server} refuses meta commands, as some proxies do; classic text is used from now on")
            }
            EventKind::Certificates => write!(f, "{server}: the files of TLS have changed and were read again"),
            EventKind::StaleCertificates => {
                let why = self.words();
                write!(
                    f,
                    "{server}: the files of TLS have changed but cannot be used, those read last stay in use: {why}"
                )
            }
            EventKind::Discovery => {
                write!(f, "the servers could not be discovered, those known last stay in use: {error}")
            }
        }
    }
}

/// An event of caches or locks as hosts pass it on.
pub struct Report<'e> {
    pub kind: &'static str,
    pub level: Level,
    pub server: &'e str,
    /// The command's protocol name, if the event concerns one.
    pub command: Option<&'static str>,
    pub error: Option<&'e Error>,
    pub duration: Option<Duration>,
    /// A line for people.
    pub line: Cow<'e, str>,
    /// The former primary, if another server has taken over.
    pub previous: Option<&'e str>,
}

impl Event {
    /// What the error says, without the server's name.
    fn words(&self) -> &str {
        self.error.as_ref().map_or("", |error| &error.message)
    }

    pub fn report(&self) -> Report<'_> {
        Report {
            kind: self.kind.as_str(),
            level: self.kind.level(),
            server: &self.server,
            command: Some(self.command).filter(|command| !command.is_empty()),
            error: self.error.as_ref(),
            duration: self.duration,
            line: self.to_string().into(),
            previous: None,
        }
    }
}

/// Events that were not reported yet. A forked child has its own.
#[derive(Debug)]
pub(crate) struct Events {
    noted: PerProcess<Mutex<Vec<Event>>>,
    /// Whether there are any. It is read after every operation.
    any: AtomicBool,
}

impl Default for Events {
    fn default() -> Self {
        Self { noted: PerProcess::new(Mutex::default()), any: AtomicBool::default() }
    }
}

impl Events {
    pub(crate) fn note(&self, event: Event) {
        let mut events = self.lock();
        if events.len() < MOST {
            events.push(event);
        }
        self.any.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn are_there(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self) -> Vec<Event> {
        let mut events = self.lock();
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut *events)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        self.noted.get(|_| Mutex::default()).lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Sent;

    #[test]
    fn an_event_has_a_level_and_a_line() {
        let server: Arc<str> = "cache1:11211".into();
        let event = |kind, command| {
            let error = Some(Error::unanswered(&server).of(command, Sent::Maybe));
            let event =
                Event { kind, server: server.clone(), command, error, duration: Some(Duration::from_millis(3_249)) };
            (event.kind.level(), event.to_string())
        };
        let late = "the server did not answer in time (the command may have been executed)";
        for (kind, command, level, line) in [
            (EventKind::Down, "", Level::Warning, format!("cache1:11211 is marked down: {late}")),
            (EventKind::Up, "", Level::Warning, "cache1:11211 is up again after 3.2 s".to_owned()),
            (EventKind::Retry, "get", Level::Debug, format!("get is tried again: cache1:11211: get: {late}")),
            (EventKind::Slow, "get", Level::Debug, "cache1:11211: get took 3.249 s".to_owned()),
            (EventKind::Servers, "", Level::Info, "the servers are now cache1:11211".to_owned()),
            (
                EventKind::Discovery,
                "",
                Level::Warning,
                format!("the servers could not be discovered, those known last stay in use: cache1:11211: {late}"),
            ),
        ] {
            assert_eq!(event(kind, command), (level, line));
        }
        assert!(Level::Debug < Level::Info && Level::Info < Level::Warning);
    }
}
