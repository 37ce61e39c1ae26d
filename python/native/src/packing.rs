//! Values compressed on their way out and decompressed on their way in; large ones with the GIL given up.

use pinyon_core::dialect::Packing;
use pyo3::prelude::*;

use crate::encoded::Encoded;
use crate::errors::of_value;

/// Values from so many bytes on are worth giving up the GIL for.
const LARGE: usize = 16 * 1024;

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
