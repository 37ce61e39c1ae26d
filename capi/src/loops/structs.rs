//! The structs of event loops, field by field.

use std::ffi::c_void;

use crate::structs::{c_structs, sized, Found, Place};

c_structs! {
    "pinyon_action" Action {
        size: usize,
        kind: u32,
        fd: i32,
        lane: usize,
        write: u8,
        seconds: f64,
    }
    "pinyon_reading" Reading {
        size: usize,
        keys: *mut Found,
        count: usize,
        with: u32,
        place: Option<Place>,
        context: *mut c_void,
    }
}

sized! { Action, Reading }
