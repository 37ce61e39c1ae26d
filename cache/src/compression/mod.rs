//! Compression of values. Whatever is stored, decompressing a value takes no more memory than its reader allows.
//!
//! A reader grows its memory step by step up to the limit, and never trusts what a value says of its own size. Missing
//! or additional bytes at the end of a compressed value are an error.
//!
//! zlib and gzip come from flate2 on zlib-rs, which is pure Rust. zstd comes from zstd-safe, which builds zstd's own
//! C: TLS needs a C compiler already, and zstd in Rust compresses worse.

mod deflate;
mod zstd;

use std::collections::BTreeMap;
use std::sync::Arc;

/// The id in a dictionary that `zstd --train` made.
pub(crate) use zstd_safe::get_dict_id_from_dict as dictionary_id;

/// A compression algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Zstd,
    Zlib,
    Gzip,
}

impl Algorithm {
    pub const ALL: [Algorithm; 3] = [Algorithm::Zstd, Algorithm::Zlib, Algorithm::Gzip];

    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Zstd => "zstd",
            Algorithm::Zlib => "zlib",
            Algorithm::Gzip => "gzip",
        }
    }

    /// The algorithm with this name in the settings.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// The algorithm that these first bytes belong to.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Algorithm::Zstd),
            [0x1f, 0x8b, ..] => Some(Algorithm::Gzip),
            [method, check, ..] if method & 0x8f == 0x08 && (u16::from(*method) << 8 | u16::from(*check)) % 31 == 0 => {
                Some(Algorithm::Zlib)
            }
            _ => None,
        }
    }

    /// Its levels, from fast to small, and the default level.
    fn levels(self) -> (std::ops::RangeInclusive<i32>, i32) {
        match self {
            Algorithm::Zstd => (1..=zstd::MOST, zstd::USUAL),
            Algorithm::Zlib | Algorithm::Gzip => (1..=9, 6),
        }
    }
}

/// Which values to compress, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    pub algorithm: Algorithm,
    /// The algorithm's level, from fast to small; `None` for its default.
    pub level: Option<i64>,
    /// Shorter values are stored uncompressed.
    pub threshold: usize,
    /// The share of its size, from 0 to 1, that a value must lose. Otherwise it is stored uncompressed.
    pub minimum_gain: f64,
}

/// Compresses values.
#[derive(Debug)]
pub struct Compressor {
    settings: Settings,
    level: i32,
    dictionary: Option<zstd::Writer>,
}

impl Compressor {
    /// `dictionary`: the one for compressing with zstd.
    pub fn new(settings: Settings, dictionary: Option<&[u8]>) -> Result<Self, String> {
        let (levels, usual) = settings.algorithm.levels();
        let (level, name) = (settings.level.unwrap_or(usual.into()), settings.algorithm.name());
        let known = i32::try_from(level).ok().filter(|level| levels.contains(level));
        let level =
            known.ok_or_else(|| format!("{name} has levels {} to {}, not {level}", levels.start(), levels.end()))?;
        if !(0.0..1.0).contains(&settings.minimum_gain) {
            return Err(format!("minimum_gain must be at least 0 and less than 1, not {}", settings.minimum_gain));
        }
        if dictionary.is_some() && settings.algorithm != Algorithm::Zstd {
            return Err(format!("dictionaries are zstd's; {name} has none"));
        }
        let dictionary = dictionary.map(|bytes| zstd::Writer::new(bytes, level)).transpose()?;
        Ok(Self { settings, level, dictionary })
    }

    pub fn algorithm(&self) -> Algorithm {
        self.settings.algorithm
    }

    /// The compressed value, or `None` if it is better stored uncompressed.
    pub fn compress(&self, bytes: &[u8]) -> Result<Option<Vec<u8>>, String> {
        if bytes.len() < self.settings.threshold {
            return Ok(None);
        }
        let compressed = match self.settings.algorithm {
            Algorithm::Zstd => zstd::compress(bytes, self.level, self.dictionary.as_ref())?,
            Algorithm::Zlib => deflate::zlib(bytes, self.level)?,
            Algorithm::Gzip => deflate::gzip(bytes, self.level)?,
        };
        let enough = bytes.len() as f64 * (1.0 - self.settings.minimum_gain);
        Ok((compressed.len() < bytes.len() && compressed.len() as f64 <= enough).then_some(compressed))
    }
}

/// Decompresses values from any client.
#[derive(Clone, Debug)]
pub struct Decompressor {
    limit: usize,
    dictionaries: Arc<BTreeMap<u32, zstd::Reader>>,
}

impl Decompressor {
    /// `limit`: the most bytes of a decompressed value. `dictionaries`: those that zstd may need.
    pub fn new<'d>(limit: usize, dictionaries: impl IntoIterator<Item = (u32, &'d [u8])>) -> Result<Self, String> {
        let mut readers = BTreeMap::new();
        for (id, bytes) in dictionaries {
            readers.insert(id, zstd::Reader::new(id, bytes)?);
        }
        Ok(Self { limit, dictionaries: Arc::new(readers) })
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Decompresses a value. Its first bytes tell the algorithm.
    pub fn decompress(&self, bytes: &[u8]) -> Result<Vec<u8>, DecompressError> {
        match Algorithm::of(bytes) {
            Some(algorithm) => self.decompress_as(algorithm, bytes),
            None => Err(DecompressError::Unrecognized),
        }
    }

    pub fn decompress_as(&self, algorithm: Algorithm, bytes: &[u8]) -> Result<Vec<u8>, DecompressError> {
        match algorithm {
            Algorithm::Zstd => zstd::decompress(bytes, self.limit, &self.dictionaries),
            Algorithm::Zlib => deflate::inflate_zlib(bytes, self.limit),
            Algorithm::Gzip => deflate::inflate_gzip(bytes, self.limit),
        }
    }
}

/// Why a value cannot be decompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecompressError {
    /// Its first bytes belong to no known algorithm.
    Unrecognized,
    Truncated,
    Corrupt(String),
    /// Its size exceeds the limit.
    TooLarge {
        limit: usize,
    },
    /// The dictionary with this id was not given.
    Dictionary(u32),
    /// There are bytes after the compressed value, as after an append.
    Trailing,
}

impl std::fmt::Display for DecompressError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DecompressError::Unrecognized => f.write_str(
                "it is marked as compressed and does not begin as zstd, zlib or gzip do; was something prepended to it? \
                 Store it anew",
            ),
            DecompressError::Truncated => f.write_str("it is compressed, and its end is missing; store it again"),
            DecompressError::Corrupt(why) => write!(f, "it is compressed and corrupt ({why}); store it again"),
            DecompressError::TooLarge { limit } => write!(
                f,
                "decompressed it has more than the {limit} bytes that are allowed; raise max_decompressed_size if its \
                 writer is to be trusted"
            ),
            DecompressError::Dictionary(id) => write!(
                f,
                "it is compressed with the zstd dictionary {id}, which the client was not given; add it to the \
                 dictionaries of the setting compression"
            ),
            DecompressError::Trailing => f.write_str(
                "bytes stand behind the compressed value, as after an append to it; store it again, uncompressed where \
                 it is to be appended to",
            ),
        }
    }
}

impl std::error::Error for DecompressError {}

/// Makes room for more of a value in a full `out`. Fails if the value has reached its limit.
fn grow(out: &mut Vec<u8>, limit: usize) -> Result<(), DecompressError> {
    if out.len() > limit {
        return Err(DecompressError::TooLarge { limit });
    }
    out.reserve_exact(out.len().max(512).min(limit + 1 - out.len()));
    Ok(())
}

/// The first memory for a value of unknown length.
fn beginning(compressed: usize, limit: usize) -> Vec<u8> {
    Vec::with_capacity(compressed.saturating_mul(4).min(limit) + 1)
}

#[cfg(test)]
mod tests;
