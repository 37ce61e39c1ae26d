//! Reads a notation step by step, within limits.

/// The deepest nesting that is read. It also stops values that contain themselves.
pub(super) const DEPTH: usize = 200;
/// The most parts of a value. In memory, each takes many times the byte that it may take when stored.
const PARTS: usize = 1_000_000;
/// The most bytes that are read again because of references.
const AGAIN: usize = 16 * 1024 * 1024;

const LONGEST_NAME: usize = 100;

pub(super) type Read<T> = Result<T, String>;

/// The reader's position.
pub(super) struct Cursor<'b> {
    bytes: &'b [u8],
    pub(super) position: usize,
    parts: usize,
    /// The number of bytes that may still be read.
    left: usize,
    /// The positions of values that references may point to. A reference reads the value again.
    noted: Vec<usize>,
    /// The number of references around the current position. Inside them, no positions are noted.
    references: usize,
}

impl<'b> Cursor<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        let left = bytes.len().saturating_add(AGAIN);
        Self { bytes, position: 0, parts: PARTS, left, noted: Vec::new(), references: 0 }
    }

    /// Begins another part at this depth. Returns the depth of the parts inside it.
    pub(super) fn part(&mut self, depth: usize) -> Read<usize> {
        self.parts = self.parts.checked_sub(1).ok_or_else(|| format!("it has more than {PARTS} parts"))?;
        depth.checked_sub(1).ok_or_else(|| format!("it is nested more than {DEPTH} levels deep, or contains itself"))
    }

    /// Whether the current position is inside a reference, where everything is read again.
    pub(super) fn is_in_reference(&self) -> bool {
        self.references > 0
    }

    /// Notes the position of a value that references may point to.
    pub(super) fn note(&mut self, start: usize) {
        if !self.is_in_reference() {
            self.noted.push(start);
        }
    }

    /// Begins a reference: moves back to the noted value, and returns the position to continue at.
    pub(super) fn begin_reference(&mut self, index: usize) -> Read<usize> {
        let start = *self.noted.get(index).ok_or("it refers to what is not there")?;
        self.references += 1;
        Ok(std::mem::replace(&mut self.position, start))
    }

    pub(super) fn end_reference(&mut self, behind: usize) {
        self.references -= 1;
        self.position = behind;
    }

    pub(super) fn byte(&mut self) -> Read<u8> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn take(&mut self, length: usize) -> Read<&'b [u8]> {
        let end = self.position.checked_add(length).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or("its end is missing")?;
        self.left = self.left.checked_sub(length).ok_or("it refers to the same again and again")?;
        let range = std::mem::replace(&mut self.position, end)..end;
        Ok(&self.bytes[range])
    }

    pub(super) fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// The bytes before the next `end`, which is skipped.
    pub(super) fn until(&mut self, end: u8) -> Read<&'b [u8]> {
        let length = self.bytes[self.position..].iter().position(|byte| *byte == end).ok_or("its end is missing")?;
        let taken = self.take(length)?;
        self.position += 1;
        Ok(taken)
    }

    pub(super) fn expect(&mut self, bytes: &[u8]) -> Read<()> {
        match self.take(bytes.len())? == bytes {
            true => Ok(()),
            false => Err("it is malformed".to_owned()),
        }
    }

    /// Checks that nothing follows the value.
    pub(super) fn end(&self) -> Read<()> {
        match self.position == self.bytes.len() {
            true => Ok(()),
            false => Err("bytes follow the value, as after an append to it".to_owned()),
        }
    }

    /// Memory for so many items or pairs, but no more than the remaining bytes can contain.
    pub(super) fn room<T>(&self, items: usize) -> Vec<T> {
        Vec::with_capacity(items.min(self.bytes.len() - self.position).min(1024))
    }
}

/// A name, for messages.
pub(super) fn name(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST_NAME)]).into_owned()
}

/// A number written in decimal digits.
pub(super) fn number<T: std::str::FromStr>(digits: &[u8]) -> Read<T> {
    let text = std::str::from_utf8(digits).ok();
    text.and_then(|text| text.trim().parse().ok()).ok_or_else(|| "a number in it is malformed".to_owned())
}

/// A float as text that every language can read.
pub(super) fn decimal(number: f64) -> String {
    match number.abs() {
        0.0 => format!("{number}"),
        1e-5..1e16 => format!("{number}"),
        _ => format!("{number:e}"),
    }
}
