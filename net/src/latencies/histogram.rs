//! Durations of answers in buckets, four for each doubling. The bounds of a bucket differ by at most a quarter.

use std::sync::atomic::Ordering;

use super::{Counter, Latencies};

/// The finest resolution is a quarter of a microsecond (`1 << FINEST` nanoseconds).
const FINEST: u32 = 8;
/// The last bucket also counts everything beyond its upper bound of 68 seconds.
pub const BUCKETS: usize = 108;

#[derive(Debug)]
pub struct Histogram {
    buckets: [Counter; BUCKETS],
    nanoseconds: Counter,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| Counter::default()), nanoseconds: Counter::default() }
    }
}

impl Histogram {
    #[inline]
    pub fn record(&self, nanoseconds: u64, times: u64) {
        self.buckets[bucket(nanoseconds)].add(times);
        self.nanoseconds.add(nanoseconds.wrapping_mul(times));
    }

    /// The same for one duration, where several threads may record at once.
    #[inline]
    pub fn record_shared(&self, nanoseconds: u64) {
        self.buckets[bucket(nanoseconds)].0.fetch_add(1, Ordering::Relaxed);
        self.nanoseconds.0.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    pub fn add_to(&self, all: &mut Latencies) {
        all.buckets.iter_mut().zip(&self.buckets).for_each(|(sum, bucket)| *sum += bucket.get());
        all.nanoseconds = all.nanoseconds.wrapping_add(self.nanoseconds.get());
    }
}

#[inline]
fn bucket(nanoseconds: u64) -> usize {
    let time = nanoseconds >> FINEST;
    if time < 4 {
        return time as usize;
    }
    let doublings = 61 - time.leading_zeros();
    let quarter = (time >> doublings) as usize & 3;
    (4 * (doublings as usize + 1) + quarter).min(BUCKETS - 1)
}

pub(super) fn lower_bound(bucket: usize) -> u64 {
    let time = match bucket {
        0..4 => bucket as u64,
        _ => (4 + (bucket as u64 & 3)) << (bucket / 4 - 1),
    };
    time << FINEST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_begins_where_the_one_before_it_ends() {
        for place in 1..BUCKETS {
            assert_eq!(bucket(lower_bound(place)), place);
            assert_eq!(bucket(lower_bound(place) - 1), place - 1);
            assert!(place < 4 || lower_bound(place + 1) * 4 <= lower_bound(place) * 5);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(lower_bound(BUCKETS), 1 << 36);
    }

    #[test]
    fn all_that_was_recorded_is_told() {
        let histogram = Histogram::default();
        histogram.record(1_000, 1);
        histogram.record(2_000_000, 2);
        histogram.record_shared(2_000_000);
        let mut all = Latencies::default();
        histogram.add_to(&mut all);
        histogram.add_to(&mut all);
        assert_eq!((all.count(), all.seconds()), (8, 0.012_002));
    }
}
