//! Reading a notation step by step, within bounds.

/// Deeper nesting is refused, and so is what contains itself.
pub(super) const DEPTH: usize = 200;
/// A value of more parts is refused: each takes many times the byte that it may have been written in.
const PARTS: usize = 1_000_000;
/// What is referred to is read again, up to so many bytes in all.
const AGAIN: usize = 16 * 1024 * 1024;

const LONGEST_NAME: usize = 100;

pub(super) type Read<T> = Result<T, String>;

/// Where the reader is.
pub(super) struct Cursor<'b> {
    bytes: &'b [u8],
    pub(super) position: usize,
    parts: usize,
    /// How many bytes may still be read.
    left: usize,
    /// Where values begin that may be referred to: a reference is read there once more.
    noted: Vec<usize>,
    /// Within how many references it reads: there nothing is noted again.
    references: usize,
}

impl<'b> Cursor<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        let left = bytes.len().saturating_add(AGAIN);
        Self { bytes, position: 0, parts: PARTS, left, noted: Vec::new(), references: 0 }
    }

    /// Another part of the value begins, so deep inside it; returns how deep those inside it are.
    pub(super) fn part(&mut self, depth: usize) -> Read<usize> {
        self.parts = self.parts.checked_sub(1).ok_or_else(|| format!("it has more than {PARTS} parts"))?;
        depth.checked_sub(1).ok_or_else(|| format!("it is nested more than {DEPTH} levels deep, or contains itself"))
    }

    /// Within a reference, where all is read once more.
    pub(super) fn is_in_reference(&self) -> bool {
        self.references > 0
    }

    /// A value that may be referred to begins there.
    pub(super) fn note(&mut self, start: usize) {
        if !self.is_in_reference() {
            self.noted.push(start);
        }
    }

    /// A reference begins: goes back to the value that was noted as this one, and returns where to go on behind it.
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

    /// What stands before the next such byte, which is passed.
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

    /// Nothing stands behind the value.
    pub(super) fn end(&self) -> Read<()> {
        match self.position == self.bytes.len() {
            true => Ok(()),
            false => Err("bytes follow the value, as after an append to it".to_owned()),
        }
    }

    /// So many items, or pairs of items: the memory for those that can possibly follow.
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

/// A float as text that every language reads.
pub(super) fn decimal(number: f64) -> String {
    match number.abs() {
        0.0 => format!("{number}"),
        1e-5..1e16 => format!("{number}"),
        _ => format!("{number:e}"),
    }
}
