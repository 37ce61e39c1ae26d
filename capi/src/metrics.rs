//! A client's metrics as JSON.

use std::fmt::Write;

use pinyon_cache::directory::Directory;
use pinyon_cache::metrics::{CommandMetrics, ServerMetrics};
use pinyon_locks::LockMetrics;
use pinyon_net::latencies::Latencies;

/// A list with an object for each server.
pub fn json<'d>(directories: impl Iterator<Item = &'d Directory>) -> String {
    let mut servers: Vec<String> = Vec::new();
    for directory in directories {
        servers.extend(directory.known().metrics().map(|metrics| server(&metrics)));
    }
    format!("[{}]", servers.join(", "))
}

/// An object for a client's locks.
pub fn locks_json(metrics: &LockMetrics) -> String {
    let lost = metrics.lost.iter().map(|(loss, count)| (loss.word(), *count));
    let errors = metrics.errors.iter().map(|(kind, count)| (kind.as_str(), *count));
    let waits = latency(&metrics.waits);
    format!(
        "{{{}, \"lost\": {{{}}}, \"errors\": {{{}}}, \"waits\": {waits}}}",
        pairs(metrics.numbers()),
        pairs(lost),
        pairs(errors)
    )
}

fn pairs<'n>(numbers: impl IntoIterator<Item = (&'n str, u64)>) -> String {
    let pairs = numbers.into_iter().map(|(name, number)| format!("{}: {number}", quoted(name)));
    pairs.collect::<Vec<_>>().join(", ")
}

fn server(metrics: &ServerMetrics) -> String {
    let traffic = &metrics.traffic;
    let commands: Vec<String> = traffic.commands.iter().map(command).collect();
    format!(
        "{{\"server\": {}, \"up\": {}, \"gutter\": {}, \"connections\": {}, \"idle\": {}, \"sent\": {}, \"received\": {}, \
         \"commands\": {{{}}}}}",
        quoted(&metrics.server),
        metrics.is_up,
        metrics.is_gutter,
        traffic.connections,
        metrics.idle,
        traffic.sent,
        traffic.received,
        commands.join(", ")
    )
}

fn command(metrics: &CommandMetrics) -> String {
    let errors: Vec<String> =
        metrics.raised().into_iter().map(|(kind, count)| format!("{}: {count}", quoted(kind))).collect();
    format!(
        "{}: {{\"answered\": {}, \"hits\": {}, \"misses\": {}, \"stored\": {}, \"not_stored\": {}, \"retries\": {}, \
         \"errors\": {{{}}}, \"latency\": {}}}",
        quoted(metrics.command.as_str()),
        metrics.answered,
        metrics.hits,
        metrics.misses,
        metrics.stored,
        metrics.not_stored,
        metrics.retries,
        errors.join(", "),
        latency(&metrics.latencies)
    )
}

/// How many answers were timed, their mean, and what the given percentages of them took at most, in seconds.
fn latency(latencies: &Latencies) -> String {
    let mut text = format!("{{\"count\": {}", latencies.count());
    let number = |seconds: Option<f64>| seconds.map_or_else(|| "null".to_owned(), |seconds| format!("{seconds:e}"));
    let _ = write!(text, ", \"mean\": {}", number(latencies.mean()));
    for percent in [50.0, 90.0, 99.0, 99.9] {
        let within = latencies.percentile(percent).ok().flatten();
        let _ = write!(text, ", \"p{percent}\": {}", number(within));
    }
    text + "}"
}

/// A text in JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control < ' ' => drop(write!(quoted, "\\u{:04x}", control as u32)),
            other => quoted.push(other),
        }
    }
    quoted + "\""
}
