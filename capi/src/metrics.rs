//! A client's metrics as JSON.

use pinyon_cache::directory::Directory;
use pinyon_cache::metrics::{CommandMetrics, ServerMetrics};
use pinyon_locks::LockMetrics;
use pinyon_net::json::{list, object, text};
use pinyon_net::latencies::{Latencies, PERCENTILES};

/// A list with an object for each server.
pub fn json<'d>(directories: impl Iterator<Item = &'d Directory>) -> String {
    let mut servers: Vec<String> = Vec::new();
    for directory in directories {
        servers.extend(directory.known().metrics().map(|metrics| server(&metrics)));
    }
    list(servers)
}

/// An object for a client's locks.
pub fn locks_json(metrics: &LockMetrics) -> String {
    let numbers = metrics.numbers().into_iter().map(|(name, number)| (name, number.to_string()));
    let lost = object(metrics.lost.iter().map(|(loss, count)| (loss.word(), count)));
    let errors = object(metrics.errors.iter().map(|(kind, count)| (kind.as_str(), count)));
    let waits = latency(&metrics.waits);
    object(numbers.chain([("lost", lost), ("errors", errors), ("waits", waits)]))
}

fn server(metrics: &ServerMetrics) -> String {
    let traffic = &metrics.traffic;
    object([
        ("server", text(&metrics.server)),
        ("up", metrics.is_up.to_string()),
        ("gutter", metrics.is_gutter.to_string()),
        ("connections", traffic.connections.to_string()),
        ("idle", metrics.idle.to_string()),
        ("sent", traffic.sent.to_string()),
        ("received", traffic.received.to_string()),
        ("commands", object(traffic.commands.iter().map(|metrics| (metrics.command.as_str(), command(metrics))))),
    ])
}

fn command(metrics: &CommandMetrics) -> String {
    object([
        ("answered", metrics.answered.to_string()),
        ("hits", metrics.hits.to_string()),
        ("misses", metrics.misses.to_string()),
        ("stored", metrics.stored.to_string()),
        ("not_stored", metrics.not_stored.to_string()),
        ("kept", metrics.kept.to_string()),
        ("retries", metrics.retries.to_string()),
        ("errors", object(metrics.raised())),
        ("latency", latency(&metrics.latencies)),
    ])
}

/// How many answers were timed, their mean, and what the given percentages of them took at most, in seconds.
fn latency(latencies: &Latencies) -> String {
    let number = |seconds: Option<f64>| seconds.map_or_else(|| "null".to_owned(), |seconds| format!("{seconds:e}"));
    let of_all = [("count".to_owned(), latencies.count().to_string()), ("mean".to_owned(), number(latencies.mean()))];
    let within =
        PERCENTILES.map(|percent| (format!("p{percent}"), number(latencies.percentile(percent).ok().flatten())));
    object(of_all.into_iter().chain(within))
}
