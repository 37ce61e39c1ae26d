//! The keys of an operation on many keys: the form that is sent, and the form that the ring hashes.

use std::cell::Cell;
use std::ops::Range;

use pinyon_proto::{Key, KeyError, KeyRules};

use super::values::SentKey;
use crate::session::KEYS_PER_LINE;

/// Many keys, addressed by index.
#[derive(Clone, Debug, Default)]
pub struct Keys(Memory);

#[derive(Clone, Debug, Default)]
struct Memory {
    /// The bytes of all keys. A key is followed by its form for the ring, where that differs.
    text: Vec<u8>,
    spans: Vec<Span>,
    /// The line that was written last.
    line: Vec<u8>,
}

/// The most bytes of keys whose memory is kept.
const MOST_KEPT: usize = 64 * 1024;

thread_local! {
    /// The memory of the keys that were dropped last. An allocator tidies up when it is asked for large pieces, which
    /// costs more than all else here.
    static SPARE: Cell<Option<Memory>> = const { Cell::new(None) };
}

impl Drop for Keys {
    fn drop(&mut self) {
        if (1..=MOST_KEPT).contains(&self.0.text.capacity()) {
            let memory = std::mem::take(&mut self.0);
            // A thread that ends has no memory to keep.
            let _ = SPARE.try_with(|spare| spare.set(Some(memory)));
        }
    }
}

#[derive(Clone, Debug)]
struct Span {
    wire: Range<usize>,
    routed: Range<usize>,
    base64: bool,
}

impl Keys {
    pub fn with_capacity(keys: usize) -> Self {
        let mut memory = SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default();
        memory.text.clear();
        memory.spans.clear();
        memory.text.reserve(keys * 40);
        memory.spans.reserve(keys);
        Self(memory)
    }

    /// Adds a key, formed from the user's key by the client's rules.
    #[inline]
    pub fn push(&mut self, rules: &KeyRules, given: &[u8]) -> Result<(), KeyError> {
        if rules.as_given(given).is_none() {
            return self.push_asked_about(rules, given, &rules.routed(given));
        }
        let start = self.0.text.len();
        self.0.text.extend_from_slice(given);
        let both = start..self.0.text.len();
        self.0.spans.push(Span { wire: both.clone(), routed: both, base64: false });
        Ok(())
    }

    /// Adds a key with its own form for the ring, for hosts that have both.
    #[inline]
    pub fn push_asked_about(&mut self, rules: &KeyRules, key: &[u8], routed: &[u8]) -> Result<(), KeyError> {
        let start = self.0.text.len();
        let base64 = rules.push(key, &mut self.0.text)?;
        let wire = start..self.0.text.len();
        let routed = match self.0.text[wire.clone()].ends_with(routed) {
            true => wire.end - routed.len()..wire.end,
            false => {
                self.0.text.extend_from_slice(routed);
                wire.end..self.0.text.len()
            }
        };
        self.0.spans.push(Span { wire, routed, base64 });
        Ok(())
    }

    /// Adds a key that was formed already.
    pub(crate) fn push_formed(&mut self, key: &impl SentKey) {
        let (start, wire) = (self.0.text.len(), key.wire());
        self.0.text.extend_from_slice(wire.wire());
        let end = self.0.text.len();
        let routed = match wire.wire() == key.routed() {
            true => start..end,
            false => {
                self.0.text.extend_from_slice(key.routed());
                end..self.0.text.len()
            }
        };
        self.0.spans.push(Span { wire: start..end, routed, base64: wire.is_base64() });
    }

    pub fn len(&self) -> usize {
        self.0.spans.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.spans.is_empty()
    }

    pub(super) fn wire(&self, index: usize) -> &[u8] {
        &self.0.text[self.0.spans[index].wire.clone()]
    }

    pub(super) fn routed(&self, index: usize) -> &[u8] {
        &self.0.text[self.0.spans[index].routed.clone()]
    }

    pub(super) fn key(&self, index: usize) -> Key<'_> {
        Key::known(self.wire(index), self.0.spans[index].base64)
    }

    /// How many of these keys, counted from the first, fit on a line that holds `most` bytes of them.
    pub(super) fn fit_on_line(&self, indexes: &[u32], most: usize) -> usize {
        let mut length = 0;
        let fits = |index: &&u32| {
            let span = &self.0.spans[**index as usize];
            length += span.wire.len() + 1;
            length <= most && !span.base64
        };
        indexes.iter().take(KEYS_PER_LINE).take_while(fits).count()
    }

    /// Writes plain keys as the arguments of a `get` line.
    pub(super) fn join(&mut self, indexes: &[u32]) -> &[u8] {
        let Memory { text, spans, line } = &mut self.0;
        line.clear();
        for index in indexes {
            line.extend_from_slice(&text[spans[*index as usize].wire.clone()]);
            line.push(b' ');
        }
        line.pop();
        line
    }
}
