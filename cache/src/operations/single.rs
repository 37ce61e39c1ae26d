//! A request about one key.
//!
//! A caller may be cancelled while its request for a lease is in flight, and win without knowing. The operation gives
//! such a win back when its reply arrives. A win whose reply is lost expires. So a request for a lease can be retried
//! like a get, although it changes something.

use std::time::Instant;

use pinyon_proto::{Head, Mode, Status};

use super::request::without_tokens;
use super::route::{choose, may_go_on, told};
use super::values::{OwnedData, OwnedKey, SentData, SentKey, Unread, Values};
use super::{Answer, Ask, Asks, End, Initial, Next, Operation, Policy, Request, Sending};
use crate::fleet::Fleet;
use crate::session::{Data, Destination, Refused, Reply, Session, Ticket};
use pinyon_net::error::{Error, Kind, Sent};
use pinyon_net::network::Network;

/// A request about one key. It is tried on one server after another until it is answered or its time is up.
pub struct Single<K, D, V: Values> {
    key: K,
    data: D,
    values: V,
    request: Request,
    policy: Policy,
    /// Whether it must not be joined with others.
    alone: bool,
    /// Whether the value may be a placeholder. A classic reply does not tell.
    is_in_doubt: bool,
    answer: Option<Result<Answer<V::Value>, V::Error>>,
    /// The last failure, until there is an answer.
    failure: Option<Box<Error>>,
    /// The most that any of its tries may have sent.
    sent: Sent,
    /// The creation of a missing counter, while it is under way.
    beginning: Option<Box<Beginning>>,
}

/// The creation of a missing counter: the original request, and the digits to store. If another caller stores a counter
/// first, that one is used.
struct Beginning {
    arithmetic: Request,
    initial: u64,
    digits: Vec<u8>,
}

/// A lease, or one that is given back, whose caller was interrupted.
pub type LateLease = Single<OwnedKey, OwnedData, Unread>;

/// Why a request has no answer.
#[derive(Debug)]
pub enum Failed<E> {
    /// A server failed, or no server could be asked.
    Error(Box<Error>),
    /// The host could not read the value. `command`: the protocol's name of the command that asked for it.
    Unreadable { error: E, command: &'static str },
}

/// The answer with the host's value, or the reason why there is none.
pub type Answered<V> = Result<Answer<<V as Values>::Value>, Failed<<V as Values>::Error>>;

impl<K: SentKey, D: SentData, V: Values> Single<K, D, V> {
    /// `data`: the block of a [`Request::Store`]. It must have the size that the request states.
    #[inline]
    pub fn new(request: Request, key: K, data: D, values: V, policy: Policy) -> Self {
        Self {
            key,
            data,
            values,
            request,
            policy,
            alone: false,
            is_in_doubt: false,
            answer: None,
            failure: None,
            sent: Sent::No,
            beginning: None,
        }
    }

    /// Takes the answer. Call it once, when the operation is over.
    #[inline]
    pub fn take_answer(&mut self) -> Answered<V> {
        if self.failure.is_none() {
            if let Some(Ok(answer)) = self.answer.take_if(|answer| answer.is_ok()) {
                return Ok(answer);
            }
        }
        self.take_failure()
    }

    #[cold]
    fn take_failure(&mut self) -> Answered<V> {
        match (self.failure.take(), self.answer.take()) {
            (None, Some(Ok(answer))) => Ok(answer),
            (None, Some(Err(error))) => {
                let command = self.request.name();
                Err(Failed::Unreadable { error, command })
            }
            (Some(error), _) if !self.policy.forgives(&error) => {
                Err(Failed::Error(self.request.naming(self.key.routed(), *error).into()))
            }
            _ => Ok(self.request.lost()),
        }
    }

    /// Consumes the operation and returns its answer.
    pub fn finish(mut self) -> Answered<V> {
        self.take_answer()
    }

    /// Ends it with this answer, as if a server had sent it.
    pub(crate) fn end(&mut self, answered: Answered<V>) {
        match answered {
            Ok(answer) => self.answer = Some(Ok(answer)),
            Err(Failed::Error(error)) => self.failure = Some(error),
            Err(Failed::Unreadable { error, .. }) => self.answer = Some(Err(error)),
        }
    }

    /// The request, as the host made it.
    pub fn request(&self) -> &Request {
        self.beginning.as_ref().map_or(&self.request, |beginning| &beginning.arithmetic)
    }

    pub(super) fn key_and_data(&mut self) -> (&mut K, &mut D) {
        (&mut self.key, &mut self.data)
    }

    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// What reads its value.
    pub fn values(&self) -> &V {
        &self.values
    }

    /// The key, for messages.
    pub fn key(&self) -> &K {
        &self.key
    }
}

impl LateLease {
    pub(crate) fn of(request: Request, key: OwnedKey, policy: Policy) -> Self {
        Self::new(request, key, OwnedData::Nothing, Unread, policy)
    }
}

impl<K: SentKey, D: SentData, V: Values> Operation for Single<K, D, V> {
    fn name(&self) -> &'static str {
        self.request.name()
    }

    #[inline(always)]
    fn begin(&mut self, fleet: &Fleet, now: Instant) -> Asks {
        let (key, failover) = (self.key.routed(), self.policy.failover);
        match choose(fleet, key, failover, now, || self.name(), self.failure.as_deref()) {
            Ok(choice) => Asks::One(Ask { part: 0, choice }),
            Err(error) => {
                self.failure = Some(error);
                Asks::None
            }
        }
    }

    fn routed(&self, _part: u32) -> &[u8] {
        self.key.routed()
    }

    #[inline(always)]
    fn submit<N: Network>(
        &mut self,
        _part: u32,
        session: &mut Session<N>,
        sending: Sending,
    ) -> Result<Ticket, Refused> {
        let key = self.key.wire();
        self.alone |= !sending.is_shared;
        let joined = !self.alone && self.request.may_be_joined();
        if let (Request::Get(_), true) = (self.request, joined) {
            return session.submit_joined_get(key, sending.deadline);
        }
        let mut command = self.request.command(key);
        if let Some(most) = sending.longest_ttl {
            command = command.expiring_within(most);
        }
        match joined {
            true => session.submit_joined(&command, self.data.data(), sending.deadline),
            false => session.submit(&command, self.block(), sending.deadline),
        }
    }

    #[inline]
    fn reply(&mut self, _part: u32, reply: Reply<'_>) {
        if reply.head.status == Status::End && self.answer.is_some() {
            return;
        }
        self.is_in_doubt = !self.alone && reply.head.may_be_placeholder();
        if self.request.reads_token() && reply.head.item.cas == Some(0) {
            self.failure = Some(without_tokens(reply.server).of(self.name(), Sent::Yes).into());
            self.answer = Some(Ok(Answer::Missing));
            return;
        }
        self.answer = Some(self.request.answer(&self.values, reply));
    }

    fn destination(&mut self, _part: u32, _index: usize, head: &Head) -> Box<dyn Destination> {
        self.values.destination(head)
    }

    #[inline(always)]
    fn over(&mut self, _part: u32, end: End) -> Next {
        match end {
            End::Answered if self.is_in_doubt && matches!(self.request, Request::Get(_)) => {
                self.alone = true;
                self.answer = None;
                Next::Again
            }
            // The server answered, but without a token.
            End::Answered if self.failure.as_ref().is_some_and(|error| error.kind == Kind::Unsupported) => {
                Next::Nothing
            }
            End::Answered => {
                self.failure = None;
                match self.request {
                    Request::Arithmetic { initial: Some(initial), .. } => self.counted(initial),
                    Request::Store { mode: Mode::Add, .. } => self.added(),
                    Request::Renew { lease, recache, .. } => {
                        self.request = Request::Lease { lease, recache };
                        self.answer = None;
                        Next::Again
                    }
                    _ => Next::Nothing,
                }
            }
            End::Withdrawn => Next::Again,
            End::Failed { error, in_time } => self.failed(error, in_time),
        }
    }

    fn fail(&mut self, error: Error) {
        self.end_beginning();
        self.failure = Some(told(error, self.name(), self.sent).into());
    }

    fn only_reads(&self, _part: u32) -> bool {
        self.request.is_idempotent() && !self.may_win()
    }

    fn may_win(&self) -> bool {
        matches!(self.request, Request::Lease { .. } | Request::Renew { .. })
    }

    fn outlives_its_caller(&self) -> bool {
        self.may_win() || matches!(self.request, Request::GiveBack(_))
    }

    fn late(&self, _part: u32) -> Option<LateLease> {
        if !matches!(self.request, Request::Lease { .. } | Request::GiveBack(_)) {
            return None;
        }
        Some(LateLease::of(self.request, self.key.owned(), self.policy))
    }

    fn give_back(&mut self) -> Next {
        let won = match &self.answer {
            Some(Ok(Answer::Lease(found))) if self.failure.is_none() => found.win(),
            _ => None,
        };
        let Some(win) = won else { return Next::Nothing };
        self.request = Request::GiveBack(win);
        self.answer = None;
        Next::Again
    }
}

impl<K: SentKey, D: SentData, V: Values> Single<K, D, V> {
    /// Creates the counter if it is missing.
    #[cold]
    fn counted(&mut self, initial: Initial) -> Next {
        if !matches!(self.answer, Some(Ok(Answer::Missing))) {
            return Next::Nothing;
        }
        let Initial { number, ttl, client_flags } = initial;
        let digits = number.to_string().into_bytes();
        let store =
            Request::Store { mode: Mode::Add, size: digits.len(), client_flags, ttl, cas: None, returns_cas: false };
        let arithmetic = std::mem::replace(&mut self.request, store);
        self.beginning = Some(Beginning { arithmetic, initial: number, digits }.into());
        self.answer = None;
        Next::Again
    }

    /// Ends the creation. If another caller was first, asks to change its counter instead.
    #[cold]
    fn added(&mut self) -> Next {
        let Some(beginning) = self.end_beginning() else { return Next::Nothing };
        match self.answer {
            Some(Ok(Answer::Done(true))) => {
                self.answer = Some(Ok(Answer::Number(beginning.initial)));
                Next::Nothing
            }
            _ => {
                self.answer = None;
                Next::Again
            }
        }
    }

    /// Restores the original request.
    fn end_beginning(&mut self) -> Option<Box<Beginning>> {
        let beginning = self.beginning.take()?;
        self.request = beginning.arithmetic;
        Some(beginning)
    }

    fn block(&self) -> Data<'_> {
        match &self.beginning {
            Some(beginning) => Data::Copied(&beginning.digits),
            None => self.data.data(),
        }
    }

    #[cold]
    fn failed(&mut self, error: Error, in_time: bool) -> Next {
        self.end_beginning();
        let is_idempotent = self.request.is_idempotent();
        let error = self.request.explained(told(error, self.name(), self.sent)).reading(self.only_reads(0));
        self.sent = error.sent;
        self.answer = None;
        if in_time && error.is_unattributed() && self.request.may_be_joined() && !self.alone {
            self.alone = true;
            return Next::Again;
        }
        let again = in_time && may_go_on(&error, is_idempotent);
        self.failure = Some(error.into());
        match again {
            true => Next::Again,
            false => Next::Nothing,
        }
    }
}
