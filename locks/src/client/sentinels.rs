//! The Sentinels of a service: which server they name as its primary.
//!
//! A server is believed to be the primary when a majority of all Sentinels in the settings names it, so that those on
//! the wrong side of a partition mislead no one. Each of them has a connection of its own, on which it tells of
//! switches, too.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::time::Instant;

use pinyon_proto::resp::Value;

use super::lane::Lane;
use super::link::{Phase, COMMANDS};
use super::{Client, Platform};
use crate::observed::LockEvent;
use crate::redis::{Protocol, Refusal, RespEvent, RespSession, SessionSettings, Ticket};
use pinyon_net::address::{Address, Endpoint, SentinelService};
use pinyon_net::driven::Action;
use pinyon_net::error::{Error, Kind};
use pinyon_net::tls::ServerTls;

/// The lane of the first Sentinel. Those of the server come before.
pub(super) const FIRST_LANE: usize = 3;

/// The channel on which a Sentinel tells of a new primary.
const SWITCHES: &[u8] = b"+switch-master";

/// Which Sentinels to ask, for which service, and how to log in there.
#[derive(Clone, Debug)]
pub struct SentinelSetup {
    pub service: SentinelService,
    pub login: SessionSettings,
}

pub(super) struct Sentinels<P: Platform> {
    service: String,
    each: Vec<Sentinel<P>>,
    /// The server that they named last.
    primary: Option<Endpoint>,
}

struct Sentinel<P: Platform> {
    endpoint: Endpoint,
    tls: Option<ServerTls>,
    lane: Lane<P>,
    /// The question for the primary, until it is answered.
    question: Option<Ticket>,
    vote: Vote,
    /// Whether its connection was closed to ask on a new one.
    is_replaced: bool,
    /// Why it could not log in anew.
    trouble: Option<Error>,
}

/// What a Sentinel says.
#[derive(Clone, Debug, PartialEq)]
enum Vote {
    /// Nothing yet.
    Awaited,
    Names(Endpoint),
    /// Why it names no primary.
    None(String),
    /// Why it will not name one either.
    Never(String),
}

/// What all Sentinels say together.
#[derive(Debug, PartialEq)]
enum Verdict {
    Awaited,
    Primary(Endpoint),
    /// Why they name no primary.
    None(String),
    /// Why they will not name one either.
    Never(String),
}

impl<P: Platform> Sentinels<P> {
    pub(super) fn new(setup: &SentinelSetup, platform: &P) -> Self {
        let sentinel = |(index, endpoint): (usize, &Endpoint)| {
            let session = RespSession::new(endpoint.to_string().into(), platform.clone(), setup.login.clone());
            Sentinel {
                endpoint: endpoint.clone(),
                tls: setup.login.tls.clone(),
                lane: Lane::new(FIRST_LANE + index, session),
                question: None,
                vote: Vote::Awaited,
                is_replaced: false,
                trouble: None,
            }
        };
        let each = setup.service.sentinels.iter().enumerate().map(sentinel).collect();
        Self { service: setup.service.name.clone(), each, primary: None }
    }

    /// Whether they agree on a primary, as far as they have answered.
    pub(super) fn agree(&self) -> bool {
        matches!(self.verdict(), Verdict::Primary(_))
    }

    fn verdict(&self) -> Verdict {
        verdict(&self.service, self.each.iter().map(|sentinel| (&sentinel.endpoint, &sentinel.vote)))
    }

    pub(super) fn lanes(&self) -> impl Iterator<Item = &Lane<P>> {
        self.each.iter().map(|sentinel| &sentinel.lane)
    }

    pub(super) fn watched(&self) -> impl Iterator<Item = (usize, RawFd)> + '_ {
        self.lanes().filter_map(Lane::watched)
    }

    /// When to continue. `is_wanted`: whether a Sentinel that cannot be reached is tried again.
    pub(super) fn deadline(&self, is_wanted: bool) -> Option<Instant> {
        let of = |lane: &Lane<P>| if is_wanted { lane.deadline() } else { lane.session.deadline() };
        self.lanes().filter_map(of).min()
    }

    /// Whether a host must wait for messages of theirs.
    pub(super) fn are_connected(&self) -> bool {
        self.each.iter().any(|sentinel| !sentinel.lane.session.is_closed())
    }

    pub(super) fn close(&mut self, error: &Error, actions: &mut VecDeque<Action>) {
        for Sentinel { lane, .. } in &mut self.each {
            lane.give_up(error, actions);
            lane.retry_at = None;
        }
    }

    pub(super) fn discard(&mut self) {
        self.each.iter_mut().for_each(|sentinel| sentinel.lane.discard());
    }
}

impl<P: Platform> Sentinel<P> {
    /// Asks which server is the primary, and to be told of the next ones.
    fn ask(&mut self, service: &str, deadline: Instant) {
        let question: [&[u8]; 3] = [b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", service.as_bytes()];
        self.vote = Vote::Awaited;
        self.question = self.submit(&question, deadline);
    }

    fn submit(&mut self, command: &[&[u8]], deadline: Instant) -> Option<Ticket> {
        let session = &mut self.lane.session;
        let ticket = match session.submit(command, deadline) {
            Ok(ticket) => Some(ticket),
            Err(refused) => {
                let error = refused.into_error(session.name(), "");
                session.fail(error);
                None
            }
        };
        session.flush();
        ticket
    }

    /// Asks again. A connection that only takes messages is replaced.
    fn ask_again(&mut self, service: &str, deadline: Instant) {
        match self.lane.session.server().protocol {
            _ if !self.lane.session.is_ready() => {}
            Protocol::Resp3 => self.ask(service, deadline),
            Protocol::Resp2 => {
                self.is_replaced = true;
                self.lane.session.close();
            }
        }
    }

    fn greeted(&mut self, service: &str, deadline: Instant) {
        if &*self.lane.session.server().mode != "sentinel" {
            let error = Error::new(Kind::Refused, self.lane.session.name(), "this is no Sentinel");
            return self.lane.session.fail(error);
        }
        self.lane.failures = 0;
        self.ask(service, deadline);
        self.submit(&[b"SUBSCRIBE", SWITCHES], deadline);
    }

    /// Takes what has arrived. Returns whether its vote may have changed.
    fn take(&mut self, service: &str, deadline: Instant) -> bool {
        let mut told = false;
        while let Some(event) = self.lane.session.next() {
            match event {
                RespEvent::Ready => self.greeted(service, deadline),
                RespEvent::Reply(ticket, reply) if Some(ticket) == self.question => {
                    (self.question, self.vote, told) = (None, vote(service, &reply), true);
                }
                RespEvent::Pushed(message) => {
                    if let Some(primary) = switched(service, &message) {
                        (self.question, self.vote, told) = (None, Vote::Names(primary), true);
                    }
                }
                // The confirmation of the subscription; and failures, which break the connection.
                RespEvent::Reply(_, Value::Error(error)) => {
                    let message = format!("it does not let this user subscribe to its messages ({error})");
                    let kind = if Refusal::passes(&error) { Kind::Connect } else { Kind::Refused };
                    self.lane.session.fail(Error::new(kind, self.lane.session.name(), message));
                }
                RespEvent::Reply(..) => {}
                RespEvent::Failed(_, error) if self.lane.session.failure().is_none() => self.lane.session.fail(error),
                RespEvent::Failed(..) => {}
                RespEvent::Troubled(error) => self.trouble = Some(error),
            }
        }
        told
    }
}

impl<W, P: Platform> Client<W, P> {
    /// Asks all Sentinels which server is the primary. Connects to it once a majority names one.
    pub(super) fn find_primary(&mut self, now: Instant) {
        let deadline = now + self.settings.options.patience;
        let Some(sentinels) = &mut self.sentinels else { return };
        for sentinel in &mut sentinels.each {
            sentinel.vote = Vote::Awaited;
            sentinel.lane.retry_at = None;
            sentinel.ask_again(&sentinels.service, deadline);
        }
        for index in 0..sentinels.each.len() {
            self.advance_sentinel(index, now);
        }
    }

    /// Connects to a Sentinel that has no connection.
    fn connect_sentinel(&mut self, index: usize, now: Instant) {
        let tls = self.sentinel(index).and_then(|sentinel| sentinel.tls.clone());
        self.renew_certificates(tls.as_ref());
        let Some(sentinel) = self.sentinels.as_mut().map(|all| &mut all.each[index]) else { return };
        if sentinel.lane.is_connecting() {
            return;
        }
        sentinel.vote = Vote::Awaited;
        match sentinel.tls.as_ref().map(|tls| tls.moved_to(&sentinel.endpoint)).transpose() {
            Ok(tls) => sentinel.lane.session.set_tls(tls),
            Err(error) => return self.found_sentinel(index, Err(error.to_string()), now),
        }
        if let Some(addresses) = sentinel.lane.look_up(&sentinel.endpoint, &mut self.actions) {
            self.found_sentinel(index, Ok(addresses), now);
        }
    }

    /// Continues with the addresses of a Sentinel.
    pub(super) fn found_sentinel(&mut self, index: usize, found: Result<Vec<Address>, String>, now: Instant) {
        let (closed, timeout) = (self.closed, self.settings.connect_timeout);
        let Some(sentinel) = self.sentinel(index) else { return };
        if sentinel.lane.resolved() && !closed {
            sentinel.lane.connect(found, now, timeout);
            self.advance_sentinel(index, now);
        }
    }

    pub(super) fn sentinel_ready(&mut self, index: usize, now: Instant) {
        let Some(sentinel) = self.sentinel(index) else { return };
        sentinel.lane.session.poll(now);
        self.advance_sentinel(index, now);
    }

    pub(super) fn sentinel_forgotten(&mut self, index: usize, now: Instant) {
        let Some(sentinel) = self.sentinel(index) else { return };
        sentinel.lane.release();
        if sentinel.vote == Vote::Awaited && !self.closed {
            self.connect_sentinel(index, now);
        }
    }

    fn sentinel(&mut self, index: usize) -> Option<&mut Sentinel<P>> {
        self.sentinels.as_mut()?.each.get_mut(index)
    }

    /// Does what is due for the Sentinels.
    pub(super) fn expire_sentinels(&mut self, now: Instant) {
        let count = self.sentinels.as_ref().map_or(0, |sentinels| sentinels.each.len());
        let is_wanted = !self.closed && !self.machine.is_idle();
        for index in 0..count {
            let Some(sentinel) = self.sentinel(index) else { return };
            if sentinel.lane.expire(now) {
                self.advance_sentinel(index, now);
            } else if is_wanted && sentinel.lane.retry_at.take_if(|at| *at <= now).is_some() {
                self.connect_sentinel(index, now);
            }
        }
    }

    /// Takes what a Sentinel has sent, and acts on what they say together.
    fn advance_sentinel(&mut self, index: usize, now: Instant) {
        let deadline = now + self.settings.options.patience;
        let Some(sentinels) = &mut self.sentinels else { return };
        let sentinel = &mut sentinels.each[index];
        let failed_before = sentinel.lane.failures > 0;
        let mut told = sentinel.take(&sentinels.service, deadline);
        let name = sentinel.lane.session.name().clone();
        let trouble = sentinel.trouble.take();
        let mut event = (failed_before && sentinel.lane.failures == 0).then(|| LockEvent::sentinel_up(&name));
        match sentinel.lane.session.failure().cloned() {
            None if sentinel.lane.session.is_closed() => return self.connect_sentinel(index, now),
            None => sentinel.lane.watch(&mut self.actions),
            Some(error) => {
                sentinel.take(&sentinels.service, deadline);
                sentinel.lane.put_away(&mut self.actions);
                sentinel.question = None;
                if std::mem::take(&mut sentinel.is_replaced) {
                    return self.connect_sentinel(index, now);
                }
                sentinel.lane.failed(now);
                if sentinel.lane.failures == 1 && !self.closed {
                    event = Some(LockEvent::sentinel_down(&name, &error));
                }
                let why = format!("cannot be asked ({})", error.message);
                sentinel.vote = if error.kind == Kind::Refused { Vote::Never(why) } else { Vote::None(why) };
                told = true;
            }
        }
        if let Some(event) = event {
            self.report(event);
        }
        if let Some(trouble) = trouble {
            self.report_trouble(&trouble);
        }
        if told {
            self.judge(now);
        }
    }

    /// Acts on what the Sentinels say together.
    fn judge(&mut self, now: Instant) {
        let Some(sentinels) = &self.sentinels else { return };
        let connects = self.link.is_connecting();
        match (sentinels.verdict(), self.link.phase) {
            (Verdict::Primary(primary), Phase::Rising) if !connects => {
                self.led_to(primary);
                self.connect_lane(COMMANDS, now);
            }
            (Verdict::Primary(primary), Phase::Down) if primary != self.endpoint => {
                self.link.lanes[COMMANDS].retry_at = None;
                self.connect_if_wanted(now);
            }
            (Verdict::Primary(primary), _) if primary != self.endpoint => {
                let message =
                    format!("the primary of {} is {primary} now, not {}", self.settings.server, self.endpoint);
                self.led_to(primary);
                self.moved(message);
                self.advance(now);
            }
            (Verdict::None(why), Phase::Rising) if !connects => self.no_primary(Kind::Connect, why, now),
            (Verdict::Never(why), Phase::Rising) if !connects => self.no_primary(Kind::Refused, why, now),
            _ => {}
        }
    }

    fn no_primary(&mut self, kind: Kind, why: String, now: Instant) {
        self.endpoint = self.settings.endpoint.clone();
        self.link.lanes[COMMANDS].session.fail(Error::new(kind, &self.settings.server, why));
        self.advance(now);
    }
}

impl<W, P: Platform> Client<W, P> {
    /// Turns to a server, and tells the operators if it is another one than before.
    fn led_to(&mut self, primary: Endpoint) {
        let before = self.sentinels.as_mut().and_then(|sentinels| sentinels.primary.replace(primary.clone()));
        if let Some(before) = before.filter(|before| *before != primary) {
            let [primary, before] = [&primary, &before].map(|one| one.to_string().into());
            self.report(LockEvent::switched(&self.settings.server.clone(), &primary, &before));
        }
        self.endpoint = primary;
    }
}

/// What a Sentinel answers to the question for the primary.
fn vote(service: &str, reply: &Value) -> Vote {
    match reply {
        Value::Array(parts) => match &parts[..] {
            [Value::Bytes(host), Value::Bytes(port)] => endpoint(host, port)
                .map_or_else(|| Vote::None("names a primary whose address cannot be read".into()), Vote::Names),
            _ => Vote::None("does not name a primary".into()),
        },
        Value::Null => Vote::Never(format!("does not know the service '{}'", service.escape_debug())),
        Value::Error(error) if Refusal::passes(error) => Vote::None(format!("does not say now ({error})")),
        Value::Error(error) => Vote::Never(format!("does not say ({error}): permit SENTINEL and SUBSCRIBE")),
        _ => Vote::None("does not name a primary".into()),
    }
}

/// The new primary of the service, if the message is about it: `service old-host old-port new-host new-port`.
fn switched(service: &str, message: &[Value]) -> Option<Endpoint> {
    let [Value::Bytes(_), Value::Bytes(channel), Value::Bytes(text)] = message else { return None };
    let rest = text.strip_prefix(service.as_bytes()).filter(|_| **channel == *SWITCHES)?;
    let mut words = rest.strip_prefix(b" ")?.split(|byte| *byte == b' ').skip(2);
    endpoint(words.next()?, words.next()?)
}

fn endpoint(host: &[u8], port: &[u8]) -> Option<Endpoint> {
    let host = std::str::from_utf8(host).ok().filter(|host| !host.is_empty())?.to_lowercase();
    let port = std::str::from_utf8(port).ok()?.parse().ok().filter(|port| *port > 0)?;
    Some(Endpoint::Tcp { host, port })
}

fn verdict<'v>(service: &str, votes: impl Iterator<Item = (&'v Endpoint, &'v Vote)> + Clone) -> Verdict {
    let count = votes.clone().count();
    let needed = count / 2 + 1;
    let never = votes.clone().filter(|(_, vote)| matches!(vote, Vote::Never(_))).count();
    let naming = |primary: &Endpoint| {
        votes.clone().filter(|(_, vote)| matches!(vote, Vote::Names(one) if one == primary)).count()
    };
    let named = votes.clone().filter_map(|(_, vote)| match vote {
        Vote::Names(primary) => Some((naming(primary), primary)),
        _ => None,
    });
    let awaited = votes.clone().filter(|(_, vote)| **vote == Vote::Awaited).count();
    match named.max_by_key(|(votes, _)| *votes) {
        Some((votes, primary)) if votes >= needed => Verdict::Primary(primary.clone()),
        _ if awaited > 0 => Verdict::Awaited,
        _ => {
            let said = votes.map(|(sentinel, vote)| match vote {
                Vote::Awaited => format!("{sentinel} has not answered"),
                Vote::Names(primary) => format!("{sentinel} names {primary}"),
                Vote::None(why) | Vote::Never(why) => format!("{sentinel} {why}"),
            });
            let said = said.collect::<Vec<_>>().join("; ");
            let service = service.escape_debug();
            let why = format!("no majority of the Sentinels names the same primary of '{service}': {said}");
            if count - never < needed {
                Verdict::Never(why)
            } else {
                Verdict::None(why)
            }
        }
    }
}
