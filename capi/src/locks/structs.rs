//! The struct of notes, field by field.

use std::ffi::{c_char, c_void};

use crate::structs::{c_structs, Event};

c_structs! {
    "pinyon_note" Note {
        size: usize,
        warning: *const c_char,
        context: *mut c_void,
        loss: u32,
        event: *const Event,
    }
}
