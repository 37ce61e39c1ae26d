//! What a host supplies to a request on both pools.

use super::Side;
use crate::operations::{DataBlock, Policy, SentData, SentKey, Tagging, Values};

/// A request of the host's on both pools: its keys and values by the conventions of each pool's client.
pub trait Pools {
    type Key: SentKey;
    type Data: SentData + Default;
    type Values: Values;

    /// The key with this index. A request about one key has the index 0.
    fn key(&self, side: Side, index: usize) -> Self::Key;

    /// The data block of the request. It may be sent twice.
    fn data(&self) -> Self::Data;

    /// The tags of the values that the request stores, or asks for leases for.
    fn tags(&self) -> Option<Tagging> {
        None
    }

    /// The data blocks of a request that stores many values.
    fn blocks(&mut self) -> Vec<DataBlock<Self::Data>> {
        Vec::new()
    }

    /// What reads the values of a pool.
    fn values(&self, side: Side) -> Self::Values;

    fn policy(&self, side: Side) -> Policy;

    /// Writes a value of the old pool as the new client stores it. No reply is being read meanwhile, so it may run the
    /// host's code.
    fn convert(&mut self, value: &ValueOf<Self>) -> Result<DataBlock<Self::Data>, Unconverted>;
}

/// A value as the host reads it.
pub type ValueOf<P> = <<P as Pools>::Values as Values>::Value;

/// Why a value was not converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unconverted {
    /// The new client does not take such a value. It stays in the old pool.
    Refused,
    /// The host's code ends the request.
    Interrupted,
}
