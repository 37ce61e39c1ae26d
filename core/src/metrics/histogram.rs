//! How many answers took how long, in buckets: four to every doubling, so that a bucket's bounds are a quarter apart at most.

use super::Counter;

/// Times are told apart by a quarter of a microsecond (`1 << FINEST` nanoseconds) at best.
const FINEST: u32 = 8;
/// The last one also takes whatever is longer than its upper bound, 68 seconds.
const BUCKETS: usize = 108;

#[derive(Debug)]
pub(super) struct Histogram {
    buckets: [Counter; BUCKETS],
    nanoseconds: Counter,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| Counter::default()), nanoseconds: Counter::default() }
    }
}

/// How long answers took.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// How many are in each bucket.
    pub buckets: [u64; BUCKETS],
    /// All of them together, wrapped at 2**64.
    pub nanoseconds: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], nanoseconds: 0 }
    }
}

impl Histogram {
    #[inline]
    pub(super) fn record(&self, nanoseconds: u64, times: u64) {
        self.buckets[bucket(nanoseconds)].add(times);
        self.nanoseconds.add(nanoseconds.wrapping_mul(times));
    }

    pub(super) fn add_to(&self, all: &mut Latencies) {
        all.buckets.iter_mut().zip(&self.buckets).for_each(|(sum, bucket)| *sum += bucket.get());
        all.nanoseconds = all.nanoseconds.wrapping_add(self.nanoseconds.get());
    }
}

impl Latencies {
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The upper bounds of all buckets, in nanoseconds.
    pub fn bounds() -> impl Iterator<Item = u64> {
        (1..=BUCKETS).map(lower_bound)
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

fn lower_bound(bucket: usize) -> u64 {
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
        histogram.record(2_000_000, 3);
        let mut all = Latencies::default();
        histogram.add_to(&mut all);
        histogram.add_to(&mut all);
        assert_eq!((all.count(), all.nanoseconds), (8, 12_002_000));
    }
}
