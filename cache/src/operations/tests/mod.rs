//! Operations in memory, without sockets: the test drives each step and writes every server's answer.

mod change;
mod everywhere;
mod fetch;
mod meaning;
mod near;
mod quiet;
mod several;
mod single;
pub(crate) mod stage;
mod tags;
mod trying;
pub(crate) mod world;
