//! What C asks of an error and of its kind.

use std::ffi::{c_char, CString};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use pinyon_net::Sent;

use crate::errors::{c_string, Error, Failure, Kind};
use crate::exported::exported;
use crate::guard::free;

/// The error, if the pointer is not null.
///
/// # Safety
/// It is null, or an error that lives.
unsafe fn failure<'e>(error: *const Error) -> Option<&'e Failure> {
    // SAFETY: the caller's pointer is null, or to an error that lives.
    unsafe { error.as_ref() }.map(|error| &**error)
}

/// A text of an error, or an empty one.
///
/// # Safety
/// As for [`failure`].
unsafe fn text(error: *const Error, field: impl Fn(&Failure) -> &CString) -> *const c_char {
    // SAFETY: the caller's pointer is null, or to an error that lives.
    unsafe { failure(error) }.map_or(c"".as_ptr(), |failure| field(failure).as_ptr())
}

exported! {
    fn pinyon_error_kind(error: *const Error) -> u32 { failure(error).map_or(0, |error| error.kind.number()) }

    fn pinyon_error_sent(error: *const Error) -> u32 {
        match failure(error).map_or(Sent::No, |error| error.sent) {
            Sent::No => 0,
            Sent::Maybe => 1,
            Sent::Yes => 2,
        }
    }

    fn pinyon_error_message(error: *const Error) -> *const c_char { text(error, |error| &error.message) }

    fn pinyon_error_server(error: *const Error) -> *const c_char { text(error, |error| &error.server) }

    fn pinyon_error_command(error: *const Error) -> *const c_char { text(error, |error| &error.command) }

    fn pinyon_error_is_outage(error: *const Error) -> bool { failure(error).is_some_and(|error| error.is_outage) }

    fn pinyon_error_holder(error: *const Error, index: usize) -> *const c_char {
        failure(error).and_then(|error| error.holders.get(index)).map_or(null(), |holder| holder.as_ptr())
    }

    fn pinyon_error_clone(error: *const Error) -> *mut Error {
        error.as_ref().map_or(null_mut(), |error| error.clone().into_raw())
    }

    fn pinyon_error_free(error: *mut Error) { free(error) }

    fn pinyon_kind_name(kind: u32) -> *const c_char {
        // Made once, so that they live as long as the library.
        static NAMES: OnceLock<Vec<CString>> = OnceLock::new();
        let names = NAMES.get_or_init(|| Kind::all().map(|kind| c_string(kind.name())).collect());
        Kind::all().position(|known| known.number() == kind).map_or(null(), |place| names[place].as_ptr())
    }

    fn pinyon_kind_is_a(kind: u32, above: u32) -> bool {
        Kind::numbered(kind).zip(Kind::numbered(above)).is_some_and(|(kind, above)| kind.is_a(above))
    }

    fn pinyon_kind_parent(kind: u32, index: usize) -> u32 {
        let parent = Kind::numbered(kind).and_then(|kind| kind.parents().get(index));
        parent.map_or(0, |parent| Kind::Core(*parent).number())
    }
}
