//! Times to live: turns the users' seconds into what memcached accepts.

use std::time::{SystemTime, UNIX_EPOCH};

use pinyon_net::invalid::InvalidArgument;

/// memcached takes larger numbers for Unix times.
const LONGEST_RELATIVE: i64 = 30 * 24 * 60 * 60;

/// A ttl as memcached accepts it: 0 never expires, a negative ttl expires at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl(pub i32);

impl Ttl {
    /// The item never expires.
    pub const NONE: Self = Self(0);

    /// A ttl that would end after 2038-01-19 ends then: memcached's clock has no later second.
    #[inline]
    pub fn from_seconds(seconds: i64) -> Self {
        match seconds {
            ..0 => Self(-1),
            0..=LONGEST_RELATIVE => Self(seconds as i32),
            _ => Self::ending(seconds, SystemTime::now()),
        }
    }

    #[cold]
    fn ending(seconds: i64, now: SystemTime) -> Self {
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
        Self(now.saturating_add(seconds).min(i32::MAX.into()) as i32)
    }
}

/// The default ttl of stored values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultTtl(i64);

impl DefaultTtl {
    /// `seconds`: 0 never expires.
    pub fn new(seconds: f64) -> Result<Self, InvalidArgument> {
        if seconds < 0.0 {
            let message = format!("default_ttl must be a number of seconds, or 0 to never expire, not {seconds:?}");
            return Err(InvalidArgument::usage(message));
        }
        whole_seconds(seconds).map(Self)
    }

    /// The ttl, unless it depends on what time it is.
    #[inline(always)]
    pub fn relative(self) -> Option<Ttl> {
        (self.0 <= LONGEST_RELATIVE).then_some(Ttl(self.0 as i32))
    }

    /// As it was given, in seconds.
    pub fn seconds(self) -> i64 {
        self.0
    }

    /// The ttl of a value that is stored now.
    #[inline]
    pub fn now(self) -> Ttl {
        Ttl::from_seconds(self.0)
    }
}

/// Seconds rounded away from 0, because 0 means that an item never expires. Numbers beyond 64 bits are the largest.
pub fn whole_seconds(seconds: f64) -> Result<i64, InvalidArgument> {
    if seconds.is_nan() {
        return Err(InvalidArgument::usage("a ttl cannot be NaN; for an item that never expires give 0"));
    }
    Ok(if seconds < 0.0 { seconds.floor() } else { seconds.ceil() } as i64)
}

/// A time between 1 second and 30 days.
pub fn limited(name: &str, seconds: i64) -> Result<i32, InvalidArgument> {
    match seconds {
        1..=LONGEST_RELATIVE => Ok(seconds as i32),
        _ => Err(InvalidArgument::usage(format!("{name} must be positive, and at most 30 days"))),
    }
}

/// A time of at most 30 days, or 0.
pub fn limited_or_none(name: &str, seconds: i64) -> Result<i32, InvalidArgument> {
    match seconds {
        0..=LONGEST_RELATIVE => Ok(seconds as i32),
        _ => Err(InvalidArgument::usage(format!("{name} must be from 0 to 30 days"))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DAY: i64 = 24 * 60 * 60;

    #[test]
    fn fractions_are_rounded_away_from_no_end() {
        for (given, seconds) in [(0.0, 0), (-0.0, 0), (0.001, 1), (99.2, 100), (100.0, 100), (-0.5, -1), (-1.0, -1)] {
            assert_eq!(whole_seconds(given), Ok(seconds), "{given}");
        }
        assert!(whole_seconds(f64::NAN).unwrap_err().message.contains("NaN"));
        for (given, seconds) in [(1e300, i64::MAX), (f64::INFINITY, i64::MAX), (-1e300, i64::MIN)] {
            assert_eq!(whole_seconds(given), Ok(seconds), "{given}");
        }
    }

    #[test]
    fn a_ttl_is_sent_as_seconds_up_to_30_days_and_then_as_a_time() {
        for (seconds, sent) in [(0, 0), (1, 1), (30 * DAY, 30 * DAY as i32), (-1, -1), (i64::MIN, -1)] {
            assert_eq!(Ttl::from_seconds(seconds), Ttl(sent), "{seconds}");
        }
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        assert_eq!(Ttl::ending(30 * DAY + 1, now), Ttl(1_702_592_001));
        assert!(Ttl::from_seconds(30 * DAY + 1).0 > 1_700_000_000);
    }

    #[test]
    fn a_ttl_ends_when_memcacheds_clock_does() {
        let now = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let last = i64::from(i32::MAX) - 1_700_000_000;
        assert_eq!(Ttl::ending(last - 1, now), Ttl(i32::MAX - 1));
        for seconds in [last, last + 1, i64::MAX] {
            assert_eq!(Ttl::ending(seconds, now), Ttl(i32::MAX), "{seconds}");
        }
        assert_eq!(Ttl::from_seconds(i64::MAX), Ttl(i32::MAX));
    }

    #[test]
    fn a_default_ttl_is_a_ttl_that_does_not_expire_at_once() {
        let sent = |seconds| DefaultTtl::new(seconds).map(DefaultTtl::now).map_err(|error| error.message);
        assert_eq!((sent(0.0), sent(0.5), sent(60.0)), (Ok(Ttl::NONE), Ok(Ttl(1)), Ok(Ttl(60))));
        let relative = |seconds| DefaultTtl::new(seconds).unwrap().relative();
        assert_eq!((relative(60.0), relative(30.0 * DAY as f64)), (Some(Ttl(60)), Some(Ttl(30 * DAY as i32))));
        assert_eq!(relative(30.0 * DAY as f64 + 1.0), None);
        assert!(sent(40.0 * DAY as f64).unwrap().0 > 1_700_000_000);
        assert_eq!(sent(-1.0).unwrap_err(), "default_ttl must be a number of seconds, or 0 to never expire, not -1.0");
        assert!(sent(f64::NAN).unwrap_err().contains("NaN"));
        assert_eq!(sent(1e12), Ok(Ttl(i32::MAX)));
    }

    #[test]
    fn some_times_have_an_end() {
        let sent = |read: fn(&str, i64) -> Result<i32, InvalidArgument>, seconds| {
            read("lease", seconds).map_err(|error| error.message)
        };
        let (positive, from_0) = ("lease must be positive, and at most 30 days", "lease must be from 0 to 30 days");
        for (seconds, is_limited, is_limited_or_none) in [
            (-1, Err(positive), Err(from_0)),
            (0, Err(positive), Ok(0)),
            (1, Ok(1), Ok(1)),
            (30 * DAY, Ok(2_592_000), Ok(2_592_000)),
            (30 * DAY + 1, Err(positive), Err(from_0)),
        ] {
            assert_eq!(sent(limited, seconds), is_limited.map_err(str::to_owned), "{seconds}");
            assert_eq!(sent(limited_or_none, seconds), is_limited_or_none.map_err(str::to_owned), "{seconds}");
        }
    }
}
