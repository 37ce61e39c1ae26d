//! Events of a client's servers, taken one by one.

use std::ffi::{CStr, CString};

use pinyon_core::events::{self, EventKind, Level};

use crate::client::Client;
use crate::errors::{c_string, Error};
use crate::guard::with;
use crate::structs::Event;

/// An event for C, and what it points to.
#[repr(C)]
struct Told {
    event: Event,
    server: CString,
    command: CString,
    message: CString,
    error: Option<Error>,
}

fn told(event: events::Event) -> *mut Event {
    let mut told = Box::new(Told {
        event: Event {
            size: size_of::<Event>(),
            kind: kind(event.kind).as_ptr(),
            level: level(event.kind.level()).as_ptr(),
            server: std::ptr::null(),
            command: std::ptr::null(),
            message: std::ptr::null(),
            seconds: event.duration.map_or(-1.0, |duration| duration.as_secs_f64()),
            error: std::ptr::null(),
        },
        server: c_string(&event.server),
        command: c_string(event.command),
        message: c_string(&event.to_string()),
        error: event.error.as_ref().map(Error::from),
    });
    told.event.server = told.server.as_ptr();
    told.event.command = told.command.as_ptr();
    told.event.message = told.message.as_ptr();
    told.event.error = told.error.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // The event is its first field.
    Box::into_raw(told).cast()
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
