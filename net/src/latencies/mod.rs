//! Durations of answers: counts by bucket, and the statistics derived from them.

mod counter;
mod histogram;

use std::ops::{Add, AddAssign, Sub};

pub use counter::Counter;
pub use histogram::Histogram;
use histogram::{lower_bound, BUCKETS};

/// The durations of some answers, each from the caller's request to the arrival of the reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Latencies {
    /// The count of each bucket. [`Self::bounds`] returns the durations.
    pub buckets: [u64; BUCKETS],
    /// The total duration, modulo 2**64.
    pub nanoseconds: u64,
}

/// The percentiles that metrics show in every language.
pub const PERCENTILES: [f64; 5] = [50.0, 90.0, 95.0, 99.0, 99.9];

/// A percentage that is not between 0 and 100.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NotAPercentage(pub f64);

impl std::fmt::Display for NotAPercentage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a percentile must be from 0 to 100, not {}", self.0)
    }
}

impl std::error::Error for NotAPercentage {}

impl Default for Latencies {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], nanoseconds: 0 }
    }
}

impl Latencies {
    /// The upper bounds of all buckets, in seconds. The last bucket also counts everything above.
    pub fn bounds() -> impl Iterator<Item = f64> {
        (1..=BUCKETS).map(bound)
    }

    /// The number of timed answers.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The total duration in seconds.
    pub fn seconds(&self) -> f64 {
        self.nanoseconds as f64 / 1e9
    }

    /// The mean duration in seconds; `None` without timed answers.
    pub fn mean(&self) -> Option<f64> {
        match self.count() {
            0 => None,
            count => Some(self.seconds() / count as f64),
        }
    }

    /// The duration in seconds within which so many percent of the answers came; `None` without timed answers. The
    /// bounds of a bucket differ by at most a quarter, and answers are assumed to be spread evenly within it.
    pub fn percentile(&self, percent: f64) -> Result<Option<f64>, NotAPercentage> {
        if !(0.0..=100.0).contains(&percent) {
            return Err(NotAPercentage(percent));
        }
        let wanted = self.count() as f64 * percent / 100.0;
        let mut below = 0.0;
        for (bucket, count) in self.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = *count as f64;
            if below + count >= wanted {
                let (lower, upper) = (bound(bucket), bound(bucket + 1));
                return Ok(Some(lower + (upper - lower) * (wanted - below) / count));
            }
            below += count;
        }
        Ok(None)
    }

    /// How many answers took at most so many seconds, rounded down to a bucket.
    pub fn within(&self, seconds: f64) -> u64 {
        let whole = Self::bounds().take_while(|bound| *bound <= seconds).count();
        self.buckets[..whole].iter().sum()
    }
}

/// A line for people.
impl std::fmt::Display for Latencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percentile = |percent| self.percentile(percent).ok().flatten();
        match (self.mean(), percentile(50.0), percentile(99.0)) {
            (Some(mean), Some(median), Some(high)) => {
                let count = self.count();
                write!(f, "Latencies of {count}: mean {mean:.6} s, p50 {median:.6} s, p99 {high:.6} s")
            }
            _ => f.write_str("Latencies of nothing"),
        }
    }
}

impl AddAssign<&Self> for Latencies {
    fn add_assign(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(sum, bucket)| *sum += bucket);
        self.nanoseconds = self.nanoseconds.wrapping_add(other.nanoseconds);
    }
}

impl Add<&Self> for Latencies {
    type Output = Self;

    fn add(mut self, other: &Self) -> Self {
        self += other;
        self
    }
}

/// The counts since an earlier time.
impl Sub<&Self> for Latencies {
    type Output = Self;

    fn sub(mut self, earlier: &Self) -> Self {
        self.buckets.iter_mut().zip(&earlier.buckets).for_each(|(rest, bucket)| *rest = rest.saturating_sub(*bucket));
        self.nanoseconds = self.nanoseconds.wrapping_sub(earlier.nanoseconds);
        self
    }
}

/// The lower bound of a bucket, in seconds.
fn bound(bucket: usize) -> f64 {
    lower_bound(bucket) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(counts: &[(usize, u64)]) -> Latencies {
        let mut latencies = Latencies { nanoseconds: 1_000_000_000, ..Latencies::default() };
        counts.iter().for_each(|(bucket, count)| latencies.buckets[*bucket] = *count);
        latencies
    }

    #[test]
    fn percentiles_lie_within_their_bucket() {
        let both = latencies(&[(20, 90), (60, 10)]);
        let percentile = |percent| both.percentile(percent).unwrap().unwrap();
        assert!(bound(20) < percentile(50.0) && percentile(50.0) < bound(21));
        assert!(bound(60) < percentile(99.0) && percentile(99.0) < bound(61));
        assert_eq!([0.0, 90.0, 100.0].map(percentile), [bound(20), bound(21), bound(61)]);
        assert_eq!(percentile(45.0), (bound(20) + bound(21)) / 2.0);
        assert_eq!(Latencies::default().percentile(50.0), Ok(None));
        for percent in [-0.1, 100.1, f64::NAN] {
            assert!(both.percentile(percent).is_err());
        }
        assert_eq!(both.percentile(101.0).unwrap_err().to_string(), "a percentile must be from 0 to 100, not 101");
    }

    #[test]
    fn a_line_for_people() {
        assert_eq!(Latencies::default().to_string(), "Latencies of nothing");
        let line = latencies(&[(20, 90), (60, 10)]).to_string();
        assert!(line.starts_with("Latencies of 100: mean 0.010000 s, p50 0.0000"), "{line}");
    }

    #[test]
    fn latencies_are_added_and_taken_away() {
        let (quick, slow) = (latencies(&[(20, 90)]), latencies(&[(60, 10)]));
        let both = quick.clone() + &slow;
        assert_eq!((both.count(), both.seconds(), both.mean()), (100, 2.0, Some(0.02)));
        assert_eq!((both.within(bound(21)), both.within(bound(21) - 1e-9), both.within(60.0)), (90, 0, 100));
        assert_eq!(both - &quick, slow);
        assert_eq!((quick - &slow).buckets[60], 0);
        assert_eq!(Latencies::default().mean(), None);
    }
}
