//! The keys of an operation on many, as they are sent and as the ring is asked about them.

use std::ops::Range;

use pinyon_proto::{Key, KeyError, KeyRules};

use crate::session::{BYTES_PER_LINE, KEYS_PER_LINE};

/// Many keys, each by its index.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    /// The text of all of them, and behind each what the ring is asked about where that is something else.
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

    /// Adds the key that a client's rules make of the one that was given.
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

    /// The same with what the ring is asked about, where the host has it in another notation.
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

    /// How many of these keys, from the first on, one `get` line may ask for.
    pub(super) fn fit_on_line(&self, indexes: &[u32]) -> usize {
        let mut length = 0;
        let fits = |index: &&u32| {
            let span = &self.spans[**index as usize];
            length += span.wire.len() + 1;
            length <= BYTES_PER_LINE && !span.base64
        };
        indexes.iter().take(KEYS_PER_LINE).take_while(fits).count()
    }

    /// Writes plain keys as the text of a `get` line.
    pub(super) fn join(&self, indexes: &[u32], line: &mut Vec<u8>) {
        line.clear();
        for index in indexes {
            line.extend_from_slice(self.wire(*index as usize));
            line.push(b' ');
        }
        line.pop();
    }
}
