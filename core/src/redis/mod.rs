//! Redis, Valkey and their kin: a session that speaks RESP.
//!
//! A [`RespSession`] is one connection to one server and the queue of exchanges in flight on it, as that of memcached is:
//! it never waits, never calls the host and keeps no thread; time is an argument. Any command can be submitted. Replies
//! come in the order of the commands; what the server pushes comes between them.

mod greeting;
mod info;
mod refusal;
mod replies;
mod session;
mod settings;
mod submitting;
#[cfg(test)]
mod tests;

pub use crate::connection::{Ticket, Wants};
pub use info::{Protocol, ServerInfo};
pub use session::{RespEvent, RespSession};
pub use settings::{Password, RespLimits, SessionSettings};
pub use submitting::RespRefused;
