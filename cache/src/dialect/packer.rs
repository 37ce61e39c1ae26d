//! Decides which values to compress, and which compressed values to read.

use std::num::NonZeroU32;

use super::{Dialect, ValueError, COMPRESSED};
use crate::compression::{dictionary_id, Algorithm, Compressor, Decompressor, Settings};
use pinyon_net::error::kinds::ErrorKind;

/// A client's compression.
#[derive(Debug)]
pub struct Packing {
    dialect: Dialect,
    /// `None` if nothing is compressed.
    compressor: Option<Compressor>,
    decompressor: Decompressor,
    is_set: bool,
}

/// The user's settings of compression.
#[derive(Clone, Debug)]
pub struct CompressionSettings {
    /// Without a name, the dialect's default.
    pub algorithm: Option<String>,
    /// Values of so many bytes or more are compressed; `None` to compress nothing.
    pub threshold: Option<i64>,
    /// The share of its size that a value must lose, from 0 to less than 1.
    pub minimum_gain: f64,
    pub level: Option<i64>,
    pub dictionaries: Dictionaries,
}

/// Dictionaries from `zstd --train`, with their ids. Values are written with the last one.
#[derive(Clone, Debug, Default)]
pub struct Dictionaries(pub Vec<(u32, Vec<u8>)>);

impl Default for CompressionSettings {
    fn default() -> Self {
        let dictionaries = Dictionaries::default();
        Self { algorithm: None, threshold: Some(1024), minimum_gain: 0.1, level: None, dictionaries }
    }
}

impl CompressionSettings {
    /// Checks what is wrong in every dialect.
    pub fn check(&self) -> Result<(), ValueError> {
        self.threshold().map(drop).map_err(refuse)
    }

    fn threshold(&self) -> Result<Option<usize>, String> {
        let size =
            |threshold: i64| threshold.try_into().map_err(|_| format!("threshold is 0 or more, not {threshold}"));
        self.threshold.map(size).transpose()
    }
}

impl Dictionaries {
    /// The id in a dictionary; 0 if it has none, which is refused later.
    pub(crate) fn id_of(dictionary: &[u8]) -> u32 {
        dictionary_id(dictionary).map_or(0, NonZeroU32::get)
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = (u32, &[u8])> {
        self.0.iter().map(|(id, bytes)| (*id, bytes.as_slice()))
    }
}

impl Packing {
    /// `wanted`: `None` if the user has set nothing. `limit`: the most bytes of a decompressed value.
    pub fn new(dialect: Dialect, wanted: Option<&CompressionSettings>, limit: usize) -> Result<Self, ValueError> {
        let dictionaries = wanted.into_iter().flat_map(|wanted| wanted.dictionaries.iter());
        let decompressor = Decompressor::new(limit, dictionaries).map_err(refuse)?;
        let is_set = wanted.is_some();
        let compressor = match wanted {
            Some(wanted) => compressor(dialect, wanted).map_err(refuse)?,
            None => None,
        };
        Ok(Self { dialect, compressor, decompressor, is_set })
    }

    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The most bytes of a decompressed value.
    pub fn limit(&self) -> usize {
        self.decompressor.limit()
    }

    /// Whether it compresses values.
    pub fn compresses(&self) -> bool {
        self.compressor.is_some()
    }

    /// Whether the user has set anything about compression.
    pub fn is_set(&self) -> bool {
        self.is_set
    }

    /// Refuses an append if values may be compressed. It would corrupt a compressed value, and the client cannot know
    /// whether the stored one is compressed.
    pub fn check_append(&self) -> Result<(), ValueError> {
        if self.compressor.is_none() {
            return Ok(());
        }
        let message = "append and prepend would spoil a value that is stored compressed; use a \
                       client without compression for the values that are appended to";
        Err(ValueError::new(ErrorKind::UsageError, message))
    }

    /// The bytes and flags to store for a value; `None` if it is better stored uncompressed.
    pub fn pack(&self, bytes: &[u8], flags: u32) -> Result<Option<(Vec<u8>, u32)>, ValueError> {
        let Some(compressor) = &self.compressor else { return Ok(None) };
        if !self.dialect.may_be_compressed(flags) {
            return Ok(None);
        }
        if self.dialect == Dialect::Pinyon && flags >= COMPRESSED {
            let message = format!("with compression, a serializer's flags are below {COMPRESSED}, not {flags}");
            return Err(ValueError::new(ErrorKind::UnsupportedType, message));
        }
        let (length, limit) = (bytes.len(), self.limit());
        if length > limit {
            let message = format!(
                "the value has {length} bytes before it is compressed, more than the client reads \
                 (max_decompressed_size, {limit}); nothing was stored"
            );
            return Err(ValueError::new(ErrorKind::ValueTooLarge, message));
        }
        let compressed = compressor.compress(bytes).map_err(|why| {
            let message = format!("the value cannot be compressed, and nothing was stored: {why}");
            ValueError::new(ErrorKind::UnsupportedType, message)
        })?;
        let algorithm = compressor.algorithm();
        Ok(compressed.map(|compressed| self.dialect.mark_compressed(algorithm, length, compressed, flags)))
    }

    /// Decompresses a value. Its flags are then those of [`Dialect::inside`].
    pub fn unpack(&self, flags: u32, stored: &[u8]) -> Result<Vec<u8>, ValueError> {
        self.dialect.decompress(flags, stored, &self.decompressor).map_err(|why| {
            ValueError::new(ErrorKind::UndecodableValue, format!("the stored value cannot be read: {why}"))
        })
    }
}

fn refuse(why: String) -> ValueError {
    ValueError::new(ErrorKind::UsageError, format!("compression: {why}"))
}

fn compressor(dialect: Dialect, wanted: &CompressionSettings) -> Result<Option<Compressor>, String> {
    let (algorithm, threshold) = (algorithm(dialect, wanted.algorithm.as_deref())?, wanted.threshold()?);
    let CompressionSettings { level, minimum_gain, .. } = *wanted;
    let settings = Settings { algorithm, level, threshold: threshold.unwrap_or_default(), minimum_gain };
    let newest = wanted.dictionaries.iter().next_back().map(|(_, bytes)| bytes);
    let compressor = Compressor::new(settings, newest.filter(|_| threshold.is_some()))?;
    Ok(threshold.map(|_| compressor))
}

fn algorithm(dialect: Dialect, name: Option<&str>) -> Result<Algorithm, String> {
    let offered = dialect.algorithms();
    let Some(name) = name else { return Ok(offered[0]) };
    let algorithm = Algorithm::named(name).ok_or_else(|| {
        let known = Algorithm::ALL.map(|algorithm| format!("{:?}", algorithm.name())).join(", ");
        format!("there is no {name:?}; there are {known}")
    })?;
    if !offered.contains(&algorithm) {
        let offered: Vec<_> = offered.iter().map(|algorithm| algorithm.name()).collect();
        let (dialect, offered) = (dialect.name(), offered.join(" and "));
        return Err(format!("the dialect {dialect:?} knows {offered} alone, not {name}"));
    }
    Ok(algorithm)
}
