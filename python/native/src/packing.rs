//! Values compressed on their way out and decompressed on their way in; large ones with the GIL given up.

use pinyon_core::dialect::{Dialect, Packing, Wanted};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::encoded::Encoded;
use crate::errors::of_value;

/// Values from so many bytes on are worth giving up the GIL for.
const LARGE: usize = 16 * 1024;

/// A `pinyon.Compression`.
#[derive(FromPyObject)]
struct Given {
    algorithm: Option<String>,
    threshold: Option<usize>,
    minimum_gain: f64,
    level: Option<i32>,
    dictionaries: Vec<(u32, PyBackedBytes)>,
}

/// `limit`: how many bytes a value may have once it is decompressed.
pub(crate) fn packing(
    py: Python<'_>,
    dialect: Dialect,
    compression: Option<&Bound<'_, PyAny>>,
    limit: usize,
) -> PyResult<Packing> {
    let given: Option<Given> = compression.map(|compression| compression.extract()).transpose()?;
    let wanted = given.as_ref().map(|given| Wanted {
        algorithm: given.algorithm.as_deref(),
        threshold: given.threshold,
        minimum_gain: given.minimum_gain,
        level: given.level,
        dictionaries: given.dictionaries.iter().map(|(id, bytes)| (*id, &**bytes)).collect(),
    });
    Packing::new(dialect, wanted, limit).map_err(|error| of_value(py, &error))
}

/// The value compressed, where that is worth it.
pub(crate) fn pack<'v>(
    py: Python<'_>,
    packing: &Packing,
    (encoded, flags): (Encoded<'v>, u32),
) -> PyResult<(Encoded<'v>, u32)> {
    let bytes = encoded.bytes()?;
    match unlocked(py, bytes.len(), || packing.pack(bytes, flags)) {
        Ok(None) => Ok((encoded, flags)),
        Ok(Some((stored, flags))) => Ok((Encoded::owned(stored), flags)),
        Err(error) => Err(of_value(py, &error)),
    }
}

pub(crate) fn unpack(py: Python<'_>, packing: &Packing, flags: u32, stored: &[u8]) -> PyResult<Vec<u8>> {
    unlocked(py, stored.len(), || packing.unpack(flags, stored)).map_err(|error| of_value(py, &error))
}

fn unlocked<T: Send>(py: Python<'_>, length: usize, work: impl FnOnce() -> T + Send) -> T {
    match length < LARGE {
        true => work(),
        false => py.detach(work),
    }
}
