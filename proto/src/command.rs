//! The commands of a memcached server.

use crate::version::{self, ServerVersion};
use crate::{Key, MAX_KEY};

/// A command. It is written in meta syntax or in classic text, whichever the server takes and is faster.
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    /// Reads one item: its value and client flags, and its CAS token if `cas`.
    Get { key: Key<'a>, cas: bool },
    /// Reads many items with one classic `get` line. `keys` are plain keys as sent, separated by single spaces. With `ttl`,
    /// also sets their ttl; servers before 1.5.3 do not know that.
    GetMany { keys: &'a [u8], cas: bool, ttl: Option<i32> },
    /// Reads one item like [`Command::Get`], and sets its ttl. Servers before 1.5.3 do not know it.
    GetAndTouch { key: Key<'a>, ttl: i32, cas: bool },
    /// Sets an item's ttl.
    Touch { key: Key<'a>, ttl: i32 },
    /// Stores a value. Only the command line is encoded; the caller sends the data block and its `\r\n`.
    Store(Store<'a>),
    /// Deletes an item.
    Delete { key: Key<'a> },
    /// Deletes an item if it still has this CAS token. Needs meta commands.
    DeleteIf { key: Key<'a>, cas: u64 },
    /// Marks an item stale. The item stays, and the next caller that reads it wins the right to replace it. Needs meta
    /// commands.
    MarkStale(MarkStale<'a>),
    /// Reads one item with its CAS token, and asks for the right to store a new value if the item is missing, stale or
    /// about to expire. Needs meta commands.
    Lease(Lease<'a>),
    /// Adds to or subtracts from a decimal value.
    Arithmetic(Arithmetic<'a>),
    /// Any meta command with any flags.
    Meta(MetaCommand<'a>),
    /// A barrier: its reply follows all earlier replies.
    NoOp,
    /// Deletes every item, after `delay` seconds.
    FlushAll { delay: u32 },
    /// The server's statistics.
    Stats(StatsKind<'a>),
    /// The server's version.
    Version,
    /// Asks a configuration endpoint of ElastiCache or Memorystore for its cluster's servers.
    ClusterConfig,
}

/// The argument of `stats`, such as `items` or `settings`; empty for the general statistics.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatsKind<'a>(&'a [u8]);

impl<'a> StatsKind<'a> {
    /// `None` if the text cannot be sent: if it contains anything but letters, digits, spaces and underscores, or
    /// exceeds [`MAX_KEY`] bytes.
    pub fn new(text: &'a str) -> Option<Self> {
        let sendable = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b' ' || byte == b'_');
        (sendable && text.len() <= MAX_KEY).then_some(Self(text.as_bytes()))
    }

    pub fn text(&self) -> &'a [u8] {
        self.0
    }
}

/// A value to store, of `size` bytes.
#[derive(Clone, Copy, Debug)]
pub struct Store<'a> {
    pub mode: Mode,
    pub key: Key<'a>,
    pub size: usize,
    pub client_flags: u32,
    /// Seconds from now up to 30 days, a Unix time above; 0 never expires, a negative value expires at once.
    pub ttl: i32,
    /// Stores only if the item still has this CAS token.
    pub cas: Option<u64>,
    /// Whether the server returns the new CAS token. Classic text does not have it.
    pub returns_cas: bool,
}

impl Store<'_> {
    /// A value of more bytes may be too large for a server: the smallest limit that memcached can be given is 1024
    /// bytes, for the value, its key and the item's header.
    const SURELY_TAKEN: usize = 1024 - MAX_KEY - 64;

    /// Whether it stores only if the item that exists meets a condition, or adds to that item.
    #[inline]
    pub fn is_conditional(&self) -> bool {
        self.cas.is_some() || self.mode != Mode::Set
    }

    /// Whether it is sent in classic text to every server: one that refuses the value, because it is too large or memory
    /// is short, deletes the present item after `ms` in every mode, and after classic text only in `set`.
    #[inline]
    pub fn spares_item(&self) -> bool {
        self.is_conditional() && !self.needs_meta()
    }

    /// Whether a server may refuse a value of this size.
    pub fn may_be_too_large(&self) -> bool {
        self.size > Self::SURELY_TAKEN
    }

    /// Whether only meta syntax can express it.
    pub fn needs_meta(&self) -> bool {
        self.key.base64 || self.returns_cas || self.compares_and_completes()
    }

    /// Whether it adds to the item with this CAS token.
    pub(crate) fn compares_and_completes(&self) -> bool {
        self.cas.is_some() && matches!(self.mode, Mode::Append | Mode::Prepend)
    }
}

/// The condition of a store, and where the value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Set,
    /// Only if the item does not exist.
    Add,
    /// Only if the item exists.
    Replace,
    Append,
    Prepend,
}

#[derive(Clone, Copy, Debug)]
pub struct MarkStale<'a> {
    pub key: Key<'a>,
    /// The new ttl, as in a [`Store`]; `None` keeps the old one.
    pub ttl: Option<i32>,
    /// Marks it only if it still has this CAS token.
    pub cas: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub struct Lease<'a> {
    pub key: Key<'a>,
    /// How long the placeholder lives, in seconds. The server creates it on a miss; only this caller may fill it.
    pub lease: i32,
    /// One caller wins an item that has fewer seconds left than this; 0 for never.
    pub recache: i32,
}

#[derive(Clone, Copy, Debug)]
pub struct Arithmetic<'a> {
    pub key: Key<'a>,
    pub direction: Direction,
    pub delta: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Increment,
    /// Stops at zero.
    Decrement,
}

/// The meta commands, except `mn`, which is [`Command::NoOp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    Store,
    Delete,
    Arithmetic,
}

/// A meta command with flags of the caller's choice. The encoder adds the opaque, the base64 mark and quiet mode. The
/// caller sends a store's data block, as for [`Command::Store`].
#[derive(Clone, Copy, Debug)]
pub struct MetaCommand<'a> {
    pub verb: Verb,
    pub key: Key<'a>,
    /// The length of the data block; only for [`Verb::Store`].
    pub size: Option<usize>,
    pub flags: &'a [Flag],
}

/// The flags of the meta commands, named by their effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// `c`: return the CAS token.
    ReturnCas,
    /// `C`: compare the CAS token; on `mg`, send the value only if it differs.
    CompareCas(u64),
    /// `f`: return the client flags.
    ReturnClientFlags,
    /// `F`: set the client flags.
    ClientFlags(u32),
    /// `h`: return whether the item was hit before.
    HitBefore,
    /// `l`: return the seconds since the last access.
    LastAccess,
    /// `t`: return the remaining ttl, -1 for none.
    RemainingTtl,
    /// `s`: return the value's size.
    Size,
    /// `I`: mark stale; on `ms`, let a lower CAS token store, and mark the item stale.
    Invalidate,
    /// `u`: do not update the hit mark, the last access and the eviction order.
    NoBump,
    /// `v`: return the value.
    Value,
    /// `M` on `ms`.
    StoreMode(Mode),
    /// `M` on `ma`.
    Direction(Direction),
    /// `N`: create on miss, with this ttl.
    Vivify(i32),
    /// `R`: give one caller the right to recache if less than this ttl is left.
    Recache(i32),
    /// `T`: set the ttl.
    Ttl(i32),
    /// `D`: the delta.
    Delta(u64),
}

impl Flag {
    /// The letter on the wire.
    pub fn letter(&self) -> u8 {
        match self {
            Flag::ReturnCas => b'c',
            Flag::CompareCas(_) => b'C',
            Flag::ReturnClientFlags => b'f',
            Flag::ClientFlags(_) => b'F',
            Flag::HitBefore => b'h',
            Flag::LastAccess => b'l',
            Flag::RemainingTtl => b't',
            Flag::Size => b's',
            Flag::Invalidate => b'I',
            Flag::NoBump => b'u',
            Flag::Value => b'v',
            Flag::StoreMode(_) | Flag::Direction(_) => b'M',
            Flag::Vivify(_) => b'N',
            Flag::Recache(_) => b'R',
            Flag::Ttl(_) => b'T',
            Flag::Delta(_) => b'D',
        }
    }

    /// The first version that takes this flag with `verb`; `None` if none does.
    pub fn since(&self, verb: Verb) -> Option<ServerVersion> {
        use Verb::{Arithmetic, Delete, Get, Store};
        let (verbs, since): (&[Verb], _) = match self {
            Flag::ReturnCas => (&[Get, Store, Arithmetic], version::META),
            Flag::CompareCas(_) if verb == Get => (&[Get], version::CONDITIONAL_GET),
            Flag::CompareCas(_) => (&[Store, Delete, Arithmetic], version::META),
            Flag::ReturnClientFlags | Flag::HitBefore | Flag::LastAccess => (&[Get], version::META),
            Flag::NoBump | Flag::Recache(_) => (&[Get], version::META),
            Flag::ClientFlags(_) | Flag::StoreMode(_) => (&[Store], version::META),
            Flag::RemainingTtl => (&[Get, Arithmetic], version::META),
            Flag::Size if verb == Store => (&[Store], version::STORE_VIVIFY),
            Flag::Size => (&[Get], version::META),
            Flag::Invalidate => (&[Store, Delete], version::META),
            Flag::Value => (&[Get, Arithmetic], version::META),
            Flag::Direction(_) | Flag::Delta(_) => (&[Arithmetic], version::META),
            Flag::Vivify(_) if verb == Store => (&[Store], version::STORE_VIVIFY),
            Flag::Vivify(_) => (&[Get, Arithmetic], version::META),
            Flag::Ttl(_) => (&[Get, Store, Delete, Arithmetic], version::META),
        };
        verbs.contains(&verb).then_some(since)
    }
}

impl Command<'_> {
    /// Its name in the protocol, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Command::Get { .. } => "get",
            Command::GetMany { ttl: None, .. } => "get_many",
            Command::GetMany { .. } => "gat_many",
            Command::GetAndTouch { .. } => "gat",
            Command::Touch { .. } => "touch",
            Command::Store(store) if store.cas.is_some() => "cas",
            Command::Store(store) => store.mode.name(),
            Command::Delete { .. } | Command::DeleteIf { .. } | Command::MarkStale(_) => "delete",
            Command::Lease(_) => "lease",
            Command::Arithmetic(arithmetic) => arithmetic.direction.name(),
            Command::Meta(_) => "meta",
            Command::NoOp => "mn",
            Command::FlushAll { .. } => "flush_all",
            Command::Stats(_) => "stats",
            Command::Version => "version",
            Command::ClusterConfig => "config get cluster",
        }
    }

    /// Whether it has a quiet form in meta syntax.
    pub fn can_be_quiet(&self) -> bool {
        match self {
            Command::Store(store) => !store.is_conditional(),
            Command::Delete { .. } | Command::Arithmetic(_) => true,
            Command::DeleteIf { .. } | Command::MarkStale(_) | Command::Meta(_) => true,
            _ => false,
        }
    }

    /// The same command, for an item that must expire within `most` seconds; at most 30 days.
    #[cold]
    pub fn expiring_within(self, most: i32) -> Self {
        let within = |ttl: i32| if ttl == 0 { most } else { ttl.min(most) };
        match self {
            Command::GetAndTouch { key, ttl, cas } => Command::GetAndTouch { key, ttl: within(ttl), cas },
            Command::GetMany { keys, cas, ttl } => Command::GetMany { keys, cas, ttl: ttl.map(within) },
            Command::Touch { key, ttl } => Command::Touch { key, ttl: within(ttl) },
            Command::Store(store) => Command::Store(Store { ttl: within(store.ttl), ..store }),
            Command::MarkStale(mark) => Command::MarkStale(MarkStale { ttl: mark.ttl.map(within), ..mark }),
            // With the shorter life, the whole life would count as its end.
            Command::Lease(lease) => Command::Lease(Lease { lease: within(lease.lease), recache: 0, ..lease }),
            other => other,
        }
    }

    /// Whether running it twice has the same effect as once, whatever other callers write in between. Leases count as
    /// idempotent: a lease won by a lost reply ends by itself.
    pub fn is_idempotent(&self) -> bool {
        match self {
            Command::Get { .. } | Command::GetMany { ttl: None, .. } | Command::Lease(_) => true,
            Command::NoOp | Command::Stats(_) | Command::Version | Command::ClusterConfig => true,
            Command::Meta(meta) => meta.only_reads(),
            _ => false,
        }
    }
}

impl MetaCommand<'_> {
    fn only_reads(&self) -> bool {
        let changes = |flag: &Flag| matches!(flag, Flag::Vivify(_) | Flag::Recache(_) | Flag::Ttl(_));
        self.verb == Verb::Get && !self.flags.iter().any(changes)
    }
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Set => "set",
            Mode::Add => "add",
            Mode::Replace => "replace",
            Mode::Append => "append",
            Mode::Prepend => "prepend",
        }
    }

    pub(crate) fn letter(self) -> u8 {
        match self {
            Mode::Set => b'S',
            Mode::Add => b'E',
            Mode::Replace => b'R',
            Mode::Append => b'A',
            Mode::Prepend => b'P',
        }
    }
}

impl Direction {
    pub fn name(self) -> &'static str {
        match self {
            Direction::Increment => "incr",
            Direction::Decrement => "decr",
        }
    }

    pub(crate) fn letter(self) -> u8 {
        match self {
            Direction::Increment => b'I',
            Direction::Decrement => b'D',
        }
    }
}

impl Verb {
    pub(crate) fn text(self) -> &'static [u8; 3] {
        match self {
            Verb::Get => b"mg ",
            Verb::Store => b"ms ",
            Verb::Delete => b"md ",
            Verb::Arithmetic => b"ma ",
        }
    }
}
