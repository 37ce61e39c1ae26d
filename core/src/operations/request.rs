//! The commands on one key: what each sends, and what its reply means.

use pinyon_proto::{
    Arithmetic, Command, Direction, Flag, Item, Key, Lease, MarkStale, MetaCommand, Mode, Status, Store, Verb,
};

use super::values::Values;
use crate::error::{Error, Kind, Sent};
use crate::invalid::InvalidArgument;
use crate::lease::{Finding, Win};
use crate::session::{Refused, Reply};

/// What is asked about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The value, with its CAS token where that is wanted.
    Get {
        cas: bool,
    },
    /// The value, with its CAS token where that is wanted; the item's ttl is set on the way.
    GetAndTouch {
        ttl: i32,
        cas: bool,
    },
    /// The value, and the seconds until it expires.
    GetWithTtl,
    Touch {
        ttl: i32,
    },
    /// `size`: of the data block in bytes. With `cas` only if the item still has this token.
    Store {
        mode: Mode,
        size: usize,
        client_flags: u32,
        ttl: i32,
        cas: Option<u64>,
    },
    Delete,
    /// The value stays for `ttl` seconds, and the next caller that asks for a lease makes another.
    MarkStale {
        ttl: i32,
    },
    /// The value and the right to make it anew, in seconds: `lease` until others may make what is missing, `recache` before
    /// its end from when on one caller makes it anew.
    Lease {
        lease: i32,
        recache: i32,
    },
    /// Others may win it again; a value that is there stays.
    GiveBack(Win),
    /// `initial`: what a missing item is made with.
    Arithmetic {
        direction: Direction,
        delta: u64,
        initial: Option<Initial>,
    },
    /// What the server knows of the item, which is not touched by it.
    Metadata,
}

/// What a counter begins with. The server would make it without client flags, by which a number is told from bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initial {
    pub number: u64,
    pub ttl: i32,
    pub client_flags: u32,
}

/// What a request came to. `V` is the host's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer<V> {
    /// There is no such item.
    Missing,
    Value(V),
    /// With its CAS token.
    ValueAndCas(V, u64),
    /// With the seconds until it expires; none: never.
    ValueAndTtl(V, Option<u32>),
    /// Whether it was done.
    Done(bool),
    Compared(Compared),
    Number(u64),
    Metadata(Box<Item>),
    Lease(Box<Found<V>>),
}

/// What came of storing under a CAS token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    Stored,
    /// The item has another token.
    Changed,
    Gone,
}

/// What was found when a lease was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Found<V> {
    pub finding: Finding,
    /// Beside a win it is a stale one.
    pub value: Option<V>,
}

const GET_WITH_TTL: &[Flag<'_>] = &[Flag::ReturnClientFlags, Flag::RemainingTtl, Flag::Value];

const METADATA: &[Flag<'_>] = &[
    Flag::ReturnClientFlags,
    Flag::ReturnCas,
    Flag::HitBefore,
    Flag::LastAccess,
    Flag::Size,
    Flag::RemainingTtl,
    Flag::NoBump,
];

impl Request {
    /// What a counter can be changed by, for messages.
    pub const DELTAS: &str = "from 0 to 2**64-1";

    /// A number added to a stored one, or subtracted from it. `initial`: see [`Request::Arithmetic`].
    pub fn arithmetic(direction: Direction, delta: i128, initial: Option<Initial>) -> Result<Self, InvalidArgument> {
        let opposite = match direction {
            Direction::Increment => "to subtract, use decr",
            Direction::Decrement => "to add, use incr",
        };
        let refused = |_| format!("delta must be {}, not {delta}; {opposite}", Self::DELTAS);
        let delta = delta.try_into().map_err(refused).map_err(InvalidArgument::usage)?;
        Ok(Self::Arithmetic { direction, delta, initial })
    }

    pub fn command<'k>(&self, key: Key<'k>) -> Command<'k> {
        match *self {
            Request::Get { cas } => Command::Get { key, cas },
            Request::GetAndTouch { ttl, cas } => Command::GetAndTouch { key, ttl, cas },
            Request::GetWithTtl => Command::Meta(MetaCommand { verb: Verb::Get, key, size: None, flags: GET_WITH_TTL }),
            Request::Touch { ttl } => Command::Touch { key, ttl },
            Request::Store { mode, size, client_flags, ttl, cas } => {
                Command::Store(Store { mode, key, size, client_flags, ttl, cas })
            }
            Request::Delete => Command::Delete { key },
            Request::MarkStale { ttl } => Command::MarkStale(MarkStale { key, ttl: Some(ttl), cas: None }),
            Request::Lease { lease, recache } => Command::Lease(Lease { key, lease, recache }),
            Request::GiveBack(Win { cas, keep: false }) => Command::DeleteIf { key, cas },
            Request::GiveBack(Win { cas, keep: true }) => {
                Command::MarkStale(MarkStale { key, ttl: None, cas: Some(cas) })
            }
            Request::Arithmetic { direction, delta, initial: _ } => {
                Command::Arithmetic(Arithmetic { key, direction, delta, initial: None })
            }
            Request::Metadata => Command::Meta(MetaCommand { verb: Verb::Get, key, size: None, flags: METADATA }),
        }
    }

    /// How many bytes its data block has.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        match self {
            Request::Store { size, .. } => *size,
            _ => 0,
        }
    }

    /// Refuses a value that is larger than a client sends.
    #[inline]
    pub(crate) fn check_size(&self, limit: usize) -> Result<(), Error> {
        match *self {
            Request::Store { mode, size, .. } if size > limit => Err(too_large(mode, size, limit)),
            _ => Ok(()),
        }
    }

    /// A failure of the server's, with what it does not say itself.
    pub(super) fn explained(&self, error: Error) -> Error {
        match *self {
            Request::Store { size, .. } if error.kind == Kind::TooLarge && error.sent == Sent::Yes => {
                let message = format!(
                    "the value has {size} bytes, more than the server stores (1 MiB, unless its option -I says otherwise); \
                     {}",
                    error.message
                );
                Error { message, ..error }
            }
            _ => error,
        }
    }

    /// Whether doing it twice does what doing it once does. Then it may be joined with others and, should the server fail
    /// one of them, be tried by itself.
    pub(super) fn may_be_joined(&self) -> bool {
        matches!(self, Request::Get { cas: false } | Request::Store { mode: Mode::Set, cas: None, .. })
    }

    /// What the reply means.
    #[inline]
    pub(super) fn answer<V: Values>(&self, values: &V, reply: Reply<'_>) -> Result<Answer<V::Value>, V::Error> {
        let head = reply.head;
        if head.status != Status::Hit {
            return Ok(self.answer_without_value(head.status, &head.item));
        }
        if let Request::Lease { .. } = self {
            return Found::read(values, reply).map(|found| Answer::Lease(found.into()));
        }
        if head.is_placeholder() {
            return Ok(Answer::Missing);
        }
        if let Request::Arithmetic { .. } = self {
            return Ok(number(&reply).map_or(Answer::Missing, Answer::Number));
        }
        let value = values.read(head, reply.value, reply.server)?;
        Ok(match self {
            Request::Get { cas: true } | Request::GetAndTouch { cas: true, .. } => {
                Answer::ValueAndCas(value, head.item.cas.unwrap_or_default())
            }
            Request::GetWithTtl => Answer::ValueAndTtl(value, remaining(&head.item)),
            _ => Answer::Value(value),
        })
    }

    #[inline(always)]
    fn answer_without_value<V>(&self, status: Status, item: &Item) -> Answer<V> {
        match (self, status) {
            (Request::Metadata, Status::Done) => Answer::Metadata(Box::new(*item)),
            (Request::Store { cas: Some(_), .. }, Status::Done) => Answer::Compared(Compared::Stored),
            (Request::Store { cas: Some(_), .. }, Status::NotFound) => Answer::Compared(Compared::Gone),
            (Request::Store { cas: Some(_), .. }, _) => Answer::Compared(Compared::Changed),
            (Request::Store { .. } | Request::Touch { .. } | Request::Delete, status) => {
                Answer::Done(status == Status::Done)
            }
            (Request::MarkStale { .. } | Request::GiveBack(_), status) => Answer::Done(status == Status::Done),
            (Request::Lease { .. }, _) => Answer::Lease(Found::nothing().into()),
            _ => Answer::Missing,
        }
    }

    /// What it comes to where no server carried it out: as if there were no item, and nothing stored.
    pub(super) fn lost<V>(&self) -> Answer<V> {
        self.answer_without_value(Status::NotFound, &Item::default())
    }
}

impl<V> Answer<V> {
    /// The answer with a value of the host's: for hosts that keep a value's bytes until the operation is over.
    ///
    /// # Errors
    /// That of `read`, but not of a value that the caller of a lease is to make anew: such an answer is without it.
    pub fn read<W, E>(self, read: impl FnOnce(V) -> Result<W, E>) -> Result<Answer<W>, E> {
        Ok(match self {
            Answer::Value(value) => Answer::Value(read(value)?),
            Answer::ValueAndCas(value, cas) => Answer::ValueAndCas(read(value)?, cas),
            Answer::ValueAndTtl(value, ttl) => Answer::ValueAndTtl(read(value)?, ttl),
            Answer::Lease(found) => {
                let Found { finding, value } = *found;
                Answer::Lease(Found::with(finding, value.map(|value| || read(value)))?.into())
            }
            Answer::Missing => Answer::Missing,
            Answer::Done(done) => Answer::Done(done),
            Answer::Compared(compared) => Answer::Compared(compared),
            Answer::Number(number) => Answer::Number(number),
            Answer::Metadata(item) => Answer::Metadata(item),
        })
    }
}

impl<V> Found<V> {
    /// Of a server that could not be asked, or that made no placeholder: the caller may make a value, and cannot store it.
    fn nothing() -> Self {
        Self { finding: Finding::Won(None), value: None }
    }

    fn read<L: Values<Value = V>>(values: &L, reply: Reply<'_>) -> Result<Self, L::Error> {
        let head = reply.head;
        let read = || values.read(head, reply.value, reply.server);
        Self::with(Finding::of(head), (!head.is_placeholder()).then_some(read))
    }

    fn with<E>(finding: Finding, read: Option<impl FnOnce() -> Result<V, E>>) -> Result<Self, E> {
        let value = match (finding, read) {
            (_, None) => None,
            // A value that cannot be read is of no use to the winner, who puts another in its place.
            (Finding::Won(_), Some(read)) => read().ok(),
            (_, Some(read)) => Some(read()?),
        };
        Ok(Self { finding, value })
    }

    /// What was won, to store under or to give back.
    pub fn win(&self) -> Option<Win> {
        match self.finding {
            Finding::Won(win) => win,
            _ => None,
        }
    }
}

#[cold]
fn too_large(mode: Mode, size: usize, limit: usize) -> Error {
    Refused::TooLarge { size, limit }.into_error(&"".into(), mode.name())
}

/// The number a meta or classic arithmetic command answers.
fn number(reply: &Reply<'_>) -> Option<u64> {
    if reply.head.number.is_some() {
        return reply.head.number;
    }
    std::str::from_utf8(reply.value.bytes()).ok()?.trim_end().parse().ok()
}

/// Seconds until an item expires; the server says -1 of one that never does.
pub fn remaining(item: &Item) -> Option<u32> {
    item.ttl?.try_into().ok()
}
