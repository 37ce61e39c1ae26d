//! The structs of the header, field by field. Tests compare both.

use std::ffi::{c_char, c_int, c_void};

use crate::errors::{Error, Failure};

/// The handles that structs point to. What they are is said in rooms above this one.
pub mod forward {
    pub enum Answers {}
    pub enum CredentialsQuestion {}
    pub enum Lock {}
    pub enum Tags {}
}

/// A struct that begins with its size. Any bytes are a valid value of it, all zero included.
///
/// # Safety
/// The type is `repr(C)`, its first field is the size, and it has no field with invalid bit patterns.
pub unsafe trait CStruct: Copy {
    const NAME: &'static str;
}

/// A struct as both languages must have it: its name in the header, its size, and each field's name, offset and size.
pub struct Layout {
    pub name: &'static str,
    pub size: usize,
    pub fields: &'static [(&'static str, usize, usize)],
}

/// Defines structs of the header.
macro_rules! c_structs {
    ($(
        $(#[doc = $doc:literal])*
        $c:literal $name:ident { $($field:ident: $kind:ty,)* }
    )*) => {
        $(
            $(#[doc = $doc])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            pub struct $name { $(pub $field: $kind,)* }

            impl $name {
                pub const LAYOUT: $crate::structs::Layout = $crate::structs::Layout {
                    name: $c,
                    size: size_of::<$name>(),
                    fields: &[$((
                        stringify!($field),
                        std::mem::offset_of!($name, $field),
                        size_of::<$kind>(),
                    ),)*],
                };
            }
        )*
    };
}

/// Says of structs that they begin with their size.
macro_rules! sized {
    ($($name:ident),* $(,)?) => {
        $(
            // SAFETY: all fields are numbers, pointers, or functions that may be null.
            unsafe impl $crate::structs::CStruct for $name {
                const NAME: &'static str = $name::LAYOUT.name;
            }
        )*
    };
}

#[allow(unused_imports)] // those of locks and loops are defined in files of their own
pub(crate) use {c_structs, sized};

pub type Convert = unsafe extern "C" fn(*mut c_void, Bytes, u32, *mut Bytes, *mut u32) -> i32;
pub type Ask = unsafe extern "C" fn(*mut c_void, *mut forward::CredentialsQuestion);
pub type Place = unsafe extern "C" fn(*mut c_void, usize, u32) -> *mut c_void;

c_structs! {
    "pinyon_bytes" Bytes {
        start: *const c_char,
        size: usize,
    }

    "pinyon_option" NamedText {
        name: *const c_char,
        value: Bytes,
    }

    "pinyon_credentials_source" CredentialsSource {
        size: usize,
        ask: Option<Ask>,
        release: Option<unsafe extern "C" fn(*mut c_void)>,
        context: *mut c_void,
        waits: u32,
    }

    "pinyon_credentials" Credentials {
        size: usize,
        own: Bytes,
        username: Bytes,
        password: Bytes,
        lifetime: f64,
    }

    "pinyon_command" Command {
        size: usize,
        verb: u32,
        with: u32,
        name: *const c_char,
        takes: *const c_char,
        gives: *const c_char,
    }

    "pinyon_request" Request {
        size: usize,
        verb: u32,
        with: u32,
        key: Bytes,
        value: Bytes,
        route: Bytes,
        client_flags: u32,
        lease: u32,
        ttl: i64,
        cas: u64,
        delta: u64,
        initial: u64,
        recache: i64,
        context: *mut c_void,
        tags: *const forward::Tags,
    }

    "pinyon_reply" Reply {
        size: usize,
        status: i32,
        marks: u32,
        client_flags: u32,
        reserved: u32,
        value: Bytes,
        cas: u64,
        number: u64,
        ttl: i64,
        last_access: u64,
        item_size: u64,
        context: *mut c_void,
        ticket: u64,
        error: *mut Error,
        answers: *mut forward::Answers,
        lock: *mut forward::Lock,
        memory: *mut c_void,
        memory_size: usize,
    }

    "pinyon_found" Found {
        size: usize,
        key: Bytes,
        status: i32,
        client_flags: u32,
        cas: u64,
        error: *mut Error,
    }

    "pinyon_answer" Answer {
        size: usize,
        server: *const c_char,
        name: Bytes,
        value: Bytes,
        error: *const Error,
        token: u64,
        left: f64,
        age: f64,
        waits: u8,
        reads: u8,
        pid: u32,
        host: Bytes,
        label: Bytes,
        note: Bytes,
    }

    "pinyon_host" Host {
        size: usize,
        place: Option<Place>,
        interrupted: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
        before_wait: Option<unsafe extern "C" fn(*mut c_void)>,
        after_wait: Option<unsafe extern "C" fn(*mut c_void)>,
        host: *mut c_void,
    }

    "pinyon_event" Event {
        size: usize,
        kind: *const c_char,
        level: *const c_char,
        server: *const c_char,
        command: *const c_char,
        message: *const c_char,
        seconds: f64,
        error: *const Error,
        previous: *const c_char,
    }

    "pinyon_terms" Terms {
        size: usize,
        key: Bytes,
        route: Bytes,
        ttl: f64,
        stale: f64,
        early: f64,
        lease: f64,
        wait: f64,
        scope: u64,
        caller: u64,
        context: *mut c_void,
        with: u32,
        jitter: f64,
        retry_after: f64,
        soft_timeout: f64,
        tags: *const forward::Tags,
    }

    "pinyon_made" HowMade {
        size: usize,
        with: u32,
        ttl: f64,
        stale: f64,
    }

    "pinyon_step" Step {
        size: usize,
        kind: u32,
        seconds: f64,
        request: Request,
    }

    "pinyon_migration" Migration {
        size: usize,
        ttl: i64,
        convert: Option<Convert>,
        context: *mut c_void,
    }

    "pinyon_progress" Progress {
        size: usize,
        in_new: u64,
        in_old: u64,
        moved: u64,
        refused: u64,
        missing: u64,
    }

    "pinyon_near_figures" NearFigures {
        size: usize,
        hits: u64,
        fills: u64,
        revalidations: u64,
        evictions: u64,
        bytes: u64,
    }

    "pinyon_part" Part {
        size: usize,
        kind: u32,
        truth: u8,
        bytes: Bytes,
        encoding: Bytes,
        integer: i64,
        number: u64,
        real: f64,
        year: u16,
        month: u8,
        day: u8,
        hour: u8,
        minute: u8,
        second: u8,
        nanosecond: u32,
    }
}

impl Bytes {
    pub const NONE: Self = Self { start: std::ptr::null(), size: 0 };

    pub fn of(bytes: &[u8]) -> Self {
        Self { start: bytes.as_ptr().cast(), size: bytes.len() }
    }

    /// The size of bytes whose memory is missing; 0 for all others.
    #[inline]
    pub fn missing_memory(&self) -> usize {
        match self.start.is_null() {
            true => self.size,
            false => 0,
        }
    }

    /// Refuses bytes whose memory is missing, as after an allocation that failed.
    #[inline]
    pub fn check(&self, name: &str) -> Result<(), Error> {
        match self.missing_memory() {
            0 => Ok(()),
            size => Err(without_memory(name, size)),
        }
    }

    pub fn is_given(&self) -> bool {
        !self.start.is_null()
    }

    /// # Safety
    /// The memory stays as it is for the lifetime.
    #[inline]
    pub unsafe fn slice<'a>(self) -> &'a [u8] {
        match self.start.is_null() {
            true => &[],
            // SAFETY: the caller keeps the memory, of this size, as it is for the lifetime.
            false => unsafe { std::slice::from_raw_parts(self.start.cast(), self.size) },
        }
    }

    /// The bytes, if there are any.
    ///
    /// # Safety
    /// As for [`Self::slice`].
    #[inline]
    pub unsafe fn given<'a>(self) -> Option<&'a [u8]> {
        // SAFETY: the caller keeps the memory as it is for the lifetime.
        self.is_given().then(|| unsafe { self.slice() })
    }
}

/// The ttl of an item without end, whatever the default ttl.
pub const FOREVER: i64 = i64::MAX;

sized! { CredentialsSource, Credentials, Command, Request, Reply, Found, Answer, Host, Terms, HowMade, Step, Part, Migration, Progress, NearFigures }

/// All zero, but for its size.
pub fn empty<T: CStruct>() -> T {
    // SAFETY: any bytes are a valid value, and the first field is the size.
    unsafe {
        let mut empty: T = std::mem::zeroed();
        std::ptr::from_mut(&mut empty).cast::<usize>().write(size_of::<T>());
        empty
    }
}

/// A copy of a struct that the caller filled, from bytes that may lie anywhere.
///
/// # Safety
/// The bytes are such a struct.
pub unsafe fn given_unaligned<T: CStruct>(bytes: &[u8]) -> Result<T, Error> {
    let mut aligned = empty::<T>();
    if bytes.len() != size_of::<T>() {
        return Err(wrong_size(T::NAME, bytes.len(), size_of::<T>()));
    }
    // SAFETY: both have this size, and any bytes are a valid value.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), std::ptr::from_mut(&mut aligned).cast(), bytes.len()) };
    // SAFETY: the copy has the caller's size, which is checked, and lives during the call.
    unsafe { given(&aligned) }
}

/// A copy of a struct that the caller filled.
///
/// # Safety
/// The pointer is null, or points to as many bytes as the struct's size says.
#[inline]
pub unsafe fn given<T: CStruct>(struct_: *const T) -> Result<T, Error> {
    // SAFETY: the caller's pointer is null, or to as many bytes as the struct's size says. Any bytes are a valid value.
    unsafe {
        check_filled(struct_)?;
        Ok(struct_.read())
    }
}

/// A struct that the caller filled, where it is.
///
/// # Safety
/// As for [`given`], and nobody changes it for the lifetime.
#[inline]
pub unsafe fn borrowed<'a, T: CStruct>(struct_: *const T) -> Result<&'a T, Error> {
    // SAFETY: the caller's struct is as large as its size says, and nobody changes it for the lifetime. Any bytes are a
    // valid value.
    unsafe {
        check_filled(struct_)?;
        Ok(&*struct_)
    }
}

/// A struct that the caller wants filled.
///
/// # Safety
/// As for [`given`], and nobody else uses it for the lifetime.
#[inline]
pub unsafe fn to_fill<'a, T: CStruct>(struct_: *mut T) -> Result<&'a mut T, Error> {
    // SAFETY: the caller's struct is as large as its size says, and nobody else uses it for the lifetime. Any bytes are
    // a valid value.
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
    // SAFETY: the caller's pointer is null, or to as many bytes as the struct's size says.
    unsafe {
        check_size(first)?;
        Ok(first.cast::<usize>().read())
    }
}

/// A list of the caller's. `name`: what is missing if the pointer is null.
///
/// # Safety
/// The pointer is null, or to so many values, which stay as they are for the lifetime.
pub unsafe fn list<'l, T: Copy>(first: *const T, count: usize, name: &str) -> Result<&'l [T], Error> {
    match (count, first.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(missing(name)),
        // SAFETY: the caller has so many values, and keeps them as they are for the lifetime.
        (_, false) => Ok(unsafe { std::slice::from_raw_parts(first, count) }),
    }
}

/// # Safety
/// The pointer is null, or to so many names, which stay as they are for the lifetime.
pub unsafe fn names_of<'n>(first: *const Bytes, count: usize) -> Result<Vec<&'n [u8]>, Error> {
    // SAFETY: the caller has so many names, and keeps them as they are for the lifetime.
    unsafe { bytes_of(list(first, count, "list of names")?, "a name") }
}

/// # Safety
/// The bytes stay as they are for the lifetime.
pub unsafe fn bytes_of<'b>(all: &[Bytes], name: &str) -> Result<Vec<&'b [u8]>, Error> {
    all.iter().try_for_each(|one| one.check(name))?;
    // SAFETY: the caller keeps the bytes as they are for the lifetime.
    Ok(unsafe { all.iter().map(|one| one.slice()).collect() })
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

#[cold]
fn without_memory(name: &str, size: usize) -> Error {
    Failure::usage(format!("{name} has a size of {size}, and its start is NULL"))
}

/// How much larger a struct of a newer header may be.
const MOST_UNKNOWN: usize = 1024;

/// Refuses a larger struct whose unknown fields are not all zero: this library would do something else than it asks for.
///
/// # Safety
/// As for [`given`].
#[cold]
unsafe fn check_unknown<T: CStruct>(struct_: *const T, size: usize) -> Result<(), Error> {
    let known = size_of::<T>();
    if size - known > MOST_UNKNOWN {
        return Err(wrong_size(T::NAME, size, known));
    }
    // SAFETY: the caller's pointer is to as many bytes as this size says, of which the known ones are the first.
    let unknown = unsafe { std::slice::from_raw_parts(struct_.cast::<u8>().add(known), size - known) };
    match unknown.iter().all(|byte| *byte == 0) {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "a {} has fields that this library does not know: leave them zero, or update libpinyon",
            T::NAME
        ))),
    }
}

/// A struct that the caller filled has as much as is known, and nothing that is not.
///
/// # Safety
/// As for [`given`].
#[inline]
unsafe fn check_filled<T: CStruct>(struct_: *const T) -> Result<(), Error> {
    // SAFETY: the caller's pointer is null, or to as many bytes as the struct's size says, which comes first.
    unsafe {
        if !struct_.is_null() && struct_.cast::<usize>().read() == size_of::<T>() {
            return Ok(());
        }
        check_size(struct_)?;
        check_unknown(struct_, struct_.cast::<usize>().read())
    }
}

/// The error for a pointer that must not be null.
#[cold]
pub fn missing(name: &str) -> Error {
    Failure::usage(format!("a {name} is missing: the pointer is NULL"))
}
