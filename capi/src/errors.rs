//! Errors as C sees them. The kinds are the core's, each with a number of its own.

use std::ffi::CString;

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

    pub fn numbered(number: u32) -> Option<Self> {
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

    pub fn parents(self) -> &'static [ErrorKind] {
        match self {
            Kind::Core(kind) => kind.parents(),
            Kind::Maker | Kind::Internal => &[ErrorKind::Error],
        }
    }

    pub fn is_a(self, above: Self) -> bool {
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
            // SAFETY: the caller's place is null, or can be written to.
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
