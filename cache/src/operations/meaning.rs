//! What the reply to a command on one key means: the answer that its caller gets.

use pinyon_proto::{Head, Item, Status};

use super::request::{Beside, Request};
use super::values::Values;
use super::ReadTags;
use crate::operations::{Finding, Win};
use crate::session::Reply;

/// The answer to a request. `V` is the host's type of values.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<V> {
    /// There is no such item.
    Missing,
    Value(V),
    ValueAnd(V, Fact),
    /// Whether the server did it.
    Done(bool),
    Compared(Compared),
    Number(u64),
    Metadata(Box<Item>),
    ValueAndMetadata(Box<(V, Item)>),
    Lease(Box<Found<V>>),
}

/// What is known of an item beside its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    Cas(u64),
    /// The seconds until it expires; `None` if never.
    Ttl(Option<u32>),
}

/// The result of a store that compares CAS tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    Stored,
    /// The item has a different token now.
    Changed,
    Gone,
}

/// The result of asking for a lease.
#[derive(Clone, Debug, PartialEq)]
pub struct Found<V> {
    pub finding: Finding,
    /// The value. For a winner, it is stale.
    pub value: Option<V>,
    /// The item's CAS token, for a caller that cannot read the value: see [`Request::Renew`].
    pub cas: Option<u64>,
    pub tags: FoundTags,
}

/// The tags to store values with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundTags {
    /// Those that the caller gave, as they were when it asked for the lease.
    pub given: Option<ReadTags>,
    /// Those of the value that was found.
    pub of_value: Option<ReadTags>,
    /// Whether the host knows only that the value has tags, and cannot store it again with them.
    pub are_lost: bool,
}

impl FoundTags {
    pub const NONE: Self = Self { given: None, of_value: None, are_lost: false };
}

impl Request {
    /// Interprets the reply.
    #[inline(always)]
    pub(super) fn answer<V: Values>(&self, values: &V, reply: Reply<'_>) -> Result<Answer<V::Value>, V::Error> {
        let head = reply.head;
        if head.status != Status::Hit {
            return Ok(self.answer_without_value(head.status, &head.item));
        }
        if let Request::Lease { .. } = self {
            return Ok(Answer::Lease(Found::of(values, reply).into()));
        }
        if head.is_placeholder() {
            return Ok(Answer::Missing);
        }
        if let Request::Arithmetic { .. } = self {
            return Ok(number(&reply).map_or(Answer::Missing, Answer::Number));
        }
        if let Request::Get(Beside::Nothing) = self {
            return values.read(head, reply.value, reply.server).map(Answer::Value);
        }
        let value = values.read(head, reply.value, reply.server)?;
        Ok(match self {
            Request::Get(Beside::Cas) | Request::GetAndTouch { cas: true, .. } => {
                Answer::ValueAnd(value, Fact::Cas(head.item.cas.unwrap_or_default()))
            }
            Request::Get(Beside::Ttl) => Answer::ValueAnd(value, Fact::Ttl(remaining(&head.item))),
            Request::Get(Beside::Metadata { .. }) => with_metadata(value, &head.item),
            _ => Answer::Value(value),
        })
    }

    #[inline(always)]
    fn answer_without_value<V>(&self, status: Status, item: &Item) -> Answer<V> {
        match (self, status) {
            (Request::Metadata, Status::Done) => Answer::Metadata(Box::new(*item)),
            (Request::Store { returns_cas: true, .. }, Status::Done) => {
                item.cas.map_or(Answer::Done(true), Answer::Number)
            }
            (Request::Store { cas: Some(_), .. }, Status::Done) => Answer::Compared(Compared::Stored),
            (Request::Store { cas: Some(_), .. }, Status::NotFound) => Answer::Compared(Compared::Gone),
            (Request::Store { cas: Some(_), .. }, _) => Answer::Compared(Compared::Changed),
            (Request::Store { .. } | Request::Touch { .. } | Request::Delete, status) => {
                Answer::Done(status == Status::Done)
            }
            (Request::MarkStale { .. } | Request::GiveBack(_), status) => Answer::Done(status == Status::Done),
            (Request::Lease { .. } | Request::Renew { .. }, _) => Answer::Lease(Found::nothing().into()),
            _ => Answer::Missing,
        }
    }

    /// The answer if the item has a value that does not count any more.
    #[cold]
    pub(super) fn worthless<V>(&self, head: &Head) -> Answer<V> {
        match self {
            Request::Lease { .. } => Answer::Lease(Found::worthless(head).into()),
            _ => Answer::Missing,
        }
    }

    /// The answer if no server could carry it out, for policies that report failures as misses: no item, nothing
    /// stored.
    pub(crate) fn lost<V>(&self) -> Answer<V> {
        self.answer_without_value(Status::NotFound, &Item::default())
    }
}

impl Fact {
    /// The number that hosts return in a pair with the value.
    pub fn number(self) -> Option<u64> {
        match self {
            Fact::Cas(cas) => Some(cas),
            Fact::Ttl(ttl) => ttl.map(u64::from),
        }
    }
}

impl<V> Answer<V> {
    /// The value that it has.
    pub fn value(&self) -> Option<&V> {
        match self {
            Answer::Value(value) | Answer::ValueAnd(value, _) => Some(value),
            Answer::ValueAndMetadata(both) => Some(&both.0),
            Answer::Lease(found) => found.value.as_ref(),
            _ => None,
        }
    }

    /// Reads the answer's value, for hosts that keep bytes until the operation is over. `read` returns `None` for a value
    /// that it cannot read and that counts as missing.
    pub fn read<W, E>(self, read: impl FnOnce(V) -> Result<Option<W>, E>) -> Result<Answer<W>, E> {
        let or_missing = |answer: Option<Answer<W>>| answer.unwrap_or(Answer::Missing);
        Ok(match self {
            Answer::Value(value) => or_missing(read(value)?.map(Answer::Value)),
            Answer::ValueAnd(value, fact) => or_missing(read(value)?.map(|value| Answer::ValueAnd(value, fact))),
            Answer::ValueAndMetadata(both) => {
                let (value, item) = *both;
                or_missing(read(value)?.map(|value| Answer::ValueAndMetadata((value, item).into())))
            }
            Answer::Lease(found) => Answer::Lease(found.read(read)?.into()),
            Answer::Missing => Answer::Missing,
            Answer::Done(done) => Answer::Done(done),
            Answer::Compared(compared) => Answer::Compared(compared),
            Answer::Number(number) => Answer::Number(number),
            Answer::Metadata(item) => Answer::Metadata(item),
        })
    }
}

impl<V> Found<V> {
    /// For a server that could not be asked or made no placeholder: the caller may make a value, but cannot store it.
    fn nothing() -> Self {
        Self { finding: Finding::Won(None), value: None, cas: None, tags: FoundTags::NONE }
    }

    fn of<L: Values<Value = V>>(values: &L, reply: Reply<'_>) -> Self {
        let head = reply.head;
        if head.is_placeholder() {
            let found = Self::worthless(head);
            return Self { finding: Finding::of(head), ..found };
        }
        let value = values.read(head, reply.value, reply.server).ok();
        let found = Self::worthless(head);
        Self { finding: Finding::of(head).with(value.is_some()), value, ..found }
    }

    /// An item with a value that no caller may read any more: another one is made.
    pub(super) fn worthless(head: &Head) -> Self {
        let (finding, cas) = (Finding::of(head).with(false), head.item.cas.map(Win::token));
        Self { finding, value: None, cas, tags: FoundTags::NONE }
    }

    /// The same with the host's value. See [`Answer::read`].
    pub fn read<W, E>(self, read: impl FnOnce(V) -> Result<Option<W>, E>) -> Result<Found<W>, E> {
        let Self { finding, value, cas, tags } = self;
        let Some(stored) = value else { return Ok(Found { finding, value: None, cas, tags }) };
        let value = read(stored)?;
        Ok(Found { finding: finding.with(value.is_some()), value, cas, tags })
    }

    /// The lease that was won, to store under or to give back. A value that the caller cannot read is its to replace.
    pub fn win(&self) -> Option<Win> {
        match self.finding {
            Finding::Won(win) => win,
            Finding::Unreadable => self.cas.map(|cas| Win { cas, keep: true }),
            _ => None,
        }
    }

    /// What a caller asks next that asks for leases by hand, and cannot read the value. It asks so
    /// [`RENEWALS`](super::RENEWALS) times at most.
    pub fn renewal(&self, lease: i32, recache: i32) -> Option<Request> {
        match (self.finding, self.cas) {
            (Finding::Unreadable, Some(cas)) => Some(Request::Renew { lease, recache, cas }),
            _ => None,
        }
    }
}

#[cold]
fn with_metadata<V>(value: V, item: &Item) -> Answer<V> {
    Answer::ValueAndMetadata((value, *item).into())
}

/// The number in the reply to an arithmetic command, meta or classic.
fn number(reply: &Reply<'_>) -> Option<u64> {
    if reply.head.number.is_some() {
        return reply.head.number;
    }
    std::str::from_utf8(reply.value.bytes()).ok()?.trim_end().parse().ok()
}

/// Seconds until an item expires; `None` if it never does (the server sends -1).
pub fn remaining(item: &Item) -> Option<u32> {
    item.ttl?.try_into().ok()
}
