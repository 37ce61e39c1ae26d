//! What a request does beside itself, one thing at a time: it keeps a value in memory, creates a counter, puts back a right
//! to renew that it did not want, or has to do with [tags](super::tagged).

use std::sync::Arc;
use std::time::Instant;

use pinyon_proto::{Command, Flag, Head, Item, MetaCommand, Mode, Status, Verb};

use super::tagged::Tagged;
use super::Single;
use crate::fleet::Fleet;
use crate::near::{Asked, Look, Near};
use crate::operations::route::choose;
use crate::operations::untaken::{put_back, LOOK_UP};
use crate::operations::values::{SentData, SentKey, Values};
use crate::operations::{Answer, Ask, Asks, Initial, Next, Request, Sending};
use crate::session::{Data, Refused, Reply, Session, Ticket, Value};
use crate::tags::TAGGED;
use pinyon_net::error::Error;
use pinyon_net::network::Network;

/// What most requests never have.
pub(super) struct Rare<V: Values> {
    /// The last failure, until there is an answer.
    pub(super) failure: Option<Box<Error>>,
    /// What it does beside its request, while that is under way: one thing at a time.
    pub(super) aside: Option<Aside<V>>,
}

pub(super) enum Aside<V: Values> {
    Beginning(Beginning),
    PuttingBack(PuttingBack<V>),
    /// What keeps the value in memory that is being read.
    Asked(Asked),
    /// What it has to do with tags.
    Tagged(Tagged),
}

/// The creation of a missing counter: the original request, and the digits to store. If another caller stores a counter
/// first, that one is used.
pub(super) struct Beginning {
    pub(super) arithmetic: Request,
    initial: u64,
    pub(super) digits: Vec<u8>,
}

/// The original request and its answer, while the right to renew is put back that it took: see [`untaken`](super::untaken).
pub(super) struct PuttingBack<V: Values> {
    pub(super) request: Request,
    answer: Option<Result<Answer<V::Value>, V::Error>>,
}

impl<K: SentKey, D: SentData, V: Values> Single<K, D, V> {
    #[inline(always)]
    pub(super) fn failure(&self) -> Option<&Error> {
        self.rare.as_deref()?.failure.as_deref()
    }

    #[cold]
    pub(super) fn fail_with(&mut self, error: Box<Error>) {
        self.rare_mut().failure = Some(error);
    }

    #[cold]
    pub(super) fn take_error(&mut self) -> Option<Box<Error>> {
        self.rare.as_deref_mut()?.failure.take()
    }

    #[inline(always)]
    pub(super) fn aside(&self) -> Option<&Aside<V>> {
        self.rare.as_deref()?.aside.as_ref()
    }

    #[cold]
    pub(super) fn begin_aside(&mut self, aside: Aside<V>) {
        self.rare_mut().aside = Some(aside);
    }

    #[cold]
    pub(super) fn end_aside(&mut self, is_it: impl FnOnce(&Aside<V>) -> bool) -> Option<Aside<V>> {
        self.rare.as_deref_mut()?.aside.take_if(|aside| is_it(aside))
    }

    fn rare_mut(&mut self) -> &mut Rare<V> {
        self.rare.get_or_insert_with(|| Rare { failure: None, aside: None }.into())
    }

    /// Begins where there are hot keys in memory, or something is there that most requests do not have.
    #[cold]
    #[inline(never)]
    pub(super) fn begin_beside(&mut self, fleet: &Fleet, now: Instant) -> Asks {
        if fleet.near().is_some_and(|near| self.is_in_memory(near, now)) {
            return Asks::None;
        }
        if self.is_tagged() {
            return self.begin_beside_tags(fleet, now);
        }
        let (key, failover) = (self.key.routed(), self.policy.failover);
        match choose(fleet, key, failover, now, || self.request.name(), self.failure()) {
            Ok(choice) => Asks::One(Ask { part: 0, choice }),
            Err(_) if self.end_putting_back() => Asks::None,
            Err(error) => {
                self.fail_with(error);
                Asks::None
            }
        }
    }

    /// Submits what is not submitted as it would be alone: the question for a tag, and a get whose value is to be kept.
    #[cold]
    #[inline(never)]
    pub(super) fn submit_beside<N: Network>(
        &self,
        part: u32,
        session: &mut Session<N>,
        sending: Sending,
    ) -> Option<Result<Ticket, Refused>> {
        match part {
            0 => self.submit_to_keep(session, sending),
            part => Some(self.submit_tag(part, session, sending)),
        }
    }

    /// Answers from memory, if the value is there. Otherwise prepares to keep it. A key that is written is forgotten, even if
    /// no server can be asked.
    fn is_in_memory(&mut self, near: &Arc<Near>, now: Instant) -> bool {
        let key = self.key.wire();
        if self.request.changes() {
            near.forget(key);
        }
        if !self.request.may_be_near(self.policy) || self.aside().is_some() || self.alone {
            return false;
        }
        match near.look(key, now) {
            Look::Hit(held) => {
                let value = self.values.read(&held.head(), Value::Borrowed(&held.bytes), &held.server);
                self.answer = Some(value.map(Answer::Value));
                true
            }
            Look::Ask(ticket) => {
                self.begin_aside(Aside::Asked(Asked::new(near.clone(), ticket)));
                false
            }
        }
    }

    /// Submits a get whose value is to be kept in memory, with the CAS token that lets the server tell whether the value has
    /// changed, or to learn that token.
    fn submit_to_keep<N: Network>(
        &self,
        session: &mut Session<N>,
        sending: Sending,
    ) -> Option<Result<Ticket, Refused>> {
        let Some(Aside::Asked(asked)) = self.aside() else { return None };
        if !session.capabilities().conditional_get() {
            return None;
        }
        let key = self.key.wire();
        let token = session.connected_since().and_then(|since| asked.token(session.server(), since));
        let flags = token.map(|token| [Flag::CompareCas(token), Flag::ReturnClientFlags, Flag::ReturnCas, Flag::Value]);
        let command = match &flags {
            Some(flags) => Command::Meta(MetaCommand { verb: Verb::Get, key, size: None, flags }),
            None if self.alone || asked.known().is_some() => Command::Get { key, cas: true },
            None => return None,
        };
        Some(session.submit(&command, Data::None, sending.deadline))
    }

    /// Takes a reply that the value in memory is unchanged: to the caller it is as if the server had sent it.
    #[cold]
    pub(super) fn reply_from_memory(&mut self, reply: Reply<'_>) {
        let Some(held) = self.take_asked().and_then(|asked| asked.unchanged(self.key.wire())) else {
            return self.reply_alone(reply);
        };
        let item = Item { client_flags: held.client_flags, ..reply.head.item };
        let head = Head { status: Status::Hit, size: Some(held.bytes.len()), item, ..*reply.head };
        self.reply_alone(Reply { head: &head, value: Value::Borrowed(&held.bytes), ..reply });
    }

    fn take_asked(&mut self) -> Option<Asked> {
        match self.end_aside(|aside| matches!(aside, Aside::Asked(_)))? {
            Aside::Asked(asked) => Some(asked),
            _ => None,
        }
    }

    /// Keeps a value in memory. One with tags is none: what is in memory is not compared with its tags.
    #[cold]
    #[inline(never)]
    pub(super) fn keep_in_memory(&mut self, reply: &Reply<'_>) {
        let Some(asked) = self.take_asked() else { return };
        let key = self.key.wire();
        let is_value = reply.head.status == Status::Hit && !reply.head.is_placeholder();
        match is_value && reply.head.item.client_flags & TAGGED == 0 {
            true => asked.fill(key, reply.to_keep()),
            false => asked.missing(key),
        }
    }

    /// Creates the counter if it is missing.
    #[cold]
    pub(super) fn counted(&mut self, initial: Initial) -> Next {
        if !matches!(self.answer, Some(Ok(Answer::Missing))) {
            return Next::Nothing;
        }
        let Initial { number, ttl, client_flags } = initial;
        let digits = number.to_string().into_bytes();
        let store =
            Request::Store { mode: Mode::Add, size: digits.len(), client_flags, ttl, cas: None, returns_cas: false };
        let arithmetic = std::mem::replace(&mut self.request, store);
        self.begin_aside(Aside::Beginning(Beginning { arithmetic, initial: number, digits }));
        self.answer = None;
        Next::Again
    }

    /// Ends the creation. If another caller was first, asks to change its counter instead.
    #[cold]
    pub(super) fn added(&mut self) -> Next {
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
    pub(super) fn end_beginning(&mut self) -> Option<Beginning> {
        let Aside::Beginning(beginning) = self.end_aside(|aside| matches!(aside, Aside::Beginning(_)))? else {
            return None;
        };
        self.request = beginning.arithmetic;
        Some(beginning)
    }

    /// Keeps the answer, if the right to renew came with it that the caller has no use for.
    #[cold]
    pub(super) fn won(&mut self) {
        if !self.request.leaves_renewal() {
            return;
        }
        let request = std::mem::replace(&mut self.request, LOOK_UP);
        let answer = self.answer.take();
        self.begin_aside(Aside::PuttingBack(PuttingBack { request, answer }));
    }

    /// Goes on with putting the right back, if that is what it does.
    #[cold]
    pub(super) fn putting_back(&mut self) -> Next {
        if !matches!(self.aside(), Some(Aside::PuttingBack(_))) {
            return Next::Nothing;
        }
        let next = match self.answer.take() {
            None => Some(LOOK_UP),
            Some(Ok(Answer::Metadata(item))) => put_back(&item),
            Some(_) => None,
        };
        if let Some(request) = next {
            self.request = request;
            return Next::Again;
        }
        self.end_putting_back();
        Next::Nothing
    }

    /// Restores the original request and its answer. Returns whether the right was being put back.
    #[cold]
    pub(super) fn end_putting_back(&mut self) -> bool {
        let Some(Aside::PuttingBack(kept)) = self.end_aside(|aside| matches!(aside, Aside::PuttingBack(_))) else {
            return false;
        };
        (self.request, self.answer) = (kept.request, kept.answer);
        self.take_error();
        true
    }
}
