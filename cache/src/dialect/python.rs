//! Python's marshal, version 2, for plain data: without code and without references.

use super::cursor::{Cursor, Read, DEPTH};
use super::Plain;

/// The number of bits in a digit of Python's integers.
const DIGIT: u32 = 15;

pub(super) fn read(bytes: &[u8]) -> Read<Plain> {
    let mut cursor = Cursor::new(bytes);
    let value = value(&mut cursor, DEPTH)?.ok_or("it is malformed")?;
    cursor.end()?;
    Ok(value)
}

/// `None` at the end of a dict.
fn value(cursor: &mut Cursor<'_>, depth: usize) -> Read<Option<Plain>> {
    let depth = cursor.part(depth)?;
    Ok(Some(match cursor.byte()? {
        b'0' => return Ok(None),
        b'N' => Plain::Null,
        b'T' => Plain::Bool(true),
        b'F' => Plain::Bool(false),
        b'i' => Plain::Integer(i32::from_le_bytes(cursor.array()?).into()),
        b'l' => long(cursor)?,
        b'g' => Plain::Float(f64::from_le_bytes(cursor.array()?)),
        b's' => Plain::Bytes(sized(cursor)?.to_vec()),
        b'u' => match std::str::from_utf8(sized(cursor)?) {
            Ok(text) => Plain::Text(text.to_owned()),
            Err(_) => return Err("a text in it is not UTF-8".to_owned()),
        },
        b'(' => Plain::Tuple(items(cursor, depth)?),
        b'[' => Plain::List(items(cursor, depth)?),
        b'{' => {
            let mut pairs = Vec::new();
            while let Some(key) = value(cursor, depth)? {
                pairs.push((key, value(cursor, depth)?.ok_or("it is malformed")?));
            }
            Plain::Map(pairs)
        }
        b'c' => return Err("there is Python code in it".to_owned()),
        other => return Err(format!("there is an object in it that marshal marks as {:?}", other as char)),
    }))
}

fn length(cursor: &mut Cursor<'_>) -> Read<usize> {
    usize::try_from(i32::from_le_bytes(cursor.array()?)).map_err(|_| "a length in it is negative".to_owned())
}

fn sized<'b>(cursor: &mut Cursor<'b>) -> Read<&'b [u8]> {
    let length = length(cursor)?;
    cursor.take(length)
}

fn items(cursor: &mut Cursor<'_>, depth: usize) -> Read<Vec<Plain>> {
    let length = length(cursor)?;
    let mut items = cursor.room(length);
    for _ in 0..length {
        items.push(value(cursor, depth)?.ok_or("it is malformed")?);
    }
    Ok(items)
}

fn long(cursor: &mut Cursor<'_>) -> Read<Plain> {
    let count = i32::from_le_bytes(cursor.array()?);
    let digits = cursor.take((count.unsigned_abs() as usize).saturating_mul(2))?;
    let (mut magnitude, mut bits, mut held) = (Vec::with_capacity(digits.len()), 0, 0_u32);
    for digit in digits.chunks_exact(2) {
        held |= u32::from(u16::from_le_bytes([digit[0], digit[1]]) & 0x7fff) << bits;
        bits += DIGIT;
        while bits >= 8 {
            magnitude.push(held as u8);
            held >>= 8;
            bits -= 8;
        }
    }
    magnitude.push(held as u8);
    Ok(Plain::integer(count < 0, &magnitude))
}

pub(super) fn write(value: &Plain) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    write_to(&mut out, value)?;
    Ok(out)
}

fn write_to(out: &mut Vec<u8>, value: &Plain) -> Result<(), String> {
    match value {
        Plain::Null => out.push(b'N'),
        Plain::Bool(truth) => out.push(if *truth { b'T' } else { b'F' }),
        Plain::Integer(number) => match i32::try_from(*number) {
            Ok(small) => {
                out.push(b'i');
                out.extend_from_slice(&small.to_le_bytes());
            }
            Err(_) => write_long(out, *number < 0, &number.unsigned_abs().to_le_bytes()),
        },
        Plain::Big { negative, magnitude } => write_long(out, *negative, magnitude),
        Plain::Float(number) => {
            out.push(b'g');
            out.extend_from_slice(&number.to_le_bytes());
        }
        Plain::Bytes(bytes) => write_sized(out, b's', bytes)?,
        Plain::Text(text) => write_sized(out, b'u', text.as_bytes())?,
        Plain::List(items) => write_items(out, b'[', items)?,
        Plain::Tuple(items) => write_items(out, b'(', items)?,
        Plain::Map(pairs) => {
            out.push(b'{');
            for (key, value) in pairs {
                write_to(out, key)?;
                write_to(out, value)?;
            }
            out.push(b'0');
        }
        Plain::Encoded(..) | Plain::DateTime(_) | Plain::Instant(_) => {
            return Err(format!("marshal has no counterpart to {}", value.described()))
        }
    }
    Ok(())
}

fn write_length(out: &mut Vec<u8>, kind: u8, length: usize) -> Result<(), String> {
    let length = i32::try_from(length).map_err(|_| "marshal takes no more than 2 GiB".to_owned())?;
    out.push(kind);
    out.extend_from_slice(&length.to_le_bytes());
    Ok(())
}

fn write_sized(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) -> Result<(), String> {
    write_length(out, kind, bytes.len())?;
    out.extend_from_slice(bytes);
    Ok(())
}

fn write_items(out: &mut Vec<u8>, kind: u8, items: &[Plain]) -> Result<(), String> {
    write_length(out, kind, items.len())?;
    items.iter().try_for_each(|item| write_to(out, item))
}

fn write_long(out: &mut Vec<u8>, negative: bool, magnitude: &[u8]) {
    let (mut digits, mut bits, mut held) = (Vec::new(), 0, 0_u32);
    for byte in magnitude {
        held |= u32::from(*byte) << bits;
        bits += 8;
        if bits >= DIGIT {
            digits.push((held & 0x7fff) as u16);
            held >>= DIGIT;
            bits -= DIGIT;
        }
    }
    digits.push(held as u16);
    digits.truncate(digits.iter().rposition(|digit| *digit != 0).map_or(0, |last| last + 1));
    let count = digits.len() as i32;
    out.push(b'l');
    out.extend_from_slice(&(if negative { -count } else { count }).to_le_bytes());
    digits.iter().for_each(|digit| out.extend_from_slice(&digit.to_le_bytes()));
}
