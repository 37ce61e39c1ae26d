//! Ruby's Marshal, format 4.8, for plain data. Objects of classes are refused: making them runs code.

use super::cursor::{decimal, name, number, Cursor, Read, DEPTH};
use super::Plain;

const VERSION: &[u8] = b"\x04\x08";

pub(super) fn read(bytes: &[u8]) -> Read<Plain> {
    let mut reader = Reader { cursor: Cursor::new(bytes), symbols: Vec::new() };
    reader.cursor.expect(VERSION).map_err(|_| "it is not Marshal's format 4.8".to_owned())?;
    let value = reader.value(DEPTH)?;
    reader.cursor.end()?;
    Ok(value)
}

struct Reader<'b> {
    cursor: Cursor<'b>,
    symbols: Vec<&'b [u8]>,
}

impl<'b> Reader<'b> {
    fn value(&mut self, depth: usize) -> Read<Plain> {
        let start = self.cursor.position;
        self.value_from(start, depth)
    }

    /// `start`: where the value begins, including its encoding.
    fn value_from(&mut self, start: usize, depth: usize) -> Read<Plain> {
        let depth = self.cursor.part(depth)?;
        Ok(match self.cursor.byte()? {
            b'0' => Plain::Null,
            b'T' => Plain::Bool(true),
            b'F' => Plain::Bool(false),
            b'i' => Plain::Integer(self.long()?),
            b':' => {
                self.cursor.position -= 1;
                Plain::string(self.symbol()?)
            }
            b';' => {
                self.cursor.position -= 1;
                Plain::string(self.symbol()?)
            }
            b'I' => self.with_variables(start, depth)?,
            b'"' => {
                self.cursor.note(start);
                Plain::Bytes(self.bytes()?.to_vec())
            }
            b'f' => {
                self.cursor.note(start);
                Plain::Float(float(self.bytes()?)?)
            }
            b'l' => {
                self.cursor.note(start);
                self.big()?
            }
            b'[' => {
                self.cursor.note(start);
                let length = self.length()?;
                let mut items = self.cursor.room(length);
                for _ in 0..length {
                    items.push(self.value(depth)?);
                }
                Plain::List(items)
            }
            b'{' => {
                self.cursor.note(start);
                self.map(depth)?
            }
            b'}' => {
                self.cursor.note(start);
                let map = self.map(depth)?;
                self.value(depth)?;
                map
            }
            b'@' => self.reference(depth)?,
            b'o' | b'S' | b'u' | b'U' | b'C' | b'e' => {
                let class = name(self.symbol()?);
                return Err(format!("there is an object of the class {class} in it"));
            }
            b'c' | b'm' | b'M' => {
                let class = name(self.bytes()?);
                return Err(format!("there is the class {class} in it"));
            }
            b'/' => return Err("there is an object of the class Regexp in it".to_owned()),
            _ => return Err("it is malformed".to_owned()),
        })
    }

    fn reference(&mut self, depth: usize) -> Read<Plain> {
        let index = self.length()?;
        let behind = self.cursor.begin_reference(index)?;
        let value = self.value(depth)?;
        self.cursor.end_reference(behind);
        Ok(value)
    }

    /// A value followed by its instance variables, such as the encoding of a string.
    fn with_variables(&mut self, start: usize, depth: usize) -> Read<Plain> {
        let value = self.value_from(start, depth)?;
        let mut encoding = None;
        for _ in 0..self.length()? {
            let variable = self.symbol()?;
            let of_it = self.value(depth)?;
            encoding = match (variable, of_it) {
                (b"E", Plain::Bool(_)) => Some("UTF-8".to_owned()),
                (b"encoding", Plain::Bytes(encoding)) => Some(name(&encoding)),
                _ => return Err(format!("there is a string with the instance variable {} in it", name(variable))),
            };
        }
        match (value, encoding) {
            (Plain::Bytes(bytes), Some(encoding)) if encoding == "UTF-8" => String::from_utf8(bytes)
                .map(Plain::Text)
                .map_err(|_| "a string in it is not the UTF-8 it claims".into()),
            (Plain::Bytes(bytes), Some(encoding)) => Ok(Plain::Encoded(bytes, encoding)),
            (value @ (Plain::Bytes(_) | Plain::Text(_)), _) => Ok(value),
            (other, _) => Err(format!("there is {} with instance variables in it", other.described())),
        }
    }

    fn map(&mut self, depth: usize) -> Read<Plain> {
        let length = self.length()?;
        let mut pairs = self.cursor.room(length);
        for _ in 0..length {
            pairs.push((self.value(depth)?, self.value(depth)?));
        }
        Ok(Plain::Map(pairs))
    }

    fn symbol(&mut self) -> Read<&'b [u8]> {
        match self.cursor.byte()? {
            b':' => self.new_symbol(),
            b';' => {
                let index = self.length()?;
                self.symbols.get(index).copied().ok_or_else(|| "it refers to what is not there".to_owned())
            }
            // A symbol that is not ASCII, with its encoding.
            b'I' => {
                self.cursor.expect(b":")?;
                let symbol = self.new_symbol()?;
                for _ in 0..self.length()? {
                    self.value(1)?;
                    self.value(1)?;
                }
                Ok(symbol)
            }
            _ => Err("it is malformed".to_owned()),
        }
    }

    fn new_symbol(&mut self) -> Read<&'b [u8]> {
        let symbol = self.bytes()?;
        if !self.cursor.is_in_reference() {
            self.symbols.push(symbol);
        }
        Ok(symbol)
    }

    fn bytes(&mut self) -> Read<&'b [u8]> {
        let length = self.length()?;
        self.cursor.take(length)
    }

    fn length(&mut self) -> Read<usize> {
        usize::try_from(self.long()?).map_err(|_| "a length in it is negative".to_owned())
    }

    fn long(&mut self) -> Read<i64> {
        let first = self.cursor.byte()? as i8;
        Ok(match first {
            0 => 0,
            1..=4 => self.little(first as usize, 0)?,
            -4..=-1 => self.little(-first as usize, -1)?,
            5.. => i64::from(first) - 5,
            _ => i64::from(first) + 5,
        })
    }

    /// A little-endian integer of `length` bytes, extended with the high bytes of `around`.
    fn little(&mut self, length: usize, around: i64) -> Read<i64> {
        let mut bytes = around.to_le_bytes();
        bytes[..length].copy_from_slice(self.cursor.take(length)?);
        Ok(i64::from_le_bytes(bytes))
    }

    fn big(&mut self) -> Read<Plain> {
        let negative = self.cursor.byte()? == b'-';
        let shorts = self.length()?;
        let magnitude = self.cursor.take(shorts.saturating_mul(2))?;
        Ok(Plain::integer(negative, magnitude))
    }
}

fn float(text: &[u8]) -> Read<f64> {
    match text {
        b"inf" => Ok(f64::INFINITY),
        b"-inf" => Ok(f64::NEG_INFINITY),
        b"nan" => Ok(f64::NAN),
        // Versions before 1.9 wrote the last bits after a NUL.
        digits => number(digits.split(|byte| *byte == 0).next().unwrap_or_default()),
    }
}

pub(super) fn write(value: &Plain) -> Result<Vec<u8>, String> {
    let mut writer = Writer { out: VERSION.to_vec(), knows_encoding: false };
    writer.value(value)?;
    Ok(writer.out)
}

struct Writer {
    out: Vec<u8>,
    /// Whether the symbol `:E` was written. Later uses refer to it.
    knows_encoding: bool,
}

impl Writer {
    fn value(&mut self, value: &Plain) -> Result<(), String> {
        match value {
            Plain::Null => self.out.push(b'0'),
            Plain::Bool(true) => self.out.push(b'T'),
            Plain::Bool(false) => self.out.push(b'F'),
            Plain::Integer(number) if (-(1 << 30)..1 << 30).contains(number) => {
                self.out.push(b'i');
                self.long(*number);
            }
            Plain::Integer(number) => self.big(*number < 0, &number.unsigned_abs().to_le_bytes()),
            Plain::Big { negative, magnitude } => self.big(*negative, magnitude),
            Plain::Float(number) => {
                self.out.push(b'f');
                let text = match number {
                    number if number.is_nan() => "nan".to_owned(),
                    number if number.is_infinite() => if *number > 0.0 { "inf" } else { "-inf" }.to_owned(),
                    number => decimal(*number),
                };
                self.bytes(text.as_bytes());
            }
            Plain::Bytes(bytes) => {
                self.out.push(b'"');
                self.bytes(bytes);
            }
            Plain::Text(text) => {
                self.out.extend_from_slice(b"I\"");
                self.bytes(text.as_bytes());
                self.long(1);
                match std::mem::replace(&mut self.knows_encoding, true) {
                    false => self.out.extend_from_slice(b":\x06ET"),
                    true => self.out.extend_from_slice(b";\x00T"),
                }
            }
            Plain::List(items) => {
                self.out.push(b'[');
                self.long(items.len() as i64);
                items.iter().try_for_each(|item| self.value(item))?;
            }
            Plain::Map(pairs) => {
                self.out.push(b'{');
                self.long(pairs.len() as i64);
                for (key, value) in pairs {
                    self.value(key)?;
                    self.value(value)?;
                }
            }
            Plain::Tuple(_) | Plain::Encoded(..) | Plain::DateTime(_) | Plain::Instant(_) => {
                return Err(format!("Ruby has no counterpart to {}", value.described()))
            }
        }
        Ok(())
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.long(bytes.len() as i64);
        self.out.extend_from_slice(bytes);
    }

    fn big(&mut self, negative: bool, magnitude: &[u8]) {
        let significant = magnitude.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        self.out.extend_from_slice(if negative { b"l-" } else { b"l+" });
        self.long(significant.div_ceil(2) as i64);
        self.out.extend_from_slice(&magnitude[..significant]);
        self.out.extend_from_slice(&[0][..significant % 2]);
    }

    fn long(&mut self, number: i64) {
        match number {
            0 => self.out.push(0),
            1..=122 => self.out.push(number as u8 + 5),
            -123..=-1 => self.out.push((number - 5) as u8),
            _ => {
                let bytes = number.to_le_bytes();
                let filler = if number < 0 { 0xff } else { 0 };
                let length = bytes.iter().rposition(|byte| *byte != filler).map_or(1, |last| last + 1);
                self.out.push(if number < 0 { (length as u8).wrapping_neg() } else { length as u8 });
                self.out.extend_from_slice(&bytes[..length]);
            }
        }
    }
}
