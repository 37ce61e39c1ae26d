//! zlib and gzip.

use std::io::Write;

use flate2::write::{GzEncoder, ZlibEncoder};
use flate2::{Compression, Decompress, FlushDecompress, Status};

use super::{beginning, grow, DecompressError};

const WINDOW_BITS: u8 = 15;

pub(super) fn zlib(bytes: &[u8], level: i32) -> Result<Vec<u8>, String> {
    let mut encoder = ZlibEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::new(level as u32));
    encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(|error| error.to_string())
}

pub(super) fn gzip(bytes: &[u8], level: i32) -> Result<Vec<u8>, String> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::new(level as u32));
    encoder.write_all(bytes).and_then(|()| encoder.finish()).map_err(|error| error.to_string())
}

pub(super) fn inflate_zlib(bytes: &[u8], limit: usize) -> Result<Vec<u8>, DecompressError> {
    inflate(Decompress::new(true), bytes, limit)
}

pub(super) fn inflate_gzip(bytes: &[u8], limit: usize) -> Result<Vec<u8>, DecompressError> {
    inflate(Decompress::new_gzip(WINDOW_BITS), bytes, limit)
}

fn inflate(mut machine: Decompress, bytes: &[u8], limit: usize) -> Result<Vec<u8>, DecompressError> {
    let mut out = beginning(bytes.len(), limit);
    loop {
        let read = machine.total_in() as usize;
        let written = out.len();
        let status = machine
            .decompress_vec(&bytes[read..], &mut out, FlushDecompress::None)
            .map_err(|error| DecompressError::Corrupt(error.to_string()))?;
        if out.len() > limit {
            return Err(DecompressError::TooLarge { limit });
        }
        match status {
            Status::StreamEnd if machine.total_in() < bytes.len() as u64 => return Err(DecompressError::Trailing),
            Status::StreamEnd => return Ok(out),
            _ if out.len() == out.capacity() => grow(&mut out, limit)?,
            _ if machine.total_in() as usize == read && out.len() == written => return Err(DecompressError::Truncated),
            _ => {}
        }
    }
}
