//! Redis, Valkey and compatible servers: a session that speaks RESP.
//!
//! Like memcached's, a [`RespSession`] is one connection to one server and the queue of exchanges in flight on it. It
//! never waits, never calls the host and starts no thread; time is an argument. It takes any command. Replies come in
//! the order of the commands, with the server's pushes in between.

mod classes;
mod greeting;
mod info;
mod refusal;
mod renewing;
mod replies;
mod session;
mod settings;
mod submitting;
#[cfg(test)]
mod tests;

pub use crate::connection::{Ticket, Wants};
pub use classes::{actual, Refusal};
pub use info::{Protocol, ServerInfo};
pub use session::{RespEvent, RespSession};
pub use settings::{Password, RespLimits, SessionSettings};
pub use submitting::RespRefused;
