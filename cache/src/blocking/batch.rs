//! Quiet batches in threads: commands are sent without awaiting each reply, and a barrier at the end awaits all
//! outcomes.
//!
//! A batch may send without waiting. Of each command it keeps only what it must report.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use pinyon_proto::Command;

use super::known::known;
use super::open::open;
use super::together::session_of;
use super::wait::{wait, wait_for_room};
use super::{Failure, Listening, Timer};
use crate::directory::Directory;
use crate::fleet::{Choice, Fleet};
use crate::operations::{choose, may_go_on, told, Account, BorrowedKey, Request, SentKey, Unsuccessful};
use crate::pool::Loan;
use crate::session::{Data, Outcome, Session, Ticket};
use pinyon_net::doorbell::Wake;
use pinyon_net::error::{Error, Kind, Sent};
use pinyon_net::fork;
use pinyon_net::host::Host;
use pinyon_net::network::Stream;

/// Commands may be sent so often by themselves before their replies are received.
const SENDS_PER_LOOK: usize = 64;

/// A quiet batch. It keeps one connection to each server it has used, until it is finished or dropped. `K` is the
/// host's form of a key, used to report failures.
pub struct Batch<K> {
    directory: Arc<Directory>,
    /// The servers, or why there are none. The first command discovers them.
    servers: Option<Result<Arc<Fleet>, Error>>,
    work: Work<K>,
    generation: u64,
}

/// The submitted commands and their known outcomes.
struct Work<K> {
    failover: bool,
    account: Account<K>,
    connections: Vec<Connection<K>>,
}

struct Connection<K> {
    server: usize,
    loan: Loan,
    /// How often something was sent since replies were looked for.
    unseen: usize,
    listening: Listening,
    /// Submitted commands whose outcome is unknown, in order.
    open: VecDeque<(Ticket, Submitted<K>)>,
}

struct Submitted<K> {
    number: usize,
    command: &'static str,
    key: K,
}

impl<K> Batch<K> {
    /// With `failover`, keys of a server that is down go to another server.
    pub fn new(directory: Arc<Directory>, failover: bool) -> Self {
        let work = Work { failover, account: Account::from(0), connections: Vec::new() };
        Self { directory, servers: None, work, generation: fork::generation() }
    }

    /// Submits a request to the server that holds its key. It waits only to connect, or for room in a connection; each
    /// submission may take the client's whole timeout. Failures are reported with the outcomes. An error means that the
    /// value is too large to send.
    pub fn submit<H: Host>(
        &mut self,
        host: &H,
        sent: &BorrowedKey<'_>,
        request: Request,
        data: &Data<'_>,
        key: K,
    ) -> Result<(), Failure<H::Interrupt>> {
        self.check_process()?;
        request.check_size(sent.routed(), self.directory.options().limits.value)?;
        let command = request.command(sent.wire());
        let submitted = Submitted { number: self.work.account.next_number(), command: command.name(), key };
        let servers = match &self.servers {
            Some(servers) => servers,
            None => self.servers.insert(discovered(&self.directory, host)?),
        };
        let fleet = match servers {
            Ok(fleet) => fleet,
            Err(why) => {
                let why = told(why.clone(), submitted.command, Sent::No);
                self.work.failed(submitted, why);
                return Ok(());
            }
        };
        let now = Instant::now();
        let mut timer = Timer::start(now, fleet.options().timeout);
        match self.work.connected(fleet, host, sent.routed(), submitted.command, now, &mut timer) {
            Ok(position) => self.work.submit(fleet, position, &command, data, submitted, &timer),
            Err(failure) => {
                request.forget_changed(fleet, sent.wire());
                match failure {
                    Failure::Error(error) => self.work.failed(submitted, error),
                    interrupted => return Err(interrupted),
                }
            }
        }
        Ok(())
    }

    /// Sends what the sockets take, without waiting. A later call sends the rest. Outcomes are kept for
    /// [`Self::finish`].
    pub fn send(&mut self) -> Result<(), Error> {
        self.check_process()?;
        let Some(Ok(fleet)) = &self.servers else { return Ok(()) };
        for position in (0..self.work.connections.len()).rev() {
            if self.work.connections[position].send() {
                self.work.take(fleet, position);
            }
        }
        Ok(())
    }

    /// Sends the rest, awaits the outcome of every command, and returns the commands that were not carried out, in the
    /// order of submission.
    pub fn finish<H: Host>(&mut self, host: &H) -> Result<Vec<Unsuccessful<K>>, Failure<H::Interrupt>> {
        self.check_process()?;
        if let Some(Ok(fleet)) = &self.servers {
            self.work.settle(fleet, host).map_err(Failure::Interrupted)?;
        }
        Ok(self.work.account.take_unsuccessful())
    }

    /// In a forked child, drops the parent's connections without sending anything.
    #[inline]
    fn check_process(&mut self) -> Result<(), Error> {
        match self.generation == fork::generation() {
            true => Ok(()),
            false => self.forsake(),
        }
    }

    #[cold]
    fn forsake(&mut self) -> Result<(), Error> {
        self.work.connections.clear();
        let message = "this batch was opened before the process forked; open another in the child";
        Err(Error::new(Kind::Usage, &"".into(), message))
    }
}

/// Discovers the servers. Returns why there are none, if there are none.
fn discovered<H: Host>(directory: &Directory, host: &H) -> Result<Result<Arc<Fleet>, Error>, Failure<H::Interrupt>> {
    match known(directory, host) {
        Ok(fleet) => Ok(Ok(fleet)),
        Err(Failure::Error(why)) => Ok(Err(why)),
        Err(interrupted) => Err(interrupted),
    }
}

impl<K> Work<K> {
    /// The position of a connection that has room for a command on this key. If connecting fails, the command moves to
    /// another server, since nothing of it was sent.
    fn connected<H: Host>(
        &mut self,
        fleet: &Fleet,
        host: &H,
        key: &[u8],
        command: &'static str,
        mut now: Instant,
        timer: &mut Timer,
    ) -> Result<usize, Failure<H::Interrupt>> {
        let mut earlier: Option<Error> = None;
        loop {
            let choice =
                choose(fleet, key, self.failover, now, || command, earlier.as_ref()).map_err(|error| *error)?;
            let error = match self.with_room(fleet, host, choice, now, timer) {
                Err(Failure::Error(error)) => error.of(command, Sent::No),
                position => return position,
            };
            fleet.unsubmitted(&error, command);
            if timer.is_over() || !may_go_on(&error, false) {
                return Err(error.into());
            }
            earlier = Some(error);
            now = Instant::now();
        }
    }

    fn submit(
        &mut self,
        fleet: &Fleet,
        position: usize,
        command: &Command<'_>,
        data: &Data<'_>,
        submitted: Submitted<K>,
        timer: &Timer,
    ) {
        let Connection { server, loan, open, .. } = &mut self.connections[position];
        let shorter = fleet.longest_ttl(*server).map(|most| command.expiring_within(most));
        let command = shorter.as_ref().unwrap_or(command);
        match session_of(loan).submit_quiet(command, data.clone(), timer.deadline) {
            Ok(ticket) => open.push_back((ticket, submitted)),
            Err(why) => {
                let error = why.into_error(&fleet.servers()[*server].name, submitted.command);
                self.failed(submitted, error);
            }
        }
    }

    fn with_room<H: Host>(
        &mut self,
        fleet: &Fleet,
        host: &H,
        choice: Choice,
        now: Instant,
        timer: &mut Timer,
    ) -> Result<usize, Failure<H::Interrupt>> {
        let position = match self.connections.iter().position(|connection| connection.server == choice.server) {
            Some(position) => position,
            None => self.connect(fleet, host, choice, now, timer)?,
        };
        // The server counts as up once the connection stands: the outcomes may arrive much later.
        if choice.probe {
            fleet.succeeded(choice);
        }
        while !self.connections[position].session().accepts() {
            let broken = self.advance(fleet, host, position, timer, wait_for_room).map_err(Failure::Interrupted)?;
            if let Some(error) = broken {
                return Err(error.into());
            }
        }
        Ok(position)
    }

    #[cold]
    fn connect<H: Host>(
        &mut self,
        fleet: &Fleet,
        host: &H,
        choice: Choice,
        now: Instant,
        timer: &mut Timer,
    ) -> Result<usize, Failure<H::Interrupt>> {
        let server = choice.server;
        let (open_connections, idle) = fleet.pool(server).open_and_idle();
        if open_connections >= fleet.options().max_connections && idle == 0 {
            // Releases its connections first: two batches that each wait for a connection of the other would deadlock.
            self.settle(fleet, host).map_err(Failure::Interrupted)?;
        }
        let opened = open(fleet, host, choice, now, timer);
        if let Err(Failure::Error(error)) = &opened {
            fleet.failed(choice, error);
        }
        self.connections.push(Connection {
            server,
            loan: opened?,
            unseen: 0,
            listening: Listening::default(),
            open: VecDeque::new(),
        });
        Ok(self.connections.len() - 1)
    }

    /// Waits until all submitted commands are answered, then returns the connections to their pools.
    fn settle<H: Host>(&mut self, fleet: &Fleet, host: &H) -> Result<(), H::Interrupt> {
        let mut timer = Timer::start(Instant::now(), fleet.options().timeout);
        for connection in &mut self.connections {
            connection.listening = Listening::default();
            connection.session().end_quiet_run(timer.deadline);
            connection.session().flush();
        }
        while let Some(last) = self.connections.len().checked_sub(1) {
            let session = self.connections[last].session();
            if session.is_busy() || session.failure().is_some() {
                self.advance(fleet, host, last, &mut timer, wait)?;
                continue;
            }
            fleet.succeeded(Choice::regardless(self.connections[last].server));
            self.connections.pop();
        }
        Ok(())
    }

    /// Waits once, by `wait`, and takes what has arrived. Returns why the connection was given up, if it was.
    #[inline(never)]
    fn advance<H: Host>(
        &mut self,
        fleet: &Fleet,
        host: &H,
        position: usize,
        timer: &mut Timer,
        wait: fn(&mut Session, &mut Timer) -> Wake,
    ) -> Result<Option<Error>, H::Interrupt> {
        let Connection { loan, listening, .. } = &mut self.connections[position];
        let session = session_of(loan);
        match host.unlocked(|| wait(session, timer))? {
            Wake::Ready => host.interrupted()?,
            Wake::Interrupted => {
                listening.still_waits(session);
                host.interrupted()?;
            }
            Wake::Deadline => return Ok(self.time_out(fleet, position)),
        }
        Ok(self.take(fleet, position))
    }

    /// Takes what has arrived by the deadline. If that is not all, gives up the connection.
    #[cold]
    fn time_out(&mut self, fleet: &Fleet, position: usize) -> Option<Error> {
        self.connections[position].session().poll(Instant::now());
        let broken = self.take(fleet, position);
        if broken.is_some() || !self.connections[position].session().is_busy() {
            return broken;
        }
        let session = self.connections[position].session();
        session.fail(Error::unanswered(session.server()));
        self.take(fleet, position)
    }

    /// Takes what has arrived. Gives up a connection that broke, and returns why.
    fn take(&mut self, fleet: &Fleet, position: usize) -> Option<Error> {
        let Connection { server, loan, open, listening, .. } = &mut self.connections[position];
        let session = session_of(loan);
        while let Some(completion) = session.next() {
            let outcome = match completion.outcome {
                Outcome::Reply(reply) => {
                    listening.heard_own(true);
                    Ok(reply.head.status)
                }
                Outcome::Failed(error) => Err(error),
                Outcome::Part(_) | Outcome::Large { .. } => continue,
            };
            let position = open.iter().position(|(ticket, _)| *ticket == completion.ticket);
            let Some((_, submitted)) = position.and_then(|position| open.remove(position)) else { continue };
            let Submitted { number, command, key } = submitted;
            self.account.note(number, command, key, outcome.map_err(|error| told(error, command, Sent::No)));
        }
        let error = session.failure()?.clone();
        fleet.judge(Choice::regardless(*server), &error, || listening.heard(fleet.heard(*server)));
        self.connections.swap_remove(position);
        Some(error)
    }

    fn failed(&mut self, Submitted { number, command, key }: Submitted<K>, error: Error) {
        self.account.note(number, command, key, Err(error));
    }
}

impl<K> Connection<K> {
    /// Sends what the socket takes. Returns whether there may be news. Quiet commands are seldom answered, so it receives
    /// only now and then, and when the socket takes no more: the server may be waiting until its replies are taken.
    fn send(&mut self) -> bool {
        self.unseen += 1;
        let looks = self.unseen >= SENDS_PER_LOOK;
        let session = self.session();
        session.flush();
        if !looks && !session.has_unsent() {
            return session.failure().is_some();
        }
        // Nothing is late yet: a quiet command is answered when the batch is finished.
        let _ = session.fill_with(Stream::receive);
        self.unseen = 0;
        true
    }

    fn session(&mut self) -> &mut Session {
        session_of(&mut self.loan)
    }
}
