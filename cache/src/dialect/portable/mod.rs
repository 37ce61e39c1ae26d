//! The notations that Pinyon itself writes for plain data, in every language: MessagePack and JSON.
//!
//! No library does this. The stored bytes must be the same in every language, but a MessagePack library writes through
//! streams and builds its own tree. JSON libraries support neither integers of any size nor floats that are not
//! numbers.
//!
//! `vectors/portable.json` has the stored bytes, also of date-times. A value is written up to 200 levels deep and read
//! up to 1024. Every part takes at least a byte, so a short value cannot ask for much memory.

mod decimal;
mod json_reader;
mod json_writer;
mod messagepack_reader;
mod messagepack_writer;
#[cfg(test)]
mod tests;

pub(super) use decimal::{digits, float, integer};
pub use json_reader::JsonReader;
pub use json_writer::JsonWriter;
pub use messagepack_reader::MessagePackReader;
pub use messagepack_writer::MessagePackWriter;

/// The deepest nesting that is written. It also stops values that contain themselves.
const WRITTEN_DEPTH: usize = 200;
/// The deepest nesting that is read, from any writer.
const READ_DEPTH: usize = 1024;

/// MessagePack's own extension for an instant.
const INSTANT: i8 = -1;
/// Pinyon's extension for a date-time without a time zone, in ISO 8601.
const DATE_TIME: i8 = 1;
