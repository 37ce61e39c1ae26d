//! Shared locks: connects the core's client to `pinyon.Locks`, for threads and for coroutines.

mod answers;
mod client;
mod drivers;
mod leader;
mod lock;
mod names;
mod owners;
mod rate;
mod telling;
mod wanted;

pub(crate) use client::Locks;
pub(crate) use drivers::LocksDriver;
pub(crate) use leader::Candidate;
pub(crate) use lock::{Held, Lock};
pub(crate) use rate::Rate;
pub(crate) use telling::{stop_telling, tell_threads};
