//! The keys of an operation on many keys: the form that is sent, and the form that the ring hashes.

use std::ops::Range;

use pinyon_proto::{Key, KeyError, KeyRules};

use crate::session::{BYTES_PER_LINE, KEYS_PER_LINE};

/// Many keys, addressed by index.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    /// The bytes of all keys. A key is followed by its form for the ring, where that differs.
    text: Vec<u8>,
    spans: Vec<Span>,
}

#[derive(Clone, Debug)]
struct Span {
    wire: Range<usize>,
    routed: Range<usize>,
    base64: bool,
}

impl Keys {
    pub fn with_capacity(keys: usize) -> Self {
        Self { text: Vec::with_capacity(keys * 40), spans: Vec::with_capacity(keys) }
    }

    /// Adds a key, formed from the user's key by the client's rules.
    #[inline]
    pub fn push(&mut self, rules: &KeyRules, given: &[u8]) -> Result<(), KeyError> {
        if rules.as_given(given).is_none() {
            return self.push_asked_about(rules, given, &rules.routed(given));
        }
        let start = self.text.len();
        self.text.extend_from_slice(given);
        let both = start..self.text.len();
        self.spans.push(Span { wire: both.clone(), routed: both, base64: false });
        Ok(())
    }

    /// Adds a key with its own form for the ring, for hosts that have both.
    #[inline]
    pub fn push_asked_about(&mut self, rules: &KeyRules, key: &[u8], routed: &[u8]) -> Result<(), KeyError> {
        let start = self.text.len();
        let base64 = rules.push(key, &mut self.text)?;
        let wire = start..self.text.len();
        let routed = match self.text[wire.clone()].ends_with(routed) {
            true => wire.end - routed.len()..wire.end,
            false => {
                self.text.extend_from_slice(routed);
                wire.end..self.text.len()
            }
        };
        self.spans.push(Span { wire, routed, base64 });
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.spans.len()
    }

    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    pub(super) fn wire(&self, index: usize) -> &[u8] {
        &self.text[self.spans[index].wire.clone()]
    }

    pub(super) fn routed(&self, index: usize) -> &[u8] {
        &self.text[self.spans[index].routed.clone()]
    }

    pub(super) fn key(&self, index: usize) -> Key<'_> {
        Key::known(self.wire(index), self.spans[index].base64)
    }

    /// How many of these keys, counted from the first, fit on one `get` line.
    pub(super) fn fit_on_line(&self, indexes: &[u32]) -> usize {
        let mut length = 0;
        let fits = |index: &&u32| {
            let span = &self.spans[**index as usize];
            length += span.wire.len() + 1;
            length <= BYTES_PER_LINE && !span.base64
        };
        indexes.iter().take(KEYS_PER_LINE).take_while(fits).count()
    }

    /// Writes plain keys as the arguments of a `get` line.
    pub(super) fn join(&self, indexes: &[u32], line: &mut Vec<u8>) {
        line.clear();
        for index in indexes {
            line.extend_from_slice(self.wire(*index as usize));
            line.push(b' ');
        }
        line.pop();
    }
}
