//! Requests from C as the core's: the same for threads, batches and event loops.

use std::borrow::Cow;

use pinyon_cache::dialect::HostType;
use pinyon_cache::operations::{self, Beside, BorrowedKey, Direction, Initial, Mode, Policy, ServerCommand, Win};
use pinyon_cache::ttl::{self, Ttl};
use pinyon_net::invalid::InvalidArgument;

use crate::client::View;
use crate::errors::{Error, Failure};
use crate::status::numbered;
use crate::structs::{Request, FOREVER};

numbered! {
    /// What a request asks for.
    Verb: u32 {
        Get = 0,
        Gat = 1,
        Set = 2,
        Add = 3,
        Replace = 4,
        Append = 5,
        Prepend = 6,
        Delete = 7,
        Touch = 8,
        Incr = 9,
        Decr = 10,
        Metadata = 11,
        MarkStale = 12,
        Lease = 13,
        GiveBack = 14,
        Versions = 15,
        Stats = 16,
        FlushAll = 17,
        ClearNamespace = 18,
        InvalidateTags = 19,
    }
}

impl Verb {
    pub fn of(request: &Request) -> Result<Self, Error> {
        request.check()?;
        Self::ALL.get(request.verb as usize).copied().ok_or_else(|| no_verb(request.verb))
    }

    /// Whether it is not about a key.
    #[inline]
    pub fn has_no_key(self) -> bool {
        self as u32 >= Self::Versions as u32
    }

    /// Whether it goes to every server.
    #[inline]
    pub fn is_for_all(self) -> bool {
        matches!(self, Self::Versions | Self::Stats | Self::FlushAll | Self::ClearNamespace)
    }

    /// How a value is stored.
    #[inline]
    fn mode(self) -> Option<Mode> {
        match self {
            Verb::Set => Some(Mode::Set),
            Verb::Add => Some(Mode::Add),
            Verb::Replace => Some(Mode::Replace),
            Verb::Append => Some(Mode::Append),
            Verb::Prepend => Some(Mode::Prepend),
            _ => None,
        }
    }
}

#[cold]
fn no_verb(verb: u32) -> Error {
    Failure::usage(format!("there is no verb {verb}"))
}

/// Refuses flags that a newer header has.
#[inline]
pub fn check_flags(given: u32, known: u32) -> Result<(), Error> {
    match given & !known {
        0 => Ok(()),
        unknown => Err(unknown_flags(unknown)),
    }
}

#[cold]
fn unknown_flags(unknown: u32) -> Error {
    Failure::usage(format!("`with` has flags that this library does not know: {unknown:#x}; compare pinyon_version()"))
}

pub mod with {
    pub const CAS: u32 = 0x1;
    pub const TTL: u32 = 0x2;
    pub const METADATA: u32 = 0x4;
    pub const WITHOUT_BUMP: u32 = 0x8;
    pub const NEW_CAS: u32 = 0x10;
    pub const INITIAL: u32 = 0x20;
    pub const KEEP: u32 = 0x40;
    pub const NO_FAILOVER: u32 = 0x80;
    pub const RAW: u32 = 0x100;
    pub const TTL_AS_SENT: u32 = 0x200;
    pub const ALL: u32 = 0x3ff;
}

/// How long a caller has to make a missing value, in seconds, if it does not say.
pub const LEASE: i64 = 10;

impl Request {
    /// Refuses what no request has: one test, as nearly all are right.
    #[inline]
    fn check(&self) -> Result<(), Error> {
        let missing = self.key.missing_memory() | self.value.missing_memory();
        // As the two before; the compiler shares its test with that of the key.
        let route = if self.route.is_given() { 0 } else { self.route.size };
        match missing | route | (self.with & !with::ALL) as usize {
            0 => Ok(()),
            _ => self.complain(),
        }
    }

    #[cold]
    fn complain(&self) -> Result<(), Error> {
        check_flags(self.with, with::ALL)?;
        self.key.check("key")?;
        self.value.check("value")?;
        self.route.check("route")
    }

    #[inline]
    pub fn has(&self, with: u32) -> bool {
        self.with & with != 0
    }

    fn cas(&self) -> Option<u64> {
        self.has(with::CAS).then_some(self.cas)
    }

    #[inline]
    pub fn policy(&self, view: &View) -> Policy {
        Policy { failover: view.policy.failover && !self.has(with::NO_FAILOVER), ..view.policy }
    }

    /// The key by the client's rules. A key that needs rewriting is written to `scratch`.
    ///
    /// # Safety
    /// The request's bytes stay as they are for the lifetime.
    #[inline]
    pub unsafe fn key<'k>(&self, view: &'k View, scratch: &'k mut Vec<u8>) -> Result<BorrowedKey<'k>, Error> {
        // SAFETY: the caller keeps the request's bytes as they are for the lifetime.
        let (given, route) = unsafe { (self.key.slice::<'k>(), self.route.given::<'k>()) };
        match BorrowedKey::new(&view.keys, given, scratch) {
            Ok(key) => Ok(key.asked_about(route)),
            Err(why) => Err(InvalidArgument::key(&why, given).into()),
        }
    }
}

/// A request about one key, and the data block to send. Its [tags](Request::taken_tags) go to the operation that is made of it.
pub struct Keyed<'d> {
    pub request: operations::Request,
    pub data: Option<Cow<'d, [u8]>>,
}

impl<'d> Keyed<'d> {
    /// # Safety
    /// The request's bytes stay as they are for the lifetime.
    #[inline(always)]
    pub unsafe fn of(view: &View, verb: Verb, asked: &Request) -> Result<Self, Error> {
        if let Verb::Get = verb {
            if asked.with & (with::CAS | with::TTL | with::METADATA) == 0 {
                return Ok(Self { request: operations::Request::Get(Beside::Nothing), data: None });
            }
        }
        if let Some(mode) = verb.mode() {
            // SAFETY: the caller keeps the request's bytes as they are for the lifetime.
            return store(view, mode, asked, unsafe { asked.value.slice() });
        }
        without_data(view, verb, asked).map(|request| Self { request, data: None })
    }
}

fn store<'d>(view: &View, mode: Mode, asked: &Request, value: &'d [u8]) -> Result<Keyed<'d>, Error> {
    let (mut data, mut client_flags) = (Cow::Borrowed(value), asked.client_flags);
    let packing = &view.shared.packing;
    if packing.compresses() && !asked.has(with::RAW) {
        if let Mode::Append | Mode::Prepend = mode {
            packing.check_append().map_err(InvalidArgument::from)?;
        }
        if let Some((packed, marked)) = packing.pack(value, client_flags).map_err(InvalidArgument::from)? {
            (data, client_flags) = (packed.into(), marked);
        }
    }
    let (cas, returns_cas) = (asked.cas(), asked.has(with::NEW_CAS));
    let ttl = stored_ttl(view, asked);
    let request = operations::Request::Store { mode, size: data.len(), client_flags, ttl, cas, returns_cas };
    Ok(Keyed { request, data: Some(data) })
}

fn without_data(view: &View, verb: Verb, asked: &Request) -> Result<operations::Request, Error> {
    use operations::Request as Core;
    let cas = asked.has(with::CAS);
    Ok(match verb {
        Verb::Get if asked.has(with::METADATA) => Core::Get(Beside::Metadata { bumps: !asked.has(with::WITHOUT_BUMP) }),
        Verb::Get if asked.has(with::TTL) && cas => Core::Get(Beside::Metadata { bumps: true }),
        Verb::Get if asked.has(with::TTL) => Core::Get(Beside::Ttl),
        Verb::Get => Core::Get(Beside::token(cas)),
        Verb::Gat => Core::GetAndTouch { ttl: sent_ttl(asked), cas },
        Verb::Touch => Core::Touch { ttl: sent_ttl(asked) },
        // Giving back a lease deletes the item, if it still has this token.
        Verb::Delete if cas => Core::GiveBack(Win { cas: asked.cas, keep: false }),
        Verb::Delete => Core::Delete,
        Verb::Incr => calculate(view, Direction::Increment, asked)?,
        Verb::Decr => calculate(view, Direction::Decrement, asked)?,
        Verb::Metadata => Core::Metadata,
        Verb::MarkStale => {
            let ttl = asked.has(with::TTL).then(|| ttl::limited("ttl", asked.ttl)).transpose()?;
            Core::MarkStale { ttl, cas: asked.cas() }
        }
        Verb::Lease => {
            let lease = if asked.lease == 0 { LEASE } else { asked.lease.into() };
            let recache = ttl::limited_or_none("recache", asked.recache)?;
            let lease = ttl::limited("lease", lease)?;
            match asked.cas() {
                Some(cas) => Core::Renew { lease, recache, cas },
                None => Core::Lease { lease, recache },
            }
        }
        Verb::GiveBack => Core::GiveBack(Win { cas: asked.cas, keep: asked.has(with::KEEP) }),
        Verb::Set | Verb::Add | Verb::Replace | Verb::Append | Verb::Prepend => unreachable!("it has data"),
        Verb::Versions | Verb::Stats | Verb::FlushAll | Verb::ClearNamespace | Verb::InvalidateTags => {
            return Err(Failure::usage("this verb has no key, and is not among requests about keys"))
        }
    })
}

fn calculate(view: &View, direction: Direction, asked: &Request) -> Result<operations::Request, Error> {
    let initial = match asked.has(with::INITIAL) {
        false => None,
        true => {
            let usual = view.shared.packing.dialect().write(HostType::Integer).map_or(0, |(_, flags)| flags);
            let client_flags = if asked.client_flags == 0 { usual } else { asked.client_flags };
            Some(Initial { number: asked.initial, ttl: stored_ttl(view, asked), client_flags })
        }
    };
    Ok(operations::Request::Arithmetic { direction, delta: asked.delta, initial })
}

/// The command for every server, of a verb that [is for all](Verb::is_for_all).
#[cold]
pub fn for_all(view: &View, verb: Verb, asked: &Request) -> Result<ServerCommand, Error> {
    match verb {
        Verb::Versions => Ok(ServerCommand::Version),
        Verb::Stats => {
            // SAFETY: the request's bytes stay as they are during the call.
            let kind = std::str::from_utf8(unsafe { asked.value.slice() });
            let kind = kind.map_err(|_| Failure::usage("the kind of statistics is not text"))?;
            Ok(ServerCommand::stats(kind)?)
        }
        Verb::ClearNamespace => Ok(ServerCommand::clear_namespace(&view.keys)?),
        _ => Ok(ServerCommand::flush_all(asked.ttl)?),
    }
}

#[inline]
fn stored_ttl(view: &View, asked: &Request) -> i32 {
    match asked.ttl {
        0 if !asked.has(with::TTL_AS_SENT) => {
            let usual = view.shared.default_ttl;
            usual.relative().unwrap_or_else(|| usual.now()).0
        }
        _ => sent_ttl(asked),
    }
}

fn sent_ttl(asked: &Request) -> i32 {
    if asked.has(with::TTL_AS_SENT) {
        return asked.ttl.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
    }
    match asked.ttl {
        FOREVER => 0,
        seconds => Ttl::from_seconds(seconds).0,
    }
}
