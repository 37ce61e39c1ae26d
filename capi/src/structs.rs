//! The structs of the header, field by field. Tests compare both.

use std::ffi::{c_char, c_int, c_void};

use crate::answers::Answers;
use crate::errors::{Error, Failure};

/// A struct that begins with its size. Any bytes are a valid value of it, all zero included.
///
/// # Safety
/// The type is `repr(C)`, its first field is the size, and it has no field with invalid bit patterns.
pub unsafe trait CStruct: Copy {
    const NAME: &'static str;
}

macro_rules! sized {
    ($($name:ident as $c:literal),* $(,)?) => {
        $(
            // SAFETY: all fields are numbers, pointers, or functions that may be null.
            unsafe impl CStruct for $name {
                const NAME: &'static str = $c;
            }
        )*
    };
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    pub start: *const c_char,
    pub size: usize,
}

impl Bytes {
    pub const NONE: Self = Self { start: std::ptr::null(), size: 0 };

    pub fn of(bytes: &[u8]) -> Self {
        Self { start: bytes.as_ptr().cast(), size: bytes.len() }
    }

    pub fn is_given(&self) -> bool {
        !self.start.is_null()
    }

    /// # Safety
    /// The memory stays as it is for the lifetime.
    pub unsafe fn slice<'a>(self) -> &'a [u8] {
        match self.start.is_null() {
            true => &[],
            // SAFETY: the caller says so.
            false => unsafe { std::slice::from_raw_parts(self.start.cast(), self.size) },
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NamedText {
    pub name: *const c_char,
    pub value: Bytes,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub size: usize,
    pub verb: u32,
    pub with: u32,
    pub key: Bytes,
    pub value: Bytes,
    pub route: Bytes,
    pub client_flags: u32,
    pub lease: u32,
    pub ttl: i64,
    pub cas: u64,
    pub delta: u64,
    pub initial: u64,
    pub recache: i64,
    pub context: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    pub size: usize,
    pub status: i32,
    pub marks: u32,
    pub client_flags: u32,
    pub reserved: u32,
    pub value: Bytes,
    pub cas: u64,
    pub number: u64,
    pub ttl: i64,
    pub idle: u64,
    pub item_size: u64,
    pub context: *mut c_void,
    pub ticket: u64,
    pub error: *mut Error,
    pub answers: *mut Answers,
    pub lock: *mut c_void,
    pub memory: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    pub size: usize,
    pub server: *const c_char,
    pub name: Bytes,
    pub value: Bytes,
    pub error: *const Error,
    pub token: u64,
    pub left: f64,
    pub age: f64,
    pub waits: u8,
}

pub type Place = unsafe extern "C" fn(*mut c_void, usize, u32) -> *mut c_void;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Host {
    pub size: usize,
    pub place: Option<Place>,
    pub interrupted: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    pub before_wait: Option<unsafe extern "C" fn(*mut c_void)>,
    pub after_wait: Option<unsafe extern "C" fn(*mut c_void)>,
    pub host: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub size: usize,
    pub kind: *const c_char,
    pub level: *const c_char,
    pub server: *const c_char,
    pub command: *const c_char,
    pub message: *const c_char,
    pub seconds: f64,
    pub error: *const Error,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub size: usize,
    pub key: Bytes,
    pub route: Bytes,
    pub ttl: f64,
    pub stale: f64,
    pub early: f64,
    pub lease: f64,
    pub wait: f64,
    pub scope: u64,
    pub caller: u64,
    pub context: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub size: usize,
    pub kind: u32,
    pub seconds: f64,
    pub request: Request,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub size: usize,
    pub kind: u32,
    pub truth: u8,
    pub bytes: Bytes,
    pub encoding: Bytes,
    pub integer: i64,
    pub number: u64,
    pub real: f64,
    pub year: u16,
    pub month: u8,
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
    pub nanosecond: u32,
}

sized! {
    Request as "pinyon_request", Reply as "pinyon_reply", Answer as "pinyon_answer", Host as "pinyon_host",
    Terms as "pinyon_terms", Step as "pinyon_step", Part as "pinyon_part",
}

/// All zero, but for its size.
pub fn empty<T: CStruct>() -> T {
    // SAFETY: any bytes are a valid value, and the first field is the size.
    unsafe {
        let mut empty: T = std::mem::zeroed();
        std::ptr::from_mut(&mut empty).cast::<usize>().write(size_of::<T>());
        empty
    }
}

/// A copy of a struct that the caller filled.
///
/// # Safety
/// The pointer is null, or points to as many bytes as the struct's size says.
#[inline]
pub unsafe fn given<T: CStruct>(struct_: *const T) -> Result<T, Error> {
    // SAFETY: the caller says so, and any bytes are a valid value.
    unsafe {
        check_size(struct_)?;
        Ok(struct_.read())
    }
}

/// A struct that the caller wants filled.
///
/// # Safety
/// As for [`given`], and nobody else uses it for the lifetime.
#[inline]
pub unsafe fn to_fill<'a, T: CStruct>(struct_: *mut T) -> Result<&'a mut T, Error> {
    // SAFETY: the caller says so, and any bytes are a valid value.
    unsafe {
        check_size(struct_)?;
        Ok(&mut *struct_)
    }
}

/// How far the structs of a list are apart.
///
/// # Safety
/// As for [`given`].
pub unsafe fn stride<T: CStruct>(first: *const T) -> Result<usize, Error> {
    // SAFETY: the caller says so.
    unsafe {
        check_size(first)?;
        Ok(first.cast::<usize>().read())
    }
}

#[inline]
unsafe fn check_size<T: CStruct>(struct_: *const T) -> Result<(), Error> {
    if struct_.is_null() {
        return Err(missing(T::NAME));
    }
    // SAFETY: it begins with its size.
    let size = unsafe { struct_.cast::<usize>().read() };
    // This is the first version of all structs: none may be smaller.
    match size >= size_of::<T>() && size % align_of::<T>() == 0 {
        true => Ok(()),
        false => Err(wrong_size(T::NAME, size, size_of::<T>())),
    }
}

#[cold]
fn wrong_size(name: &str, size: usize, known: usize) -> Error {
    Failure::usage(format!("set the field size of a {name} to sizeof({name}), which is {known}; it is {size}"))
}

/// The error for a pointer that must not be null.
#[cold]
pub fn missing(name: &str) -> Error {
    Failure::usage(format!("a {name} is missing: the pointer is NULL"))
}
