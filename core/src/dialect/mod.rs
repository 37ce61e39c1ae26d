//! The conventions by which other clients store values: what their client flags mean, and how they write what is in
//! their language. Pure: a binding makes its host's objects of what is read here.
//!
//! A dialect is chosen by the user and never guessed: the same flag is compression to one client and text to another.

mod assembly;
mod cursor;
mod notation;
mod packing;
mod parts;
mod perl;
mod php;
mod plain;
mod portable;
mod python;
mod ruby;
#[cfg(test)]
mod tests;
mod tree;
mod value;

use std::borrow::Cow;

pub use assembly::{assemble, Objects};
pub use notation::Notation;
pub use packing::{CompressionSettings, Dictionaries, Packing};
pub use parts::{Part, Reader, Unwritable, Writer, NOT_UTF8};
pub use plain::Plain;
pub use portable::{DateTime, Instant, JsonReader, JsonWriter, MessagePackReader, MessagePackWriter};
pub use tree::{TreeReader, TreeWriter};
pub use value::{unknown_flags, PlainSerializer, ValueError};

use crate::compression::{Algorithm, DecompressError, Decompressor};
use crate::error::kinds::ErrorKind;

/// Whose conventions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Pinyon,
    Pylibmc,
    PythonMemcached,
    Pymemcache,
    MetaMemcache,
    Libmc,
    Dalli,
    CacheMemcached,
    CacheMemcachedFast,
    PhpMemcached,
}

/// In what form a value stands in its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Bytes,
    /// UTF-8.
    Text,
    /// Decimal digits.
    Integer,
    /// Decimal, too.
    Float,
    /// "1" is true; "0", or nothing, is false.
    Bool,
    /// Python's pickle: to read it runs code that its writer chose.
    Pickle,
    Notation(Notation),
}

/// The kinds of values that a host language has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostType {
    Bytes,
    Text,
    Integer,
    Bool,
    Float,
    /// Null, lists, maps: plain data.
    Plain,
    /// Anything else.
    Object,
}

/// Pinyon's own mark of a compressed value, below which stand the flags of what is in it, and above it nothing. How it is
/// compressed, its first bytes tell. None of the clients that Pinyon knows uses this flag.
pub const COMPRESSED: u32 = 1 << 13;

/// The flags of values that Pinyon writes. Those of bytes, text and integers are what most clients have for them; no
/// other client that Pinyon knows gives a meaning to the rest.
pub const BYTES: u32 = 0;
pub const PICKLE: u32 = 1;
pub const INTEGER: u32 = 2;
/// Read as an integer, too: pylibmc writes it.
pub const INTEGER_OF_PYLIBMC: u32 = 4;
pub const TEXT: u32 = 16;
pub const MESSAGEPACK: u32 = 1 << 8;
pub const JSON: u32 = 1 << 9;

/// libmc's mark of a value in pieces.
const IN_PIECES: u32 = 1 << 12;

/// Of php-memcached.
const PHP_COMPRESSED: u32 = 16;
const PHP_ZLIB: u32 = 32;
const PHP_FASTLZ: u32 = 64;
const PHP_ZSTD: u32 = 128;
/// What users of php-memcached mean by these is theirs.
const PHP_USER: u32 = 0xffff_0000;

const META_ZLIB: u32 = 8;
const META_ZSTD: u32 = 32;
/// What a zstd frame begins with, and meta-memcache leaves out.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

impl Dialect {
    pub const ALL: [Dialect; 10] = [
        Dialect::Pinyon,
        Dialect::Pylibmc,
        Dialect::PythonMemcached,
        Dialect::Pymemcache,
        Dialect::MetaMemcache,
        Dialect::Libmc,
        Dialect::Dalli,
        Dialect::CacheMemcached,
        Dialect::CacheMemcachedFast,
        Dialect::PhpMemcached,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Dialect::Pinyon => "pinyon",
            Dialect::Pylibmc => "pylibmc",
            Dialect::PythonMemcached => "python-memcached",
            Dialect::Pymemcache => "pymemcache",
            Dialect::MetaMemcache => "meta-memcache",
            Dialect::Libmc => "libmc",
            Dialect::Dalli => "dalli",
            Dialect::CacheMemcached => "cache-memcached",
            Dialect::CacheMemcachedFast => "cache-memcached-fast",
            Dialect::PhpMemcached => "php-memcached",
        }
    }

    /// From the name users give it.
    pub fn named(name: &str) -> Result<Self, ValueError> {
        let found = Self::ALL.into_iter().find(|dialect| dialect.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(|dialect| format!("{:?}", dialect.name())).join(", ");
            ValueError::new(ErrorKind::UsageError, format!("there is no dialect {name:?}; there are {names}"))
        })
    }

    /// How it compresses values; the first is what it does when nothing else is asked for.
    pub fn algorithms(self) -> &'static [Algorithm] {
        match self {
            Dialect::Pinyon => &Algorithm::ALL,
            Dialect::MetaMemcache | Dialect::PhpMemcached => &[Algorithm::Zlib, Algorithm::Zstd],
            Dialect::Dalli => &[Algorithm::Zlib, Algorithm::Gzip],
            Dialect::CacheMemcached | Dialect::CacheMemcachedFast => &[Algorithm::Gzip],
            Dialect::Pylibmc | Dialect::PythonMemcached | Dialect::Pymemcache | Dialect::Libmc => &[Algorithm::Zlib],
        }
    }

    /// Whether a value of a subclass is written as one of its class, as a client does that asks `isinstance`.
    pub fn takes_subclasses(self) -> bool {
        matches!(self, Dialect::Pylibmc | Dialect::MetaMemcache)
    }

    /// The form in which such a value is written, and its client flags; none where the other client has no way to.
    pub fn write(self, kind: HostType) -> Option<(Form, u32)> {
        let pickled = Some((Form::Pickle, PICKLE));
        match (self, kind) {
            (Dialect::MetaMemcache, HostType::Bytes) => Some((Form::Bytes, 16)),
            (Dialect::MetaMemcache, HostType::Text) => Some((Form::Text, 0)),
            (Dialect::Dalli, HostType::Object) => None,
            (Dialect::Dalli, _) => Some((Form::Notation(Notation::Ruby), 1)),
            (_, HostType::Bytes) => Some((Form::Bytes, 0)),
            (Dialect::Libmc, HostType::Integer) => Some((Form::Integer, 4)),
            (Dialect::Libmc, HostType::Bool) => Some((Form::Bool, 8)),
            (Dialect::Libmc, HostType::Object) => pickled,
            (Dialect::Libmc, _) => Some((Form::Notation(Notation::Python), 32)),
            (Dialect::Pinyon, HostType::Plain | HostType::Float | HostType::Bool) => {
                Some((Form::Notation(Notation::MessagePack), MESSAGEPACK))
            }
            (Dialect::Pylibmc, HostType::Integer) => Some((Form::Integer, 4)),
            (Dialect::Pylibmc, HostType::Bool) => Some((Form::Bool, 2)),
            (
                Dialect::Pinyon
                | Dialect::Pylibmc
                | Dialect::PythonMemcached
                | Dialect::Pymemcache
                | Dialect::MetaMemcache,
                kind,
            ) => match kind {
                HostType::Text => Some((Form::Text, TEXT)),
                HostType::Integer => Some((Form::Integer, INTEGER)),
                _ => pickled,
            },
            (Dialect::PhpMemcached, kind) => match kind {
                HostType::Text => Some((Form::Text, 0)),
                HostType::Integer => Some((Form::Integer, 1)),
                HostType::Float => Some((Form::Float, 2)),
                HostType::Bool => Some((Form::Bool, 3)),
                HostType::Plain => Some((Form::Notation(Notation::Php), 4)),
                HostType::Bytes | HostType::Object => None,
            },
            (Dialect::CacheMemcached | Dialect::CacheMemcachedFast, kind) => match kind {
                HostType::Text if self == Dialect::CacheMemcachedFast => Some((Form::Text, 4)),
                HostType::Text => Some((Form::Text, 0)),
                HostType::Integer => Some((Form::Integer, 0)),
                HostType::Float => Some((Form::Float, 0)),
                HostType::Plain => Some((Form::Notation(Notation::Perl), 1)),
                HostType::Bool | HostType::Bytes | HostType::Object => None,
            },
        }
    }

    /// In what form a value with these flags is stored, once it is [decompressed](Self::decompress).
    pub fn read(self, flags: u32) -> Result<Form, &'static str> {
        const UNKNOWN: &str = "which that client does not write";
        let form = match (self, flags & !self.compressed()) {
            (Dialect::MetaMemcache, 0) => Form::Text,
            (Dialect::MetaMemcache, 16) | (_, 0) => Form::Bytes,
            (Dialect::Libmc, 8) => Form::Bool,
            (Dialect::Libmc, 32) => Form::Notation(Notation::Python),
            (Dialect::Libmc, flags) if flags & IN_PIECES != 0 => {
                return Err("which marks a value that libmc has cut into pieces under keys of their own; Pinyon does \
                            not put them together: store it with do_split=False")
            }
            (Dialect::Dalli, 1) => Form::Notation(Notation::Ruby),
            (Dialect::Dalli | Dialect::CacheMemcachedFast, 4) => Form::Text,
            (Dialect::CacheMemcached | Dialect::CacheMemcachedFast, 1) => Form::Notation(Notation::Perl),
            (Dialect::Dalli | Dialect::CacheMemcached | Dialect::CacheMemcachedFast, _) => return Err(UNKNOWN),
            (Dialect::PhpMemcached, flags) => match flags {
                1 => Form::Integer,
                2 => Form::Float,
                3 => Form::Bool,
                4 => Form::Notation(Notation::Php),
                5 => {
                    return Err(
                        "which marks igbinary, which Pinyon does not read: let PHP use Memcached::SERIALIZER_PHP, \
                                 _JSON or _MSGPACK",
                    )
                }
                6 => Form::Notation(Notation::Json),
                7 => Form::Notation(Notation::MessagePack),
                _ => return Err(UNKNOWN),
            },
            (Dialect::Pinyon, MESSAGEPACK) => Form::Notation(Notation::MessagePack),
            (Dialect::Pinyon, JSON) => Form::Notation(Notation::Json),
            (_, PICKLE) => Form::Pickle,
            (_, INTEGER | INTEGER_OF_PYLIBMC) => Form::Integer,
            (Dialect::Pinyon | Dialect::Pylibmc | Dialect::PythonMemcached | Dialect::Pymemcache, TEXT) => Form::Text,
            _ => return Err(UNKNOWN),
        };
        Ok(form)
    }

    /// The flags that say that a value is compressed, or how, or that are no business of Pinyon's.
    fn compressed(self) -> u32 {
        match self {
            Dialect::Pinyon => COMPRESSED,
            Dialect::Pylibmc | Dialect::PythonMemcached | Dialect::Pymemcache => 8,
            Dialect::MetaMemcache => META_ZLIB | META_ZSTD,
            Dialect::Libmc => 16,
            Dialect::Dalli | Dialect::CacheMemcached | Dialect::CacheMemcachedFast => 2,
            Dialect::PhpMemcached => PHP_COMPRESSED | PHP_ZLIB | PHP_FASTLZ | PHP_ZSTD | PHP_USER,
        }
    }

    pub fn is_compressed(self, flags: u32) -> bool {
        match self {
            Dialect::Pinyon => flags & !(COMPRESSED - 1) == COMPRESSED,
            Dialect::PhpMemcached => flags & PHP_COMPRESSED != 0,
            _ => flags & self.compressed() != 0,
        }
    }

    /// The flags of what is in a compressed value.
    pub fn inside(self, flags: u32) -> u32 {
        flags & !self.compressed()
    }

    /// Numbers are not compressed: servers calculate with them.
    pub fn may_be_compressed(self, flags: u32) -> bool {
        let is_number = |form| matches!(form, Form::Integer | Form::Float | Form::Bool);
        !self.read(flags).is_ok_and(is_number)
    }

    /// What is stored of a value of `length` bytes that has been compressed, and its flags.
    pub fn mark_compressed(
        self,
        algorithm: Algorithm,
        length: usize,
        compressed: Vec<u8>,
        flags: u32,
    ) -> (Vec<u8>, u32) {
        match (self, algorithm) {
            (Dialect::MetaMemcache, Algorithm::Zstd) => (compressed[ZSTD_MAGIC.len()..].to_vec(), flags | META_ZSTD),
            (Dialect::MetaMemcache, _) => (compressed, flags | META_ZLIB),
            (Dialect::PhpMemcached, algorithm) => {
                let kind = if algorithm == Algorithm::Zstd { PHP_ZSTD } else { PHP_ZLIB };
                let stored = [&(length as u32).to_ne_bytes()[..], &compressed].concat();
                (stored, flags | PHP_COMPRESSED | kind)
            }
            _ => (compressed, flags | self.compressed()),
        }
    }

    /// A compressed value as it was. How it is compressed, its first bytes tell.
    pub fn decompress(self, flags: u32, stored: &[u8], by: &Decompressor) -> Result<Vec<u8>, DecompressError> {
        let compressed: Cow<'_, [u8]> = match self {
            Dialect::MetaMemcache if flags & META_ZSTD != 0 => [&ZSTD_MAGIC[..], stored].concat().into(),
            Dialect::PhpMemcached if flags & PHP_FASTLZ != 0 => {
                return Err(DecompressError::Corrupt(
                    "fastlz, which Pinyon does not read: let PHP use Memcached::COMPRESSION_ZLIB or _ZSTD".to_owned(),
                ))
            }
            Dialect::PhpMemcached => stored.get(4..).ok_or(DecompressError::Truncated)?.into(),
            _ => stored.into(),
        };
        by.decompress(&compressed)
    }
}
