//! PHP's `serialize` for plain data. Objects are refused: making them runs code.

use super::cursor::{name, number, Cursor, Read, DEPTH};
use super::Plain;

pub(super) fn read(bytes: &[u8]) -> Read<Plain> {
    let mut reader = Reader { cursor: Cursor::new(bytes) };
    let value = reader.value(DEPTH)?;
    reader.cursor.end()?;
    Ok(value)
}

struct Reader<'b> {
    cursor: Cursor<'b>,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Read<Plain> {
        let depth = self.cursor.part(depth)?;
        let start = self.cursor.position;
        let kind = self.cursor.byte()?;
        if kind != b'R' {
            self.cursor.note(start);
        }
        if kind == b'N' {
            self.cursor.expect(b";")?;
            return Ok(Plain::Null);
        }
        self.cursor.expect(b":")?;
        match kind {
            b'a' => self.array(depth),
            b'R' | b'r' => self.reference(depth),
            b'O' | b'C' | b'E' => {
                let length = number(self.cursor.until(b':')?)?;
                self.cursor.expect(b"\"")?;
                let class = name(self.cursor.take(length)?);
                Err(format!("there is an object of the class {class} in it"))
            }
            _ => self.scalar(kind),
        }
    }

    fn scalar(&mut self, kind: u8) -> Read<Plain> {
        if kind == b's' {
            let length = number(self.cursor.until(b':')?)?;
            self.cursor.expect(b"\"")?;
            let bytes = self.cursor.take(length)?;
            self.cursor.expect(b"\";")?;
            return Ok(Plain::string(bytes));
        }
        let text = self.cursor.until(b';')?;
        match (kind, text) {
            (b'b', b"0") => Ok(Plain::Bool(false)),
            (b'b', b"1") => Ok(Plain::Bool(true)),
            (b'i', digits) => number(digits).map(Plain::Integer),
            (b'd', b"INF") => Ok(Plain::Float(f64::INFINITY)),
            (b'd', b"-INF") => Ok(Plain::Float(f64::NEG_INFINITY)),
            (b'd', b"NAN") => Ok(Plain::Float(f64::NAN)),
            (b'd', digits) => number(digits).map(Plain::Float),
            _ => Err("it is malformed".to_owned()),
        }
    }

    /// A list if the keys count from 0; otherwise a map.
    fn array(&mut self, depth: usize) -> Read<Plain> {
        let length: usize = number(self.cursor.until(b':')?)?;
        self.cursor.expect(b"{")?;
        let mut pairs = self.cursor.room(length);
        for _ in 0..length {
            let kind = self.cursor.byte()?;
            if !matches!(kind, b'i' | b's') {
                return Err("it is malformed".to_owned());
            }
            self.cursor.expect(b":")?;
            pairs.push((self.scalar(kind)?, self.value(depth)?));
        }
        self.cursor.expect(b"}")?;
        let counts = pairs.iter().enumerate().all(|(index, (key, _))| *key == Plain::Integer(index as i64));
        Ok(match counts {
            true => Plain::List(pairs.into_iter().map(|(_, value)| value).collect()),
            false => Plain::Map(pairs),
        })
    }

    fn reference(&mut self, depth: usize) -> Read<Plain> {
        let index: usize = number(self.cursor.until(b';')?)?;
        let behind = self.cursor.begin_reference(index.wrapping_sub(1))?;
        let value = self.value(depth)?;
        self.cursor.end_reference(behind);
        Ok(value)
    }
}

pub(super) fn write(value: &Plain) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    write_to(&mut out, value)?;
    Ok(out)
}

fn write_to(out: &mut Vec<u8>, value: &Plain) -> Result<(), String> {
    match value {
        Plain::Null => out.extend_from_slice(b"N;"),
        Plain::Bool(truth) => out.extend_from_slice(if *truth { b"b:1;" } else { b"b:0;" }),
        Plain::Integer(number) => out.extend_from_slice(format!("i:{number};").as_bytes()),
        Plain::Float(number) => out.extend_from_slice(format!("d:{};", float(*number)).as_bytes()),
        Plain::Bytes(bytes) => string(out, bytes),
        Plain::Text(text) => string(out, text.as_bytes()),
        Plain::List(items) => {
            out.extend_from_slice(format!("a:{}:{{", items.len()).as_bytes());
            for (index, item) in items.iter().enumerate() {
                out.extend_from_slice(format!("i:{index};").as_bytes());
                write_to(out, item)?;
            }
            out.push(b'}');
        }
        Plain::Map(pairs) => {
            out.extend_from_slice(format!("a:{}:{{", pairs.len()).as_bytes());
            for (key, item) in pairs {
                match key {
                    Plain::Integer(_) | Plain::Text(_) | Plain::Bytes(_) => write_to(out, key)?,
                    other => return Err(format!("PHP has no arrays with {} as a key", other.described())),
                }
                write_to(out, item)?;
            }
            out.push(b'}');
        }
        Plain::Big { .. } | Plain::Tuple(_) | Plain::Encoded(..) | Plain::DateTime(_) | Plain::Instant(_) => {
            return Err(format!("PHP has no counterpart to {}", value.described()))
        }
    }
    Ok(())
}

fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(format!("s:{}:\"", bytes.len()).as_bytes());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\";");
}

/// A float in PHP's notation.
pub(super) fn float(number: f64) -> String {
    match number {
        number if number.is_nan() => "NAN".to_owned(),
        number if number.is_infinite() => if number > 0.0 { "INF" } else { "-INF" }.to_owned(),
        number => super::cursor::decimal(number).to_uppercase(),
    }
}
