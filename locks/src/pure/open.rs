//! Raises the counter of tokens.

use pinyon_proto::resp::Value;

use super::replies::number;
use super::{parts, Acts, Pure};
use crate::call::Call;

impl Pure {
    /// Raises the counter, once for all calls of a section and before any of them draws a token. Returns the counter.
    pub(super) fn raise_counter(
        &self,
        calls: &[(u64, Call)],
        counter: Option<&Value>,
        floor: u64,
        acts: &mut Acts,
    ) -> u64 {
        let counter = counter.and_then(number).unwrap_or(0);
        let seen = calls.iter().filter_map(|(_, call)| match call {
            Call::Open { seen } => Some(*seen),
            _ => None,
        });
        let Some(seen) = seen.max() else { return counter };
        let least = floor.max(self.highest).max(seen);
        if counter < least {
            acts.commands.push(parts(&[b"SET", &self.keys.counter(), least.to_string().as_bytes()]));
        }
        counter.max(least)
    }
}
