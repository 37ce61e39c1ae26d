//! The calls to the server, and the stage of an attempt after each.

use std::time::Duration;

use super::entry::{Stage, Trouble};
use super::stages::Why;
use super::{About, Awaited, Call, InFlight, Machine, Moment};
use crate::call::{Attempt, Names};
use pinyon_net::error::Error;

/// How many locks one call extends.
const EXTENDED_AT_ONCE: usize = 100;

/// The pause before asking a server again that cannot answer now. It doubles with each further refusal.
const FIRST_RETRY: Duration = Duration::from_millis(25);
pub(super) const LONGEST_RETRY: Duration = Duration::from_millis(250);

impl Machine {
    pub(super) fn send(&mut self, about: About, call: Call, now: Moment) -> u64 {
        if self.connected && may_grant(&call) && !std::mem::replace(&mut self.opened, true) {
            self.send(About::Open, Call::Open { seen: self.highest }, now);
        }
        let id = self.next_call;
        self.next_call += 1;
        let again = matches!(about, About::Awaited(..) | About::Tidy);
        let again = again.then(|| call.clone().into());
        self.flight.insert(id, InFlight { about, sent: now, call: again });
        self.calls.push_back((id, call));
        id
    }

    /// Asks for an attempt's names, as soon as there is a connection.
    pub(super) fn ask(&mut self, number: u64, why: Why, now: Moment) {
        let (connected, highest) = (self.connected, self.highest);
        let Some(entry) = self.entries.get_mut(&number) else { return };
        entry.stage.turn(why, Stage::Asking(connected.then_some(now)));
        if !connected {
            return;
        }
        entry.above.get_or_insert(highest);
        let (names, ttl, wait, nested) = (entry.names.clone(), entry.ttl, entry.waits(), entry.nested);
        let adopts = entry.rare.as_ref().and_then(|rare| rare.adopts.clone());
        if entry.rare.is_some() {
            self.write_remark(number, now);
        }
        let attempt = self.attempt(number);
        let call = match adopts {
            None => Call::Lock { attempt, names, ttl, wait, nested },
            Some(from) => Call::Adopt { attempt, names, ttl, from },
        };
        self.send(About::Lock(number), call, now);
    }

    pub(super) fn send_poll(&mut self, number: u64, now: Moment) {
        let connected = self.connected;
        let Some(entry) = self.entries.get_mut(&number) else { return };
        if let Stage::Queued { poll_at, .. } | Stage::Parked { poll_at, .. } = &mut entry.stage {
            *poll_at = None;
        }
        if !connected {
            return;
        }
        let (names, ttl, nested) = (entry.names.clone(), entry.ttl, entry.nested);
        self.write_remark(number, now);
        let attempt = self.attempt(number);
        self.send(About::Poll(number), Call::Poll { attempt, names, ttl, nested }, now);
    }

    pub(super) fn send_unlock(&mut self, number: u64, tombstone: bool, now: Moment) {
        if !self.connected {
            return;
        }
        let Some(entry) = self.entries.get_mut(&number) else { return };
        let has_rare = entry.rare.as_mut().map(|rare| rare.is_remarked |= tombstone).is_some();
        let (names, rest) = (entry.to_release(), entry.rest(now));
        let attempt = self.attempt(number);
        self.send(About::Unlock(number), Call::Unlock { attempt, names, tombstone, rest }, now);
        if has_rare {
            self.erase_remark(number, rest, now);
        }
    }

    pub(super) fn send_tidy(&mut self, number: u64, tombstone: bool, now: Moment) {
        if !self.connected {
            return;
        }
        let Some(entry) = self.entries.get(&number) else { return };
        let (attempt, names) = (self.attempt(number), entry.to_release());
        self.send(About::Tidy, Call::Unlock { attempt, names, tombstone, rest: None }, now);
        self.erase_remark(number, None, now);
    }

    pub(super) fn send_renewals(&mut self, numbers: &[u64], now: Moment) {
        for batch in numbers.chunks(EXTENDED_AT_ONCE) {
            let held = batch.iter().filter_map(|number| self.begin_extension(*number)).collect();
            if self.connected {
                self.send(About::Renewal(batch.to_vec()), Call::Extend { held }, now);
                batch.iter().for_each(|number| self.write_remark(*number, now));
            }
        }
    }

    pub(super) fn send_extension(&mut self, number: u64, now: Moment) {
        let Some(held) = self.begin_extension(number) else { return };
        self.send(About::Awaited(number, Awaited::Extension), Call::Extend { held: vec![held] }, now);
        self.write_remark(number, now);
    }

    pub(super) fn send_raise(&mut self, number: u64, floor: u64, now: Moment) {
        let Some((attempt, names, ttl)) = self.begin_extension(number) else { return };
        self.wake_by(now + self.options.patience);
        let about = About::Awaited(number, Awaited::Extension);
        self.send(about, Call::Raise { attempt, names, ttl, floor }, now);
    }

    fn begin_extension(&mut self, number: u64) -> Option<(Attempt, Names, Duration)> {
        let attempt = self.attempt(number);
        let entry = self.entries.get_mut(&number)?;
        if let Stage::Held(held) = &mut entry.stage {
            held.extending = true;
        }
        Some((attempt, entry.names.clone(), entry.ttl))
    }

    /// Takes the names of a parked lock again. The time to wait is that of a new lock.
    pub(super) fn send_unpark(&mut self, number: u64, now: Moment) {
        self.begin_relock(number, now);
        self.entries.entry(number).and_modify(|entry| entry.unparking = true);
        self.send_unpark_again(number, Why::Due, now);
    }

    /// Repeats this request. The server may have missed it, and a waiter that it considers parked would wait for a
    /// notice.
    pub(super) fn send_unpark_again(&mut self, number: u64, why: Why, now: Moment) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        entry.stage.turn(why, Stage::Queued { since: now, poll_at: None });
        let (names, ttl) = (entry.names.clone(), entry.ttl);
        if self.connected {
            let attempt = self.attempt(number);
            self.send(About::Unpark(number), Call::Unpark { attempt, names, ttl }, now);
        }
    }

    /// Asks again later for an attempt's names: the server cannot answer now.
    pub(super) fn ask_later(&mut self, number: u64, error: Error, now: Moment) {
        let stagger = self.stagger();
        let Some(entry) = self.entries.get_mut(&number) else { return };
        let refusals = entry.trouble.as_ref().map_or(0, |trouble| trouble.refusals + 1);
        entry.trouble = Some(Trouble { error, refusals }.into());
        let again_at = now + retry_pause(refusals, LONGEST_RETRY) + stagger;
        entry.stage.turn(Why::NotNow, Stage::Refused { again_at });
        self.wake_by(again_at);
    }

    /// When a waiter polls again: when the lock in its way may have expired, and often enough to count as alive.
    pub(super) fn poll_after(&mut self, pttl: Option<Duration>, now: Moment) -> Moment {
        let stagger = self.stagger();
        let heartbeat = self.options.heartbeat;
        let at = now + pttl.map_or(heartbeat, |pttl| heartbeat.min(pttl + stagger));
        self.wake_by(at);
        at
    }
}

/// The pause after so many refusals in a row.
pub(super) fn retry_pause(refusals: u32, longest: Duration) -> Duration {
    (FIRST_RETRY * 2u32.saturating_pow(refusals.min(16))).min(longest)
}

/// Whether a call may draw tokens, for any waiter. Calls that only read change nothing, and rates and remarks have no
/// tokens.
pub(super) fn may_grant(call: &Call) -> bool {
    !matches!(
        call,
        Call::Open { .. } | Call::Inspect { .. } | Call::Rate { .. } | Call::Remark { .. } | Call::Remarks { .. }
    )
}
