//! How languages write down data of their own.

use super::{perl, php, python, ruby, Plain};

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
        }
    }

    /// The data in this notation; an error names what the language has no counterpart to. The data is not nested deeper
    /// than what is read may be.
    pub fn write(self, value: &Plain) -> Result<Vec<u8>, String> {
        match self {
            Notation::Ruby => ruby::write(value),
            Notation::Perl => perl::write(value),
            Notation::Php => php::write(value),
            Notation::Python => python::write(value),
        }
    }

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Notation::Ruby => "Ruby's Marshal",
            Notation::Perl => "Perl's Storable",
            Notation::Php => "PHP's serialize",
            Notation::Python => "Python's marshal",
        }
    }
}
