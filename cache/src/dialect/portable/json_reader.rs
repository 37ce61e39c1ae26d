//! Reads JSON: UTF-8, integers of any size, and Python's `NaN` and `Infinity`.

use memchr::memchr2;

use super::decimal::{integer, LONGEST};
use super::READ_DEPTH;
use crate::dialect::parts::{Part, Reader, NOT_UTF8};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const CUT: &str = "its end is missing";
/// UTF-8 that may contain half a surrogate pair, like the texts of Python and JavaScript.
const WTF_8: &str = "WTF-8";

#[derive(Debug)]
pub struct JsonReader<'b> {
    bytes: &'b [u8],
    position: usize,
    /// The open lists and maps.
    open: Vec<Open>,
    /// A text without escapes, or the bytes of an integer.
    scratch: Vec<u8>,
}

/// What comes next in a list or map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    FirstItem,
    Item,
    FirstKey,
    Key,
    Value,
}

impl<'b> JsonReader<'b> {
    pub fn new(bytes: &'b [u8]) -> Self {
        let position = if bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        Self { bytes, position, open: Vec::new(), scratch: Vec::new() }
    }

    fn value(&mut self) -> Result<Part<'_>, String> {
        match self.peek() {
            Some(b'"') => self.text(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'[') => {
                self.begin(Open::FirstItem)?;
                Ok(Part::List(0))
            }
            Some(b'{') => {
                self.begin(Open::FirstKey)?;
                Ok(Part::Map(0))
            }
            _ => self.word(),
        }
    }

    fn begin(&mut self, open: Open) -> Result<(), String> {
        if self.open.len() >= READ_DEPTH {
            return Err(format!("it is nested more than {READ_DEPTH} levels deep"));
        }
        self.position += 1;
        self.open.push(open);
        Ok(())
    }

    fn word(&mut self) -> Result<Part<'b>, String> {
        let words = [
            ("null", Part::Null),
            ("true", Part::Bool(true)),
            ("false", Part::Bool(false)),
            ("NaN", Part::Float(f64::NAN)),
            ("Infinity", Part::Float(f64::INFINITY)),
            ("-Infinity", Part::Float(f64::NEG_INFINITY)),
        ];
        let rest = &self.bytes[self.position..];
        let found = words.into_iter().find(|(word, _)| rest.starts_with(word.as_bytes()));
        let (word, part) = found.ok_or_else(|| self.malformed())?;
        self.position += word.len();
        Ok(part)
    }

    fn number(&mut self) -> Result<Part<'_>, String> {
        let start = self.position;
        let is_negative = self.passes(b"-");
        match self.bytes.get(self.position) {
            Some(b'0') => self.position += 1,
            Some(b'I') if is_negative => {
                self.position = start;
                return self.word();
            }
            _ => self.digits()?,
        }
        let is_whole = !matches!(self.bytes.get(self.position), Some(b'.' | b'e' | b'E'));
        if self.passes(b".") {
            self.digits()?;
        }
        if self.passes(b"eE") {
            self.passes(b"+-");
            self.digits()?;
        }
        let bytes = &self.bytes[start..self.position];
        let text = std::str::from_utf8(bytes).map_err(|_| NOT_UTF8)?;
        if !is_whole {
            return text.parse().map(Part::Float).map_err(|_| self.malformed());
        }
        if let Ok(number) = text.parse() {
            return Ok(Part::Integer(number));
        }
        if let Ok(number) = text.parse() {
            return Ok(Part::Unsigned(number));
        }
        let magnitude = integer(&bytes[usize::from(is_negative)..]);
        self.scratch = magnitude.ok_or_else(|| format!("an integer in it has more than {LONGEST} digits"))?;
        Ok(Part::Big { negative: is_negative, magnitude: &self.scratch })
    }

    /// Skips digits, at least one.
    fn digits(&mut self) -> Result<(), String> {
        let length = self.bytes[self.position..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.position += length;
        if length == 0 {
            return Err(self.malformed());
        }
        Ok(())
    }

    /// Skips one of these bytes, if it is next.
    fn passes(&mut self, bytes: &[u8]) -> bool {
        let is_next = self.bytes.get(self.position).is_some_and(|byte| bytes.contains(byte));
        self.position += usize::from(is_next);
        is_next
    }

    fn text(&mut self) -> Result<Part<'_>, String> {
        self.position += 1;
        let beginning = self.stretch()?;
        if self.passes(b"\"") {
            return Ok(Part::Utf8(beginning));
        }
        let (mut is_paired, mut stretch) = (true, beginning);
        self.scratch.clear();
        loop {
            self.scratch.extend_from_slice(stretch);
            if self.passes(b"\"") {
                break;
            }
            is_paired &= self.escape()?;
            stretch = self.stretch()?;
        }
        Ok(match is_paired {
            true => Part::Utf8(&self.scratch),
            false => Part::Encoded(&self.scratch, WTF_8),
        })
    }

    /// The text before the next escape or the closing quote.
    fn stretch(&mut self) -> Result<&'b [u8], String> {
        let rest = &self.bytes[self.position..];
        let stretch = &rest[..memchr2(b'"', b'\\', rest).ok_or(CUT)?];
        // Without an early exit, this compiles to vector instructions.
        if stretch.iter().fold(false, |found, byte| found | (*byte < 0x20)) {
            return Err("there is a control character in it".to_owned());
        }
        self.position += stretch.len();
        Ok(stretch)
    }

    /// Reads an escape. Returns whether it is a whole character, rather than half a surrogate pair.
    fn escape(&mut self) -> Result<bool, String> {
        if !self.passes(b"\\") {
            return Err(self.malformed());
        }
        let character = match self.bytes.get(self.position).ok_or(CUT)? {
            b'u' => return self.escaped_unit(),
            character @ (b'"' | b'\\' | b'/') => *character,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            _ => return Err(self.malformed()),
        };
        self.position += 1;
        self.scratch.push(character);
        Ok(true)
    }

    fn escaped_unit(&mut self) -> Result<bool, String> {
        let first = self.unit().ok_or_else(|| self.malformed())?;
        if let (0xd800..0xdc00, [b'\\', b'u', ..]) = (first, &self.bytes[self.position..]) {
            let behind_first = self.position;
            self.position += 1;
            if let Some(second @ 0xdc00..0xe000) = self.unit() {
                let pair = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(self.push(pair));
            }
            self.position = behind_first;
        }
        Ok(self.push(first))
    }

    /// The UTF-16 code unit after a `u`.
    fn unit(&mut self) -> Option<u32> {
        let digits = self.bytes.get(self.position + 1..self.position + 5)?;
        let unit = digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))?;
        self.position += 5;
        Some(unit)
    }

    fn push(&mut self, unit: u32) -> bool {
        let Some(character) = char::from_u32(unit) else {
            let bytes = [0xe0 | unit >> 12, 0x80 | unit >> 6 & 0x3f, 0x80 | unit & 0x3f];
            self.scratch.extend(bytes.map(|byte| byte as u8));
            return false;
        };
        self.scratch.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        true
    }

    /// Skips the end of a list or map, if it is next.
    fn closes(&mut self, ending: u8) -> bool {
        let is_next = self.peek() == Some(ending);
        if is_next {
            self.position += 1;
            self.open.pop();
        }
        is_next
    }

    /// The next byte that is not a space, without skipping it.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        loop {
            match self.bytes.get(self.position)? {
                b' ' | b'\t' | b'\n' | b'\r' => self.position += 1,
                byte => return Some(*byte),
            }
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        if self.peek() != Some(byte) {
            return Err(self.malformed());
        }
        self.position += 1;
        Ok(())
    }

    fn malformed(&self) -> String {
        match self.bytes.get(self.position) {
            None => CUT.to_owned(),
            Some(_) => format!("it is malformed at byte {}", self.position),
        }
    }
}

impl Reader for JsonReader<'_> {
    const KEYS_DIFFER: bool = false;

    fn next(&mut self) -> Result<Part<'_>, String> {
        let Some(open) = self.open.last().copied() else { return self.value() };
        let next = match open {
            Open::FirstItem | Open::Item if self.closes(b']') => return Ok(Part::End),
            Open::FirstKey | Open::Key if self.closes(b'}') => return Ok(Part::End),
            Open::FirstItem | Open::Item => Open::Item,
            Open::FirstKey | Open::Key => Open::Value,
            Open::Value => Open::Key,
        };
        match open {
            Open::FirstItem | Open::FirstKey => {}
            Open::Item | Open::Key => self.expect(b',')?,
            Open::Value => self.expect(b':')?,
        }
        if let Some(open) = self.open.last_mut() {
            *open = next;
        }
        if next == Open::Value && self.peek() != Some(b'"') {
            return Err(self.malformed());
        }
        self.value()
    }

    fn end(&mut self) -> Result<(), String> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err("bytes follow the value, as after an append to it".to_owned()),
        }
    }
}
