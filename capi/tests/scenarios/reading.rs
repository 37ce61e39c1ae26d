//! Many keys that are read by one operation of an event loop.

use std::ffi::c_void;
use std::ptr::{from_mut, null, null_mut};

use pinyon::loops::structs::Reading;
use pinyon::loops::{pinyon_begin_reading, Loop};
use pinyon::status::{marks, Status};
use pinyon::structs::{empty, Bytes, Found, Reply};

use crate::calls::Call;

/// A key, and the memory for its value.
#[repr(C)]
pub struct Wanted {
    found: Found,
    value: Vec<u8>,
}

/// Begins to read the keys of a call. Returns its ticket, and what must stay until the reply.
pub fn begin(event_loop: *mut Loop, call: &Call) -> (u64, Vec<Wanted>) {
    let one = |key| Wanted { found: Found { size: size_of::<Wanted>(), key, ..empty() }, value: Vec::new() };
    let mut keys: Vec<Wanted> = call.requests.iter().map(|request| one(request.key)).collect();
    let first = keys.as_mut_ptr().cast();
    let reading = Reading { keys: first, count: keys.len(), place: Some(place), ..empty() };
    let mut ticket = 0;
    // SAFETY: as the header says.
    let begun = unsafe { pinyon_begin_reading(event_loop, null(), &reading, &mut ticket, null_mut()) };
    assert_eq!(begun, 0);
    (ticket, keys)
}

unsafe extern "C" fn place(context: *mut c_void, size: usize, _client_flags: u32) -> *mut c_void {
    // SAFETY: it is told the key's struct, which nobody else uses meanwhile.
    let wanted = unsafe { &mut *context.cast::<Wanted>() };
    // There is a place for a value of no bytes, too.
    wanted.value = Vec::with_capacity(size.max(1));
    wanted.value.resize(size, 0);
    from_mut(&mut wanted.value[..]).cast()
}

/// The same as replies to a request for each key. They have the errors.
pub fn replies(keys: &[Wanted]) -> Vec<Reply> {
    let reply = |Wanted { found, value }: &Wanted| {
        let marks = if found.status == Status::Done as i32 { marks::HAS_VALUE } else { 0 };
        let (status, client_flags, error) = (found.status, found.client_flags, found.error);
        Reply { status, client_flags, error, marks, value: Bytes::of(value), ..empty() }
    };
    keys.iter().map(reply).collect()
}
