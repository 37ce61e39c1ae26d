//! RESP, the protocol of Redis and Valkey: commands out, replies and pushes in, in both its versions.
//!
//! A [`Command`] is written as it is sent; a [`Reader`] takes whatever bytes have arrived and returns whole values, never larger
//! than its [`Limits`]. Facts come from the protocol's specification (RESP2 and RESP3) and from `networking.c`.

mod encode;
mod line;
mod reader;
mod value;

pub use crate::Malformed;
pub use encode::{encode, Command};
pub use line::MAX_LINE;
pub use reader::{Limits, Reader};
pub use value::{Decoded, ServerError, Value};
