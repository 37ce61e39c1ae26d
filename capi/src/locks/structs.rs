//! The structs of locks, field by field.

use std::ffi::{c_char, c_void};

use super::lock::Lock;
use crate::structs::{c_structs, sized, Bytes, Event};

c_structs! {
    "pinyon_wish" Wish {
        size: usize,
        kind: u32,
        with: u32,
        names: *const Bytes,
        count: usize,
        lock: *mut Lock,
        owner: u64,
        ttl: f64,
        wait: f64,
        max_hold: f64,
        token: u64,
        most: u32,
        tag: Bytes,
        context: *mut c_void,
    }
    "pinyon_note" Note {
        size: usize,
        warning: *const c_char,
        context: *mut c_void,
        loss: u32,
        event: *const Event,
    }
}

sized! { Wish }
