//! The structs of event loops, field by field.

use crate::structs::sized;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Action {
    pub size: usize,
    pub kind: u32,
    pub fd: i32,
    pub lane: usize,
    pub write: u8,
    pub seconds: f64,
}

sized! { Action as "pinyon_action" }
