//! What callers give up, without waiting for an answer.

use std::sync::Arc;
use std::time::Instant;

use super::Front;
#[cfg(doc)]
use super::LockOutcome;
use crate::client::Platform;
use crate::grant::Grant;

/// What a caller gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUp {
    /// A lock that it no longer waits for or holds. Its names are free at once.
    Lock,
    /// A lock that it holds, and whose names stay locked for their least time.
    Hold,
    /// The wait for a lock: whoever waits gets [`LockOutcome::Busy`], also if it only begins to wait. A lock that was
    /// granted before is held.
    Wait,
    /// The wait for other modes of a lock, which stays held.
    Change,
}

impl<W, L, P: Platform> Front<W, L, P> {
    /// Gives up what the caller of this grant waits for or holds. A forked child has nothing to give up.
    pub fn give_up(&mut self, grant: &Arc<Grant<L>>, what: GiveUp, now: Instant) {
        if grant.is_inherited() {
            return;
        }
        let number = grant.number();
        match what {
            GiveUp::Lock => {
                self.end_early(number);
                self.registry.remove(grant);
                self.give_back(number, now);
            }
            GiveUp::Hold => {
                self.registry.remove(grant);
                self.give_back(number, now);
            }
            GiveUp::Wait => {
                grant.unwant();
                if !grant.is_held() {
                    self.end_wait(number, now);
                }
            }
            GiveUp::Change => self.stop_changing(number, now),
        }
    }
}
