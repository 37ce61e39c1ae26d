//! Keys from Ruby: the bytes of a String or Symbol.

use magnus::{Error, RString, Ruby, Symbol, Value};
use pinyon_cache::operations::{BorrowedKey, KeyRules, Keys, OwnedKey};

use crate::errors::{invalid_key, unsupported};

/// Longer keys are copied to the heap. memcached takes keys of 250 bytes.
const SHORT: usize = 250;
pub(crate) const KINDS: &str = "keys are Strings or Symbols";

/// A copy of a key's bytes: another thread may change the String while this one waits.
pub(crate) struct KeyBytes {
    short: [u8; SHORT],
    length: usize,
    long: Vec<u8>,
}

impl KeyBytes {
    /// Room for a copy. To be filled where it stays costs less than to be moved there.
    #[inline]
    pub(crate) fn room() -> Self {
        Self { short: [0; SHORT], length: 0, long: Vec::new() }
    }

    pub(crate) fn of(ruby: &Ruby, key: Value) -> Result<Self, Error> {
        let mut room = Self::room();
        room.fill(ruby, key)?;
        Ok(room)
    }

    #[inline]
    pub(crate) fn fill(&mut self, ruby: &Ruby, key: Value) -> Result<(), Error> {
        with_bytes(ruby, key, KINDS, |bytes| {
            self.length = bytes.len();
            match self.short.get_mut(..bytes.len()) {
                Some(short) => short.copy_from_slice(bytes),
                None => self.long = bytes.to_vec(),
            }
        })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.short.get(..self.length).unwrap_or(&self.long)
    }

    /// The key as it is sent. `scratch`: memory for a key that is rewritten.
    #[inline]
    pub(crate) fn sent<'k>(
        &'k self,
        ruby: &Ruby,
        rules: &KeyRules,
        scratch: &'k mut Vec<u8>,
    ) -> Result<BorrowedKey<'k>, Error> {
        BorrowedKey::new(rules, self.bytes(), scratch).map_err(|error| invalid_key(ruby, &error, self.bytes()))
    }
}

/// The key as it is sent, for a request that may outlive the call.
pub(crate) fn owned(ruby: &Ruby, rules: &KeyRules, key: Value) -> Result<OwnedKey, Error> {
    with_bytes(ruby, key, KINDS, |bytes| OwnedKey::new(rules, bytes).map_err(|error| invalid_key(ruby, &error, bytes)))?
}

/// Adds a key to many.
pub(crate) fn push(ruby: &Ruby, keys: &mut Keys, rules: &KeyRules, key: Value) -> Result<(), Error> {
    with_bytes(ruby, key, KINDS, |bytes| keys.push(rules, bytes).map_err(|error| invalid_key(ruby, &error, bytes)))?
}

/// Passes the bytes of a String or Symbol to `work`, which does not call Ruby. `kinds`: what is taken, as a sentence
/// begins.
#[inline]
pub(crate) fn with_bytes<T>(ruby: &Ruby, key: Value, kinds: &str, work: impl FnOnce(&[u8]) -> T) -> Result<T, Error> {
    if let Some(text) = RString::from_value(key) {
        // SAFETY: this thread holds the VM lock and does not call Ruby before the slice is dropped.
        return Ok(work(unsafe { text.as_slice() }));
    }
    if let Some(symbol) = Symbol::from_value(key) {
        return Ok(work(symbol.name()?.as_bytes()));
    }
    Err(unsupported(ruby, kinds, key))
}
