//! The conventions of other clients: the meaning of their client flags, and the notation of their languages. Nothing
//! here does I/O; a binding turns the results into its host's objects.
//!
//! The user chooses a dialect. It is never guessed: the same flag means compression to one client and text to another.
//!
//! Tables say which flags mean which form, and which flags mark a compressed value. A host in Rust encodes and decodes
//! whole values by them. Every host takes its error texts from `value.rs`. The tests compare each dialect with the
//! client itself, on a real server, and write `docs/compatibility-values.md` and `vectors/values.json`.

mod assembly;
mod cursor;
mod date_time;
mod notation;
mod packer;
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
pub use date_time::{DateTime, Instant};
pub use notation::Notation;
pub use packer::{CompressionSettings, Dictionaries, Packing};
pub use parts::{Part, Reader, Unwritable, Writer, NOT_UTF8};
pub use plain::Plain;
pub use portable::{JsonReader, JsonWriter, MessagePackReader, MessagePackWriter};
pub use tree::{TreeReader, TreeWriter};
pub use value::{unknown_flags, PlainSerializer, ValueError};

use crate::compression::{Algorithm, DecompressError, Decompressor};
use pinyon_net::error::kinds::ErrorKind;

/// The conventions of one client.
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

/// The form of a value in its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Bytes,
    /// UTF-8.
    Text,
    /// Decimal digits.
    Integer,
    /// Decimal digits with a fraction.
    Float,
    /// "1" is true; "0" and no bytes at all are false.
    Bool,
    /// Python's pickle. Reading it runs code that its writer chose.
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
    /// Plain data: null, lists, maps.
    Plain,
    /// Anything else.
    Object,
}

/// Pinyon's own flag for a compressed value. The bits below it are the flags of the decompressed value, and the bits
/// above are
/// 0. The value's first bytes tell the algorithm. No other client that Pinyon knows uses this flag.
pub const COMPRESSED: u32 = 1 << 13;

/// The flags that Pinyon writes. Those for bytes, text and integers are what most clients use. No other client that
/// Pinyon knows gives the rest a meaning.
pub const BYTES: u32 = 0;
pub const PICKLE: u32 = 1;
pub const INTEGER: u32 = 2;
/// Also read as an integer: pylibmc writes it.
pub const INTEGER_OF_PYLIBMC: u32 = 4;
pub const TEXT: u32 = 16;
pub const MESSAGEPACK: u32 = 1 << 8;
pub const JSON: u32 = 1 << 9;
/// Ruby's Marshal. Reading it runs code that its writer chose, so only Ruby reads it, if told to.
pub const RUBY_MARSHAL: u32 = 1 << 10;

/// libmc's flag for a value split into pieces.
const IN_PIECES: u32 = 1 << 12;

/// php-memcached's flag for a compressed value.
const PHP_COMPRESSED: u32 = 16;
const PHP_ZLIB: u32 = 32;
const PHP_FASTLZ: u32 = 64;
const PHP_ZSTD: u32 = 128;
/// The bits that users of php-memcached may set themselves.
const PHP_USER: u32 = 0xffff_0000;

const META_ZLIB: u32 = 8;
const META_ZSTD: u32 = 32;
/// The first bytes of a zstd frame, which meta-memcache omits.
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

    /// The dialect with this name in the settings.
    pub fn named(name: &str) -> Result<Self, ValueError> {
        let found = Self::ALL.into_iter().find(|dialect| dialect.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(|dialect| format!("{:?}", dialect.name())).join(", ");
            ValueError::new(ErrorKind::UsageError, format!("there is no dialect {name:?}; there are {names}"))
        })
    }

    /// The algorithms that its client uses. The first one is the default.
    pub fn algorithms(self) -> &'static [Algorithm] {
        match self {
            Dialect::Pinyon => &Algorithm::ALL,
            Dialect::MetaMemcache | Dialect::PhpMemcached => &[Algorithm::Zlib, Algorithm::Zstd],
            Dialect::Dalli => &[Algorithm::Zlib, Algorithm::Gzip],
            Dialect::CacheMemcached | Dialect::CacheMemcachedFast => &[Algorithm::Gzip],
            Dialect::Pylibmc | Dialect::PythonMemcached | Dialect::Pymemcache | Dialect::Libmc => &[Algorithm::Zlib],
        }
    }

    /// Whether it writes a value of a subclass like one of the class, as a client does that uses `isinstance`.
    pub fn takes_subclasses(self) -> bool {
        matches!(self, Dialect::Pylibmc | Dialect::MetaMemcache)
    }

    /// How it writes such a value, and the client flags; `None` if the other client cannot.
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

    /// The form of a value with these flags, after it was [decompressed](Self::decompress).
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

    /// The flags for compression, and those that Pinyon ignores.
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

    /// The flags of the decompressed value.
    pub fn inside(self, flags: u32) -> u32 {
        flags & !self.compressed()
    }

    /// Numbers are not compressed: servers calculate with them.
    pub fn may_be_compressed(self, flags: u32) -> bool {
        let is_number = |form| matches!(form, Form::Integer | Form::Float | Form::Bool);
        !self.read(flags).is_ok_and(is_number)
    }

    /// The bytes and flags to store for a compressed value. `length`: its size before compression.
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

    /// Decompresses a value. Its first bytes tell the algorithm.
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
