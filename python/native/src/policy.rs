//! What an operation does whose server is down or fails.

use pinyon_core::Error;
use pyo3::prelude::*;

use crate::errors::usage;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    /// The keys of a server that is down go to another one.
    pub(crate) failover: bool,
    /// An operation that no server carried out comes to what it would if there were no item, and nothing is raised.
    pub(crate) miss: bool,
}

impl Policy {
    pub(crate) fn new(py: Python<'_>, failover: bool, on_failure: &str) -> PyResult<Self> {
        let miss = match on_failure {
            "raise" => false,
            "miss" => true,
            _ => {
                let message = format!("on_failure is \"raise\" or \"miss\", not {on_failure:?}");
                return Err(usage(py, "UsageError", &message));
            }
        };
        Ok(Self { failover, miss })
    }

    /// The same, but for what is given.
    pub(crate) fn with(self, py: Python<'_>, failover: Option<bool>, on_failure: Option<&str>) -> PyResult<Self> {
        let failover = failover.unwrap_or(self.failover);
        match on_failure {
            Some(on_failure) => Self::new(py, failover, on_failure),
            None => Ok(Self { failover, ..self }),
        }
    }

    /// Whether this error is not raised.
    pub(crate) fn forgives(self, error: &Error) -> bool {
        self.miss && error.is_outage()
    }
}
