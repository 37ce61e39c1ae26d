//! Values compressed on their way out and decompressed on their way in; large ones with the GIL given up.

use std::collections::BTreeMap;

use pinyon_core::compression::{Algorithm, Compressor, Decompressor, Settings};
use pinyon_core::dialect::{Dialect, COMPRESSED};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::errors::usage;
use crate::values::Encoded;

/// Values from so many bytes on are worth giving up the GIL for.
const LARGE: usize = 16 * 1024;

/// How a client compresses, and what compressed values it reads.
pub(crate) struct Packing {
    pub(crate) dialect: Dialect,
    /// None where nothing is written compressed.
    pub(crate) compressor: Option<Compressor>,
    decompressor: Decompressor,
    /// The user has said something about compression.
    pub(crate) is_set: bool,
}

/// A `pinyon.Compression`.
#[derive(FromPyObject)]
struct Given {
    algorithm: Option<String>,
    threshold: Option<usize>,
    minimum_gain: f64,
    level: Option<i32>,
    dictionaries: Vec<(u32, PyBackedBytes)>,
}

impl Packing {
    /// `limit`: how many bytes a value may have once it is decompressed.
    pub(crate) fn new(
        py: Python<'_>,
        dialect: Dialect,
        compression: Option<&Bound<'_, PyAny>>,
        limit: usize,
    ) -> PyResult<Self> {
        let refuse = |why: String| usage(py, "UsageError", &why);
        let given: Option<Given> = compression.map(|compression| compression.extract()).transpose()?;
        let dictionaries = given.iter().flat_map(|given| given.dictionaries.iter().map(|(id, bytes)| (*id, &**bytes)));
        let decompressor =
            Decompressor::new(limit, dictionaries.collect::<BTreeMap<_, _>>()).map_err(|why| refuse(of_it(why)))?;
        let is_set = given.is_some();
        let compressor = given.map(|given| compressor(dialect, given)).transpose().map_err(|why| refuse(of_it(why)))?;
        Ok(Self { dialect, compressor: compressor.flatten(), decompressor, is_set })
    }

    /// The value compressed, where that is worth it.
    pub(crate) fn pack<'v>(
        &self,
        py: Python<'_>,
        compressor: &Compressor,
        encoded: Encoded<'v>,
        flags: u32,
    ) -> PyResult<(Encoded<'v>, u32)> {
        if !self.dialect.may_be_compressed(flags) {
            return Ok((encoded, flags));
        }
        if self.dialect == Dialect::Pinyon && flags >= COMPRESSED {
            let message = format!("with compression, a serializer's flags are below {COMPRESSED}, not {flags}");
            return Err(usage(py, "UnsupportedType", &message));
        }
        let bytes = encoded.bytes()?;
        let (length, limit) = (bytes.len(), self.decompressor.limit());
        if length > limit {
            let message = format!(
                "the value has {length} bytes before it is compressed, more than the client reads \
                 (max_decompressed_size, {limit}); nothing was stored"
            );
            return Err(usage(py, "ValueTooLarge", &message));
        }
        let compressed = unlocked(py, length, || compressor.compress(bytes)).map_err(|why| {
            usage(py, "UnsupportedType", &format!("the value cannot be compressed, and nothing was stored: {why}"))
        })?;
        let Some(compressed) = compressed else { return Ok((encoded, flags)) };
        let (stored, flags) = self.dialect.mark_compressed(compressor.algorithm(), length, compressed, flags);
        Ok((Encoded::Owned(stored), flags))
    }

    pub(crate) fn unpack(&self, py: Python<'_>, flags: u32, stored: &[u8]) -> PyResult<Vec<u8>> {
        unlocked(py, stored.len(), || self.dialect.decompress(flags, stored, &self.decompressor))
            .map_err(|why| usage(py, "UndecodableValue", &format!("the stored value cannot be read: {why}")))
    }
}

fn unlocked<T: Send>(py: Python<'_>, length: usize, work: impl FnOnce() -> T + Send) -> T {
    match length < LARGE {
        true => work(),
        false => py.detach(work),
    }
}

fn compressor(dialect: Dialect, given: Given) -> Result<Option<Compressor>, String> {
    let offered = dialect.algorithms();
    let algorithm = match given.algorithm.as_deref() {
        None => offered[0],
        Some(name) => {
            let known = || Algorithm::ALL.map(|algorithm| format!("{:?}", algorithm.name())).join(", ");
            Algorithm::named(name).ok_or_else(|| format!("there is no {name:?}; there are {}", known()))?
        }
    };
    if !offered.contains(&algorithm) {
        let offered: Vec<_> = offered.iter().map(|algorithm| algorithm.name()).collect();
        return Err(format!(
            "the dialect {:?} knows {} alone, not {}",
            dialect.name(),
            offered.join(" and "),
            algorithm.name()
        ));
    }
    let Given { threshold, minimum_gain, level, dictionaries, .. } = given;
    let settings = Settings { algorithm, level, threshold: threshold.unwrap_or_default(), minimum_gain };
    let newest = dictionaries.last().map(|(_, bytes)| &**bytes);
    let compressor = Compressor::new(settings, newest.filter(|_| threshold.is_some()))?;
    Ok(threshold.map(|_| compressor))
}

fn of_it(why: String) -> String {
    format!("compression: {why}")
}
