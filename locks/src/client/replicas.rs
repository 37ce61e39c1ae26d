//! Grants that count once enough replicas have them.
//!
//! `WAIT` concerns what was written on its own connection, and blocks it. So a client that wants replicas has one more
//! connection. There it extends what it was granted, which is a later write than the grant and fails if the lock is
//! gone, and waits. Grants that come meanwhile share the next wait.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pinyon_proto::resp::{Command, Value};

use super::lane::{earlier, Lane};
use super::link::MOVING;
use super::{Awaited, Client, MachineFailure, Outcome, Platform, Setup};
use crate::call::ScriptAnswer;
use crate::handler::{Handler, Redirection};
use crate::machine::{LockRequest, Moment};
use crate::redis::{RespEvent, Ticket};
use crate::script::ScriptError;
use crate::sequence::Sequence;
use pinyon_net::address::Address;
use pinyon_net::driven::Action;
use pinyon_net::error::{Error, Kind, Sent};

/// The lane of the connection that waits for replicas.
pub(super) const CONFIRMATIONS: usize = 2;

/// How long before the deadline a wait ends, so that its answer comes in time: this, or an eighth of what is left.
const MARGIN: Duration = Duration::from_millis(50);

pub(super) struct Replicas<P: Platform> {
    wanted: u32,
    lane: Lane<P>,
    handler: Handler,
    /// The handler's job that each command in flight belongs to; none for a wait.
    flight: Sequence<Option<u64>>,
    /// In the order in which they came.
    grants: Vec<Grant>,
    batch: Option<Batch>,
    next_call: u64,
    /// When to repeat what waits for a slot to move.
    again_at: Option<Instant>,
    /// Why the last connection failed.
    trouble: Option<Error>,
}

/// A grant that does not count yet.
struct Grant {
    number: u64,
    token: u64,
    notified: bool,
    deadline: Moment,
    /// How many replicas had it when a wait ended.
    acknowledged: u32,
}

/// Grants that share a wait.
struct Batch {
    call: u64,
    /// Their numbers and tokens.
    grants: Vec<(u64, u64)>,
    /// Whether each is still held.
    held: Option<Vec<bool>>,
    wait: Option<u64>,
    waited: Option<Value>,
}

impl<P: Platform> Replicas<P> {
    pub(super) fn new(setup: &Setup, platform: &P) -> Option<Box<Self>> {
        (setup.replicas > 0).then(|| {
            Box::new(Self {
                wanted: setup.replicas,
                lane: Lane::new(CONFIRMATIONS, setup.session(platform)),
                handler: setup.handler(),
                flight: Sequence::default(),
                grants: Vec::new(),
                batch: None,
                next_call: 0,
                again_at: None,
                trouble: None,
            })
        })
    }

    pub(super) fn lane(&self) -> &Lane<P> {
        &self.lane
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.grants.is_empty()
    }

    /// When a grant fails.
    pub(super) fn due(&self) -> Option<Moment> {
        self.grants.iter().map(|grant| grant.deadline).min()
    }

    /// When the connection needs attention.
    pub(super) fn deadline(&self) -> Option<Instant> {
        earlier(self.lane.deadline(), self.again_at)
    }

    pub(super) fn discard(&mut self) {
        self.lane.discard();
        self.grants.clear();
        self.batch = None;
    }

    fn position(&self, number: u64) -> Option<usize> {
        self.grants.iter().position(|grant| grant.number == number)
    }

    /// Closes the connection. What it waited for begins anew on the next one.
    fn close(&mut self, error: &Error, actions: &mut VecDeque<Action>) {
        if !self.lane.is_forgotten() {
            self.lane.give_up(error, actions);
        }
        self.flight.clear();
        self.handler.reset();
        (self.batch, self.again_at) = (None, None);
    }

    /// Sends the handler's commands. A wait follows those that write.
    fn submit(&mut self, deadline: Instant, left: Duration) {
        let mut writes = false;
        while let Some((job, command)) = self.handler.next_command() {
            let is_call = command.iter().next().is_some_and(|word| matches!(word, b"FCALL" | b"EVALSHA"));
            writes |= is_call;
            self.submit_one(&command, Some(job), deadline);
            self.handler.reuse(command);
        }
        let is_due = match &self.batch {
            Some(batch) => writes || batch.wait.is_none() && batch.held.is_some(),
            None => false,
        };
        if is_due {
            let milliseconds = (left - MARGIN.min(left / 8)).as_millis().max(1).to_string();
            let wait = Command::of(["WAIT", &self.wanted.to_string(), &milliseconds]);
            let wait = self.submit_one(&wait, None, deadline + left);
            if let Some(batch) = &mut self.batch {
                // An earlier wait came before what was written just now.
                (batch.wait, batch.waited) = (wait, None);
            }
        }
        self.lane.session.flush();
    }

    fn submit_one(&mut self, command: &Command, job: Option<u64>, deadline: Instant) -> Option<u64> {
        match self.lane.session.submit_command(command, deadline) {
            Ok(Ticket(ticket)) => {
                self.flight.insert(ticket, job);
                Some(ticket)
            }
            Err(refused) => {
                let error = refused.into_error(self.lane.session.name(), "");
                self.lane.session.fail(error);
                None
            }
        }
    }
}

impl<W, P: Platform> Client<W, P> {
    /// Holds a grant back until enough replicas have it. Returns false if it counts already. `again`: its owner has
    /// acquired it before.
    pub(super) fn hold_back(&mut self, number: u64, token: u64, notified: bool, again: bool) -> bool {
        let Some(replicas) = &mut self.replicas else { return false };
        let patience = self.platform.boot_time() + self.settings.options.patience;
        if !again {
            let by = self.machine.wait_ends(number).filter(|_| !notified);
            let deadline = by.map_or(patience, |by| by.min(patience));
            replicas.grants.push(Grant { number, token, notified, deadline, acknowledged: 0 });
        }
        !again
    }

    /// Whether the owner of this request waits for replicas to have one of its names.
    pub(super) fn is_held_back(&self, request: &LockRequest) -> bool {
        let shares = |grant: &Grant| {
            let names = self.machine.names(grant.number);
            let shares = names.is_some_and(|names| names.iter().any(|name| request.names.contains(name)));
            shares && self.machine.attempt(grant.number).owner == request.owner
        };
        self.replicas.as_ref().is_some_and(|replicas| replicas.grants.iter().any(shares))
    }

    /// Whether a grant waits for replicas.
    pub(super) fn is_confirming(&self, number: u64) -> bool {
        self.replicas.as_ref().is_some_and(|replicas| replicas.position(number).is_some())
    }

    /// Forgets a grant that nobody waits for any more.
    pub(super) fn forget_grant(&mut self, number: u64) {
        if let Some(replicas) = &mut self.replicas {
            replicas.grants.retain(|grant| grant.number != number);
        }
    }

    /// Fails a grant that was lost before it counted. Returns false if there is none.
    pub(super) fn lost_too_early(&mut self, number: u64) -> bool {
        if self.replicas.as_ref().is_none_or(|replicas| replicas.position(number).is_none()) {
            return false;
        }
        self.fail_grant(number, "the lock was lost before enough replicas had it");
        true
    }

    /// Fails all grants that do not count yet, and gives them up, as the client is closed.
    pub(super) fn close_confirmations(&mut self, error: &Error) {
        let Some(replicas) = &mut self.replicas else { return };
        replicas.close(error, &mut self.actions);
        replicas.lane.retry_at = None;
        for grant in std::mem::take(&mut replicas.grants) {
            if let Some(waiter) = self.take_waiter(grant.number, Awaited::Grant) {
                self.finish(waiter, Outcome::Failed(MachineFailure::from(error.clone())));
            }
            self.machine.give_back(grant.number, self.platform.boot_time());
        }
    }

    /// The other connections broke, or lead to another server now.
    pub(super) fn end_confirmations(&mut self, error: &Error) {
        if let Some(replicas) = &mut self.replicas {
            replicas.close(error, &mut self.actions);
        }
    }

    /// Does what can be done for grants that do not count yet.
    pub(super) fn confirm_grants(&mut self, now: Instant) {
        if self.replicas.is_none() || self.closed {
            return;
        }
        self.take_confirmations();
        self.expire_grants();
        self.mend_confirmations(now);
        self.begin_wait(now);
        if let Some(replicas) = &mut self.replicas {
            replicas.lane.watch(&mut self.actions);
        }
        if self.link.is_broken() {
            self.sent(now);
            self.take_events();
        }
    }

    pub(super) fn confirmations_ready(&mut self, now: Instant) {
        if let Some(replicas) = &mut self.replicas {
            replicas.lane.session.poll(now);
            self.confirm_grants(now);
        }
    }

    pub(super) fn confirmations_forgotten(&mut self, now: Instant) {
        if let Some(replicas) = &mut self.replicas {
            replicas.lane.release();
            self.confirm_grants(now);
        }
    }

    pub(super) fn confirmations_resolved(&mut self, found: Result<Vec<Address>, String>, now: Instant) {
        let (is_wanted, timeout) = (self.link.is_up() && !self.closed, self.settings.connect_timeout);
        let Some(replicas) = &mut self.replicas else { return };
        if replicas.lane.resolved() && is_wanted {
            replicas.lane.connect(found, now, timeout);
            self.confirm_grants(now);
        }
    }

    /// Looks after the connection when its time has come.
    pub(super) fn expire_confirmations(&mut self, now: Instant) {
        let Some(replicas) = &mut self.replicas else { return };
        replicas.lane.expire(now);
        if replicas.again_at.is_some_and(|at| at <= now) {
            replicas.again_at = None;
            replicas.handler.try_again();
        }
        replicas.lane.may_try(now);
    }

    fn take_confirmations(&mut self) {
        let Some(replicas) = &mut self.replicas else { return };
        while let Some(event) = replicas.lane.session.next() {
            match event {
                RespEvent::Ready => {
                    (replicas.lane.failures, replicas.trouble) = (0, None);
                    let server = replicas.lane.session.server().clone();
                    replicas.handler.meet(&server);
                }
                RespEvent::Reply(Ticket(ticket), reply) => match replicas.flight.remove(ticket) {
                    Some(Some(job)) => replicas.handler.reply(job, reply),
                    Some(None) => {
                        if let Some(batch) = replicas.batch.as_mut().filter(|batch| batch.wait == Some(ticket)) {
                            batch.waited = Some(reply);
                        }
                    }
                    None => {}
                },
                RespEvent::Failed(_, error) if replicas.lane.session.failure().is_none() => {
                    replicas.lane.session.fail(error);
                }
                // The other connection tells of the same trouble.
                RespEvent::Failed(..) | RespEvent::Pushed(_) | RespEvent::Troubled(_) => {}
            }
        }
        while let Some((call, answer)) = self.replicas.as_mut().and_then(|replicas| replicas.handler.next_answer()) {
            self.told_held(call, answer);
        }
        self.end_wait();
    }

    /// Takes the answer whether the batch is still held.
    fn told_held(&mut self, call: u64, answer: Result<ScriptAnswer, ScriptError>) {
        let Some(replicas) = &mut self.replicas else { return };
        replicas.handler.take_redirection();
        let Some(batch) = replicas.batch.as_mut().filter(|batch| batch.call == call) else { return };
        let error = match answer {
            Ok(ScriptAnswer::Extended(held)) if held.len() == batch.grants.len() => {
                batch.held = Some(held);
                return;
            }
            Ok(_) => ScriptError::Unexpected("another answer".into()),
            Err(error) => error,
        };
        let batch = replicas.batch.take().map(|batch| batch.grants).unwrap_or_default();
        replicas.lane.retry_at = Some(self.platform.now() + MOVING);
        match error {
            ScriptError::Moved { slot, address, asking: false } if self.link.is_up() => {
                self.sent_on(Redirection { slot, address });
            }
            ScriptError::ClusterDown(_) if self.link.is_up() => self.not_served(error.to_string()),
            ScriptError::ReadOnly(_) if self.link.is_up() => self.ask_for_role_alone(),
            error => {
                for (number, _) in batch {
                    self.fail_grant(number, &format!("the lock could not be secured on replicas: {error}"));
                }
            }
        }
    }

    /// Ends the wait, if it is over.
    fn end_wait(&mut self) {
        let Some(replicas) = &mut self.replicas else { return };
        let is_over = |batch: &mut Batch| batch.held.is_some() && batch.waited.is_some();
        let Some(batch) = replicas.batch.take_if(is_over) else { return };
        let (wanted, held) = (replicas.wanted, batch.held.unwrap_or_default());
        let soon = self.platform.boot_time() + MARGIN;
        for ((number, token), held) in batch.grants.into_iter().zip(held) {
            let Some(replicas) = &mut self.replicas else { return };
            let grant = replicas.grants.iter_mut().find(|grant| (grant.number, grant.token) == (number, token));
            let Some(grant) = grant else { continue };
            match &batch.waited {
                _ if !held => self.fail_grant(number, "the lock was lost before enough replicas had it"),
                Some(Value::Integer(count)) if *count >= i64::from(wanted) => self.grant_counts(number),
                Some(Value::Integer(count)) => {
                    grant.acknowledged = u32::try_from(*count).unwrap_or(0);
                    if grant.deadline <= soon {
                        self.fail_late(number);
                    }
                }
                Some(Value::Error(error)) => {
                    let why = format!("the server does not wait for replicas ({error}): permit WAIT");
                    self.fail_grant(number, &why);
                }
                _ => self.fail_grant(number, "the server's answer to WAIT makes no sense"),
            }
        }
    }

    fn expire_grants(&mut self) {
        let now = self.platform.boot_time();
        while let Some(number) = self
            .replicas
            .as_ref()
            .and_then(|replicas| replicas.grants.iter().find(|grant| grant.deadline <= now).map(|grant| grant.number))
        {
            self.fail_late(number);
        }
    }

    /// Puts a broken connection away, and connects if grants wait for it.
    fn mend_confirmations(&mut self, now: Instant) {
        let Some(replicas) = &mut self.replicas else { return };
        if let Some(error) = replicas.lane.session.failure().cloned() {
            replicas.lane.failed(now);
            replicas.close(&error, &mut self.actions);
            replicas.trouble = Some(error);
        }
        let waits = replicas.lane.is_connecting() || replicas.lane.retry_at.is_some();
        if waits || replicas.grants.is_empty() || !self.link.is_up() {
            return;
        }
        if let Some(tls) = &self.settings.login.tls {
            match tls.moved_to(&self.endpoint) {
                Ok(tls) => replicas.lane.session.set_tls(Some(tls)),
                Err(error) => {
                    let message = format!("cannot connect: {error}");
                    replicas.lane.session.fail(Error::new(Kind::Connect, &self.settings.server, message));
                    return self.mend_confirmations(now);
                }
            }
        }
        if let Some(addresses) = replicas.lane.look_up(&self.endpoint, &mut self.actions) {
            self.confirmations_resolved(Ok(addresses), now);
        }
    }

    /// Begins to wait for all grants that do not count yet, unless a wait is under way. Sends what is due.
    fn begin_wait(&mut self, now: Instant) {
        let at = self.platform.boot_time();
        let deadline = now + self.settings.options.patience;
        let Some(replicas) = &mut self.replicas else { return };
        if !replicas.lane.session.is_ready() {
            return;
        }
        let left = replicas.due().map_or(Duration::ZERO, |due| due - at);
        if replicas.batch.is_none() && !replicas.grants.is_empty() && replicas.lane.retry_at.is_none() {
            let call = replicas.next_call;
            replicas.next_call += 1;
            let grants: Vec<(u64, u64)> = replicas.grants.iter().map(|grant| (grant.number, grant.token)).collect();
            let held = self.machine.extending(grants.iter().map(|(number, _)| *number));
            replicas.handler.begin(call, held);
            replicas.batch = Some(Batch { call, grants, held: None, wait: None, waited: None });
        }
        replicas.submit(deadline, left);
        if replicas.handler.is_waiting() && replicas.again_at.is_none() {
            replicas.again_at = Some(now + MOVING);
        }
    }

    /// Tells whoever waits for a grant that enough replicas have it.
    fn grant_counts(&mut self, number: u64) {
        let Some(Grant { token, notified, .. }) = self.take_grant(number) else { return };
        if let Some(waiter) = self.take_waiter(number, Awaited::Grant) {
            self.finish(waiter, Outcome::Granted { number, token, notified, again: false });
        }
    }

    fn fail_late(&mut self, number: u64) {
        let Some(replicas) = &self.replicas else { return };
        let acknowledged = replicas.position(number).map_or(0, |at| replicas.grants[at].acknowledged);
        let trouble = replicas.trouble.as_ref().map_or(String::new(), |error| format!(" ({})", error.message));
        let why = format!(
            "only {acknowledged} of {} replicas acknowledged the lock in time; it was released{trouble}",
            replicas.wanted
        );
        self.fail_grant(number, &why);
    }

    /// Releases a grant that does not count, and tells whoever waits for it.
    fn fail_grant(&mut self, number: u64, why: &str) {
        if self.take_grant(number).is_none() {
            return;
        }
        let error = self.naming_node(Error::new(Kind::Server, &self.settings.server, why).of("", Sent::Yes));
        self.machine.give_back(number, self.platform.boot_time());
        if let Some(waiter) = self.take_waiter(number, Awaited::Grant) {
            self.finish(waiter, Outcome::Failed(MachineFailure::from(error)));
        }
        self.end_turn();
    }

    fn take_grant(&mut self, number: u64) -> Option<Grant> {
        let replicas = self.replicas.as_mut()?;
        replicas.position(number).map(|at| replicas.grants.remove(at))
    }
}
