//! News of locks that no thread waits for: losses, and events of the servers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use magnus::{Error, IntoValue, Ruby, Value};
use pinyon_locks::{Note, Notes};

use crate::events::{event_fields, Listener};
use crate::host::unlocked_until;

/// The notes for the threads of the process.
pub(super) fn notes() -> &'static Arc<Notes<Listener>> {
    static NOTES: OnceLock<Arc<Notes<Listener>>> = OnceLock::new();
    NOTES.get_or_init(|| Notes::new(true).into())
}

/// Waits for the next note: `[:lost, number]` or `[:event, [source, fields]]`.
pub(super) fn listen(ruby: &Ruby) -> Result<Value, Error> {
    let interrupted = AtomicBool::new(false);
    loop {
        let wait = || notes().wait_unless(&interrupted);
        let interrupt = || {
            interrupted.store(true, Ordering::Relaxed);
            notes().interrupt();
        };
        match unlocked_until(ruby, wait, interrupt)? {
            Some(Note::Lost { listener, .. }) => return Ok((ruby.to_symbol("lost"), listener).into_value_with(ruby)),
            Some(Note::Event { source, event }) => {
                let event = (source, event_fields(ruby, event.report())?);
                return Ok((ruby.to_symbol("event"), event).into_value_with(ruby));
            }
            None => interrupted.store(false, Ordering::Relaxed),
        }
    }
}
