//! Perl's Storable for plain data, in network order and without a file's header. Blessed references, hooks, tied
//! variables and code are refused: making them runs code.

use super::cursor::{decimal, name, Cursor, Read, DEPTH};
use super::Plain;

const NETWORK_ORDER: u8 = 1;
const MAJOR: u8 = 2;
/// The minor version to write: the oldest that knows everything that is written.
const MINOR: u8 = 7;

const REFERENCE_TO_EARLIER: u8 = 0;
const LONG_STRING: u8 = 1;
const ARRAY: u8 = 2;
const HASH: u8 = 3;
const REFERENCE: u8 = 4;
const UNDEFINED: u8 = 5;
const INTEGER: u8 = 6;
const DOUBLE: u8 = 7;
const SMALL: u8 = 8;
const NETWORK_INTEGER: u8 = 9;
const STRING: u8 = 10;
const THE_UNDEFINED: u8 = 14;
const THE_TRUE: u8 = 15;
const THE_FALSE: u8 = 16;
const BLESSED: u8 = 17;
const TEXT: u8 = 23;
const LONG_TEXT: u8 = 24;
const FLAGGED_HASH: u8 = 25;
const CODE: u8 = 26;
const UNDEFINED_ELEMENT: u8 = 31;
const BOOLEAN_TRUE: u8 = 40;
const BOOLEAN_FALSE: u8 = 41;

/// Flags of the keys in hashes that have flags.
const KEY_IS_TEXT: u8 = 1;
/// Text that fits in Latin-1 and is stored so.
const KEY_WAS_TEXT: u8 = 2;

pub(super) fn read(bytes: &[u8]) -> Read<Plain> {
    let mut reader = Reader { cursor: Cursor::new(bytes) };
    let kind = reader.cursor.byte()?;
    if kind >> 1 != MAJOR {
        return Err("it is not Storable's format 2".to_owned());
    }
    reader.cursor.byte()?;
    if kind & NETWORK_ORDER == 0 {
        // The byte order of the writer's machine, and the sizes of its numbers.
        let order = reader.cursor.byte()?;
        if reader.cursor.take(usize::from(order))? != b"12345678" || reader.cursor.array()? != [4, 8, 8, 8] {
            return Err("it was frozen on a machine unlike this one; let its writer use nfreeze".to_owned());
        }
    }
    let network = kind & NETWORK_ORDER != 0;
    // Each list or map follows a reference.
    let value = reader.value(network, 2 * DEPTH)?;
    reader.cursor.end()?;
    Ok(value)
}

struct Reader<'b> {
    cursor: Cursor<'b>,
}

impl<'b> Reader<'b> {
    fn value(&mut self, network: bool, depth: usize) -> Read<Plain> {
        let depth = self.cursor.part(depth)?;
        let start = self.cursor.position;
        let kind = self.cursor.byte()?;
        if kind != REFERENCE_TO_EARLIER {
            self.cursor.note(start);
        }
        Ok(match kind {
            REFERENCE_TO_EARLIER => self.earlier(network, depth)?,
            REFERENCE => self.value(network, depth)?,
            UNDEFINED | THE_UNDEFINED | UNDEFINED_ELEMENT => Plain::Null,
            THE_TRUE | BOOLEAN_TRUE => Plain::Bool(true),
            THE_FALSE | BOOLEAN_FALSE => Plain::Bool(false),
            SMALL => Plain::Integer(i64::from(self.cursor.byte()?) - 128),
            NETWORK_INTEGER => Plain::Integer(i32::from_be_bytes(self.cursor.array()?).into()),
            INTEGER if !network => Plain::Integer(i64::from_le_bytes(self.cursor.array()?)),
            DOUBLE if !network => Plain::Float(f64::from_le_bytes(self.cursor.array()?)),
            STRING => Plain::string(self.short()?),
            LONG_STRING => Plain::string(self.long(network)?),
            TEXT => text(self.short()?)?,
            LONG_TEXT => text(self.long(network)?)?,
            ARRAY => {
                let length = self.length(network)?;
                let mut items = self.cursor.room(length);
                for _ in 0..length {
                    items.push(self.value(network, depth)?);
                }
                Plain::List(items)
            }
            HASH => self.hash(false, network, depth)?,
            FLAGGED_HASH => self.hash(true, network, depth)?,
            BLESSED => {
                let class = name(self.short()?);
                return Err(format!("there is an object of the class {class} in it"));
            }
            CODE => return Err("there is Perl code in it".to_owned()),
            other => return Err(format!("there is an object or a special variable in it (Storable's type {other})")),
        })
    }

    fn hash(&mut self, flagged: bool, network: bool, depth: usize) -> Read<Plain> {
        if flagged {
            self.cursor.byte()?;
        }
        let length = self.length(network)?;
        let mut pairs = self.cursor.room(length);
        for _ in 0..length {
            let value = self.value(network, depth)?;
            let flags = if flagged { self.cursor.byte()? } else { 0 };
            let key = self.long(network)?;
            let key = match flags {
                _ if flags & KEY_IS_TEXT != 0 => text(key)?,
                _ if flags & KEY_WAS_TEXT != 0 => Plain::Text(key.iter().copied().map(char::from).collect()),
                _ => Plain::string(key),
            };
            pairs.push((key, value));
        }
        Ok(Plain::Map(pairs))
    }

    fn earlier(&mut self, network: bool, depth: usize) -> Read<Plain> {
        let index = u32::from_be_bytes(self.cursor.array()?) as usize;
        let behind = self.cursor.begin_reference(index)?;
        let value = self.value(network, depth)?;
        self.cursor.end_reference(behind);
        Ok(value)
    }

    fn short(&mut self) -> Read<&'b [u8]> {
        let length = self.cursor.byte()?;
        self.cursor.take(length.into())
    }

    fn long(&mut self, network: bool) -> Read<&'b [u8]> {
        let length = self.length(network)?;
        self.cursor.take(length)
    }

    fn length(&mut self, network: bool) -> Read<usize> {
        let bytes = self.cursor.array()?;
        Ok(if network { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) } as usize)
    }
}

fn text(bytes: &[u8]) -> Read<Plain> {
    let text = std::str::from_utf8(bytes).map_err(|_| "a text in it is not UTF-8".to_owned())?;
    Ok(Plain::Text(text.to_owned()))
}

/// Writes a list or a map. Storable freezes the target of a reference.
pub(super) fn write(value: &Plain) -> Result<Vec<u8>, String> {
    let mut out = vec![MAJOR << 1 | NETWORK_ORDER, MINOR];
    match value {
        Plain::List(_) | Plain::Map(_) => write_body(&mut out, value)?,
        other => return Err(format!("Storable takes references alone, not {}", other.described())),
    }
    Ok(out)
}

/// Writes a value. Nested lists and maps follow references.
fn write_to(out: &mut Vec<u8>, value: &Plain) -> Result<(), String> {
    if matches!(value, Plain::List(_) | Plain::Map(_)) {
        out.push(REFERENCE);
    }
    write_body(out, value)
}

fn write_body(out: &mut Vec<u8>, value: &Plain) -> Result<(), String> {
    match value {
        Plain::Null => out.push(UNDEFINED),
        Plain::Integer(number @ -128..=127) => out.extend_from_slice(&[SMALL, (number + 128) as u8]),
        Plain::Integer(number) => match i32::try_from(*number) {
            Ok(number) => {
                out.push(NETWORK_INTEGER);
                out.extend_from_slice(&number.to_be_bytes());
            }
            Err(_) => write_string(out, STRING, LONG_STRING, number.to_string().as_bytes())?,
        },
        Plain::Float(number) => write_string(out, STRING, LONG_STRING, decimal(*number).as_bytes())?,
        Plain::Bytes(bytes) => write_string(out, STRING, LONG_STRING, bytes)?,
        Plain::Text(letters) if letters.is_ascii() => write_string(out, STRING, LONG_STRING, letters.as_bytes())?,
        Plain::Text(letters) => write_string(out, TEXT, LONG_TEXT, letters.as_bytes())?,
        Plain::List(items) => {
            out.push(ARRAY);
            write_length(out, items.len())?;
            items.iter().try_for_each(|item| write_to(out, item))?;
        }
        Plain::Map(pairs) => write_hash(out, pairs)?,
        Plain::Bool(_)
        | Plain::Big { .. }
        | Plain::Tuple(_)
        | Plain::Encoded(..)
        | Plain::DateTime(_)
        | Plain::Instant(_) => return Err(format!("Perl has no counterpart to {}", value.described())),
    }
    Ok(())
}

fn write_hash(out: &mut Vec<u8>, pairs: &[(Plain, Plain)]) -> Result<(), String> {
    let flagged = pairs.iter().any(|(key, _)| matches!(key, Plain::Text(text) if !text.is_ascii()));
    match flagged {
        true => out.extend_from_slice(&[FLAGGED_HASH, 0]),
        false => out.push(HASH),
    }
    write_length(out, pairs.len())?;
    for (key, value) in pairs {
        write_to(out, value)?;
        let (key, is_text) = match key {
            Plain::Text(text) => (text.as_bytes(), !text.is_ascii()),
            Plain::Bytes(bytes) => (&bytes[..], false),
            other => return Err(format!("Perl has no hashes with {} as a key", other.described())),
        };
        if flagged {
            out.push(u8::from(is_text) * KEY_IS_TEXT);
        }
        write_length(out, key.len())?;
        out.extend_from_slice(key);
    }
    Ok(())
}

fn write_string(out: &mut Vec<u8>, short: u8, long: u8, bytes: &[u8]) -> Result<(), String> {
    match u8::try_from(bytes.len()) {
        Ok(length) => out.extend_from_slice(&[short, length]),
        Err(_) => {
            out.push(long);
            write_length(out, bytes.len())?;
        }
    }
    out.extend_from_slice(bytes);
    Ok(())
}

fn write_length(out: &mut Vec<u8>, length: usize) -> Result<(), String> {
    let length = u32::try_from(length).map_err(|_| "Storable takes no more than 4 GiB".to_owned())?;
    out.extend_from_slice(&length.to_be_bytes());
    Ok(())
}
