//! The part of a request that concerns tags: of a value that was read, and of one that is stored.
//!
//! What was read is kept until its tags are known. A request for a lease asks for the tags of a new value at the same time,
//! so their generations are older than the value.

use std::sync::Arc;
use std::time::Instant;

use super::{Aside, Rare, Single};
use crate::fleet::Fleet;
use crate::operations::route::choose;
use crate::operations::tagging::{AskedTags, KeptReply, Worth};
use crate::operations::values::{SentData, SentKey, Values};
use crate::operations::{
    Answer, Ask, Asks, End, Finding, Found, FoundTags, Next, Operation, ReadTags, Request, Sending, Tagging, Tags, Win,
};
use crate::session::{Data, Refused, Reply, Session, Ticket};
use crate::tags::{KnownTags, NO_TAGS};
use pinyon_net::error::{Error, Kind, Sent};
use pinyon_net::network::Network;

/// What a request has to do with tags.
pub(super) struct Tagged {
    asked: AskedTags,
    /// The tags of the value to store, until they are read.
    names: Option<Tags>,
    /// The same, once they are read.
    tags: Option<ReadTags>,
    /// What is sent instead of the data: tags and value.
    pub(super) block: Vec<u8>,
    at: At,
    kept: Option<KeptReply>,
    known: Option<Arc<KnownTags>>,
    /// Whether the value that arrived may be a placeholder.
    is_in_doubt: bool,
}

/// How far the request itself is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Wanted,
    Asked,
    Answered,
    Failed,
}

impl Tagged {
    fn new(at: At) -> Self {
        Self {
            asked: AskedTags::default(),
            names: None,
            tags: None,
            block: Vec::new(),
            at,
            kept: None,
            known: None,
            is_in_doubt: false,
        }
    }

    pub(super) fn ask_again(&mut self) {
        (self.at, self.kept) = (At::Wanted, None);
    }

    pub(super) fn failed(&mut self) {
        self.at = At::Failed;
    }
}

/// The part that concerns tags, if there is one.
fn tagged_of<V: Values>(rare: &mut Option<Box<Rare<V>>>) -> Option<&mut Tagged> {
    match &mut rare.as_deref_mut()?.aside {
        Some(Aside::Tagged(tagged)) => Some(tagged),
        _ => None,
    }
}

impl<K: SentKey, D: SentData, V: Values> Single<K, D, V> {
    fn tagged(&self) -> Option<&Tagged> {
        match self.aside() {
            Some(Aside::Tagged(tagged)) => Some(tagged),
            _ => None,
        }
    }

    /// Whether it has to do with tags.
    #[cold]
    pub(super) fn is_tagged(&self) -> bool {
        self.tagged().is_some()
    }

    /// Ends what it has to do with tags.
    #[cold]
    pub(super) fn take_tagged(&mut self) -> Option<Tagged> {
        match self.end_aside(|aside| matches!(aside, Aside::Tagged(_)))? {
            Aside::Tagged(tagged) => Some(tagged),
            _ => None,
        }
    }

    /// The same request for a value that is stored with tags, or is to be made with them. Others do not change.
    pub fn with_tags(mut self, tags: Option<Tagging>) -> Self {
        self.tag(tags);
        self
    }

    /// The same in place, before it begins.
    #[cold]
    pub fn tag(&mut self, tags: Option<Tagging>) {
        let takes = matches!(self.request, Request::Store { .. } | Request::Lease { .. } | Request::Renew { .. });
        match tags.filter(|_| takes) {
            None => {}
            Some(Tagging::Named(names)) if names.is_empty() => {}
            Some(Tagging::Named(names)) => {
                let mut tagged = Tagged::new(At::Wanted);
                names.iter().for_each(|tag| tagged.asked.add(tag.clone(), true));
                tagged.names = Some(names);
                self.begin_aside(Aside::Tagged(tagged));
            }
            Some(Tagging::Alone(names)) => {
                self.tag(Some(Tagging::Named(names)));
                tagged_of(&mut self.rare).into_iter().for_each(|tagged| tagged.at = At::Answered);
                let found = Found { finding: Finding::Filling, value: None, cas: None, tags: FoundTags::NONE };
                self.answer = Some(Ok(Answer::Lease(found.into())));
            }
            Some(Tagging::Read(tags)) => {
                self.begin_aside(Aside::Tagged(Tagged::new(At::Wanted)));
                self.put_before(tags);
            }
        }
    }

    /// Keeps a value with tags until they are known.
    #[cold]
    pub(super) fn keep(&mut self, reply: Reply<'_>) {
        let mut tagged = self.take_tagged().unwrap_or_else(|| Tagged::new(At::Asked));
        (tagged.at, tagged.kept) = (At::Asked, Some(KeptReply::new(reply)));
        self.begin_aside(Aside::Tagged(tagged));
        self.is_in_doubt = true;
    }

    /// Takes a reply to a request that has to do with tags.
    #[cold]
    pub(super) fn reply_beside_tags(&mut self, part: u32, reply: Reply<'_>) {
        let Some(tagged) = tagged_of(&mut self.rare) else { unreachable!("it has to do with tags") };
        match part.checked_sub(1) {
            Some(part) => tagged.asked.reply(part, &reply),
            None => {
                self.reply_itself(reply);
                let is_in_doubt = self.is_in_doubt;
                tagged_of(&mut self.rare)
                    .into_iter()
                    .for_each(|tagged| tagged.is_in_doubt = is_in_doubt && tagged.kept.is_none());
            }
        }
        self.is_in_doubt = true;
    }

    /// Takes a reply as a request does that has nothing to do with tags. This stays out of line, so that the usual way
    /// costs nothing more.
    #[cold]
    #[inline(never)]
    fn reply_itself(&mut self, reply: Reply<'_>) {
        self.reply_alone(reply);
    }

    /// The answer that a reply means. Out of line as well.
    #[cold]
    #[inline(never)]
    fn answer_to(&self, reply: Reply<'_>) -> Result<Answer<V::Value>, V::Error> {
        self.request.answer(&self.values, reply)
    }

    /// Takes the end of an ask of a request that has to do with tags.
    #[cold]
    pub(super) fn over_beside_tags(&mut self, part: u32, end: End) -> Next {
        let Some(tagged) = tagged_of(&mut self.rare) else { unreachable!("it has to do with tags") };
        if let Some(part) = part.checked_sub(1) {
            let next = tagged.asked.over(part, end, tagged.known.as_deref());
            return match tagged.at {
                At::Failed => Next::Nothing,
                At::Asked if !tagged.asked.is_open() => Next::Nothing,
                _ => next,
            };
        }
        self.is_in_doubt = std::mem::take(&mut tagged.is_in_doubt);
        match end {
            End::Answered => {
                tagged.at = At::Answered;
                let (is_kept, is_open) = (tagged.kept.is_some(), tagged.asked.is_open());
                let next = self.over_alone(End::Answered);
                let Some(tagged) = tagged_of(&mut self.rare).filter(|_| !matches!(self.request, Request::Store { .. }))
                else {
                    return next;
                };
                if next == Next::Again && !is_kept {
                    tagged.ask_again();
                    return next;
                }
                match is_open && !is_kept {
                    true => Next::Nothing,
                    false => Next::Again,
                }
            }
            end => {
                let next = self.over_alone(end);
                match (tagged_of(&mut self.rare), next) {
                    (Some(tagged), Next::Again) => tagged.ask_again(),
                    (Some(tagged), Next::Nothing) => tagged.failed(),
                    (None, _) => {}
                }
                next
            }
        }
    }

    #[cold]
    pub(super) fn begin_beside_tags(&mut self, fleet: &Fleet, now: Instant) -> Asks {
        let Some(known) = fleet.tags() else { return self.without_tags() };
        let Some(Rare { failure, aside: Some(Aside::Tagged(tagged)) }) = self.rare.as_deref_mut() else {
            unreachable!("it has to do with tags")
        };
        tagged.known = Some(known.clone());
        if let Some(header) = tagged.kept.as_ref().and_then(KeptReply::header) {
            match self.policy.tagged_is_miss {
                true => tagged.at = At::Answered,
                false => tagged.asked.add_of(&header, known),
            }
        }
        let mut asks = Vec::new();
        let is_store = matches!(self.request, Request::Store { .. });
        if tagged.at == At::Wanted && (!is_store || tagged.names.is_none()) {
            let (key, failover) = (self.key.routed(), self.policy.failover);
            match choose(fleet, key, failover, now, || self.request.name(), failure.as_deref()) {
                Ok(choice) => {
                    asks.push(Ask { part: 0, choice });
                    tagged.at = At::Asked;
                }
                Err(error) => {
                    *failure = Some(error);
                    tagged.failed();
                    return Asks::None;
                }
            }
        }
        if tagged.at == At::Failed {
            return Asks::None;
        }
        tagged.asked.begin(fleet, known, now, &mut asks, |part| part + 1);
        if !asks.is_empty() || tagged.at == At::Asked || tagged.asked.is_open() {
            return Asks::of(asks);
        }
        if let Some(names) = tagged.names.take() {
            match tagged.asked.header(&names) {
                Err(error) => {
                    *failure = Some(error.into());
                    tagged.failed();
                    return Asks::None;
                }
                Ok(tags) if is_store => {
                    self.put_before(tags);
                    return self.begin_beside_tags(fleet, now);
                }
                Ok(tags) => tagged.tags = Some(tags),
            }
        }
        match self.resolve() {
            Next::Nothing => Asks::None,
            Next::Again => self.begin(fleet, now),
        }
    }

    /// Where a part leads.
    pub(super) fn routed_of_tag(&self, part: u32) -> &[u8] {
        self.tagged().map_or(&[], |tagged| tagged.asked.routed(part - 1))
    }

    #[cold]
    pub(super) fn submit_tag<N: Network>(
        &self,
        part: u32,
        session: &mut Session<N>,
        sending: Sending,
    ) -> Result<Ticket, Refused> {
        match self.tagged() {
            Some(tagged) => tagged.asked.submit(part - 1, session, sending),
            None => unreachable!("it asks for tags"),
        }
    }

    /// The win of a value that is kept.
    pub(super) fn kept_win(&self) -> Option<Win> {
        match Finding::of(&self.tagged()?.kept.as_ref()?.head) {
            Finding::Won(win) => win,
            _ => None,
        }
    }

    /// The client has no tags: the client flag means something else.
    fn without_tags(&mut self) -> Asks {
        let tagged = self.take_tagged();
        match tagged.and_then(|tagged| tagged.kept) {
            Some(kept) => self.answer = Some(kept.read(false, |reply| self.answer_to(reply))),
            None => {
                let error = Error::new(Kind::Usage, &"".into(), NO_TAGS);
                self.fail_with(error.of(self.name(), Sent::No).into());
            }
        }
        Asks::None
    }

    /// Makes the data block of tags and value. A request that was made before has other sizes.
    fn put_before(&mut self, tags: ReadTags) {
        let Some(tagged) = tagged_of(&mut self.rare) else { unreachable!("it has to do with tags") };
        if let Request::Store { size, .. } = self.request {
            tagged.block.reserve_exact(tags.bytes().len() + size);
            tagged.block.extend_from_slice(tags.bytes());
            match self.data.data() {
                Data::None => {}
                Data::Copied(bytes) => tagged.block.extend_from_slice(bytes),
                Data::Shared(bytes) => tagged.block.extend_from_slice((*bytes).as_ref()),
            }
            self.request = self.request.tagged(&tags);
            self.alone = true;
        }
        tagged.tags = Some(tags);
    }

    /// Makes the answer of what was kept, now that all tags are known. A right to renew that came with it is put back.
    fn resolve(&mut self) -> Next {
        let Some(tagged) = self.take_tagged() else { return Next::Nothing };
        let mut of_value = None;
        if let Some(kept) = &tagged.kept {
            let worth = |header| match self.policy.tagged_is_miss {
                true => Worth::Invalid,
                false => tagged.asked.worth(&header),
            };
            let worth = kept.header().map_or(Worth::Valid, worth);
            match worth {
                Worth::Valid => {
                    self.answer = Some(kept.read(true, |reply| self.answer_to(reply)));
                    of_value = kept.tags();
                }
                // Another server has the key now, which knows nothing of tags either.
                Worth::Unknown(error) if !self.policy.failover => {
                    self.fail_with(error.reading(true).into());
                    return Next::Nothing;
                }
                Worth::Invalid | Worth::Unknown(_) => self.answer = Some(Ok(self.request.worthless(&kept.head))),
            }
        }
        if let Some(Ok(Answer::Lease(found))) = &mut self.answer {
            (found.tags.given, found.tags.of_value) = (tagged.tags, of_value);
        }
        let is_won = tagged.kept.is_some_and(|kept| kept.head.item.won);
        match is_won && self.request.leaves_renewal() {
            true => {
                self.won();
                Next::Again
            }
            false => Next::Nothing,
        }
    }
}
