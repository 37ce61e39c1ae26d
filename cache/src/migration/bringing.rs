//! Moves one key into the new pool if only the old pool has it.
//!
//! A lease keeps the key's place in the new pool. A caller that deletes the key or stores another value takes the lease
//! away. So a value that was read from the old pool earlier cannot overwrite the newer state.

use std::sync::Arc;

use super::{Counts, Side};
use crate::operations::{Answer, Beside, Compared, Fact, Found, Request};
use crate::operations::{Finding, Win};
use pinyon_net::error::kinds::ErrorKind;

/// Seconds until another caller may move a key whose mover has died.
const LEASE: i32 = 5;

const READ: Request = Request::Get(Beside::Nothing);

#[derive(Debug)]
pub(super) struct Bringing<V> {
    counts: Arc<Counts>,
    /// The ttl for items from a server that cannot report ttls.
    ttl: Option<i64>,
    cannot_tell_ttls: bool,
    at: At<V>,
}

#[derive(Debug)]
enum At<V> {
    /// Reading the new pool.
    Reading,
    /// Reading the old pool.
    Looking,
    /// Asking for the lease, with the old pool's value.
    Leasing(V),
    /// Reading the old pool again: the value may have changed before the lease was won.
    LookingAgain(Win),
    Storing(V, Win),
    /// Giving the lease back, with the value to return, if there is one.
    GivingBack(Option<V>),
    /// Reading the new pool again: another caller may have stored a value there and deleted the old one meanwhile.
    ReadingAgain,
    Over,
}

/// The next action for the key.
pub(super) enum Brought<V> {
    Ask(Side, Request),
    Store {
        value: V,
        cas: u64,
        ttl: i64,
    },
    /// The end, with the value, if there is one.
    Over(Option<V>),
}

/// It cannot continue after an error.
pub(super) enum Stopped {
    Raise,
    NeedTtl,
}

impl<V: Clone> Bringing<V> {
    pub(super) fn new(counts: Arc<Counts>, ttl: Option<i64>) -> Self {
        Self { counts, ttl, cannot_tell_ttls: false, at: At::Over }
    }

    pub(super) fn begin(&mut self) -> Brought<V> {
        self.go(At::Reading, Side::New, READ)
    }

    /// Begins with the old pool, for a key that the new pool is known not to have.
    pub(super) fn look(&mut self) -> Brought<V> {
        self.go(At::Looking, Side::Old, self.look_request())
    }

    pub(super) fn answered(&mut self, answer: Answer<V>) -> Brought<V> {
        match (std::mem::replace(&mut self.at, At::Over), answer) {
            (At::Reading, Answer::Value(value)) => self.found_in_new(value),
            (At::Reading, _) => self.look(),
            (At::Looking, answer) => match self.left(answer) {
                Some((value, _)) => {
                    self.counts.old.one();
                    self.go(At::Leasing(value), Side::New, Request::Lease { lease: LEASE, recache: 0 })
                }
                None => self.go(At::ReadingAgain, Side::New, READ),
            },
            (At::Leasing(value), Answer::Lease(found)) => self.leased(value, *found),
            (At::LookingAgain(win), answer) => match self.left(answer) {
                Some((value, ttl)) => {
                    self.at = At::Storing(value.clone(), win);
                    Brought::Store { value, cas: win.cas, ttl }
                }
                None => self.give_back(win, None),
            },
            (At::Storing(value, _), answer) => {
                if matches!(answer, Answer::Compared(Compared::Stored)) {
                    self.counts.moved.one();
                }
                Brought::Over(Some(value))
            }
            (At::GivingBack(Some(value)), _) => Brought::Over(Some(value)),
            (At::GivingBack(None), _) => self.go(At::ReadingAgain, Side::New, READ),
            (At::ReadingAgain, Answer::Value(value)) => self.found_in_new(value),
            (At::ReadingAgain, _) => {
                self.counts.missing.one();
                Brought::Over(None)
            }
            (At::Leasing(_) | At::Over, _) => unreachable!("this answers nothing that was asked"),
        }
    }

    pub(super) fn failed(&mut self, kind: ErrorKind) -> Result<Brought<V>, Stopped> {
        match std::mem::replace(&mut self.at, At::Over) {
            at @ (At::Looking | At::LookingAgain(_)) if kind == ErrorKind::Unsupported && !self.cannot_tell_ttls => {
                if self.ttl.is_none() {
                    return Err(Stopped::NeedTtl);
                }
                self.cannot_tell_ttls = true;
                Ok(self.go(at, Side::Old, READ))
            }
            At::Storing(value, win) if is_refusal(kind) => {
                self.counts.refused.one();
                Ok(self.give_back(win, Some(value)))
            }
            _ => Err(Stopped::Raise),
        }
    }

    fn found_in_new(&self, value: V) -> Brought<V> {
        self.counts.new.one();
        Brought::Over(Some(value))
    }

    fn leased(&mut self, value: V, found: Found<V>) -> Brought<V> {
        match (found.finding, found.value) {
            (Finding::Hit | Finding::Stale, Some(newer)) => Brought::Over(Some(newer)),
            (Finding::Won(Some(win)), _) => self.go(At::LookingAgain(win), Side::Old, self.look_request()),
            // Another caller is moving it, or moving is impossible.
            _ => Brought::Over(Some(value)),
        }
    }

    fn give_back(&mut self, win: Win, value: Option<V>) -> Brought<V> {
        self.go(At::GivingBack(value), Side::New, Request::GiveBack(win))
    }

    fn look_request(&self) -> Request {
        match self.cannot_tell_ttls {
            true => READ,
            false => Request::Get(Beside::Ttl),
        }
    }

    /// The value in the old pool, and the ttl to store it with.
    fn left(&self, answer: Answer<V>) -> Option<(V, i64)> {
        match answer {
            Answer::ValueAnd(value, Fact::Ttl(Some(ttl))) => Some((value, ttl.max(1).into())),
            Answer::ValueAnd(value, Fact::Ttl(None)) => Some((value, 0)),
            Answer::Value(value) => Some((value, self.ttl.unwrap_or_default())),
            _ => None,
        }
    }

    fn go(&mut self, at: At<V>, pool: Side, request: Request) -> Brought<V> {
        self.at = at;
        Brought::Ask(pool, request)
    }
}

/// Whether the new client or its server refuses such a value.
fn is_refusal(kind: ErrorKind) -> bool {
    let refuses = [ErrorKind::UnsupportedType, ErrorKind::ValueTooLarge, ErrorKind::ServerError];
    refuses.contains(&kind) || kind.parents().iter().any(|parent| is_refusal(*parent))
}
