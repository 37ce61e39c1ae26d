//! Events of a client's servers, taken one by one, and those of locks, which are in notes.

use std::ffi::{c_char, CString};

use pinyon_cache::events;
use pinyon_net::events::Report;

use crate::client::Client;
use crate::errors::{c_string, Error};
use crate::exported::exported;
use crate::guard::free;
use crate::structs::Event;

/// An event for C, and what it points to.
#[repr(C)]
pub struct Told {
    event: Event,
    kind: CString,
    level: CString,
    server: CString,
    command: CString,
    message: CString,
    previous: Option<CString>,
    error: Option<Error>,
}

impl Told {
    pub fn of(report: Report<'_>) -> Box<Self> {
        let Report { kind, level, server, command, error, duration, line, previous } = report;
        let null = std::ptr::null();
        let mut told = Box::new(Told {
            event: Event {
                size: size_of::<Event>(),
                kind: null,
                level: null,
                server: null,
                command: null,
                message: null,
                seconds: duration.map_or(-1.0, |duration| duration.as_secs_f64()),
                error: std::ptr::null(),
                previous: null,
            },
            kind: c_string(kind),
            level: c_string(level.as_str()),
            server: c_string(server),
            command: c_string(command.unwrap_or_default()),
            message: c_string(&line),
            previous: previous.map(c_string),
            error: error.map(Error::from),
        });
        told.event.kind = told.kind.as_ptr();
        told.event.level = told.level.as_ptr();
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
    Box::into_raw(Told::of(event.report())).cast()
}

exported! {
    fn pinyon_next_event(client: &Client) -> *mut Event { client.next_event().map(told) }

    fn pinyon_event_free(event: *mut Event) {
        // It came from `told`.
        free(event.cast::<Told>())
    }
}
