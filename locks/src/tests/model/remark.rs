//! What attempts say about their locks. It changes nothing else.

use std::sync::Arc;
use std::time::Duration;

use super::{Attempt, Inspected, Model, Said, ScriptAnswer};

impl Model {
    pub(super) fn remark(
        &mut self,
        now: Duration,
        attempt: &Attempt,
        remark: Option<&Arc<str>>,
        ttl: Duration,
    ) -> ScriptAnswer {
        match remark {
            Some(remark) => self.remarks.insert(attempt.clone(), (remark.clone(), now + ttl)),
            None => self.remarks.remove(attempt),
        };
        ScriptAnswer::Remarked
    }

    pub(super) fn remarks(&self, inspected: &[Inspected]) -> ScriptAnswer {
        let said = |attempt: &Attempt| Some((attempt.clone(), self.remarks.get(attempt)?.0.clone()));
        let with = |one: &Inspected| Inspected { remarks: one.attempts().filter_map(said).collect(), ..one.clone() };
        ScriptAnswer::Inspected(inspected.iter().map(with).collect())
    }

    pub(super) fn said(&self, attempt: &Attempt) -> Said {
        self.remarks.get(attempt).map_or(Said::Nothing, |(remark, _)| Said::Remark(remark.clone()))
    }

    /// How many attempts say something.
    pub fn remarked(&self) -> usize {
        self.remarks.len()
    }
}
