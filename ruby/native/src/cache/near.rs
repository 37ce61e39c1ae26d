//! Gets that memory answers, on a client with hot keys: nothing of an operation is made for them.

use std::time::Instant;

use magnus::{Error, Ruby, Value};
use pinyon_cache::near::Near;

use super::Cache;
use crate::keys::{with_bytes, KINDS};

impl Cache {
    /// The value, if memory has it and it is a String that nothing of the user's makes.
    #[inline(never)]
    pub(super) fn in_memory(&self, ruby: &Ruby, near: &Near, key: Value) -> Result<Option<Value>, Error> {
        self.check_open(ruby)?;
        if self.both.is_some() {
            return Ok(None);
        }
        let found = with_bytes(ruby, key, KINDS, |given| near.fresh(&self.keys, given, Instant::now()))?;
        let Some(held) = found else { return Ok(None) };
        let string = self.codec.string(ruby, &held.bytes, held.client_flags);
        if string.is_some() {
            near.used(&held);
        }
        Ok(string)
    }
}
