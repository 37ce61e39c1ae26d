//! Errors as C sees them. The kinds are the core's, each with a number of its own.

use std::ffi::{c_char, CString};

use pinyon_locks::LockFailure;
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::invalid::InvalidArgument;
use pinyon_net::{Error as CoreError, Sent};

/// What went wrong. To C it is opaque, and as large as a pointer to its fields.
#[derive(Clone, Debug)]
pub struct Error(Box<Failure>);

#[derive(Clone, Debug)]
pub struct Failure {
    pub kind: Kind,
    pub sent: Sent,
    pub is_outage: bool,
    pub message: CString,
    pub server: CString,
    pub command: CString,
    /// The holders in the cycle of a deadlock.
    pub holders: Vec<CString>,
}

/// A kind of error: one of the core's, or of this interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Core(ErrorKind),
    /// The host could not make a value.
    Maker,
    /// A panic.
    Internal,
}

impl Kind {
    pub fn all() -> impl Iterator<Item = Self> {
        ErrorKind::ALL.into_iter().map(Self::Core).chain([Self::Maker, Self::Internal])
    }

    /// Its number in the header.
    pub fn number(self) -> u32 {
        match self {
            Kind::Core(kind) => match kind {
                ErrorKind::Error => 1,
                ErrorKind::Timeout => 2,
                ErrorKind::LeaseTimeout => 3,
                ErrorKind::ConnectError => 4,
                ErrorKind::ConnectionLost => 5,
                ErrorKind::ServerDown => 6,
                ErrorKind::ProtocolError => 7,
                ErrorKind::ServerError => 8,
                ErrorKind::Unsupported => 9,
                ErrorKind::UsageError => 10,
                ErrorKind::InvalidKey => 11,
                ErrorKind::InvalidServers => 12,
                ErrorKind::InvalidName => 13,
                ErrorKind::ValueTooLarge => 14,
                ErrorKind::UnsupportedType => 15,
                ErrorKind::Unpicklable => 16,
                ErrorKind::UndecodableValue => 17,
                ErrorKind::UnknownFlags => 18,
                ErrorKind::Closed => 19,
                ErrorKind::BatchError => 20,
                ErrorKind::LockError => 21,
                ErrorKind::LockTimeout => 22,
                ErrorKind::LockLost => 23,
                ErrorKind::AlreadyHeld => 24,
                ErrorKind::Deadlock => 25,
            },
            Kind::Maker => 26,
            Kind::Internal => 27,
        }
    }

    fn numbered(number: u32) -> Option<Self> {
        Self::all().find(|kind| kind.number() == number)
    }

    /// Its name in other languages.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Core(kind) => kind.as_str(),
            Kind::Maker => "MakerFailed",
            Kind::Internal => "InternalError",
        }
    }

    fn parents(self) -> &'static [ErrorKind] {
        match self {
            Kind::Core(kind) => kind.parents(),
            Kind::Maker | Kind::Internal => &[ErrorKind::Error],
        }
    }

    fn is_a(self, above: Self) -> bool {
        self == above || self.parents().iter().any(|parent| Kind::Core(*parent).is_a(above))
    }
}

impl Failure {
    pub fn of_kind(kind: Kind, message: &str) -> Error {
        let nothing = CString::default;
        Error(Box::new(Self {
            kind,
            sent: Sent::No,
            is_outage: false,
            message: c_string(message),
            server: nothing(),
            command: nothing(),
            holders: Vec::new(),
        }))
    }

    #[cold]
    pub fn usage(message: impl AsRef<str>) -> Error {
        Self::of_kind(Kind::Core(ErrorKind::UsageError), message.as_ref())
    }

    #[cold]
    pub fn closed() -> Error {
        Self::of_kind(Kind::Core(ErrorKind::Closed), "the client was closed; make another")
    }

    #[cold]
    pub fn internal() -> Error {
        let message = "a fault inside Pinyon ended an earlier or this call; make a new handle, and report the fault";
        Error(Box::new(Self { sent: Sent::Maybe, ..*Self::of_kind(Kind::Internal, message).0 }))
    }
}

impl std::ops::Deref for Error {
    type Target = Failure;

    fn deref(&self) -> &Failure {
        &self.0
    }
}

impl Error {
    /// The same, and what to do.
    pub fn completed(mut self, advice: &str) -> Self {
        self.0.message = c_string(&format!("{}; {advice}", self.0.message.to_string_lossy()));
        self
    }

    /// Gives it to the caller.
    pub fn into_raw(self) -> *mut Self {
        Box::into_raw(Box::new(self))
    }

    /// Gives it to the caller, if he wants it.
    ///
    /// # Safety
    /// The place is null, or can be written to.
    pub unsafe fn leave(self, place: *mut *mut Self) {
        if !place.is_null() {
            // SAFETY: the caller says so.
            unsafe { place.write(self.into_raw()) }
        }
    }
}

impl From<InvalidArgument> for Error {
    fn from(refused: InvalidArgument) -> Self {
        Failure::of_kind(Kind::Core(refused.kind), &refused.message)
    }
}

impl From<&CoreError> for Error {
    fn from(error: &CoreError) -> Self {
        Error(Box::new(Failure {
            kind: Kind::Core(error.kind.into()),
            sent: error.sent,
            is_outage: error.is_outage(),
            message: c_string(&error.to_string()),
            server: c_string(&error.server),
            command: c_string(error.command),
            holders: Vec::new(),
        }))
    }
}

impl From<LockFailure> for Error {
    fn from(failure: LockFailure) -> Self {
        if let Some(cause) = &failure.cause {
            return cause.into();
        }
        let holders = failure.cycle.iter().map(|attempt| c_string(&attempt.to_string())).collect();
        let error = Failure::of_kind(Kind::Core(failure.kind), &failure.message);
        Error(Box::new(Failure { holders, ..*error.0 }))
    }
}

/// A text for C. A NUL would end it early, so it is left out.
pub fn c_string(text: &str) -> CString {
    let bytes: Vec<u8> = text.bytes().filter(|byte| *byte != 0).collect();
    CString::new(bytes).unwrap_or_default()
}

/// The error, if the pointer is not null.
///
/// # Safety
/// It is null, or an error that lives.
unsafe fn error<'a>(error: *const Error) -> Option<&'a Failure> {
    // SAFETY: the caller says so.
    unsafe { error.as_ref() }.map(|error| &**error)
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_error_kind(error: *const Error) -> u32 {
    // SAFETY: the header says so.
    unsafe { self::error(error) }.map_or(0, |error| error.kind.number())
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_error_sent(error: *const Error) -> u32 {
    // SAFETY: the header says so.
    match unsafe { self::error(error) }.map_or(Sent::No, |error| error.sent) {
        Sent::No => 0,
        Sent::Maybe => 1,
        Sent::Yes => 2,
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_error_message(error: *const Error) -> *const c_char {
    // SAFETY: the header says so.
    unsafe { self::error(error) }.map_or(c"".as_ptr(), |error| error.message.as_ptr())
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_error_server(error: *const Error) -> *const c_char {
    // SAFETY: the header says so.
    unsafe { self::error(error) }.map_or(c"".as_ptr(), |error| error.server.as_ptr())
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_error_command(error: *const Error) -> *const c_char {
    // SAFETY: the header says so.
    unsafe { self::error(error) }.map_or(c"".as_ptr(), |error| error.command.as_ptr())
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_error_is_outage(error: *const Error) -> bool {
    // SAFETY: the header says so.
    unsafe { self::error(error) }.is_some_and(|error| error.is_outage)
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_error_holder(error: *const Error, index: usize) -> *const c_char {
    // SAFETY: the header says so.
    let holder = unsafe { self::error(error) }.and_then(|error| error.holders.get(index));
    holder.map_or(std::ptr::null(), |holder| holder.as_ptr())
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_error_clone(error: *const Error) -> *mut Error {
    // SAFETY: the header says so.
    unsafe { error.as_ref() }.map_or(std::ptr::null_mut(), |error| error.clone().into_raw())
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_error_free(error: *mut Error) {
    if !error.is_null() {
        // SAFETY: the header says that it came from here, and is not used afterwards.
        drop(unsafe { Box::from_raw(error) });
    }
}

#[no_mangle]
pub extern "C" fn pinyon_kind_name(kind: u32) -> *const c_char {
    // Made once, so that they live as long as the library.
    static NAMES: std::sync::OnceLock<Vec<CString>> = std::sync::OnceLock::new();
    let names = NAMES.get_or_init(|| Kind::all().map(|kind| c_string(kind.name())).collect());
    let place = Kind::all().position(|known| known.number() == kind);
    place.map_or(std::ptr::null(), |place| names[place].as_ptr())
}

#[no_mangle]
pub extern "C" fn pinyon_kind_is_a(kind: u32, above: u32) -> bool {
    match (Kind::numbered(kind), Kind::numbered(above)) {
        (Some(kind), Some(above)) => kind.is_a(above),
        _ => false,
    }
}

#[no_mangle]
pub extern "C" fn pinyon_kind_parent(kind: u32, index: usize) -> u32 {
    let parent = Kind::numbered(kind).and_then(|kind| kind.parents().get(index));
    parent.map_or(0, |parent| Kind::Core(*parent).number())
}
