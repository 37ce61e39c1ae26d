//! What C's callers have for themselves: options, texts, and handles that are freed at the end.

use std::ffi::{c_char, CStr, CString};
use std::ptr::null_mut;

use pinyon::client::{pinyon_client_free, pinyon_client_new};
use pinyon::error_fields::{pinyon_error_free, pinyon_error_message};
use pinyon::errors::Error;
use pinyon::requests::Verb;
use pinyon::structs::{empty, Bytes, NamedText, Request};

/// A handle of C's, and the function that frees it.
pub struct Owned<T>(pub *mut T, pub unsafe extern "C" fn(*mut T));

impl<T> Owned<T> {
    /// Calls a function that makes a handle, or leaves an error.
    pub fn new(
        make: impl FnOnce(*mut *mut Error) -> *mut T,
        free: unsafe extern "C" fn(*mut T),
    ) -> Result<Self, String> {
        let mut error = null_mut();
        let made = make(&mut error);
        assert_ne!(made.is_null(), error.is_null(), "either is there");
        match made.is_null() {
            true => Err(message(error)),
            false => Ok(Self(made, free)),
        }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: it was made by the library, and this owns it.
        unsafe { (self.1)(self.0) }
    }
}

/// Calls a function with options as C has them.
pub fn with_options<T>(options: &[(&str, &[u8])], call: impl FnOnce(*const NamedText, usize) -> T) -> T {
    let names: Vec<CString> = options.iter().map(|(name, _)| CString::new(*name).unwrap()).collect();
    let given = names.iter().zip(options);
    let named: Vec<NamedText> =
        given.map(|(name, (_, value))| NamedText { name: name.as_ptr(), value: Bytes::of(value) }).collect();
    call(named.as_ptr(), named.len())
}

pub type Client = Owned<pinyon::client::Client>;

/// A ring that hashes no server. The usual one hashes each 40 times, which takes miri several seconds.
const SMALL: (&str, &[u8]) = ("ring", b"libmemcached-modula");

/// A client with these options. In miri, its ring is small unless they name one.
pub fn try_client(options: &[(&str, &[u8])]) -> Result<Client, String> {
    let is_small = cfg!(miri) && options.iter().all(|(name, _)| *name != "ring");
    let added = if is_small { &[SMALL][..] } else { &[] };
    with_options(&[added, options].concat(), |options, count| {
        // SAFETY: there are so many options.
        Client::new(|error| unsafe { pinyon_client_new(options, count, error) }, pinyon_client_free)
    })
}

pub fn client(options: &[(&str, &[u8])]) -> Client {
    try_client(options).unwrap()
}

/// The message of an error, which is freed.
pub fn message(error: *mut Error) -> String {
    // SAFETY: it is the caller's, who does not use it afterwards.
    unsafe {
        let message = text(pinyon_error_message(error));
        pinyon_error_free(error);
        message
    }
}

/// A copy of a text of the library's.
///
/// # Safety
/// It ends with a NUL.
pub unsafe fn text(text: *const c_char) -> String {
    // SAFETY: the caller says so.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned()
}

/// A copy of bytes of the library's.
///
/// # Safety
/// They are there.
pub unsafe fn copied(bytes: Bytes) -> Vec<u8> {
    // SAFETY: the caller says so.
    unsafe { bytes.slice() }.to_vec()
}

pub fn about(verb: Verb, key: &[u8]) -> Request {
    Request { verb: verb as u32, key: Bytes::of(key), ..empty() }
}
