//! What the tests of several rooms share: a server in memory, a network in memory, and chance.

pub(super) mod chance;
pub(super) mod in_memory;
pub mod model;

use super::{call, claim};
