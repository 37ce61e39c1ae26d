//! Writes JSON like Python's `json.dumps` without spaces; only control characters are escaped.

use super::decimal::float;
use super::WRITTEN_DEPTH;
use crate::dialect::parts::{Nesting, Part, Role, Unwritable, Writer};
use pinyon_net::json::write_text;

/// Writes bool, null, integers of up to 64 bits, floats, text, lists, and maps whose keys are text.
#[derive(Debug)]
pub struct JsonWriter {
    out: Vec<u8>,
    nesting: Nesting,
}

impl Default for JsonWriter {
    fn default() -> Self {
        Self { out: Vec::new(), nesting: Nesting::new(WRITTEN_DEPTH) }
    }
}

impl Writer for JsonWriter {
    type Written = Vec<u8>;

    fn write(&mut self, part: Part<'_>) -> Result<(), Unwritable> {
        if part == Part::End {
            let ending = if self.nesting.end()? { b'}' } else { b']' };
            self.out.push(ending);
            return Ok(());
        }
        let role = self.nesting.part()?;
        if matches!(role, Role::FirstKey | Role::Key) && !matches!(part, Part::Text(_)) {
            return Err(Unwritable::Key(part.kind()));
        }
        match role {
            Role::First | Role::FirstKey => {}
            Role::Item | Role::Key => self.out.push(b','),
            Role::Value => self.out.push(b':'),
        }
        match part {
            Part::Null => self.out.extend_from_slice(b"null"),
            Part::Bool(truth) => self.out.extend_from_slice(if truth { b"true" } else { b"false" }),
            Part::Integer(number) => self.digits(itoa::Buffer::new().format(number)),
            Part::Unsigned(number) => self.digits(itoa::Buffer::new().format(number)),
            Part::Float(number) if number.is_nan() => self.digits("NaN"),
            Part::Float(f64::INFINITY) => self.digits("Infinity"),
            Part::Float(f64::NEG_INFINITY) => self.digits("-Infinity"),
            Part::Float(number) => self.digits(&float(number)),
            Part::Text(text) => write_text(&mut self.out, text),
            Part::List(length) => {
                self.out.push(b'[');
                self.nesting.begin_list(length);
            }
            Part::Map(pairs) => {
                self.out.push(b'{');
                self.nesting.begin_map(pairs);
            }
            Part::Big { .. } => return Err(Unwritable::Big),
            _ => return Err(Unwritable::Kind(part.kind())),
        }
        Ok(())
    }

    fn finish(self) -> Result<Vec<u8>, Unwritable> {
        self.nesting.finish()?;
        Ok(self.out)
    }
}

impl JsonWriter {
    fn digits(&mut self, digits: &str) {
        self.out.extend_from_slice(digits.as_bytes());
    }
}
