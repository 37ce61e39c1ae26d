//! Leases whose callers were interrupted: a thread reads the replies that nobody waits for, and gives back what was won.
//!
//! The thread starts with the first such lease of a process, and ends with the last. It calls nothing of the host's, and
//! keeps nothing of it. A server that is slow, or cannot be reached now, is tried until a lease has ended by itself.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::open::addresses;
use super::wait::wait_any;
use super::Timer;
use crate::directory::Directory;
use crate::fleet::{Fleet, Server};
use crate::operations::{LateLease, Next, Operation, OwnedKey, Policy, Request, Sending, Win};
use crate::pool::Offer;
use crate::session::{Outcome, Reply, Session};
use pinyon_net::error::Error;
use pinyon_net::fork::PerProcess;
use pinyon_net::host::NoHost;
use pinyon_net::own_thread;

/// So many connections are kept at most. A lease beyond them ends with its time.
const MOST: usize = 1024;

/// For how long a reply is awaited at most.
const LONGEST: Duration = Duration::from_secs(60);

/// For how long a lease is tried to be given back.
const GIVING_BACK: Duration = Duration::from_secs(10);

/// For how long the addresses of a server are awaited.
const RESOLVING: Duration = Duration::from_millis(100);

/// How long after an attempt to connect the next one begins, if it failed.
const AGAIN: Duration = Duration::from_millis(100);

static READING: LazyLock<PerProcess<Mutex<Reading>>> = LazyLock::new(|| PerProcess::new(Mutex::default()));

/// What the thread has to do.
#[derive(Default)]
struct Reading {
    new: Vec<Line>,
    /// The number of those that the thread has.
    kept: usize,
    runs: bool,
}

/// Leases of one server, and the connection that carries them one after the other.
struct Line {
    server: Arc<Server>,
    session: Box<Session>,
    connect_timeout: Duration,
    /// Whether the session connects anew when it must: it needs no credentials of the host's.
    connects: bool,
    /// When it may connect.
    next: Instant,
    leases: VecDeque<Late>,
    /// Of how many of them, from the first on, the session has taken the requests.
    submitted: usize,
}

/// A lease, or one that is given back.
struct Late {
    lease: LateLease,
    until: Instant,
}

/// How far a line has come.
enum Progress {
    Awaits,
    /// The session is not connected.
    Lost,
}

/// Until when the reply to this lease matters: later, the lease has ended by itself.
pub(super) fn matters_until(lease: &LateLease) -> Instant {
    let life = match *lease.request() {
        Request::Lease { lease, .. } => Duration::from_secs(lease.max(1).unsigned_abs().into()),
        _ => GIVING_BACK,
    };
    Instant::now() + life.min(LONGEST)
}

/// Has the thread go on with leases. `submitted`: of how many of them the session has taken the requests, in their order.
pub(super) fn go_on(fleet: &Fleet, server: usize, session: Box<Session>, leases: Vec<LateLease>, submitted: usize) {
    with_thread(|reading| reading.new.extend(Line::new(fleet, server, session, leases, submitted)));
}

/// Has the thread give a lease back.
pub(super) fn give_back(fleet: &Fleet, server: usize, lease: LateLease) {
    with_thread(|reading| {
        let of_server = |line: &&mut Line| Arc::ptr_eq(&line.server, &fleet.servers()[server]);
        match reading.new.iter_mut().filter(of_server).find(|line| line.gives_back()) {
            Some(line) => line.leases.push_back(Late::new(lease)),
            None => {
                let session = connects_alone(fleet, server);
                reading.new.extend(session.and_then(|session| Line::new(fleet, server, session, vec![lease], 0)));
            }
        }
    });
}

/// Gives back a lease that no caller knows of any more. Nobody waits for it.
pub fn give_back_late(directory: &Directory, key: OwnedKey, win: Win, policy: Policy) {
    let (fleet, lease) = (directory.known(), LateLease::of(Request::GiveBack(win), key, policy));
    let candidates = fleet.candidates(lease.routed(0), policy.failover);
    let is_up = |server: &&usize| fleet.servers()[**server].health.is_up();
    if let Some(server) = candidates.iter().find(is_up).or(candidates.first()) {
        give_back(&fleet, *server, lease);
    }
}

/// A session that can do without the host: one that connects by itself, or one of the pool's if that needs credentials.
fn connects_alone(fleet: &Fleet, server: usize) -> Option<Box<Session>> {
    let session = fleet.session(server);
    if !session.asks_host() {
        return Some(session);
    }
    match fleet.pool(server).lend(Instant::now()) {
        Offer::Loan(mut loan, _) => loan.take(),
        Offer::Wait(_) => None,
    }
}

/// Adds to what the thread has to do, unless it has too much.
fn with_thread(add: impl FnOnce(&mut Reading)) {
    let mut reading = reading();
    if reading.kept + reading.new.len() >= MOST {
        return;
    }
    add(&mut reading);
    if reading.new.is_empty() {
        return;
    }
    reading.runs = reading.runs || own_thread::start("pinyon-leases", read).is_ok();
    if !reading.runs {
        *reading = Reading::default();
    }
}

fn reading() -> MutexGuard<'static, Reading> {
    READING.get(|_| Mutex::default()).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Goes on with all leases until there are none.
fn read() {
    let mut lines: Vec<Line> = Vec::new();
    loop {
        let mut reading = reading();
        std::mem::take(&mut reading.new).into_iter().for_each(|line| line.join(&mut lines));
        reading.kept = lines.len();
        reading.runs = reading.kept > 0;
        let is_over = !reading.runs;
        drop(reading);
        if is_over {
            return;
        }
        let now = Instant::now();
        lines.iter_mut().for_each(|line| line.advance(now));
        lines.retain(|line| !line.leases.is_empty());
        let Some(until) = lines.iter().filter_map(Line::until).min() else { continue };
        let connected = lines.iter_mut().filter(|line| !line.session.is_down());
        let mut sessions: Vec<&mut Session> = connected.map(|line| &mut *line.session).collect();
        // It ends early enough for new ones to be noticed.
        wait_any(&mut sessions, &mut Timer { deadline: until, unused: None });
    }
}

impl Line {
    /// A line with these leases, unless the session cannot do without the host.
    fn new(
        fleet: &Fleet,
        server: usize,
        mut session: Box<Session>,
        leases: Vec<LateLease>,
        submitted: usize,
    ) -> Option<Self> {
        let (connects, leases) = (!session.asks_host(), leases.into_iter().map(Late::new).collect::<VecDeque<_>>());
        let until = leases.iter().map(|late| late.until).max()?;
        session.leave_host(until).then(|| Self {
            server: fleet.servers()[server].clone(),
            session,
            connect_timeout: fleet.options().connect_timeout,
            connects,
            next: Instant::now(),
            leases,
            submitted,
        })
    }

    /// Whether it may take further leases to give back: it waits for no lease that another caller may hold for long.
    fn gives_back(&self) -> bool {
        self.connects && self.leases.iter().all(|late| !late.lease.may_win())
    }

    /// Becomes one of the lines. One that has not begun adds its leases to another one of its server.
    fn join(self, lines: &mut Vec<Line>) {
        let of_server = |line: &&mut Line| Arc::ptr_eq(&line.server, &self.server) && line.gives_back();
        match lines.iter_mut().find(of_server).filter(|_| self.session.is_closed()) {
            Some(line) => line.leases.extend(self.leases),
            None => lines.push(self),
        }
    }

    /// When there is something to do although nothing arrives.
    fn until(&self) -> Option<Instant> {
        let until = self.leases.front()?.until;
        Some(if self.session.is_down() { until.min(self.next) } else { until })
    }

    /// Takes what has arrived, and does what is due.
    fn advance(&mut self, now: Instant) {
        if self.session.wants().until.is_some_and(|until| now >= until) {
            self.session.poll(now);
        }
        loop {
            let progress = self.progress();
            let Some(first) = self.leases.front() else { return };
            let is_late = now >= first.until;
            match progress {
                Progress::Awaits if !is_late => return,
                Progress::Awaits => {
                    // Its reply is not to be taken for the next one's.
                    if self.submitted > 0 {
                        self.session.fail(Error::unanswered(&self.server.name));
                    }
                    self.leases.pop_front();
                    self.submitted = self.submitted.saturating_sub(1);
                }
                Progress::Lost => {
                    self.submitted = 0;
                    // Whoever asked for a lease and has no answer cannot give it back.
                    self.leases.retain(|late| self.connects && !late.lease.may_win() && now < late.until);
                    if self.leases.is_empty() || now < self.next {
                        return;
                    }
                    self.connect(now);
                }
            }
        }
    }

    /// Takes what has arrived, and sends the next request once all that were sent are answered.
    fn progress(&mut self) -> Progress {
        loop {
            if self.submitted == 0 && self.session.is_ready() {
                let Some(first) = self.leases.front_mut() else { return Progress::Awaits };
                let sending = Sending { is_shared: false, longest_ttl: None, deadline: first.until };
                if first.lease.submit(0, &mut self.session, sending).is_err() {
                    self.leases.pop_front();
                    continue;
                }
                self.submitted = 1;
                self.session.flush();
            }
            let Some(completion) = self.session.next() else { break };
            match completion.outcome {
                Outcome::Part(reply) => take(&mut self.leases, reply),
                Outcome::Reply(reply) => {
                    take(&mut self.leases, reply);
                    self.end_first();
                }
                // The session allocates memory for it.
                Outcome::Large { .. } => {}
                Outcome::Failed(error) => self.session.fail(error),
            }
        }
        match self.session.is_down() {
            true => Progress::Lost,
            false => Progress::Awaits,
        }
    }

    /// Ends the first one, which was answered. What it has won is given back after all others that were sent.
    fn end_first(&mut self) {
        self.submitted = self.submitted.saturating_sub(1);
        let Some(mut first) = self.leases.pop_front() else { return };
        if first.lease.may_win() && first.lease.give_back() == Next::Again {
            self.leases.push_back(first);
        }
    }

    fn connect(&mut self, now: Instant) {
        while self.session.next().is_some() {}
        (self.next, self.submitted) = (now + AGAIN, 0);
        let timer = Timer { deadline: now + RESOLVING, unused: None };
        if let Ok(addresses) = addresses(&self.server, &NoHost, &timer) {
            self.session.connect(addresses, Instant::now(), self.connect_timeout);
        }
    }
}

impl Late {
    fn new(lease: LateLease) -> Self {
        Self { until: matters_until(&lease), lease }
    }
}

fn take(leases: &mut VecDeque<Late>, reply: Reply<'_>) {
    if let Some(first) = leases.front_mut() {
        first.lease.reply(0, reply);
    }
}
