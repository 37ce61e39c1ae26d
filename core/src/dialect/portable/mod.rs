//! The forms in which Pinyon itself writes plain data, for every language: MessagePack and JSON.
//!
//! Both are read and written here rather than by a library. What is stored must be the same to the byte in every
//! language; a library of MessagePack writes through streams and builds its own tree, and those of JSON know neither
//! integers of any size nor floats that are no numbers.

mod date_time;
mod decimal;
mod json_reader;
mod json_writer;
mod messagepack_reader;
mod messagepack_writer;
#[cfg(test)]
mod tests;

pub use date_time::{DateTime, Instant};
pub(super) use decimal::{digits, float, integer};
pub use json_reader::JsonReader;
pub use json_writer::JsonWriter;
pub use messagepack_reader::MessagePackReader;
pub use messagepack_writer::MessagePackWriter;

/// What is nested deeper is not written, nor what contains itself.
const WRITTEN_DEPTH: usize = 200;
/// What is nested deeper is not read, whoever wrote it.
const READ_DEPTH: usize = 1024;

/// MessagePack's own extension: an instant.
const INSTANT: i8 = -1;
/// Pinyon's extension: a date-time without a zone, in ISO 8601.
const DATE_TIME: i8 = 1;
