//! The functions that C calls: what they have in common is written by one macro.

use std::ffi::{c_char, CString};
use std::ptr::null_mut;

use crate::errors::Error;
use crate::status::Status;
use crate::structs::Bytes;

/// Defines functions that C calls. They stand here as Rust sees them:
///
/// - A handle, `&Client` or `&mut Loop`, is first. C passes a pointer: NULL is an error, and a panic poisons the handle.
/// - `-> Result<T>` is the body's. C passes a place for the error as the last argument; NULL if it does not want it.
/// - Any other result has no error. The body may use `?` nevertheless: C gets 0, false, NULL or "" then.
/// - Without a handle and a `Result`, the body is all that is called. It checks its pointers, and contains panics.
macro_rules! exported {
    () => {};
    (fn $name:ident($handle:ident: &mut $kind:ty $(, $param:ident: $type:ty)*) -> Result<$result:ty> $body:block
     $($more:tt)*) => {
        $crate::exported::exported! { @function $name(
            $handle: *mut $kind, $($param: $type,)* error: *mut *mut $crate::errors::Error
        ) -> $result { $crate::exported::returned($crate::guard::with_mut($handle, |$handle| $body), error) } }
        $crate::exported::exported! { $($more)* }
    };
    (fn $name:ident($handle:ident: &$kind:ty $(, $param:ident: $type:ty)*) -> Result<$result:ty> $body:block
     $($more:tt)*) => {
        $crate::exported::exported! { @function $name(
            $handle: *const $kind, $($param: $type,)* error: *mut *mut $crate::errors::Error
        ) -> $result { $crate::exported::returned($crate::guard::with($handle, |$handle| $body), error) } }
        $crate::exported::exported! { $($more)* }
    };
    (fn $name:ident($($param:ident: $type:ty),*) -> Result<$result:ty> $body:block $($more:tt)*) => {
        $crate::exported::exported! { @function $name($($param: $type,)* error: *mut *mut $crate::errors::Error)
            -> $result { $crate::exported::returned($crate::guard::alone(|| $body), error) } }
        $crate::exported::exported! { $($more)* }
    };
    (fn $name:ident($handle:ident: &mut $kind:ty $(, $param:ident: $type:ty)*) $(-> $result:ty)? $body:block
     $($more:tt)*) => {
        $crate::exported::exported! { @function $name($handle: *mut $kind $(, $param: $type)*)
            $(-> $result)? { $crate::exported::result($crate::guard::with_mut($handle, |$handle| Ok($body))) } }
        $crate::exported::exported! { $($more)* }
    };
    (fn $name:ident($handle:ident: &$kind:ty $(, $param:ident: $type:ty)*) $(-> $result:ty)? $body:block
     $($more:tt)*) => {
        $crate::exported::exported! { @function $name($handle: *const $kind $(, $param: $type)*)
            $(-> $result)? { $crate::exported::result($crate::guard::with($handle, |$handle| Ok($body))) } }
        $crate::exported::exported! { $($more)* }
    };
    (fn $name:ident($($param:ident: $type:ty),*) $(-> $result:ty)? $body:block $($more:tt)*) => {
        $crate::exported::exported! { @function $name($($param: $type),*) $(-> $result)? $body }
        $crate::exported::exported! { $($more)* }
    };
    (@function $name:ident($($param:ident: $type:ty),*) $(-> $result:ty)? $body:block) => {
        /// # Safety
        /// As the header says.
        #[no_mangle]
        #[allow(unused_unsafe)] // some bodies need none
        pub unsafe extern "C" fn $name($($param: $type),*) $(-> $result)? {
            // SAFETY: the header says what its callers must see to.
            unsafe { $body }
        }
    };
}

pub(crate) use exported;

/// What C gets for a result of Rust's.
pub trait Returned<T> {
    /// It says that there is none.
    const NOTHING: Self;

    fn of(result: T) -> Self;
}

macro_rules! returned_as_they_are {
    ($($type:ty: $nothing:expr,)*) => {
        $(impl Returned<$type> for $type {
            const NOTHING: Self = $nothing;

            fn of(result: Self) -> Self {
                result
            }
        })*
    };
}

returned_as_they_are! {
    (): (),
    bool: false,
    u32: 0,
    u64: 0,
    f64: 0.0,
    Bytes: Bytes::NONE,
    *const c_char: c"".as_ptr(),
}

impl Returned<Status> for i32 {
    const NOTHING: Self = Status::Failed as i32;

    fn of(status: Status) -> Self {
        status as Self
    }
}

/// A new handle, which the caller frees.
impl<T> Returned<T> for *mut T {
    const NOTHING: Self = null_mut();

    fn of(made: T) -> Self {
        Box::into_raw(Box::new(made))
    }
}

impl<T> Returned<Option<*mut T>> for *mut T {
    const NOTHING: Self = null_mut();

    fn of(found: Option<Self>) -> Self {
        found.unwrap_or(null_mut())
    }
}

/// A text, which the caller frees.
impl Returned<CString> for *mut c_char {
    const NOTHING: Self = null_mut();

    fn of(text: CString) -> Self {
        text.into_raw()
    }
}

/// A result for C. Its error is left in a place, if there is one.
///
/// # Safety
/// The place is null, or can be written to.
#[inline]
pub unsafe fn returned<C: Returned<T>, T>(outcome: Result<T, Error>, error: *mut *mut Error) -> C {
    match outcome {
        Ok(result) => C::of(result),
        Err(why) => {
            // SAFETY: the caller's place is null, or can be written to.
            unsafe { why.leave(error) };
            C::NOTHING
        }
    }
}

/// A result for C, who does not hear of an error.
#[inline]
pub fn result<C: Returned<T>, T>(outcome: Result<T, Error>) -> C {
    outcome.map_or(C::NOTHING, C::of)
}
