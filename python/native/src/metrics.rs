//! What was counted, for `pinyon.metrics` to make something readable of.

use pinyon_core::metrics::{CommandMetrics, Latencies};

use crate::client::Client;
use crate::errors::class_of;

/// Of a server: name, up, gutter, connections, how many of them idle, bytes sent and received, commands.
pub(crate) type ServerCounts = (String, bool, bool, usize, usize, u64, u64, Vec<CommandCounts>);

/// Of a command: name, done, refused, errors by exception, retries, latencies by bucket and all together in nanoseconds.
type CommandCounts = (&'static str, u64, u64, Vec<(&'static str, u64)>, u64, Vec<u64>, u64);

impl Client {
    pub(crate) fn counts(&self) -> Vec<ServerCounts> {
        let fleet = self.directory.known();
        let of_server = |index: usize| {
            let server = &fleet.servers()[index];
            let traffic = fleet.traffic(index);
            let (_, idle) = fleet.pool(index).open_and_idle();
            let commands = traffic.commands.into_iter().map(of_command).collect();
            let (up, gutter) = (server.health.is_up(), fleet.is_gutter(index));
            (server.name.to_string(), up, gutter, traffic.connections, idle, traffic.sent, traffic.received, commands)
        };
        fleet.members().map(of_server).collect()
    }
}

fn of_command(command: CommandMetrics) -> CommandCounts {
    let CommandMetrics { command, done, refused, errors, retries, latencies } = command;
    let errors = errors.into_iter().map(|(kind, count)| (class_of(kind), count)).collect();
    (command.as_str(), done, refused, errors, retries, latencies.buckets.to_vec(), latencies.nanoseconds)
}

/// The upper bounds of the buckets that latencies are counted in, in nanoseconds.
pub(crate) fn bounds() -> Vec<u64> {
    Latencies::bounds().collect()
}
