//! Shared locks: between the core's lock client and `pinyon.Locks`, blocking or in coroutines.

mod answers;
mod client;
mod lock;
mod place;
mod telling;

pub(crate) use client::{new_owner, thread_number, Locks};
pub(crate) use lock::{Held, Lock};
pub(crate) use place::LocksDriver;
pub(crate) use telling::{stop_telling, tell_threads};
