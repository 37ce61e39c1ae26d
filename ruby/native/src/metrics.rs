//! How long commands took.

use magnus::{Error, RHash, Ruby};
use pinyon_net::latencies::{Latencies, PERCENTILES};

pub(crate) fn durations(ruby: &Ruby, of_command: RHash, latencies: &Latencies) -> Result<(), Error> {
    let (buckets, percentiles) = (ruby.hash_new(), ruby.hash_new());
    for (bound, count) in Latencies::bounds().zip(latencies.buckets).filter(|(_, count)| *count > 0) {
        buckets.aset(bound, count)?;
    }
    for percent in PERCENTILES {
        let within = latencies.percentile(percent).ok().flatten();
        match percent.fract() == 0.0 {
            true => percentiles.aset(percent as u8, within)?,
            false => percentiles.aset(percent, within)?,
        }
    }
    of_command.aset(ruby.to_symbol("seconds"), latencies.seconds())?;
    of_command.aset(ruby.to_symbol("mean"), latencies.mean())?;
    of_command.aset(ruby.to_symbol("percentiles"), percentiles)?;
    of_command.aset(ruby.to_symbol("buckets"), buckets)
}
