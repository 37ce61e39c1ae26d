//! How long commands took.

use magnus::{Error, RHash, Ruby};
use pinyon_net::latencies::Latencies;

/// The percentiles of durations that metrics have.
const PERCENTILES: [u8; 4] = [50, 90, 95, 99];

pub(crate) fn durations(ruby: &Ruby, of_command: RHash, latencies: &Latencies) -> Result<(), Error> {
    let (buckets, percentiles) = (ruby.hash_new(), ruby.hash_new());
    for (bound, count) in Latencies::bounds().zip(latencies.buckets).filter(|(_, count)| *count > 0) {
        buckets.aset(bound, count)?;
    }
    for percent in PERCENTILES {
        percentiles.aset(percent, latencies.percentile(f64::from(percent)).ok().flatten())?;
    }
    of_command.aset(ruby.to_symbol("seconds"), latencies.seconds())?;
    of_command.aset(ruby.to_symbol("mean"), latencies.mean())?;
    of_command.aset(ruby.to_symbol("percentiles"), percentiles)?;
    of_command.aset(ruby.to_symbol("buckets"), buckets)
}
