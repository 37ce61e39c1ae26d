//! Locks: their client, wishes, held locks, and notes of what happened by itself.

mod client;
pub mod lock;
mod notes;
pub mod structs;
mod wishes;

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use pinyon_locks::owners;

use crate::errors::{c_string, Error, Failure};
use crate::guard::{alone, free, made, with};
use crate::host::{Host, Interrupted};
use crate::options::Options;
use crate::replies::{status, Status};
use crate::structs::{self as c, given, missing, to_fill, Bytes, NamedText, Reply};
pub use client::{Keeping, Locks};
pub use lock::Lock;
use lock::Place;
pub use notes::{pinyon_next_note, pinyon_note_free, pinyon_wait_note, Listener};
use structs::Wish;
pub use wishes::{with as flags, About, Becomes, Wanted, WishKind};

pub type Grant = pinyon_locks::Grant<Listener>;
pub type Operation = pinyon_locks::LockOperation<Listener>;

impl Locks {
    /// Carries out a wish, and waits for its reply.
    fn run(&self, wanted: Wanted<'_>, reply: &mut Reply, host: &Host) -> Result<Status, Error> {
        let Wanted { operation, becomes, about } = wanted;
        let (keeping, station) = match about {
            About::Names(tag) => {
                let keeping = self.of_tag(tag)?;
                let station = keeping.station()?;
                (keeping, station)
            }
            About::Lock(lock) => match lock.place(self)? {
                Place::Threads { keeping, station } => (keeping.clone(), station.clone()),
                Place::Loop(_) => {
                    return Err(Failure::usage(
                        "this lock is an event loop's: begin the wish there (pinyon_lock_begin)",
                    ))
                }
            },
        };
        match station.run(host, operation) {
            Ok(outcome) => Ok(becomes.fill(reply, outcome, self, || Place::Threads { keeping, station })),
            Err(Interrupted) => Ok(reply.finish(Status::Interrupted)),
        }
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_locks_new(
    options: *const NamedText,
    count: usize,
    error: *mut *mut Error,
) -> *mut Locks {
    // SAFETY: the header says so.
    unsafe { made(alone(|| Locks::new(Options::new(options, count)?)), error) }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_locks_clone(locks: *const Locks) -> *mut Locks {
    // SAFETY: the header says so.
    unsafe { made(with(locks, |locks| Ok(locks.clone())), std::ptr::null_mut()) }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_locks_close(locks: *const Locks) {
    let close = |locks: &Locks| {
        locks.close();
        Ok(())
    };
    // SAFETY: the header says so.
    let _ = unsafe { with(locks, close) };
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_locks_free(locks: *mut Locks) {
    // SAFETY: the header says so.
    unsafe { free(locks) }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_locks_server(locks: *const Locks) -> *const c_char {
    // SAFETY: the header says so.
    unsafe { with(locks, |locks| Ok(locks.server().as_ptr())) }.unwrap_or(c"".as_ptr())
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_locks_metrics(locks: *const Locks) -> *mut c_char {
    let metrics = |locks: &Locks| Ok(crate::metrics::locks_json(&locks.setup().options.observed.metrics()));
    // SAFETY: the header says so.
    match unsafe { with(locks, metrics) } {
        Ok(text) => c_string(&text).into_raw(),
        Err(_) => std::ptr::null_mut(),
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_locks_prefix(locks: *const Locks) -> Bytes {
    // SAFETY: the header says so.
    unsafe { with(locks, |locks| Ok(Bytes::of(locks.setup().keys.prefix()))) }.unwrap_or(Bytes::NONE)
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_lock_run(
    locks: *const Locks,
    wish: *const Wish,
    reply: *mut Reply,
    host: *const c::Host,
) -> i32 {
    // SAFETY: the header says so.
    let Ok(reply) = (unsafe { to_fill(reply) }) else { return Status::Failed as i32 };
    // SAFETY: the header says so.
    let outcome = unsafe {
        with(locks, |locks| {
            let wish = given(wish)?;
            reply.begin(wish.context);
            locks.run(Wanted::of(locks, &wish)?, reply, &Host::new(host)?)
        })
    };
    (match outcome {
        Ok(status) => status,
        Err(error) => reply.fail(error),
    }) as i32
}

#[no_mangle]
pub extern "C" fn pinyon_new_owner() -> u64 {
    owners::new_owner()
}

#[no_mangle]
pub extern "C" fn pinyon_this_thread() -> u64 {
    owners::this_thread()
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_common_tag(
    names: *const Bytes,
    count: usize,
    tag: *mut Bytes,
    error: *mut *mut Error,
) -> i32 {
    let common = || {
        if tag.is_null() {
            return Err(missing("pinyon_bytes for the tag"));
        }
        // SAFETY: the header says so.
        let names = unsafe { wishes::names_of(names, count) }?;
        let common = pinyon_locks::common_tag(&names).map_err(pinyon_net::invalid::InvalidArgument::from)?;
        // SAFETY: the header says that it can be written to.
        unsafe { tag.write(common.map_or(Bytes::NONE, Bytes::of)) };
        Ok(Status::Done)
    };
    // SAFETY: the header says so.
    unsafe { status(alone(common), error) }
}

/// Frees a lock that nobody has taken out of a reply.
pub fn drop_lock(lock: *mut c_void) {
    // SAFETY: only this library puts locks into replies, and it is not used afterwards.
    unsafe { free(lock.cast::<Lock>()) }
}

/// Whether two handles are of one client.
fn are_same<T>(one: &Arc<T>, other: &Arc<T>) -> bool {
    Arc::ptr_eq(one, other)
}
