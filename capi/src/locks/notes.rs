//! Notes of what happened by itself: losses, and events of the servers.

use std::ptr::null_mut;
use std::time::Instant;

use pinyon_locks::{self, Notes};
use pinyon_net::host::{Host as _, LONGEST_SLEEP};
use pinyon_net::settings::waiting_time;

use super::client::Locks;
use super::listener::Listener;
use super::lock::number;
use super::structs::Note;
use crate::errors::Error;
use crate::events;
use crate::exported::exported;
use crate::guard::{free, with};
use crate::host::Host;
use crate::structs as c;

/// A note for C, and what it points to.
#[repr(C)]
struct Told {
    note: Note,
    event: Option<Box<events::Told>>,
}

fn told(note: pinyon_locks::Note<Listener>) -> *mut Note {
    let empty = Note {
        size: size_of::<Note>(),
        warning: std::ptr::null(),
        context: null_mut(),
        loss: 0,
        event: std::ptr::null(),
    };
    let told = Box::new(match note {
        pinyon_locks::Note::Lost { listener, loss } => {
            let note = Note { context: listener.context(), loss: number(Some(loss)), ..empty };
            Told { note, event: None }
        }
        pinyon_locks::Note::Event { event, .. } => {
            let is_warning = event.kind.is_told_unasked();
            let event = events::Told::of(event.report());
            let warning = if is_warning { event.message() } else { std::ptr::null() };
            Told { note: Note { warning, event: event.event(), ..empty }, event: Some(event) }
        }
    });
    // The note is its first field.
    Box::into_raw(told).cast()
}

fn wait(notes: &Notes<Listener>, seconds: f64, host: &Host) -> Result<*mut Note, Error> {
    let until = Instant::now() + waiting_time("seconds", seconds)?;
    loop {
        let now = Instant::now();
        let note = host.unlocked(|| notes.wait_until(until.min(now + LONGEST_SLEEP)));
        match note {
            Ok(Some(note)) => return Ok(told(note)),
            Ok(None) if now < until && !notes.is_closed() && host.interrupted().is_ok() => {}
            Ok(None) | Err(_) => return Ok(null_mut()),
        }
    }
}

exported! {
    fn pinyon_next_note(locks: &Locks) -> *mut Note { locks.notes().take().map(told) }

    fn pinyon_wait_note(locks: *const Locks, seconds: f64, host: *const c::Host) -> *mut Note {
        with(locks, |locks| wait(locks.notes(), seconds, &Host::new(host)?)).unwrap_or(null_mut())
    }

    fn pinyon_note_free(note: *mut Note) {
        // It came from `told`.
        free(note.cast::<Told>())
    }
}
