//! The notations for structured values: those of single languages, and those that all languages have.

use super::portable::{JsonReader, JsonWriter, MessagePackReader, MessagePackWriter};
use super::{assemble, perl, php, python, ruby, tree, Objects, Plain, TreeReader};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// Marshal.
    Ruby,
    /// Storable.
    Perl,
    /// What `serialize` writes.
    Php,
    /// marshal.
    Python,
    MessagePack,
    Json,
}

impl Notation {
    /// Reads data in this notation. The error says what is malformed, or which class an object belongs to. Nesting and
    /// the total size are limited.
    pub fn read(self, bytes: &[u8]) -> Result<Plain, String> {
        match self {
            Notation::Ruby => ruby::read(bytes),
            Notation::Perl => perl::read(bytes),
            Notation::Php => php::read(bytes),
            Notation::Python => python::read(bytes),
            Notation::MessagePack => tree::read(MessagePackReader::new(bytes)),
            Notation::Json => tree::read(JsonReader::new(bytes)),
        }
    }

    /// Reads data into a host's object. The error is as for [`Self::read`], or the host's.
    pub fn assemble<O: Objects>(self, bytes: &[u8], objects: &mut O) -> Result<O::Object, O::Error> {
        match self {
            Notation::MessagePack => assemble(MessagePackReader::new(bytes), objects),
            Notation::Json => assemble(JsonReader::new(bytes), objects),
            _ => assemble(TreeReader::new(&self.read(bytes)?), objects),
        }
    }

    /// Writes data in this notation. The error names what the notation cannot express. The nesting is limited to what
    /// can be read.
    pub fn write(self, value: &Plain) -> Result<Vec<u8>, String> {
        let refused = |what| format!("{} has no counterpart to {what}", self.name());
        match self {
            Notation::Ruby => ruby::write(value),
            Notation::Perl => perl::write(value),
            Notation::Php => php::write(value),
            Notation::Python => python::write(value),
            Notation::MessagePack => tree::write(value, MessagePackWriter::default()).map_err(refused),
            Notation::Json => tree::write(value, JsonWriter::default()).map_err(refused),
        }
    }

    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            Notation::Ruby => "Ruby's Marshal",
            Notation::Perl => "Perl's Storable",
            Notation::Php => "PHP's serialize",
            Notation::Python => "Python's marshal",
            Notation::MessagePack => "MessagePack",
            Notation::Json => "JSON",
        }
    }
}
