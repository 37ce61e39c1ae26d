//! Wishes from C as the core's operations, and their outcomes as replies: the same for threads and event loops.

use std::borrow::Cow;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use pinyon_locks::settings::{lock_ttl, LockTerms, OnFailure};
use pinyon_locks::{
    common_tag, names, owners, Asked, LockOperation, LockOutcome, LockRequest, NameError, Names, PermitsAsked, Rate,
    RedisCommand, StatusAnswer, StatusQuestion, Ticket,
};
use pinyon_net::invalid::InvalidArgument;
use pinyon_net::settings::waiting_time;

use crate::answers::Answers;
use crate::errors::{Error, Failure};
use crate::locks::client::{Drivers, Locks};
use crate::locks::listener::{Grant, Listener};
use crate::locks::lock::{Driver, Held, Lock};
use crate::requests::check_flags;
use crate::status::{marks, numbered, Status};
use crate::structs::{borrowed, c_structs, missing, names_of, sized, Bytes, Reply};
use crate::wishes::permits::{names_in_modes, permits_of, told, Permits};

c_structs! {
    "pinyon_wish" Wish {
        size: usize,
        kind: u32,
        with: u32,
        names: *const Bytes,
        count: usize,
        lock: *mut Lock,
        owner: u64,
        ttl: f64,
        wait: f64,
        max_hold: f64,
        token: u64,
        most: u32,
        tag: Bytes,
        context: *mut c_void,
        rate: *const GivenRate,
        at_least: f64,
        ticket: Bytes,
        read: *const Bytes,
        read_count: usize,
        permits: *const Permits,
        permits_count: usize,
        note: Bytes,
    }

    "pinyon_rate" GivenRate {
        size: usize,
        limit: i64,
        per: f64,
        burst: i64,
    }
}

sized! { Wish, GivenRate }

type Operation = LockOperation<Listener>;

numbered! {
    /// What a wish is for.
    WishKind: u32 {
        Lock = 0,
        Release = 1,
        Extend = 2,
        Park = 3,
        Notify = 4,
        Inspect = 5,
        ForceRelease = 6,
        Command = 7,
        Rate = 8,
        ReleaseAll = 9,
        HandOver = 10,
        Available = 11,
        Upgrade = 12,
        Downgrade = 13,
    }
}

pub mod with {
    pub const AT_ONCE: u32 = 0x1;
    pub const NO_RENEWAL: u32 = 0x2;
    pub const REENTRANT: u32 = 0x4;
    pub const NOT_REENTRANT: u32 = 0x8;
    pub const TOKEN: u32 = 0x10;
    pub const WAITS: u32 = 0x20;
    pub const EARLY: u32 = 0x40;
    pub const PROCEED: u32 = 0x80;
    pub const ALL: u32 = AT_ONCE | NO_RENEWAL | REENTRANT | NOT_REENTRANT | TOKEN | WAITS | EARLY | PROCEED;
}

/// An operation, what becomes of its outcome, and where it is carried out.
pub struct Wanted<'w> {
    pub operation: Operation,
    pub becomes: Becomes,
    pub about: About<'w>,
}

pub enum About<'w> {
    /// Names with this hash tag of their own, if they have one.
    Names(Option<Cow<'w, [u8]>>),
    Lock(&'w Lock),
    /// Everything that is held.
    All(Option<Duration>),
}

/// What to make of an outcome.
pub enum Becomes {
    /// A lock. `relock`: how long it tries to take its names again after it was parked.
    Lock {
        grant: Arc<Grant>,
        relock: Duration,
    },
    /// A lock that may have another token: it was parked, or upgraded.
    Parked(Arc<Grant>),
    /// The state of these names.
    States(Vec<Vec<u8>>),
    /// How many locks were released, on so many connections.
    All(Arc<Several>),
    /// How many of a pool's permits are free. It has so many if nobody has any.
    Available(u32),
    Other,
}

/// The answers of several connections to one wish.
#[derive(Default)]
pub struct Several {
    pub left: AtomicUsize,
    released: AtomicU64,
}

impl<'w> Wanted<'w> {
    /// # Safety
    /// What the wish points to stays as it is for the lifetime.
    pub unsafe fn of(locks: &Locks, wish: &'w Wish) -> Result<Self, Error> {
        let Some(kind) = WishKind::ALL.into_iter().find(|kind| *kind as u32 == wish.kind) else {
            return Err(Failure::usage(format!("there is no wish with the number {}", wish.kind)));
        };
        check_flags(wish.with, with::ALL)?;
        wish.tag.check("tag")?;
        wish.ticket.check("ticket")?;
        wish.note.check("note")?;
        if let WishKind::ReleaseAll = kind {
            let wait = (wish.wait != 0.0).then(|| waiting_time("wait", or_none(wish.wait))).transpose()?;
            let (operation, becomes) = (Operation::ReleaseAll { wait }, Becomes::All(Arc::default()));
            return Ok(Self { operation, becomes, about: About::All(wait) });
        }
        if let (WishKind::Lock, true) = (kind, wish.ticket.is_given()) {
            // SAFETY: the caller keeps what the wish points to as it is for the lifetime.
            return adopting(locks, wish, unsafe { wish.ticket.slice() });
        }
        if let WishKind::Release
        | WishKind::Extend
        | WishKind::Park
        | WishKind::Notify
        | WishKind::HandOver
        | WishKind::Upgrade
        | WishKind::Downgrade = kind
        {
            // SAFETY: the caller keeps what the wish points to as it is for the lifetime.
            let (lock, given) = unsafe { (wish.lock.as_ref(), names_of(wish.names, wish.count)?) };
            return of_lock(locks, kind, wish, lock.ok_or_else(|| missing("pinyon_lock in the wish"))?, &given);
        }
        // SAFETY: the caller keeps what the wish points to as it is for the lifetime.
        let (mut given, tag) = unsafe { (names_of(wish.names, wish.count)?, wish.tag.slice()) };
        let (operation, becomes) = match kind {
            WishKind::Lock => {
                let names = match (wish.read_count, wish.permits_count) {
                    (0, 0) => checked(&given)?,
                    (read, permits) => {
                        // SAFETY: the caller keeps what the wish points to as it is for the lifetime.
                        let (read, permits) =
                            unsafe { (names_of(wish.read, read)?, permits_of(wish.permits, permits)?) };
                        names_in_modes(locks, &mut given, read, &permits)?
                    }
                };
                let (grant, relock, operation) = acquiring(locks, wish, names)?;
                (operation, Becomes::Lock { grant, relock })
            }
            WishKind::Available => {
                // SAFETY: the caller keeps what the wish points to as it is for the lifetime.
                let permits = unsafe { permits_of(wish.permits, wish.permits_count)? };
                let [permits] = permits.as_slice() else {
                    return Err(Failure::usage(
                        "the question about permits is about one pool: give one pinyon_permits",
                    ));
                };
                given = vec![permits.pool];
                let asked = Asked::pool(permits.pool).map_err(invalid)?;
                let limit = told(locks, &PermitsAsked { count: 1, ..*permits })?;
                (Operation::Inspect { asked, question: StatusQuestion::Permits }, Becomes::Available(limit))
            }
            WishKind::Inspect => {
                let asked = Asked::new(&given).map_err(invalid)?;
                let names = given.iter().map(|name| name.to_vec()).collect();
                (Operation::Inspect { asked, question: StatusQuestion::Each }, Becomes::States(names))
            }
            WishKind::ForceRelease => {
                let token = has(wish, with::TOKEN).then_some(wish.token);
                (Operation::ForceRelease { names: checked(&given)?, token }, Becomes::Other)
            }
            WishKind::Rate => (rating(locks, wish, &given)?, Becomes::Other),
            _ if given.is_empty() => return Err(Failure::usage("a command begins with its name; names are empty")),
            _ => (Operation::Execute { command: RedisCommand::of(&given) }, Becomes::Other),
        };
        let about = match (locks.has_tags(), kind) {
            (false, _) => About::Names(None),
            (true, WishKind::Command) => About::Names(wish.tag.is_given().then_some(tag.into())),
            (true, _) => About::Names(common_tag(&given).map_err(InvalidArgument::from)?.map(Cow::Borrowed)),
        };
        Ok(Self { operation, becomes, about })
    }
}

fn of_lock<'w>(
    locks: &Locks,
    kind: WishKind,
    wish: &Wish,
    lock: &'w Lock,
    given: &[&[u8]],
) -> Result<Wanted<'w>, Error> {
    let held = &lock.held;
    let (operation, becomes) = match kind {
        WishKind::Release if has(wish, with::EARLY) => (held.release_early(), Becomes::Other),
        WishKind::Release => (held.release(), Becomes::Other),
        WishKind::HandOver => {
            let ttl = (wish.ttl != 0.0).then(|| lock_ttl(wish.ttl)).transpose()?;
            (held.hand_over(ttl), Becomes::Other)
        }
        WishKind::Extend => (held.extend(lock_ttl(or(wish.ttl, locks.usual().ttl))?), Becomes::Other),
        WishKind::Notify => (held.notify(wish.most), Becomes::Other),
        WishKind::Upgrade => {
            let wait = match (has(wish, with::AT_ONCE), wish.wait != 0.0) {
                (true, _) => Some(Duration::ZERO),
                (false, given) => given.then(|| waiting_time("wait", or_none(wish.wait))).transpose()?,
            };
            (held.upgrade(given, wait).map_err(invalid)?, Becomes::Parked(held.grant().clone()))
        }
        WishKind::Downgrade => (held.downgrade(given).map_err(invalid)?, Becomes::Parked(held.grant().clone())),
        _ => {
            let wait = if wish.wait == 0.0 { None } else { Some(waiting_time("wait", or_none(wish.wait))?) };
            (held.park(wait), Becomes::Parked(held.grant().clone()))
        }
    };
    Ok(Wanted { operation, becomes, about: About::Lock(lock) })
}

/// A lock that was handed over. In C its hash tag is that of its names.
fn adopting<'w>(locks: &Locks, wish: &Wish, ticket: &'w [u8]) -> Result<Wanted<'w>, Error> {
    let ticket = Ticket::parse(ticket)?;
    let names: Vec<&[u8]> = ticket.names.iter().map(|name| &**name).collect();
    let tag = if locks.has_tags() { common_tag(&names).map_err(InvalidArgument::from)? } else { None };
    let setup = tag.map_or_else(|| locks.setup().clone(), |tag| locks.setup().tagged(tag));
    let request = terms(locks, wish)?.adopting(&ticket, &setup)?;
    let tag = tag.map(Vec::from);
    let (grant, relock, operation) = asking(wish, request);
    Ok(Wanted { operation, becomes: Becomes::Lock { grant, relock }, about: About::Names(tag.map(Cow::Owned)) })
}

fn acquiring(locks: &Locks, wish: &Wish, names: Names) -> Result<(Arc<Grant>, Duration, Operation), Error> {
    Ok(asking(wish, terms(locks, wish)?.request(names)?))
}

fn terms<'w>(locks: &Locks, wish: &'w Wish) -> Result<LockTerms<'w>, Error> {
    let usual = locks.usual();
    Ok(LockTerms {
        ttl: or(wish.ttl, usual.ttl),
        timeout: or_none(or(wish.wait, usual.timeout)),
        renew: !has(wish, with::NO_RENEWAL),
        max_hold: (wish.max_hold != 0.0).then_some(wish.max_hold),
        reentrant: has(wish, with::REENTRANT) || (usual.reentrant && !has(wish, with::NOT_REENTRANT)),
        at_least: (wish.at_least != 0.0).then_some(wish.at_least),
        on_failure: if has(wish, with::PROCEED) { OnFailure::Proceed } else { OnFailure::Raise },
        note: note_of(wish)?,
    })
}

fn note_of(wish: &Wish) -> Result<Option<&str>, Error> {
    if !wish.note.is_given() {
        return Ok(None);
    }
    // SAFETY: the caller of `Wanted::of` keeps what the wish points to as it is.
    let text = std::str::from_utf8(unsafe { wish.note.slice() });
    text.map(Some).map_err(|_| Failure::usage("note is not UTF-8"))
}

/// The operation that acquires what is requested, for the wish's owner.
fn asking(wish: &Wish, mut request: LockRequest) -> (Arc<Grant>, Duration, Operation) {
    let relock = request.wait.unwrap_or_default();
    request.owner = if wish.owner == 0 { owners::this_thread() } else { wish.owner };
    if has(wish, with::AT_ONCE) {
        request.wait = None;
    }
    let grant = Grant::of(&request);
    if !wish.context.is_null() {
        // It is new, so it was not lost.
        let _ = grant.listen(Listener::of(wish.context));
    }
    (grant.clone(), relock, Operation::Acquire { grant, request })
}

fn rating(locks: &Locks, wish: &Wish, given: &[&[u8]]) -> Result<Operation, Error> {
    let [name] = given else { return Err(Failure::usage("a rate has one name")) };
    // SAFETY: the caller of `Wanted::of` keeps what the wish points to as it is.
    let rate = unsafe { borrowed(wish.rate) }?;
    let burst = (rate.burst != 0).then_some(rate.burst);
    let rate = Arc::new(Rate::new(name, rate.limit, rate.per, burst)?);
    let timeout = has(wish, with::WAITS).then(|| or_none(or(wish.wait, locks.usual().timeout)));
    Ok(Operation::Rate { question: rate.ask(wish.most.max(1).into(), timeout)? })
}

impl Becomes {
    /// Whether other connections have not answered yet. Then the outcome is kept.
    pub fn waits_for_others(&self, outcome: &LockOutcome) -> bool {
        let (Self::All(several), LockOutcome::ReleasedAll { released }) = (self, outcome) else { return false };
        let waits = several.left.fetch_sub(1, Ordering::Relaxed) > 1;
        if waits {
            several.released.fetch_add(*released as u64, Ordering::Relaxed);
        }
        waits
    }

    /// Fills a reply. `driver`: what carried out the operation, and what keeps it alive.
    pub fn fill(
        self,
        reply: &mut Reply,
        outcome: LockOutcome,
        locks: &Locks,
        driver: impl FnOnce() -> (Driver, Option<Arc<Drivers>>),
    ) -> Status {
        let status = match (outcome, self) {
            (LockOutcome::Held { .. }, Self::Lock { grant, relock }) => {
                reply.number = grant.token();
                let (driver, drivers) = driver();
                reply.answer_lock(Lock::new(Held::new(grant, driver, relock, drivers), locks.clone()));
                Status::Done
            }
            (LockOutcome::Held { notified }, becomes) => {
                if let Self::Parked(grant) = becomes {
                    reply.number = grant.token();
                }
                reply.marks |= if notified { marks::WAS_NOTIFIED } else { 0 };
                Status::Done
            }
            (LockOutcome::Busy, _) => Status::Taken,
            (LockOutcome::Released { held: true } | LockOutcome::Extended { held: true }, _) => Status::Done,
            (LockOutcome::Released { held: false } | LockOutcome::Extended { held: false }, _) => Status::NotHeld,
            (LockOutcome::ReleasedAll { released }, Self::All(several)) => {
                reply.number = released as u64 + several.released.load(Ordering::Relaxed);
                Status::Done
            }
            (LockOutcome::ReleasedAll { .. }, _) => unreachable!("only all are counted"),
            (LockOutcome::HandedOver { ticket }, _) => {
                reply.keep_value(ticket.as_bytes());
                reply.marks |= marks::HAS_VALUE;
                Status::Done
            }
            (LockOutcome::Notified { moved }, _) => {
                reply.number = moved.into();
                Status::Done
            }
            (LockOutcome::ForceReleased { released }, _) => {
                reply.number = released as u64;
                Status::Done
            }
            (LockOutcome::Rated(answer), _) => {
                let micros = |time: Duration| time.as_micros() as u64;
                reply.number = answer.remaining;
                reply.ttl = micros(answer.reset) as i64;
                reply.last_access = answer.retry_after.map_or(0, micros);
                if answer.allowed {
                    Status::Done
                } else {
                    Status::Taken
                }
            }
            (LockOutcome::Status(StatusAnswer::Each(states)), Self::States(names)) => {
                reply.answer_all(Answers::of_names(names.iter().map(Vec::as_slice).zip(states)));
                Status::Done
            }
            (LockOutcome::Status(StatusAnswer::Permits(taken)), Self::Available(limit)) => {
                reply.number = taken.map_or(limit, |(taken, limit)| limit.saturating_sub(taken)).into();
                Status::Done
            }
            (LockOutcome::Status(_), _) => unreachable!("no other state is asked for"),
            (LockOutcome::Value(value), _) => {
                reply.answer_all(Answers::of_value(value));
                Status::Done
            }
            (LockOutcome::Failed(failure), _) => return reply.fail((*failure).into()),
        };
        reply.finish(status)
    }
}

fn checked(given: &[&[u8]]) -> Result<Names, Error> {
    names(given.iter().copied()).map_err(invalid)
}

fn invalid(error: NameError) -> Error {
    InvalidArgument::from(error).into()
}

fn has(wish: &Wish, flag: u32) -> bool {
    wish.with & flag != 0
}

/// Below 0 is not at all.
fn or_none(seconds: f64) -> f64 {
    if seconds < 0.0 {
        0.0
    } else {
        seconds
    }
}

/// 0 is the usual choice.
fn or(seconds: f64, usual: f64) -> f64 {
    if seconds == 0.0 {
        usual
    } else {
        seconds
    }
}
