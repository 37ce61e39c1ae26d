//! The right to renew an item, which a plain read takes by the way: it is put back before the read is over.
//!
//! memcached gives this right to the first `mg` of an item that was marked stale (`W` in its reply), whatever the `mg`
//! asks for. A caller that only reads makes no value, so nobody would make one until the item expires. The read keeps
//! its answer, finds the item's CAS token, and marks the item stale again under this token. The next caller that asks
//! for a lease wins it. A read that fails to do so has its answer nevertheless.
//!
//! Marking an item stale changes its token. So the right stays with a caller that is told the token (`gets`, `gats`,
//! metadata): it may store under that token, which renews the item.
//!
//! What others may do meanwhile:
//!
//! - A caller that holds a lease is not disturbed. The others see `Z` then, so no read has anything to put back. If
//!   somebody marks the item stale during its lease, the item has another token, and the holder's store is refused
//!   already before a read comes.
//! - A caller that asks for a lease between the read and the mark sees `Z`, and uses the old value once more.
//! - A caller that stores or deletes between the look-up and the mark changes the token, and the mark is refused.
//! - A caller that stores between the read and the look-up leaves a fresh item. Only an item that is stale and taken
//!   (`X`, `Z`) is marked.
//! - Between the read and the look-up, one caller may mark the item stale anew and another one win it. The look-up cannot
//!   tell this from the read's own right. Then the winner's store is refused, as after any mark of its item, and
//!   the next caller makes a value. An old value never replaces a newer one.
//! - A namespace that is cleared meanwhile gives the key another stamp, so the look-up or the mark reaches another item. The
//!   mark names the token of an item, and no other item has this token. What is left untaken then, nobody sees any more.

use std::collections::BTreeMap;

use pinyon_proto::Item;

use super::{Beside, Request, Win};

/// Finds the token under which the right is put back.
pub(super) const LOOK_UP: Request = Request::Metadata;

impl Request {
    /// Whether a right that it takes is of no use to its caller, who is told neither of it nor of the token.
    pub(super) fn leaves_renewal(&self) -> bool {
        match self {
            Request::Get(Beside::Nothing | Beside::Ttl) | Request::Touch { .. } => true,
            Request::GetAndTouch { cas, .. } => !cas,
            _ => false,
        }
    }
}

/// What puts back the rights that a request for many keys has taken. Each is asked for by itself, after its key was answered.
#[derive(Default)]
pub(super) struct PutBacks(BTreeMap<u32, Request>);

impl PutBacks {
    /// What is asked about this key, if its right is being put back.
    #[inline]
    pub(super) fn of(&self, key: u32) -> Option<Request> {
        self.0.get(&key).copied()
    }

    /// Takes note of a right that a request for one of the keys has taken.
    #[cold]
    pub(super) fn won(&mut self, key: u32, each: &Request) {
        if each.leaves_renewal() {
            self.0.insert(key, LOOK_UP);
        }
    }

    /// Takes the reply to a command for one key. Returns whether it is about putting the right back, and not about the value.
    #[inline(never)]
    pub(super) fn takes(&mut self, key: u32, each: &Request, item: &Item) -> bool {
        if self.take(key, item) {
            return true;
        }
        if item.won {
            self.won(key, each);
        }
        false
    }

    /// Takes a reply. Returns whether the right of this key is being put back: then the reply is about that.
    #[inline]
    pub(super) fn take(&mut self, key: u32, item: &Item) -> bool {
        let Some(asked) = self.0.remove(&key) else { return false };
        if let Some(request) = put_back(item).filter(|_| asked == LOOK_UP) {
            self.0.insert(key, request);
        }
        true
    }

    /// Gives up putting the right of this key back. Returns whether that was under way.
    pub(super) fn give_up(&mut self, key: u32) -> bool {
        self.0.remove(&key).is_some()
    }
}

/// What puts the right back, if the item that was looked up still is one whose right was taken.
pub(super) fn put_back(item: &Item) -> Option<Request> {
    let is_taken = item.won || item.stale && item.already_won;
    let cas = item.cas.filter(|_| is_taken)?;
    Some(Request::GiveBack(Win { cas: Win::token(cas), keep: true }))
}
