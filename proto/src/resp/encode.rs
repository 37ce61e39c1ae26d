//! Encodes commands as requests.

use crate::number::{push, unsigned};

/// The digits of a number of 32 bits, at most.
const LONGEST_NUMBER: usize = 10;

/// One command as it is sent, its name first, except for the line that counts the parts. After `clear`, its memory is
/// reused for the next command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    encoded: Vec<u8>,
    parts: usize,
    size: usize,
}

impl Command {
    pub fn of<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> Self {
        let mut command = Self::default();
        parts.into_iter().for_each(|part| command.push(part));
        command
    }

    pub fn clear(&mut self) {
        self.encoded.clear();
        (self.parts, self.size) = (0, 0);
    }

    /// Adds a part, which may contain any bytes.
    pub fn push(&mut self, part: impl AsRef<[u8]>) {
        self.push_joined([part.as_ref()]);
    }

    /// Adds one part, made of several pieces.
    pub fn push_joined<const N: usize>(&mut self, pieces: [&[u8]; N]) {
        let length = pieces.iter().map(|piece| piece.len()).sum();
        self.push_written(length, |out| pieces.iter().for_each(|piece| out.extend_from_slice(piece)));
    }

    pub fn push_number(&mut self, number: u64) {
        self.push(itoa::Buffer::new().format(number));
    }

    /// Adds one part: two numbers, and what is between them. Few digits cost the least when they are written one by one.
    pub fn push_numbers(&mut self, first: u32, between: u8, second: u32) {
        const SIZE: usize = 2 * LONGEST_NUMBER + 1;
        let (mut text, mut at) = ([between; SIZE], SIZE);
        for mut number in [second, first] {
            // Skips what is between them.
            at -= usize::from(at < SIZE);
            loop {
                at -= 1;
                text[at] = b'0' + (number % 10) as u8;
                number /= 10;
                if number == 0 {
                    break;
                }
            }
        }
        self.push(&text[at..]);
    }

    /// Adds one part of a known length, which `write` appends.
    pub fn push_written(&mut self, length: usize, write: impl FnOnce(&mut Vec<u8>)) {
        push_length(b'$', length, &mut self.encoded);
        let begin = self.encoded.len();
        write(&mut self.encoded);
        debug_assert_eq!(self.encoded.len() - begin, length, "the reader would be out of step");
        self.encoded.extend_from_slice(b"\r\n");
        self.parts += 1;
        self.size += length;
    }

    /// Adds all parts of another command.
    pub fn extend(&mut self, other: &Self) {
        self.encoded.extend_from_slice(&other.encoded);
        self.parts += other.parts;
        self.size += other.size;
    }

    /// The number of parts.
    pub fn len(&self) -> usize {
        self.parts
    }

    pub fn is_empty(&self) -> bool {
        self.parts == 0
    }

    /// The total size of its parts in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The allocated memory in bytes.
    pub fn capacity(&self) -> usize {
        self.encoded.capacity()
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.encoded[..];
        std::iter::from_fn(move || {
            let line = memchr::memchr(b'\r', rest)?;
            let length = unsigned(&rest[1..line])? as usize;
            let (part, after) = rest[line + 2..].split_at(length);
            rest = &after[2..];
            Some(part)
        })
    }

    /// Its parts, for [`encode`].
    pub fn slices(&self) -> Vec<&[u8]> {
        self.iter().collect()
    }

    /// Appends it to `out`, ready to be sent.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        debug_assert!(self.parts > 0, "a command without a name is never answered");
        push_length(b'*', self.parts, out);
        out.extend_from_slice(&self.encoded);
    }
}

/// Appends one command as an array of bulk strings, its name first. Parts may contain any bytes.
pub fn encode(parts: &[&[u8]], out: &mut Vec<u8>) {
    Command::of(parts).append_to(out);
}

/// Nearly all lengths have one or two digits.
fn push_length(kind: u8, length: usize, out: &mut Vec<u8>) {
    match length {
        0..10 => out.extend_from_slice(&[kind, b'0' + length as u8, b'\r', b'\n']),
        10..100 => {
            let (tens, ones) = (length as u8 / 10, length as u8 % 10);
            out.extend_from_slice(&[kind, b'0' + tens, b'0' + ones, b'\r', b'\n']);
        }
        _ => {
            out.push(kind);
            push(out, length);
            out.extend_from_slice(b"\r\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_numbers_are_one_part() {
        for (first, second) in [(0, 0), (1, 10), (9, 99), (1000, 1_000_000), (u32::MAX, u32::MAX)] {
            let mut command = Command::default();
            command.push_numbers(first, b'/', second);
            assert_eq!(command.slices(), [format!("{first}/{second}").as_bytes()]);
        }
    }
}
