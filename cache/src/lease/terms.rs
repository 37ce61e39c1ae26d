//! What a caller asks for: how long a value is fresh and stays, how long callers wait, and what follows if its maker fails.
//!
//! The server alone knows when a value is due: it gives a win to the first caller whose `recache` is more than what the
//! item has left to live. So everything becomes the ttl of the stored item. An item lives for its ttl and `stale`; a caller
//! asks with `stale` and `early` together. A maker that fails has the old value stored again, so that it is due after
//! `retry_after`. Jitter shortens the ttl, so that values stored together are not due together.

use std::time::Duration;

use crate::ttl::{limited, limited_or_none};
use pinyon_net::invalid::InvalidArgument;

/// Additional time to wait. The server counts a placeholder's life in whole seconds, and one more question follows.
const SLACK: Duration = Duration::from_secs(2);
/// memcached takes larger numbers for Unix times.
const MOST_RECACHE: i32 = 30 * 24 * 60 * 60;
/// In seconds. It fits every clock.
const LONGEST_WAIT: u64 = 1 << 31;

/// A caller's terms. Times that the server counts are in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// How long a value is fresh; 0: for ever. `None`: each value comes with its own.
    ttl: Option<i64>,
    /// For how much longer the old value stays.
    stale: i32,
    /// How long before the end of the ttl a new value may be made.
    early: i32,
    lease: i32,
    wait: Duration,
    /// The share of the ttl that may be taken off.
    jitter: f64,
    /// Whether a maker that fails leaves the old value, and for how long nobody tries again then.
    retry_after: Option<i32>,
    /// How long a caller waits for its maker while there is an old value, if not until the end.
    soft_timeout: Option<Duration>,
}

/// Whether a maker can go on behind its caller.
#[derive(Clone, Copy, Debug)]
pub enum Behind {
    Can,
    /// Not here, for this reason.
    Never(&'static str),
}

impl Behind {
    /// For calls that wait for what they make.
    pub const WAITS: Self = Self::Never("this call waits for what it makes");
}

/// What the maker of a value says about storing it. What it leaves out is as the caller's [`Terms`] say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// How long this value is fresh, in seconds; 0: for ever.
    pub ttl: Option<i64>,
    /// For how many seconds more it stays: at most as long as the caller's terms say.
    pub stale: Option<i64>,
    /// Whether it is stored at all.
    pub store: bool,
}

impl Default for Made {
    fn default() -> Self {
        Self { ttl: None, stale: None, store: true }
    }
}

impl Terms {
    /// Terms for a value that is fresh for `ttl` seconds (0: forever; `None`: [`Made`] says it of each value). For another
    /// `stale` seconds, callers get the old value while one of them refreshes it. From `early` seconds before it becomes
    /// stale, one caller may refresh it. `lease` is how many seconds one caller has to make a missing value.
    ///
    /// `wait` is in seconds, too. Without it, a caller waits long enough for a maker that dies, and for the next one.
    pub fn new(
        ttl: impl Into<Option<i64>>,
        stale: i64,
        early: i64,
        lease: i64,
        wait: Option<f64>,
    ) -> Result<Self, InvalidArgument> {
        let (stale, early) = (limited_or_none("stale", stale)?, limited_or_none("early", early)?);
        let (lease, ttl) = (limited("lease", lease)?, ttl.into());
        if let Some(ttl) = ttl {
            check_ttl(ttl)?;
            check_rest(ttl, stale, early)?;
        }
        if stale + early > MOST_RECACHE {
            return Err(InvalidArgument::usage("stale and early together must be at most 30 days"));
        }
        let wait = match wait {
            Some(wait) => duration("wait", wait)?,
            None => 2 * Duration::from_secs(lease as u64) + SLACK,
        };
        Ok(Self { ttl, stale, early, lease, wait, jitter: 0.0, retry_after: None, soft_timeout: None })
    }

    /// Takes up to this share off each ttl, at random.
    pub fn jitter(self, share: f64) -> Result<Self, InvalidArgument> {
        match (0.0..1.0).contains(&share) {
            true => Ok(Self { jitter: share, ..self }),
            false => Err(InvalidArgument::usage(format!(
                "jitter must be a share of ttl, at least 0 and less than 1, not {share:?}"
            ))),
        }
    }

    /// If the maker fails and there is an old value, returns that, and has nobody try again for so many seconds.
    pub fn stale_on_error(self, retry_after: i64) -> Result<Self, InvalidArgument> {
        let retry_after = limited("retry_after", retry_after)?;
        match self.recache() {
            0 => Err(InvalidArgument::usage(
                "on_error \"stale\" needs stale, in seconds: without it there is no old value when the maker fails",
            )),
            _ => Ok(Self { retry_after: Some(retry_after), ..self }),
        }
    }

    /// While there is an old value, waits only so many seconds for the maker, which then goes on behind the caller. `setting`:
    /// what asks for it.
    pub fn behind(self, setting: &str, seconds: f64, behind: Behind) -> Result<Self, InvalidArgument> {
        let soft_timeout = Some(duration(setting, seconds)?);
        match behind {
            Behind::Never(why) => Err(InvalidArgument::usage(format!("{setting} cannot be used here: {why}"))),
            Behind::Can if self.recache() == 0 => Err(InvalidArgument::usage(format!(
                "{setting} needs stale, in seconds: without it there is no old value while a new one is made"
            ))),
            Behind::Can => Ok(Self { soft_timeout, ..self }),
        }
    }

    /// How long one caller has the exclusive right to make a missing value.
    pub fn lease(&self) -> i32 {
        self.lease
    }

    /// One caller refreshes a value that has fewer seconds left than this; 0 for never.
    pub fn recache(&self) -> i32 {
        self.stale + self.early
    }

    /// How long to wait for a value that another caller makes.
    pub fn wait(&self) -> Duration {
        self.wait
    }

    /// How long to wait for a maker while there is an old value; `None`: until its end.
    pub(super) fn soft_timeout(&self) -> Option<Duration> {
        self.soft_timeout
    }

    /// The ttl of the old item that a caller stores again when its maker has failed. `None`: its caller gets the error.
    pub(super) fn ttl_of_kept(&self) -> Option<i64> {
        self.retry_after.map(|seconds| i64::from(seconds) + i64::from(self.recache()))
    }

    /// The ttl of an item whose maker says nothing else; `None` if each must say it. `chance`: any number.
    pub(super) fn ttl_of_item(&self, chance: u64) -> Option<i64> {
        self.ttl.map(|ttl| self.ttl_with(ttl, self.stale, chance))
    }

    /// The ttl of the item with a value that was made; `None` if it is not to be stored.
    pub(super) fn ttl_of_made(&self, made: Made, chance: u64) -> Result<Option<i64>, InvalidArgument> {
        let Made { ttl, stale: own_stale, store } = made;
        let stale = own_stale.map_or(Ok(self.stale), |stale| limited_or_none("stale", stale))?;
        if stale > self.stale {
            return Err(InvalidArgument::usage(format!(
                "the stale of a value that was made, {stale} seconds, must be at most that of the call, {}: by that, readers \
                 tell which value is stale",
                self.stale
            )));
        }
        let ttl = ttl.or(self.ttl);
        ttl.map_or(Ok(()), check_ttl)?;
        let Some(ttl) = ttl.filter(|_| store) else {
            return match store {
                true => Err(InvalidArgument::usage("the call has no ttl, so each value that is made must have one")),
                false => Ok(None),
            };
        };
        match (ttl, own_stale) {
            (0, None | Some(0)) => return Ok(Some(0)),
            (0, Some(_)) => check_rest(ttl, stale, 0)?,
            _ if ttl.saturating_add(stale.into()) <= self.recache().into() => {
                return Err(InvalidArgument::usage(format!(
                    "ttl and stale of a value that was made must be more than stale and early of the call, {} seconds \
                     together: otherwise callers refresh the value all the time",
                    self.recache()
                )));
            }
            _ => {}
        }
        Ok(Some(self.ttl_with(ttl, stale, chance)))
    }

    /// A shorter ttl never makes the item due at once.
    fn ttl_with(&self, ttl: i64, stale: i32, chance: u64) -> i64 {
        let share = (mixed(chance) >> 11) as f64 / (1_u64 << 53) as f64;
        let less = (ttl as f64 * self.jitter * share) as i64;
        let least = ttl.min(i64::from(self.recache() - stale) + 1);
        (ttl - less).max(least).saturating_add(stale.into())
    }
}

fn check_ttl(ttl: i64) -> Result<(), InvalidArgument> {
    match ttl {
        ..0 => Err(InvalidArgument::usage("ttl must be positive, or 0 for a value that never expires")),
        _ => Ok(()),
    }
}

/// `early`: how long before the end of the ttl a new value may be made.
fn check_rest(ttl: i64, stale: i32, early: i32) -> Result<(), InvalidArgument> {
    if ttl == 0 && (stale > 0 || early > 0) {
        return Err(InvalidArgument::usage(
            "stale and early count from the end of a ttl; with a ttl of 0 there is none",
        ));
    }
    if early > 0 && i64::from(early) >= ttl {
        let why = "early must be less than ttl: otherwise callers refresh the value all the time";
        return Err(InvalidArgument::usage(why));
    }
    Ok(())
}

fn duration(name: &str, seconds: f64) -> Result<Duration, InvalidArgument> {
    let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| time.as_secs() < LONGEST_WAIT);
    time.ok_or_else(|| InvalidArgument::usage(format!("{name} must be at least 0 and less than 2**31 seconds")))
}

/// Spreads numbers that may be close to each other.
fn mixed(chance: u64) -> u64 {
    let chance = chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let chance = (chance ^ (chance >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let chance = (chance ^ (chance >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    chance ^ (chance >> 31)
}
