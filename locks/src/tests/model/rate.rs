//! Takes permits of a rate. The generic cell rate algorithm in its usual form: one time, at which the rate is whole.

use std::time::Duration;

use super::{Model, Name, ScriptAnswer};

#[derive(Clone, Debug)]
pub(super) struct Schedule {
    /// When it is whole again, in ticks.
    whole_at: u128,
    /// The ticks of a microsecond.
    ticks: u128,
    /// When permits were last taken.
    taken: Duration,
}

impl Model {
    pub(super) fn rate(&mut self, now: Duration, name: &Name, given: [u64; 3]) -> ScriptAnswer {
        let [cost, most, ticks] = given.map(u128::from);
        let at = now.as_micros() * ticks;
        let mut schedule = match self.rates.remove(name) {
            Some(before) if now < before.taken => before.moved_back_to(now),
            Some(before) => before,
            None => Schedule { whole_at: 0, ticks, taken: now },
        };
        if schedule.ticks != ticks {
            schedule.whole_at = schedule.whole_at.div_ceil(schedule.ticks) * ticks;
            schedule.ticks = ticks;
        }
        schedule.whole_at = schedule.whole_at.max(at);
        let taken = schedule.whole_at + cost - at <= most;
        if taken {
            (schedule.whole_at, schedule.taken) = (schedule.whole_at + cost, now);
        }
        let ahead = schedule.whole_at - at;
        if ahead > 0 {
            self.rates.insert(name.clone(), schedule);
        }
        ScriptAnswer::Rated { taken, ahead: ahead as u64 }
    }
}

impl Schedule {
    fn moved_back_to(self, now: Duration) -> Self {
        let by = (self.taken - now).as_micros() * self.ticks;
        Self { whole_at: self.whole_at.saturating_sub(by), taken: now, ..self }
    }
}
