//! Events of the servers, for monitoring. They are recorded where they happen. The host reports them later, when it
//! holds no lock and no caller waits for it.
//!
//! The blocking client reports at the end of the operation. An event loop reports after each change of its machine, in
//! a turn or a greenlet of its own. An event has a level and a line for people. On success, an operation checks one
//! flag for events.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pinyon_net::error::Error;
use pinyon_net::events::{Level, Report, CERTIFICATES_ARE_NEW, CERTIFICATES_ARE_STALE};
use pinyon_net::fork::PerProcess;

/// The most events that are kept. Further ones are dropped until a host takes them.
const MOST: usize = 4096;
/// After so many reasons why values cannot be read, no further one is told: each value may have its own.
const MOST_REASONS: usize = 100;

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
    /// No further connection to the server could be made. Callers share those that work.
    Crowded,
    /// A stored value cannot be read, and counts as missing. Each reason is told once.
    Unreadable,
    /// The maker of a value failed, and its caller keeps the old value.
    Stale,
    /// The files of TLS have changed and were read again.
    Certificates,
    /// The files of TLS have changed, but cannot be used; what was read of them last stays in use.
    StaleCertificates,
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
            EventKind::Crowded => "crowded",
            EventKind::Unreadable => "unreadable",
            EventKind::Stale => "stale",
            EventKind::Certificates => "certificates",
            EventKind::StaleCertificates => "stale_certificates",
        }
    }

    pub fn level(self) -> Level {
        match self {
            EventKind::Retry | EventKind::Slow => Level::Debug,
            EventKind::Servers | EventKind::Classic | EventKind::Certificates => Level::Info,
            // A reader of the warning that a server went down also needs to know that it is back.
            EventKind::Down | EventKind::Up | EventKind::Discovery => Level::Warning,
            EventKind::Crowded | EventKind::Unreadable | EventKind::Stale => Level::Warning,
            EventKind::StaleCertificates => Level::Warning,
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
            EventKind::Crowded => f.write_str(&error),
            EventKind::Unreadable => write!(f, "a stored value cannot be read, so it counts as missing: {error}"),
            EventKind::Stale => {
                write!(f, "{server}: a value could not be made, so the old one stays in use: {}", self.words())
            }
            EventKind::Certificates => write!(f, "{server}: {CERTIFICATES_ARE_NEW}"),
            EventKind::StaleCertificates => write!(f, "{server}: {CERTIFICATES_ARE_STALE}: {}", self.words()),
            EventKind::Discovery => {
                write!(f, "the servers could not be discovered, those known last stay in use: {error}")
            }
        }
    }
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
            // The host raises or logs an error of its own.
            error: self.error.as_ref().filter(|_| self.kind != EventKind::Stale),
            duration: self.duration,
            line: self.to_string().into(),
            previous: None,
        }
    }
}

/// Events that were not reported yet. A forked child has its own.
#[derive(Debug)]
pub(crate) struct Events {
    noted: PerProcess<Mutex<Noted>>,
    /// Whether there are any. It is read after every operation.
    any: AtomicBool,
}

#[derive(Debug, Default)]
struct Noted {
    events: Vec<Event>,
    /// Why values could not be read, as far as it was told.
    reasons: HashSet<String>,
}

impl Default for Events {
    fn default() -> Self {
        Self { noted: PerProcess::new(Mutex::default()), any: AtomicBool::default() }
    }
}

impl Events {
    pub(crate) fn note(&self, event: Event) {
        let mut noted = self.lock();
        if noted.events.len() < MOST {
            noted.events.push(event);
        }
        self.any.store(true, Ordering::Relaxed);
    }

    /// Notes that a value cannot be read, unless the same reason was noted before.
    #[cold]
    pub(crate) fn note_unreadable(&self, error: Error) {
        let is_new = |reasons: &mut HashSet<_>| reasons.len() < MOST_REASONS && reasons.insert(error.message.clone());
        if is_new(&mut self.lock().reasons) {
            let (server, command) = (error.server.clone(), error.command);
            self.note(Event { kind: EventKind::Unreadable, server, command, error: Some(error), duration: None });
        }
    }

    #[inline]
    pub(crate) fn are_there(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self) -> Vec<Event> {
        let mut noted = self.lock();
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut noted.events)
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.noted.get(|_| Mutex::default()).lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinyon_net::error::{Kind, Sent};

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
            (
                EventKind::Unreadable,
                "get",
                Level::Warning,
                format!("a stored value cannot be read, so it counts as missing: cache1:11211: get: {late}"),
            ),
            (
                EventKind::Stale,
                "lease",
                Level::Warning,
                "cache1:11211: a value could not be made, so the old one stays in use: the server did not answer in time"
                    .to_owned(),
            ),
        ] {
            assert_eq!(event(kind, command), (level, line));
        }
        assert!(Level::Debug < Level::Info && Level::Info < Level::Warning);
    }

    #[test]
    fn each_reason_why_values_cannot_be_read_is_told_once() {
        let events = Events::default();
        let note = |reason: &str| {
            events.note_unreadable(Error::new(Kind::Unreadable, &"a".into(), reason).of("get", Sent::Yes));
            events.take().len()
        };
        assert_eq!(["no class Old", "no class Old", "no class Older"].map(note), [1, 0, 1]);
        let further = (0..2 * MOST_REASONS).map(|number| note(&number.to_string())).sum::<usize>();
        assert_eq!(further, MOST_REASONS - 2, "a flood of reasons ends");
    }
}
