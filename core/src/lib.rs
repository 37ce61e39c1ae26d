//! The core of Pinyon: sessions, the ring, servers' health, and the blocking way to drive them.
//!
//! Arrows point down: `blocking` drives `fleet` and `session`; `session` uses `network` and the protocol crate;
//! nothing here knows a host language.
#![deny(unsafe_code)]

pub mod address;
pub mod blocking;
pub mod compression;
mod connection;
pub mod dialect;
pub mod directory;
mod discovery;
pub mod doorbell;
pub mod driven;
pub mod error;
pub mod events;
pub mod fleet;
pub mod fork;
pub mod health;
pub mod invalid;
pub mod lease;
pub mod locks;
pub mod login;
pub mod metrics;
pub mod migration;
pub mod network;
pub mod operations;
pub mod pool;
pub mod redis;
pub mod resolver;
pub mod ring;
pub mod session;
pub mod settings;
pub mod shared;
pub mod spare;
pub mod tls;
pub mod ttl;

pub use address::{parse_servers, Address, Endpoint, ServerListError, ServerSpec};
pub use error::{Error, Kind, Sent};
pub use ring::Ring;
pub use session::{
    Completion, Data, Destination, Limits, Outcome, Refused, Reply, Session, SharedBytes, Ticket, Value,
};
