//! A program with locks, in Rust alone.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinyon_locks::keys::{self, LockKeys};
use pinyon_locks::machine::LockOptions;
use pinyon_locks::{
    owners, redis, Asked, HandlerKind, LockOperation, LockOutcome, LockRequest, Note, Notes, Renewal, SentinelSetup,
    Setup, Slots, Station, StatusAnswer, StatusQuestion, ThreadLocks, Voting,
};
use pinyon_net::host::Host;
use pinyon_net::network::Keepalive;
use pinyon_net::Endpoint;

use super::server::Redis;

pub type Grant = pinyon_locks::Grant<&'static str>;
pub type Operation = LockOperation<&'static str>;

pub const TIMEOUT: Duration = Duration::from_secs(60);

/// For locks that are renewed, at a third of it. The process may stand still for two seconds without losing one.
pub const TTL: Duration = Duration::from_secs(6);

struct NoLanguage;

impl Host for NoLanguage {
    type Interrupt = Infallible;

    fn unlocked<T: Send>(&self, wait: impl FnOnce() -> T + Send) -> Result<T, Infallible> {
        Ok(wait())
    }

    fn interrupted(&self) -> Result<(), Infallible> {
        Ok(())
    }
}

pub struct Program {
    pub threads: ThreadLocks<&'static str>,
    pub notes: Arc<Notes<&'static str>>,
}

impl Program {
    pub fn on(server: &Redis) -> Self {
        Self::connecting(server.endpoint(), None)
    }

    pub fn connecting(endpoint: Endpoint, sentinels: Option<SentinelSetup>) -> Self {
        Self::of(setup(endpoint, sentinels))
    }

    /// A program with other settings.
    pub fn with(endpoint: Endpoint, change: impl FnOnce(&mut Setup)) -> Self {
        let mut settings = setup(endpoint, None);
        change(&mut settings);
        Self::of(settings)
    }

    pub fn of(settings: Setup) -> Self {
        let notes = Arc::<Notes<&'static str>>::default();
        Self { threads: ThreadLocks::new(settings, notes.clone()), notes }
    }

    pub fn station(&self) -> Arc<Station<&'static str>> {
        self.threads.station().unwrap()
    }

    pub fn run(&self, operation: Operation) -> LockOutcome {
        let Ok(outcome) = self.station().run(&NoLanguage, operation);
        outcome
    }

    /// Acquires a lock, with or without renewal.
    pub fn acquire(&self, name: &str, renewal: Renewal) -> Arc<Grant> {
        self.acquire_with(name, renewal, |_| {})
    }

    /// Acquires a lock, with a changed request.
    pub fn acquire_with(&self, name: &str, renewal: Renewal, change: impl FnOnce(&mut LockRequest)) -> Arc<Grant> {
        let (grant, mut operation) = acquiring(name, renewal, false);
        if let Operation::Acquire { request, .. } = &mut operation {
            change(request);
        }
        let outcome = self.run(operation);
        assert!(matches!(outcome, LockOutcome::Held { .. }), "{outcome:?}");
        grant
    }

    pub fn release(&self, grant: &Arc<Grant>) -> bool {
        match self.run(Operation::Release { grant: grant.clone(), early: false }) {
            LockOutcome::Released { held } => held,
            other => panic!("{other:?}"),
        }
    }

    pub fn ask(&self, name: &str, question: StatusQuestion) -> StatusAnswer {
        let asked = Asked::new(&[name]).unwrap();
        match self.run(Operation::Inspect { asked, question }) {
            LockOutcome::Status(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until this lock has been held for its ttl from now on: it was renewed.
    pub fn see_renewed(&self, name: &str, ttl: Duration) {
        let mut first = None;
        until(|| {
            let StatusAnswer::Each(names) = self.ask(name, StatusQuestion::Each) else { panic!("no names") };
            let Some(age) = names[0].age.filter(|_| names[0].holder.is_some()) else { return false };
            age > *first.get_or_insert(age) + ttl
        });
    }

    /// The next note.
    pub fn note(&self) -> Note<&'static str> {
        let mut note = None;
        until(|| {
            note = self.notes.take();
            note.is_some()
        });
        note.unwrap()
    }
}

pub fn setup(endpoint: Endpoint, sentinels: Option<SentinelSetup>) -> Setup {
    Setup {
        endpoint,
        sentinels,
        other_nodes: Vec::new(),
        slots: Slots::default(),
        server: "redis".into(),
        login: redis::SessionSettings::default(),
        keys: LockKeys::new("n").unwrap(),
        handler: HandlerKind::Auto,
        connect_timeout: TIMEOUT,
        keepalive: Keepalive::default(),
        replicas: 0,
        options: LockOptions::default(),
        voting: Voting::Alone,
    }
}

pub fn acquiring(name: &str, renewal: Renewal, reentrant: bool) -> (Arc<Grant>, Operation) {
    let names = keys::names([name]).unwrap();
    let ttl = if renewal == Renewal::Always { TTL } else { TIMEOUT };
    let request =
        LockRequest { names, owner: owners::this_thread(), ttl, wait: Some(TIMEOUT), renewal, reentrant, rare: None };
    let grant = Grant::of(&request);
    (grant.clone(), Operation::Acquire { grant, request })
}

pub fn until(mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < deadline, "it never comes");
        std::thread::sleep(Duration::from_millis(5));
    }
}
