//! How values with an inside are written down: the notations of single languages, and those that all have.

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
    /// The data in it. An error says what is wrong: what is malformed, or which class there is an object of. Nesting, and
    /// what is read in all, is bounded.
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

    /// The data in it, as a host's object; the error is as for [`Self::read`], or the host's.
    pub fn assemble<O: Objects>(self, bytes: &[u8], objects: &mut O) -> Result<O::Object, O::Error> {
        match self {
            Notation::MessagePack => assemble(MessagePackReader::new(bytes), objects),
            Notation::Json => assemble(JsonReader::new(bytes), objects),
            _ => assemble(TreeReader::new(&self.read(bytes)?), objects),
        }
    }

    /// The data in this notation; an error names what the language has no counterpart to. The data is not nested deeper
    /// than what is read may be.
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

    /// What people call it.
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
