//! zstd, with and without dictionaries. A dictionary from `zstd --train` contains its id, and so does every value that
//! was compressed with it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use zstd_safe::{
    find_frame_compressed_size, get_dict_id_from_dict, get_dict_id_from_frame, get_error_name, get_frame_content_size,
    CCtx, CDict, DCtx, DDict, DParameter, InBuffer, OutBuffer,
};

use super::{beginning, grow, DecompressError};

pub(super) const USUAL: i32 = 3;
/// Higher levels take hundreds of megabytes.
pub(super) const MOST: i32 = 19;
/// The largest window (8 MiB) for values written at levels up to 19.
const WINDOW_LOG: u32 = 23;

thread_local! {
    static COMPRESSING: RefCell<CCtx<'static>> = RefCell::new(CCtx::create());
    static DECOMPRESSING: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

/// A dictionary for compressing.
pub(super) struct Writer(CDict<'static>);

impl Writer {
    pub(super) fn new(bytes: &[u8], level: i32) -> Result<Self, String> {
        CDict::try_create(bytes, level).map(Self).ok_or_else(|| "a dictionary is corrupt".to_owned())
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Writer")
    }
}

/// A dictionary for decompressing.
pub(super) struct Reader(DDict<'static>);

impl Reader {
    pub(super) fn new(id: u32, bytes: &[u8]) -> Result<Self, String> {
        let of_its_own = get_dict_id_from_dict(bytes).ok_or_else(|| {
            format!("the dictionary given as {id} is not one that `zstd --train` makes: there is no id in it")
        })?;
        if of_its_own.get() != id {
            return Err(format!("the dictionary given as {id} has the id {of_its_own}; give it under that"));
        }
        DDict::try_create(bytes).map(Self).ok_or_else(|| format!("the dictionary {id} is corrupt"))
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reader")
    }
}

pub(super) fn compress(bytes: &[u8], level: i32, dictionary: Option<&Writer>) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(zstd_safe::compress_bound(bytes.len()));
    COMPRESSING
        .with_borrow_mut(|context| match dictionary {
            Some(Writer(dictionary)) => context.compress_using_cdict(&mut out, bytes, dictionary),
            None => context.compress(&mut out, bytes, level),
        })
        .map_err(|code| get_error_name(code).to_owned())?;
    Ok(out)
}

pub(super) fn decompress(
    bytes: &[u8],
    limit: usize,
    dictionaries: &BTreeMap<u32, Reader>,
) -> Result<Vec<u8>, DecompressError> {
    let declared = get_frame_content_size(bytes).map_err(|_| DecompressError::Truncated)?;
    if declared.is_some_and(|declared| declared > limit as u64) {
        return Err(DecompressError::TooLarge { limit });
    }
    let dictionary = match get_dict_id_from_frame(bytes) {
        None => None,
        Some(id) => Some(dictionaries.get(&id.get()).ok_or(DecompressError::Dictionary(id.get()))?),
    };
    match find_frame_compressed_size(bytes) {
        Ok(length) if length < bytes.len() => return Err(DecompressError::Trailing),
        Ok(_) => {}
        Err(_) => return Err(DecompressError::Truncated),
    }
    match declared {
        Some(declared) => at_once(bytes, declared as usize, dictionary),
        None => piecewise(bytes, limit, dictionary),
    }
}

/// Decompresses a value that declares its length.
fn at_once(bytes: &[u8], length: usize, dictionary: Option<&Reader>) -> Result<Vec<u8>, DecompressError> {
    let mut out = Vec::with_capacity(length);
    DECOMPRESSING
        .with_borrow_mut(|context| match dictionary {
            Some(Reader(dictionary)) => context.decompress_using_ddict(&mut out, bytes, dictionary),
            None => context.decompress(&mut out, bytes),
        })
        .map_err(corrupt)?;
    Ok(out)
}

fn piecewise(bytes: &[u8], limit: usize, dictionary: Option<&Reader>) -> Result<Vec<u8>, DecompressError> {
    let mut context = DCtx::create();
    context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG)).map_err(corrupt)?;
    if let Some(Reader(dictionary)) = dictionary {
        context.ref_ddict(dictionary).map_err(corrupt)?;
    }
    let mut input = InBuffer::around(bytes);
    let mut out = beginning(bytes.len(), limit);
    loop {
        let (read, written) = (input.pos(), out.len());
        let mut output = OutBuffer::around_pos(&mut out, written);
        let left = context.decompress_stream(&mut output, &mut input).map_err(corrupt)?;
        if out.len() > limit {
            return Err(DecompressError::TooLarge { limit });
        }
        if left == 0 {
            return Ok(out);
        }
        if out.len() == out.capacity() {
            grow(&mut out, limit)?;
        } else if input.pos() == read && out.len() == written {
            return Err(DecompressError::Truncated);
        }
    }
}

fn corrupt(code: usize) -> DecompressError {
    DecompressError::Corrupt(get_error_name(code).to_owned())
}
