//! Locks: their client, held locks, and notes of what happened by itself.

pub mod client;
pub mod leader;
pub mod listener;
pub mod lock;
pub mod notes;
pub mod structs;
