//! Tells that a waiter is alive, and asks for its state.

use std::time::Duration;

use super::run::Run;
use super::{Attempt, Model, Names, ScriptAnswer};

impl Model {
    pub(super) fn poll(&mut self, now: Duration, attempt: &Attempt, names: &Names, ttl: Duration) -> ScriptAnswer {
        Run::new(self, now, Some(attempt)).standing(attempt, names, ttl).unwrap_or(ScriptAnswer::Unknown)
    }
}
