//! Rates: how many permits a name gives in a time.
//!
//! A rate of 100 per 60 seconds gives a permit every 0.6 seconds. It is whole if none was taken for a while, and then
//! gives up to `burst` permits at once. Each permit that is taken puts the rate ahead of this schedule by 0.6 seconds,
//! and as time passes it comes back. A permit is given if the rate is then ahead by at most `burst` permits. This is the
//! generic cell rate algorithm (GCRA), so in any time no more than `burst` and `limit` per `per` permits are given.
//!
//! **Exactness.** Time counts in ticks, of which a microsecond has so many that a permit costs a whole number. Nothing is
//! rounded, on the server neither, whose numbers are exact up to 2^53. A permit is rounded up to a microsecond if a burst
//! has more ticks than that, which are then so many that this makes no difference.
//!
//! **Waiting** takes the permits at once, ahead of time, if the time is near enough. The caller goes on when it has come.
//! So a wait is one command, all waiters of all processes are served first come, first served, and a wait that would be
//! in vain fails at once. A waiter that gives up has taken its permits nevertheless.
//!
//! **Repeating.** A check that was sent and not answered fails, since sent twice it would count twice.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::call::{Call, Name, Names};
use crate::keys;
use crate::value::decimal;
use pinyon_net::invalid::InvalidArgument;
use pinyon_net::settings::{seconds, waiting_time};

/// The most ticks by which a rate is ahead: the server's numbers are exact so far.
const MOST_TICKS: u64 = (1 << 53) - 2;

/// The most ticks of a burst, so that there are as many for those who wait.
const MOST_OF_BURST: u64 = 1 << 52;

/// The largest limit and burst.
const MOST_PERMITS: i64 = 1_000_000_000;

/// A rate of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rate {
    names: Names,
    limit: u64,
    burst: u64,
    /// What a permit costs, in ticks.
    cost: u64,
    /// The ticks of a microsecond.
    ticks: u64,
}

/// A question for permits of a rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateQuestion {
    rate: Arc<Rate>,
    permits: u64,
    /// For how long to wait, if at all.
    wait: Option<Duration>,
}

/// What became of a question for permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateAnswer {
    /// Whether the permits were taken.
    pub allowed: bool,
    /// How many permits the rate gives in its period.
    pub limit: u64,
    /// How many permits could be taken at once now.
    pub remaining: u64,
    /// When as many permits may be taken at once as were asked for. `None` if they were taken.
    pub retry_after: Option<Duration>,
    /// When the rate is whole again if none is taken until then.
    pub reset: Duration,
}

impl Rate {
    /// `limit` permits in `per` seconds. `burst`: how many of them at once; without it, `limit`.
    pub fn new(name: impl AsRef<[u8]>, limit: i64, per: f64, burst: Option<i64>) -> Result<Self, InvalidArgument> {
        let names = keys::names([name])?;
        let micros = micros_from(seconds("per", per)?)?;
        let (limit, burst) = (permits("limit", limit)?, burst.map(|burst| permits("burst", burst)).transpose()?);
        let burst = burst.unwrap_or(limit);
        let divisor = common_divisor(micros, limit);
        let (cost, ticks) = (micros / divisor, limit / divisor);
        if whole(cost, burst).is_some() {
            return Ok(Self { names, limit, burst, cost, ticks });
        }
        let cost = micros.div_ceil(limit);
        if whole(cost, burst).is_none() {
            let message = format!("burst must be lower: {burst} permits take over a hundred years at this rate");
            return Err(InvalidArgument::usage(message));
        }
        Ok(Self { names, limit, burst, cost, ticks: 1 })
    }

    pub fn name(&self) -> &Name {
        &self.names[0]
    }

    /// The name, as the names of a lock.
    pub fn names(&self) -> &Names {
        &self.names
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// Asks for permits. `timeout`: for how long to wait for them, in seconds; without it, the answer may be no.
    pub fn ask(self: &Arc<Self>, permits: i64, timeout: Option<f64>) -> Result<RateQuestion, InvalidArgument> {
        let wait = timeout.map(|timeout| waiting_time("timeout", timeout)).transpose()?;
        let wanted = u64::try_from(permits).ok().filter(|permits| *permits > 0);
        let Some(wanted) = wanted else {
            return Err(InvalidArgument::usage(format!("n must be at least 1, not {permits}")));
        };
        if wanted > self.burst {
            let message = format!(
                "n is {wanted}, but this rate never gives more than {} at once: ask for fewer, or set a larger burst",
                self.burst
            );
            return Err(InvalidArgument::usage(message));
        }
        Ok(RateQuestion { rate: self.clone(), permits: wanted, wait })
    }

    fn whole(&self) -> u64 {
        self.cost * self.burst
    }

    fn time(&self, ticks: u64) -> Duration {
        Duration::from_micros(ticks.div_ceil(self.ticks))
    }
}

impl RateQuestion {
    pub fn rate(&self) -> &Arc<Rate> {
        &self.rate
    }

    #[doc(hidden)]
    pub fn call(&self) -> Call {
        let Rate { cost, ticks, .. } = *self.rate;
        let waits = self.wait.map_or(0, |wait| (wait.as_micros() as u64).saturating_mul(ticks));
        let most = self.rate.whole().saturating_add(waits).min(MOST_TICKS);
        Call::Rate { name: self.rate.name().clone(), cost: cost * self.permits, most, ticks }
    }

    /// What the server's answer means, and when it comes true.
    #[doc(hidden)]
    pub fn answer(&self, taken: bool, ahead: u64) -> (RateAnswer, Option<Duration>) {
        let rate = &*self.rate;
        let whole = rate.whole();
        let early = (ahead + if taken { 0 } else { rate.cost * self.permits }).saturating_sub(whole);
        let answer = RateAnswer {
            allowed: taken,
            limit: rate.limit,
            remaining: whole.saturating_sub(ahead) / rate.cost,
            retry_after: (!taken).then(|| rate.time(early)),
            reset: rate.time(ahead),
        };
        match taken && early > 0 {
            false => (answer, None),
            true => {
                let delay = rate.time(early);
                (RateAnswer { reset: answer.reset.saturating_sub(delay), ..answer }, Some(delay))
            }
        }
    }

    pub(super) fn waits(&self) -> Option<Duration> {
        self.wait
    }
}

/// By how much a rate is ahead, in ticks, at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    /// The server's clock, in microseconds.
    at: u64,
    pub(super) ahead: u64,
    /// The ticks of a microsecond.
    ticks: u64,
}

impl Level {
    /// Reads the value of a rate's key.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let mut words = text.split(|byte| *byte == b' ').map(decimal);
        let (at, ahead, ticks) = (words.next()??, words.next()??, words.next()??);
        words.next().is_none().then_some(Self { at, ahead, ticks })
    }

    /// The level now, and whether the server's clock was set back since. Time goes on from there then.
    pub(super) fn at(stored: Option<Self>, now: u64, ticks: u64) -> (Self, bool) {
        let Some(stored) = stored.filter(|stored| stored.ticks > 0) else {
            return (Self { at: now, ahead: 0, ticks }, false);
        };
        let ahead = match stored.ticks == ticks {
            true => stored.ahead,
            false => stored.ahead.div_ceil(stored.ticks).saturating_mul(ticks),
        };
        let passed = now.saturating_sub(stored.at).saturating_mul(ticks);
        let ahead = ahead.saturating_sub(passed).min(MOST_TICKS);
        (Self { at: now, ahead, ticks }, now < stored.at)
    }

    /// Takes permits, unless it would be ahead by more than `most` then.
    pub(super) fn take(self, cost: u64, most: u64) -> (bool, Self) {
        match self.ahead.saturating_add(cost) {
            ahead if ahead <= most => (true, Self { ahead, ..self }),
            _ => (false, self),
        }
    }

    /// How long its key lasts: until the rate is whole, and not less. The server's ttl begins up to a millisecond
    /// earlier.
    pub(super) fn lasts(self) -> Duration {
        Duration::from_millis(self.ahead.div_ceil(self.ticks * 1000) + 1)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.at, self.ahead, self.ticks)
    }
}

/// The ticks of a burst, if they are not too many.
fn whole(cost: u64, burst: u64) -> Option<u64> {
    cost.checked_mul(burst).filter(|ticks| *ticks <= MOST_OF_BURST)
}

fn permits(what: &str, given: i64) -> Result<u64, InvalidArgument> {
    match given {
        1..=MOST_PERMITS => Ok(given as u64),
        _ => Err(InvalidArgument::usage(format!("{what} must be from 1 to {MOST_PERMITS}, not {given}"))),
    }
}

fn micros_from(per: Duration) -> Result<u64, InvalidArgument> {
    match per.as_micros() {
        0 => Err(InvalidArgument::usage("per must be at least 0.000001 seconds")),
        micros => Ok(micros as u64),
    }
}

fn common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

#[cfg(test)]
mod tests;
