//! What a client of locks counts and reports for monitoring: metrics, and events of its servers.
//!
//! A client reports events of its servers, and they leave as notes with the number of the client. The front counts
//! what becomes of locks. The client and the machine count what becomes of connections and renewals. The counters are
//! atomics that all threads, loops and hash tags of a client share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use crate::loss::Loss;
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::error::{Error, Kind};
use pinyon_net::events::{Level, Report, CERTIFICATES_ARE_NEW, CERTIFICATES_ARE_STALE};
use pinyon_net::fork::PerProcess;
use pinyon_net::latencies::{Histogram, Latencies};
use pinyon_net::tls::Renewed;

/// The counters of a client of locks, which its threads, event loops and hash tags share. A forked child begins at
/// zero.
#[derive(Debug)]
pub struct Observed {
    /// Tells events of one client from those of others.
    source: u64,
    counts: PerProcess<Arc<Counts>>,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) queued: Count,
    pub(super) busy: Count,
    pub(super) released: Count,
    pub(super) renewals: Count,
    pub(super) renewals_refused: Count,
    pub(super) connects: Count,
    pub(super) disconnects: Count,
    pub(super) switches: Count,
    pub(super) proceeded: Count,
    pub(super) rates_allowed: Count,
    pub(super) rates_refused: Count,
    lost: [Count; Loss::ALL.len()],
    errors: [Count; ErrorKind::ALL.len()],
    /// How long acquiring took. Its count is that of the acquired locks.
    acquired: Histogram,
}

#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A copy of a client's counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockMetrics {
    /// How many locks were acquired. Each acquisition of a reentrant lock counts.
    pub acquired: u64,
    /// How many attempts had to wait because a name was taken. On a quorum, each server counts.
    pub queued: u64,
    /// How many attempts found a name taken and were not to wait.
    pub busy: u64,
    /// How many locks were released by their holders while held.
    pub released: u64,
    /// How many locks were lost, by reason.
    pub lost: Vec<(Loss, u64)>,
    /// How many operations failed, by the kind of error.
    pub errors: Vec<(ErrorKind, u64)>,
    /// How many times a held lock was renewed in the background.
    pub renewals: u64,
    /// How many times the server refused to renew one.
    pub renewals_refused: u64,
    /// How many connections to servers were made, and how many broke.
    pub connects: u64,
    pub disconnects: u64,
    /// How many times another server took over as the primary.
    pub switches: u64,
    /// How many times a holder has gone on without its lock, because the servers were away.
    pub proceeded: u64,
    /// How many checks of rates took their permits, and how many did not. Each counts once, for however many permits.
    pub rates_allowed: u64,
    pub rates_refused: u64,
    /// How long it took to acquire the locks that were acquired, with waiting.
    pub waits: Latencies,
}

impl LockMetrics {
    /// What is one number each, by name.
    pub fn numbers(&self) -> [(&'static str, u64); 12] {
        [
            ("acquired", self.acquired),
            ("queued", self.queued),
            ("busy", self.busy),
            ("released", self.released),
            ("renewals", self.renewals),
            ("renewals_refused", self.renewals_refused),
            ("connects", self.connects),
            ("disconnects", self.disconnects),
            ("switches", self.switches),
            ("proceeded", self.proceeded),
            ("rates_allowed", self.rates_allowed),
            ("rates_refused", self.rates_refused),
        ]
    }
}

impl Default for Observed {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self { source: NEXT.fetch_add(1, Ordering::Relaxed), counts: PerProcess::new(Arc::default()) }
    }
}

impl Observed {
    /// A number that no other client of this process has.
    pub fn source(&self) -> u64 {
        self.source
    }

    /// The counters of this process.
    pub(super) fn counts(&self) -> &Arc<Counts> {
        self.counts.get(|_| Arc::default())
    }

    pub fn metrics(&self) -> LockMetrics {
        let counts = self.counts();
        let lost = Loss::ALL.into_iter().zip(&counts.lost).map(|(loss, count)| (loss, count.get()));
        let errors = ErrorKind::ALL.into_iter().zip(&counts.errors).map(|(kind, count)| (kind, count.get()));
        let mut waits = Latencies::default();
        counts.acquired.add_to(&mut waits);
        LockMetrics {
            acquired: waits.count(),
            queued: counts.queued.get(),
            busy: counts.busy.get(),
            released: counts.released.get(),
            lost: lost.filter(|(_, count)| *count > 0).collect(),
            errors: errors.filter(|(_, count)| *count > 0).collect(),
            renewals: counts.renewals.get(),
            renewals_refused: counts.renewals_refused.get(),
            connects: counts.connects.get(),
            disconnects: counts.disconnects.get(),
            switches: counts.switches.get(),
            proceeded: counts.proceeded.get(),
            rates_allowed: counts.rates_allowed.get(),
            rates_refused: counts.rates_refused.get(),
            waits,
        }
    }
}

impl Counts {
    pub(super) fn acquired(&self, took: Duration) {
        self.acquired.record_shared(took.as_nanos() as u64);
    }

    #[cold]
    pub(super) fn lost(&self, loss: Loss) {
        self.lost[loss as usize].add(1);
    }

    #[cold]
    pub(super) fn failed(&self, kind: ErrorKind) {
        let place = ErrorKind::ALL.iter().position(|of| *of == kind);
        place.into_iter().for_each(|place| self.errors[place].add(1));
    }
}

/// Something that happened to the servers of locks.
#[derive(Clone, Debug)]
pub struct LockEvent {
    pub kind: LockEventKind,
    /// The server that it is about: the one in use from now on, the one that failed, or a Sentinel.
    pub server: Arc<str>,
    /// For [`LockEventKind::Switched`]: the former primary.
    pub previous: Option<Arc<str>>,
    pub error: Option<Error>,
    /// How long the server was down.
    pub duration: Option<Duration>,
    /// A line for people.
    pub line: String,
}

/// Events are the same if they say the same.
impl PartialEq for LockEvent {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.line) == (other.kind, &other.line)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockEventKind {
    /// A connection was made.
    Connected,
    /// The connection broke. The client connects again once it needs the server.
    Disconnected,
    /// No connection can be made.
    Down,
    /// A connection was made again.
    Up,
    /// A server that was down is not used any more.
    Gone,
    /// Another server has taken over as the primary.
    Switched,
    /// A Sentinel cannot be asked.
    SentinelDown,
    /// It can be asked again.
    SentinelUp,
    /// The server refuses to renew locks that are held.
    Renewals,
    /// A holder has gone on without its lock, because the servers are away.
    Proceeded,
    /// The files of TLS have changed and were read again.
    Certificates,
    /// They have changed but cannot be used: those read last stay in use.
    StaleCertificates,
    /// Anything else that the operators of the program should know.
    Warning,
}

impl LockEventKind {
    pub const ALL: [Self; 13] = [
        Self::Connected,
        Self::Disconnected,
        Self::Down,
        Self::Up,
        Self::Gone,
        Self::Switched,
        Self::SentinelDown,
        Self::SentinelUp,
        Self::Renewals,
        Self::Proceeded,
        Self::Certificates,
        Self::StaleCertificates,
        Self::Warning,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Disconnected => "disconnected",
            Self::Down => "down",
            Self::Up => "up",
            Self::Gone => "gone",
            Self::Switched => "switched",
            Self::SentinelDown => "sentinel_down",
            Self::SentinelUp => "sentinel_up",
            Self::Renewals => "renewals",
            Self::Proceeded => "proceeded",
            Self::Certificates => "certificates",
            Self::StaleCertificates => "stale_certificates",
            Self::Warning => "warning",
        }
    }

    /// Whether a host that takes no events reports it nevertheless. Whoever uses a server that is down has an error.
    pub fn is_told_unasked(self) -> bool {
        matches!(self, Self::Switched | Self::Renewals | Self::Proceeded | Self::StaleCertificates | Self::Warning)
    }

    pub fn level(self) -> Level {
        match self {
            Self::Connected => Level::Debug,
            // Servers close idle connections; when it matters, "down" follows.
            Self::Disconnected | Self::Certificates => Level::Info,
            _ => Level::Warning,
        }
    }
}

impl LockEvent {
    pub fn report(&self) -> Report<'_> {
        Report {
            kind: self.kind.as_str(),
            level: self.kind.level(),
            server: &self.server,
            command: None,
            error: self.error.as_ref(),
            duration: self.duration,
            line: self.line.as_str().into(),
            previous: self.previous.as_deref(),
        }
    }

    fn new(kind: LockEventKind, server: &Arc<str>, line: String) -> Self {
        Self { kind, server: server.clone(), previous: None, error: None, duration: None, line }
    }

    pub(super) fn connected(server: &Arc<str>, down_for: Option<Duration>) -> Self {
        match down_for {
            None => Self::new(LockEventKind::Connected, server, format!("{server} is connected")),
            Some(time) => {
                let line = format!("{server} is connected again after {:.1} s", time.as_secs_f64());
                Self { duration: Some(time), ..Self::new(LockEventKind::Up, server, line) }
            }
        }
    }

    pub(super) fn disconnected(server: &Arc<str>, error: &Error) -> Self {
        let line = format!("the connection to {server} is lost: {}", error.message);
        Self { error: Some(error.clone()), ..Self::new(LockEventKind::Disconnected, server, line) }
    }

    pub(super) fn down(server: &Arc<str>, error: &Error) -> Self {
        let line = format!("{server} cannot be used: {}", error.message);
        Self { error: Some(error.clone()), ..Self::new(LockEventKind::Down, server, line) }
    }

    pub(super) fn up(server: &Arc<str>, down_for: Duration) -> Self {
        let line = format!("{server} can be used again after {:.1} s", down_for.as_secs_f64());
        Self { duration: Some(down_for), ..Self::new(LockEventKind::Up, server, line) }
    }

    /// `down_for`: how long it was known to be down.
    pub(super) fn gone(server: &Arc<str>, down_for: Duration) -> Self {
        let line = format!("{server} was down and is no longer used");
        Self { duration: Some(down_for), ..Self::new(LockEventKind::Gone, server, line) }
    }

    /// `whose`: the URL's name for its servers.
    pub(super) fn switched(whose: &str, server: &Arc<str>, previous: &Arc<str>) -> Self {
        let line = format!("{whose}: the primary is {server} now, and no longer {previous}");
        Self { previous: Some(previous.clone()), ..Self::new(LockEventKind::Switched, server, line) }
    }

    pub(super) fn sentinel_down(sentinel: &Arc<str>, error: &Error) -> Self {
        let line = format!("the Sentinel {sentinel} cannot be asked: {}", error.message);
        Self { error: Some(error.clone()), ..Self::new(LockEventKind::SentinelDown, sentinel, line) }
    }

    pub(super) fn sentinel_up(sentinel: &Arc<str>) -> Self {
        Self::new(LockEventKind::SentinelUp, sentinel, format!("the Sentinel {sentinel} can be asked again"))
    }

    pub(super) fn renewals(server: &Arc<str>, error: &Error) -> Self {
        let message = "the server does not renew locks that are held: they will be lost when their ttls have passed";
        let line = format!("{message}: {error}");
        Self { error: Some(error.clone()), ..Self::new(LockEventKind::Renewals, server, line) }
    }

    /// `lock`: in words. `why`: the failure, or how the lock was lost.
    pub(super) fn proceeded(server: &Arc<str>, lock: &str, why: &str, error: Option<Error>) -> Self {
        let line = format!("{lock} is uncertain, and its holder goes on, as on_failure says: {why}");
        Self { error, ..Self::new(LockEventKind::Proceeded, server, line) }
    }

    pub(super) fn certificates(server: &Arc<str>, renewed: &Renewed) -> Self {
        let Renewed::Kept(why) = renewed else {
            let line = format!("{server}: {CERTIFICATES_ARE_NEW}");
            return Self::new(LockEventKind::Certificates, server, line);
        };
        let error = Error::new(Kind::Usage, server, why.to_string());
        let line = format!("{server}: {CERTIFICATES_ARE_STALE}: {why}");
        Self { error: Some(error), ..Self::new(LockEventKind::StaleCertificates, server, line) }
    }

    pub(super) fn warning(server: &Arc<str>, line: String) -> Self {
        Self::new(LockEventKind::Warning, server, line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_copied_and_begin_anew_in_a_child() {
        let observed = Observed::default();
        let counts = observed.counts();
        counts.acquired(Duration::from_millis(3));
        counts.queued.add(2);
        counts.lost(Loss::Forced);
        counts.failed(ErrorKind::LockTimeout);
        counts.failed(ErrorKind::LockTimeout);
        let metrics = observed.metrics();
        assert_eq!((metrics.acquired, metrics.queued, metrics.busy), (1, 2, 0));
        assert_eq!((metrics.lost, metrics.errors), (vec![(Loss::Forced, 1)], vec![(ErrorKind::LockTimeout, 2)]));
        assert_eq!(metrics.waits.mean(), Some(0.003));
        pinyon_net::fork::pretended::fork();
        assert_eq!((observed.metrics().acquired, observed.metrics().queued), (0, 0));
    }

    #[test]
    fn every_loss_and_kind_of_error_has_its_count() {
        let observed = Observed::default();
        Loss::ALL.into_iter().for_each(|loss| observed.counts().lost(loss));
        ErrorKind::ALL.into_iter().for_each(|kind| observed.counts().failed(kind));
        assert_eq!(observed.metrics().lost, Loss::ALL.map(|loss| (loss, 1)));
        assert_eq!(observed.metrics().errors, ErrorKind::ALL.map(|kind| (kind, 1)));
    }

    #[test]
    fn clients_are_told_apart() {
        assert_ne!(Observed::default().source(), Observed::default().source());
    }

    #[test]
    fn an_event_has_a_level_and_a_line() {
        let [server, before]: [Arc<str>; 2] = ["b:1".into(), "a:1".into()];
        let error = Error::new(Kind::Connect, &server, "refused".to_owned());
        for (event, level, line) in [
            (LockEvent::connected(&server, None), Level::Debug, "b:1 is connected"),
            (
                LockEvent::connected(&server, Some(Duration::from_millis(2_349))),
                Level::Warning,
                "b:1 is connected again after 2.3 s",
            ),
            (LockEvent::disconnected(&server, &error), Level::Info, "the connection to b:1 is lost: refused"),
            (LockEvent::up(&server, Duration::from_millis(2_349)), Level::Warning, "b:1 can be used again after 2.3 s"),
            (LockEvent::gone(&server, Duration::from_secs(2)), Level::Warning, "b:1 was down and is no longer used"),
            (LockEvent::down(&server, &error), Level::Warning, "b:1 cannot be used: refused"),
            (
                LockEvent::switched("s/main", &server, &before),
                Level::Warning,
                "s/main: the primary is b:1 now, and no longer a:1",
            ),
            (LockEvent::sentinel_down(&server, &error), Level::Warning, "the Sentinel b:1 cannot be asked: refused"),
            (LockEvent::sentinel_up(&server), Level::Warning, "the Sentinel b:1 can be asked again"),
        ] {
            assert_eq!((event.kind.level(), &*event.line), (level, line));
        }
    }
}
