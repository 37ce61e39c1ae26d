//! The commands on one key, and what each sends. What a reply means: see [`meaning`](super::meaning).
//!
//! Single commands are meta commands with an opaque, except conditional stores. They are as fast as classic text, and
//! even the reply to a miss is verified.
//!
//! A caller that cannot read a value *renews* it: the caller marks the value stale under its CAS token and asks again,
//! so memcached chooses which caller makes a new one. The host says at the end of the operation whether it can read a
//! value ([`Answer::read`](super::Answer::read)), because only then does it run the user's code.

use std::sync::Arc;

use pinyon_proto::{Arithmetic, Command, Direction, Flag, Key, Lease, MarkStale, MetaCommand, Mode, Store, Verb};

use super::{Policy, ReadTags};
use crate::calls::{self, Call};
use crate::fleet::Fleet;
use crate::near::Near;
use crate::operations::Win;
use crate::session::{larger_than_stored, Refused};
use crate::tags::TAGGED;
use pinyon_net::error::{Error, Kind, Sent};
use pinyon_net::invalid::InvalidArgument;
use pinyon_net::shown::shown;

/// A request about one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Reads the value, and more.
    Get(Beside),
    /// Reads the value, with its CAS token if `cas`, and sets the item's ttl.
    GetAndTouch {
        ttl: i32,
        cas: bool,
    },
    Touch {
        ttl: i32,
    },
    /// Stores a value. `size`: the size of the data block in bytes. With `cas`, stores only if the item still has this
    /// token. `returns_cas`: whether the answer is the new token, if the server tells it.
    Store {
        mode: Mode,
        size: usize,
        client_flags: u32,
        ttl: i32,
        cas: Option<u64>,
        returns_cas: bool,
    },
    Delete,
    /// Marks the value stale and keeps it for `ttl` seconds, or for the life that it had. The next caller that asks for
    /// a lease wins it. With `cas`, only if the item still has this token.
    MarkStale {
        ttl: Option<i32>,
        cas: Option<u64>,
    },
    /// Reads the value and asks for the right to make a new one. `lease`: seconds until another caller can win a
    /// missing key. `recache`: one caller wins an item that expires within so many seconds.
    Lease {
        lease: i32,
        recache: i32,
    },
    /// The same for a caller that cannot read the value with this CAS token: first has that value count as stale, which
    /// lives for `lease` seconds at most. So one caller of all processes wins. Those who can read it get it meanwhile.
    Renew {
        lease: i32,
        recache: i32,
        cas: u64,
    },
    /// Gives a lease back, so that another caller can win it. An existing value stays.
    GiveBack(Win),
    /// Adds or subtracts. `initial`: for creating a missing item.
    Arithmetic {
        direction: Direction,
        delta: u64,
        initial: Option<Initial>,
    },
    /// Reads the server's metadata about the item, without touching the item.
    Metadata,
}

/// What a request reads beside the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    Nothing,
    /// The CAS token.
    Cas,
    /// The seconds until the item expires.
    Ttl,
    /// The server's metadata about the item. `bumps`: whether this counts as an access.
    Metadata {
        bumps: bool,
    },
}

/// How to create a missing counter. The client stores it, because the server would store it without client flags, and
/// it would read as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initial {
    pub number: u64,
    pub ttl: i32,
    pub client_flags: u32,
}

const WITH_TTL: &[Flag] = &[Flag::ReturnClientFlags, Flag::RemainingTtl, Flag::Value];

const GET_WITH_METADATA: &[Flag] = &[
    Flag::ReturnClientFlags,
    Flag::ReturnCas,
    Flag::HitBefore,
    Flag::LastAccess,
    Flag::RemainingTtl,
    Flag::Value,
    Flag::NoBump,
];

const METADATA: &[Flag] = &[
    Flag::ReturnClientFlags,
    Flag::ReturnCas,
    Flag::HitBefore,
    Flag::LastAccess,
    Flag::Size,
    Flag::RemainingTtl,
    Flag::NoBump,
];

impl Request {
    /// The range of a delta, for messages.
    pub const DELTAS: &str = "from 0 to 2**64-1";

    /// A request that adds to a stored number, or subtracts from it. `initial`: see [`Request::Arithmetic`].
    pub fn arithmetic(direction: Direction, delta: i128, initial: Option<Initial>) -> Result<Self, InvalidArgument> {
        let opposite = match direction {
            Direction::Increment => "to subtract, use decr",
            Direction::Decrement => "to add, use incr",
        };
        let refused = |_| format!("delta must be {}, not {delta}; {opposite}", Self::DELTAS);
        let delta = delta.try_into().map_err(refused).map_err(InvalidArgument::usage)?;
        Ok(Self::Arithmetic { direction, delta, initial })
    }

    #[inline]
    pub fn command<'k>(&self, key: Key<'k>) -> Command<'k> {
        match *self {
            Request::Get(Beside::Nothing) => Command::Get { key, cas: false },
            Request::Get(Beside::Cas) => Command::Get { key, cas: true },
            Request::GetAndTouch { ttl, cas } => Command::GetAndTouch { key, ttl, cas },
            Request::Get(Beside::Ttl) => {
                Command::Meta(MetaCommand { verb: Verb::Get, key, size: None, flags: WITH_TTL })
            }
            Request::Get(Beside::Metadata { bumps }) => get_with_metadata(key, bumps),
            Request::Touch { ttl } => Command::Touch { key, ttl },
            Request::Store { mode, size, client_flags, ttl, cas, returns_cas } => {
                Command::Store(Store { mode, key, size, client_flags, ttl, cas, returns_cas })
            }
            Request::Delete => Command::Delete { key },
            Request::MarkStale { ttl, cas } => Command::MarkStale(MarkStale { key, ttl, cas }),
            Request::Lease { lease, recache } => Command::Lease(Lease { key, lease, recache }),
            Request::GiveBack(Win { cas: Win::NO_TOKEN, keep: false }) => Command::Delete { key },
            Request::Renew { lease, cas, .. } => {
                Command::MarkStale(MarkStale { key, ttl: Some(lease), cas: Win::compared(cas) })
            }
            Request::GiveBack(Win { cas, keep: false }) => Command::DeleteIf { key, cas },
            Request::GiveBack(Win { cas, keep: true }) => {
                Command::MarkStale(MarkStale { key, ttl: None, cas: Win::compared(cas) })
            }
            Request::Arithmetic { direction, delta, initial: _ } => {
                Command::Arithmetic(Arithmetic { key, direction, delta })
            }
            Request::Metadata => Command::Meta(MetaCommand { verb: Verb::Get, key, size: None, flags: METADATA }),
        }
    }

    /// The call that makes it: what all languages say of it.
    pub fn call(&self) -> &'static Call {
        match self {
            Request::Get(Beside::Nothing | Beside::Metadata { .. }) => &calls::GET,
            Request::Get(Beside::Cas) => &calls::GETS,
            Request::GetAndTouch { cas: false, .. } => &calls::GAT,
            Request::GetAndTouch { cas: true, .. } => &calls::GATS,
            Request::Get(Beside::Ttl) => &calls::GET_WITH_TTL,
            Request::Touch { .. } => &calls::TOUCH,
            Request::Store { cas: Some(_), .. } => &calls::CAS,
            Request::Store { mode: Mode::Set, .. } => &calls::SET,
            Request::Store { mode: Mode::Add, .. } => &calls::ADD,
            Request::Store { mode: Mode::Replace, .. } => &calls::REPLACE,
            Request::Store { mode: Mode::Append, .. } => &calls::APPEND,
            Request::Store { mode: Mode::Prepend, .. } => &calls::PREPEND,
            Request::Delete | Request::MarkStale { .. } => &calls::DELETE,
            Request::Lease { .. } | Request::Renew { .. } => &calls::LEASE,
            Request::GiveBack(_) => &calls::GIVE_BACK,
            Request::Arithmetic { direction: Direction::Increment, .. } => &calls::INCR,
            Request::Arithmetic { direction: Direction::Decrement, .. } => &calls::DECR,
            Request::Metadata => &calls::META,
        }
    }

    /// The call that makes it for each of many keys; if there is none, the call that makes it for one.
    pub fn call_of_many(&self) -> &'static Call {
        match self {
            Request::Get(Beside::Nothing) => &calls::GET_MANY,
            Request::Get(Beside::Cas) => &calls::GETS_MANY,
            Request::GetAndTouch { cas: false, .. } => &calls::GAT_MANY,
            Request::Store { mode: Mode::Set, cas: None, .. } => &calls::SET_MANY,
            Request::Delete => &calls::DELETE_MANY,
            Request::Touch { .. } => &calls::TOUCH_MANY,
            other => other.call(),
        }
    }

    /// A request as this call makes for a key, or for each of many, without its arguments: for front ends whose methods are
    /// made from the table. `None` for calls that ask all servers, and for those whose requests depend on their arguments.
    pub fn of(call: &Call) -> Option<Self> {
        let (ttl, cas, initial) = (0, None, None);
        let store = |mode| Request::Store { mode, size: 0, client_flags: 0, ttl, cas, returns_cas: false };
        let all = [
            Request::Get(Beside::Nothing),
            Request::Get(Beside::Cas),
            Request::Get(Beside::Ttl),
            Request::GetAndTouch { ttl, cas: false },
            Request::GetAndTouch { ttl, cas: true },
            Request::Touch { ttl },
            store(Mode::Set),
            store(Mode::Add),
            store(Mode::Replace),
            store(Mode::Append),
            store(Mode::Prepend),
            Request::Delete,
            Request::Arithmetic { direction: Direction::Increment, delta: 0, initial },
            Request::Arithmetic { direction: Direction::Decrement, delta: 0, initial },
            Request::Metadata,
        ];
        all.into_iter().find(|request| [request.call(), request.call_of_many()].contains(&call))
    }

    /// The ttl that it sets without storing a value.
    pub(super) fn ttl(&self) -> Option<i32> {
        match *self {
            Request::GetAndTouch { ttl, .. } | Request::Touch { ttl } => Some(ttl),
            _ => None,
        }
    }

    /// The same with a ttl, if it takes one.
    #[inline]
    pub fn with_ttl(self, ttl: i32) -> Self {
        match self {
            Request::GetAndTouch { cas, .. } => Request::GetAndTouch { ttl, cas },
            Request::Touch { .. } => Request::Touch { ttl },
            other => other,
        }
    }

    /// The protocol's name of its command.
    #[cold]
    pub fn name(&self) -> &'static str {
        self.command(Key::known(b"any", false)).name()
    }

    /// Whether it may be carried out twice: see [`Command::is_idempotent`].
    #[cold]
    pub(super) fn is_idempotent(&self) -> bool {
        self.command(Key::known(b"any", false)).is_idempotent()
    }

    /// The size of its data block.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        match self {
            Request::Store { size, .. } => *size,
            _ => 0,
        }
    }

    /// Refuses a value that exceeds the client's size limit.
    #[inline]
    pub(crate) fn check_size(&self, routed: &[u8], limit: usize) -> Result<(), Error> {
        match *self {
            Request::Store { mode, size, .. } if size > limit => Err(self.naming(routed, too_large(mode, size, limit))),
            _ => Ok(()),
        }
    }

    /// Adds the size of the value to a server's refusal of it.
    pub(super) fn explained(&self, error: Error) -> Error {
        match *self {
            Request::Store { size, .. } if error.kind == Kind::TooLarge && error.sent == Sent::Yes => {
                Error { message: format!("{}; {}", larger_than_stored(size), error.message), ..error }
            }
            _ => error,
        }
    }

    /// Adds the key to the refusal of a value: its program finds the value by it.
    #[cold]
    pub(super) fn naming(&self, routed: &[u8], mut error: Error) -> Error {
        let is_refused = error.kind == Kind::TooLarge && matches!(self, Request::Store { .. });
        if let Some(rest) = error.message.strip_prefix("the value has ").filter(|_| is_refused) {
            error.message = format!("the value of {} has {rest}", shown(routed));
        }
        error
    }

    /// Whether running it twice has the same effect as once. Only then is it joined with others: if the server fails
    /// one of them, each is sent again by itself.
    pub(super) fn may_be_joined(&self) -> bool {
        matches!(
            self,
            Request::Get(Beside::Nothing) | Request::Store { mode: Mode::Set, cas: None, returns_cas: false, .. }
        )
    }

    /// Whether a value in memory answers it: plain reads alone. Leases and CAS tokens are the server's.
    #[inline]
    pub fn may_be_near(&self, policy: Policy) -> bool {
        policy.near && matches!(self, Request::Get(Beside::Nothing))
    }

    /// Whether it changes the item.
    #[inline]
    pub(crate) fn changes(&self) -> bool {
        !matches!(self, Request::Get(_) | Request::Lease { .. } | Request::Metadata)
    }

    /// Forgets what is in memory of a key that this changes, even if no server can be asked.
    #[inline]
    pub(crate) fn forget_changed(&self, fleet: &Fleet, key: Key<'_>) {
        if let Some(near) = fleet.near() {
            self.forget(near, key);
        }
    }

    #[cold]
    #[inline(never)]
    fn forget(&self, near: &Near, key: Key<'_>) {
        if self.changes() {
            near.forget(key);
        }
    }

    /// Whether the caller is told the CAS token that was read.
    #[inline]
    pub(super) fn reads_token(&self) -> bool {
        matches!(self, Request::Get(Beside::Cas) | Request::GetAndTouch { cas: true, .. })
    }

    /// Whether a value that the host cannot read counts as missing ([`Answer::read`]). Otherwise that is an error. Who asks
    /// for a lease makes a value.
    pub fn passes_over_unreadable(&self, policy: Policy) -> bool {
        policy.unreadable_is_miss || matches!(self, Request::Lease { .. } | Request::Renew { .. })
    }

    /// The same request for a value that is stored with these tags.
    #[cold]
    pub(super) fn tagged(self, tags: &ReadTags) -> Self {
        match self {
            Request::Store { mode, size, client_flags, ttl, cas, returns_cas } => {
                let (size, client_flags) = (size + tags.bytes().len(), client_flags | TAGGED);
                Request::Store { mode, size, client_flags, ttl, cas, returns_cas }
            }
            other => other,
        }
    }
}

#[cold]
fn get_with_metadata(key: Key<'_>, bumps: bool) -> Command<'_> {
    let flags = &GET_WITH_METADATA[..GET_WITH_METADATA.len() - usize::from(bumps)];
    Command::Meta(MetaCommand { verb: Verb::Get, key, size: None, flags })
}

impl Beside {
    /// The CAS token, if it is wanted.
    #[inline]
    pub fn token(is_wanted: bool) -> Self {
        if is_wanted {
            Self::Cas
        } else {
            Self::Nothing
        }
    }
}

/// The error of a server that gives every item the CAS token 0.
#[cold]
pub(super) fn without_tokens(server: &Arc<str>) -> Error {
    let message = "the server has no CAS tokens, because it was started with -C: start it without -C, or do without \
                   compare-and-swap";
    Error::new(Kind::Unsupported, server, message)
}

#[cold]
fn too_large(mode: Mode, size: usize, limit: usize) -> Error {
    Refused::TooLarge { size, limit }.into_error(&"".into(), mode.name())
}
