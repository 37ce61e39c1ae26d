//! RESP, the protocol of Redis and Valkey, in both versions: commands out, replies and pushes in.
//!
//! A [`Command`] is stored as it is sent. A [`Reader`] turns arrived bytes into complete values within its [`Limits`].
//! The sources are the protocol's specification (RESP2 and RESP3) and `networking.c`.

mod encode;
mod line;
mod reader;
mod value;

pub use crate::Malformed;
pub use encode::{encode, Command};
pub use line::MAX_LINE;
pub use reader::{Limits, Reader};
pub use value::{Decoded, ServerError, Value};
