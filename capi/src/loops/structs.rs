//! The structs of event loops, field by field.

use crate::structs::{c_structs, sized};

c_structs! {
    "pinyon_action" Action {
        size: usize,
        kind: u32,
        fd: i32,
        lane: usize,
        write: u8,
        seconds: f64,
    }
}

sized! { Action }
