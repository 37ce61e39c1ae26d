//! Who listens to the losses of a lock.

use std::ffi::c_void;

use pinyon_locks as locks;

pub type Grant = locks::Grant<Listener>;

/// What the host gave for the notes of a lock. It is only handed back.
#[derive(Clone, Copy, Debug)]
pub struct Listener(usize);

impl Listener {
    pub fn of(context: *mut c_void) -> Self {
        Self(context as usize)
    }

    pub fn context(self) -> *mut c_void {
        self.0 as *mut c_void
    }
}
