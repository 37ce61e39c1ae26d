//! Events of a client's servers, taken one by one, and those of locks, which are in notes.

use std::ffi::{c_char, CStr, CString};
use std::time::Duration;

use pinyon_core::events::{self, EventKind, Level};
use pinyon_core::locks::{LockEvent, LockEventKind};

use crate::client::Client;
use crate::errors::{c_string, Error};
use crate::guard::with;
use crate::structs::Event;

/// An event for C, and what it points to.
#[repr(C)]
pub struct Told {
    event: Event,
    server: CString,
    command: CString,
    message: CString,
    previous: Option<CString>,
    error: Option<Error>,
}

impl Told {
    fn of(event: &events::Event) -> Box<Self> {
        let names = [kind(event.kind), level(event.kind.level())];
        let texts = [&event.server, event.command, &event.to_string()];
        Self::new(names, texts, None, event.duration, event.error.as_ref())
    }

    pub fn of_locks(event: &LockEvent) -> Box<Self> {
        let names = [kind_of_locks(event.kind), level(event.kind.level())];
        let texts = [&event.server, "", &*event.line];
        Self::new(names, texts, event.previous.as_deref(), event.duration, event.error.as_ref())
    }

    fn new(
        [kind, level]: [&'static CStr; 2],
        [server, command, message]: [&str; 3],
        previous: Option<&str>,
        duration: Option<Duration>,
        error: Option<&pinyon_core::error::Error>,
    ) -> Box<Self> {
        let null = std::ptr::null();
        let mut told = Box::new(Told {
            event: Event {
                size: size_of::<Event>(),
                kind: kind.as_ptr(),
                level: level.as_ptr(),
                server: null,
                command: null,
                message: null,
                seconds: duration.map_or(-1.0, |duration| duration.as_secs_f64()),
                error: std::ptr::null(),
                previous: null,
            },
            server: c_string(server),
            command: c_string(command),
            message: c_string(message),
            previous: previous.map(c_string),
            error: error.map(Error::from),
        });
        told.event.server = told.server.as_ptr();
        told.event.command = told.command.as_ptr();
        told.event.message = told.message.as_ptr();
        told.event.previous = told.previous.as_ref().map_or(null, |previous| previous.as_ptr());
        told.event.error = told.error.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        told
    }

    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Its line.
    pub fn message(&self) -> *const c_char {
        self.event.message
    }
}

fn told(event: events::Event) -> *mut Event {
    // The event is its first field.
    Box::into_raw(Told::of(&event)).cast()
}

fn kind_of_locks(kind: LockEventKind) -> &'static CStr {
    match kind {
        LockEventKind::Connected => c"connected",
        LockEventKind::Disconnected => c"disconnected",
        LockEventKind::Down => c"down",
        LockEventKind::Up => c"up",
        LockEventKind::Switched => c"switched",
        LockEventKind::SentinelDown => c"sentinel_down",
        LockEventKind::SentinelUp => c"sentinel_up",
        LockEventKind::Renewals => c"renewals",
        LockEventKind::Warning => c"warning",
    }
}

fn kind(kind: EventKind) -> &'static CStr {
    match kind {
        EventKind::Down => c"down",
        EventKind::Up => c"up",
        EventKind::Retry => c"retry",
        EventKind::Slow => c"slow",
        EventKind::Servers => c"servers",
        EventKind::Discovery => c"discovery",
        EventKind::Classic => c"classic",
    }
}

fn level(level: Level) -> &'static CStr {
    match level {
        Level::Debug => c"debug",
        Level::Info => c"info",
        Level::Warning => c"warning",
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_next_event(client: *const Client) -> *mut Event {
    // SAFETY: the header says so.
    let event = unsafe { with(client, |client| Ok(client.next_event().map(told))) };
    event.ok().flatten().unwrap_or(std::ptr::null_mut())
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_event_free(event: *mut Event) {
    // SAFETY: it came from `told`, as the header says.
    unsafe { crate::guard::free(event.cast::<Told>()) }
}
