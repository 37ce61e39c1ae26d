//! News of locks that no thread waits for: losses, and warnings for the operators of the program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use magnus::{Error, IntoValue, Ruby, Value};
use pinyon_core::locks::{Note, Notes};

use crate::host::unlocked_until;

/// The number of the `Held` to be told.
pub(crate) type Listener = u64;

/// The notes for the threads of the process.
pub(super) fn notes() -> &'static Arc<Notes<Listener>> {
    static NOTES: OnceLock<Arc<Notes<Listener>>> = OnceLock::new();
    NOTES.get_or_init(Arc::default)
}

/// Waits for the next note: `[:lost, number]` or `[:warning, text]`.
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
            Some(Note::Warning(text)) => return Ok((ruby.to_symbol("warning"), text).into_value_with(ruby)),
            None => interrupted.store(false, Ordering::Relaxed),
        }
    }
}
