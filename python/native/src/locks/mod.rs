//! Shared locks: between the core's lock client and `pinyon.Locks`, blocking or in coroutines.

mod answers;
mod backend;
mod client;
mod driver;
mod grant;
mod lock;

pub(crate) use backend::Keeper;
pub(crate) use client::{thread_number, Locks};
pub(crate) use driver::LocksDriver;
pub(crate) use grant::Grant;
pub(crate) use lock::Lock;
