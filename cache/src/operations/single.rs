//! A request about one key.
//!
//! A caller may be cancelled while its request for a lease is in flight, and win without knowing. The operation gives
//! such a win back when its reply arrives. A win whose reply is lost expires. So a request for a lease can be retried
//! like a get, although it changes something.

mod aside;
mod tagged;

use std::time::Instant;

use pinyon_proto::{Head, Mode, Status};

use super::request::without_tokens;
use super::route::{choose, may_go_on, told};
use super::tagging::AskedTags;
use super::values::{OwnedData, OwnedKey, SentData, SentKey, Unread, Values};
use super::{Answer, Ask, Asks, End, Next, Operation, Policy, Request, Sending};
use crate::fleet::Fleet;
use crate::session::{Data, Destination, Refused, Reply, Session, Ticket};
use crate::tags::TAGGED;
use aside::{Aside, Rare};
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
    /// The most that any of its tries may have sent.
    sent: Sent,
    /// What most requests never have. One look tells so.
    rare: Option<Box<Rare<V>>>,
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
            sent: Sent::No,
            rare: None,
        }
    }

    /// Takes the answer. Call it once, when the operation is over.
    #[inline]
    pub fn take_answer(&mut self) -> Answered<V> {
        if self.rare.is_none() {
            if let Some(Ok(answer)) = self.answer.take_if(|answer| answer.is_ok()) {
                return Ok(answer);
            }
        }
        self.take_failure()
    }

    #[cold]
    fn take_failure(&mut self) -> Answered<V> {
        match (self.take_error(), self.answer.take()) {
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
            Err(Failed::Error(error)) => self.fail_with(error),
            Err(Failed::Unreadable { error, .. }) => self.answer = Some(Err(error)),
        }
    }

    /// The request, as the host made it.
    pub fn request(&self) -> &Request {
        match self.aside() {
            Some(Aside::Beginning(beginning)) => &beginning.arithmetic,
            Some(Aside::PuttingBack(kept)) => &kept.request,
            _ => &self.request,
        }
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
        if fleet.near().is_some() || self.rare.is_some() {
            return self.begin_beside(fleet, now);
        }
        let (key, failover) = (self.key.routed(), self.policy.failover);
        match choose(fleet, key, failover, now, || self.name(), None) {
            Ok(choice) => Asks::One(Ask { part: 0, choice }),
            Err(error) => {
                self.fail_with(error);
                Asks::None
            }
        }
    }

    fn name_of(&self, part: u32) -> &'static str {
        match part.checked_sub(1) {
            None => self.name(),
            Some(part) => AskedTags::name_of(part),
        }
    }

    fn routed(&self, part: u32) -> &[u8] {
        match part {
            0 => self.key.routed(),
            part => self.routed_of_tag(part),
        }
    }

    #[inline(always)]
    fn submit<N: Network>(&mut self, part: u32, session: &mut Session<N>, sending: Sending) -> Result<Ticket, Refused> {
        self.alone |= !sending.is_shared;
        if self.rare.is_some() {
            if let Some(submitted) = self.submit_beside(part, session, sending) {
                return submitted;
            }
        }
        let key = self.key.wire();
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
    fn reply(&mut self, part: u32, reply: Reply<'_>) {
        match self.rare {
            None => self.reply_alone(reply),
            Some(_) => self.reply_aside(part, reply),
        }
    }

    fn destination(&mut self, _part: u32, _index: usize, head: &Head) -> Box<dyn Destination> {
        self.values.destination(head)
    }

    #[inline(always)]
    fn over(&mut self, part: u32, end: End) -> Next {
        match end {
            End::Answered if self.is_in_doubt => self.over_in_doubt(part, End::Answered),
            End::Answered => self.answered(),
            other => self.over_in_doubt(part, other),
        }
    }

    fn fail(&mut self, error: Error) {
        if self.end_putting_back() {
            return;
        }
        self.end_beginning();
        self.fail_with(told(error, self.name(), self.sent).into());
    }

    fn only_reads(&self, part: u32) -> bool {
        match part.checked_sub(1) {
            None => self.request.is_idempotent() && !self.may_win(),
            Some(part) => AskedTags::only_reads(part),
        }
    }

    fn may_win(&self) -> bool {
        matches!(self.request, Request::Lease { .. } | Request::Renew { .. })
    }

    fn outlives_its_caller(&self) -> bool {
        self.may_win() || matches!(self.request, Request::GiveBack(_))
    }

    fn late(&self, part: u32) -> Option<LateLease> {
        if part != 0 || !matches!(self.request, Request::Lease { .. } | Request::GiveBack(_)) {
            return None;
        }
        Some(LateLease::of(self.request, self.key.owned(), self.policy))
    }

    fn give_back(&mut self) -> Next {
        let won = match &self.answer {
            Some(Ok(Answer::Lease(found))) if self.failure().is_none() => found.win(),
            _ => self.kept_win(),
        };
        let Some(win) = won else { return Next::Nothing };
        self.request = Request::GiveBack(win);
        self.take_tagged();
        self.answer = None;
        Next::Again
    }
}

impl<K: SentKey, D: SentData, V: Values> Single<K, D, V> {
    /// Takes a reply to a request that does something beside.
    #[cold]
    #[inline(never)]
    fn reply_aside(&mut self, part: u32, reply: Reply<'_>) {
        if self.is_tagged() {
            return self.reply_beside_tags(part, reply);
        }
        if reply.head.status == Status::Done {
            return self.reply_from_memory(reply);
        }
        if self.alone || !reply.head.may_be_placeholder() {
            self.keep_in_memory(&reply);
        }
        self.reply_alone(reply);
    }

    #[inline(always)]
    fn reply_alone(&mut self, reply: Reply<'_>) {
        if self.is_remarkable(reply.head) {
            return self.reply_remarkable(reply);
        }
        self.is_in_doubt = false;
        self.answer = Some(self.request.answer(&self.values, reply));
    }

    /// Whether a reply means more than the answer in it.
    #[inline(always)]
    fn is_remarkable(&self, head: &Head) -> bool {
        let item = &head.item;
        head.status == Status::End
            || item.won
            || item.client_flags & TAGGED != 0
            || item.cas == Some(0)
            || head.may_be_placeholder()
    }

    #[cold]
    #[inline(never)]
    fn reply_remarkable(&mut self, reply: Reply<'_>) {
        if reply.head.status == Status::End && self.answer.is_some() {
            return;
        }
        self.is_in_doubt = !self.alone && reply.head.may_be_placeholder();
        if self.request.reads_token() && reply.head.item.cas == Some(0) {
            self.fail_with(without_tokens(reply.server).of(self.name(), Sent::Yes).into());
            self.answer = Some(Ok(Answer::Missing));
            return;
        }
        if reply.head.item.client_flags & TAGGED != 0 && reply.head.status == Status::Hit {
            return self.keep(reply);
        }
        let is_won = reply.head.item.won;
        self.answer = Some(self.request.answer(&self.values, reply));
        if is_won {
            self.won();
        }
    }

    #[inline(always)]
    fn answered(&mut self) -> Next {
        if self.rare.is_some() {
            return self.answered_aside();
        }
        match self.request {
            Request::Arithmetic { initial: Some(initial), .. } => self.counted(initial),
            Request::Renew { lease, recache, .. } => self.renewed(lease, recache),
            _ => Next::Nothing,
        }
    }

    /// The same for a request that failed before, or that does something beside.
    #[cold]
    fn answered_aside(&mut self) -> Next {
        // The server answered, but without a token.
        if self.failure().is_some_and(|error| error.kind == Kind::Unsupported) {
            return Next::Nothing;
        }
        self.take_error();
        match self.request {
            Request::Arithmetic { initial: Some(initial), .. } => self.counted(initial),
            Request::Store { mode: Mode::Add, .. } => self.added(),
            Request::Renew { lease, recache, .. } => self.renewed(lease, recache),
            Request::Metadata | Request::GiveBack(_) => self.putting_back(),
            _ => Next::Nothing,
        }
    }

    /// Asks for the lease that was renewed.
    fn renewed(&mut self, lease: i32, recache: i32) -> Next {
        self.request = Request::Lease { lease, recache };
        self.answer = None;
        Next::Again
    }

    #[cold]
    fn over_in_doubt(&mut self, part: u32, end: End) -> Next {
        match self.is_tagged() {
            false => self.over_alone(end),
            true => self.over_beside_tags(part, end),
        }
    }

    #[cold]
    fn over_alone(&mut self, end: End) -> Next {
        match end {
            End::Answered if self.is_in_doubt && matches!(self.request, Request::Get(_)) => {
                self.alone = true;
                self.answer = None;
                Next::Again
            }
            End::Answered => self.answered(),
            End::Withdrawn => Next::Again,
            End::Failed { error, in_time } => self.failed(error, in_time),
        }
    }

    fn block(&self) -> Data<'_> {
        match self.aside() {
            Some(Aside::Beginning(beginning)) => Data::Copied(&beginning.digits),
            Some(Aside::Tagged(tagged)) if !tagged.block.is_empty() => Data::Copied(&tagged.block),
            _ => self.data.data(),
        }
    }

    #[cold]
    fn failed(&mut self, error: Error, in_time: bool) -> Next {
        if self.end_putting_back() {
            return Next::Nothing;
        }
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
        self.fail_with(error.into());
        match again {
            true => Next::Again,
            false => Next::Nothing,
        }
    }
}
