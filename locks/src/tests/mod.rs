//! What the tests of several rooms share: a server in memory, a network in memory, and chance.

pub(super) mod chance;
pub(super) mod in_memory;
pub mod model;
#[cfg(test)]
pub mod rate_vectors;

use super::{call, claim};
#[cfg(test)]
use super::{Rate, RateAnswer};
