//! Raises the counter of tokens.

use std::time::Duration;

use super::{floor, Model, ScriptAnswer};

impl Model {
    pub(super) fn open(&mut self, now: Duration, seen: u64) -> ScriptAnswer {
        let counter = self.counter.unwrap_or(0).max(floor(now)).max(seen);
        self.counter = Some(counter);
        ScriptAnswer::Opened { counter }
    }
}
