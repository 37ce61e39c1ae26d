//! Operations in memory: a driver that does as the test says, sessions without sockets, and servers that say what the
//! test has them say.

mod change;
mod everywhere;
mod fetch;
mod meaning;
mod quiet;
mod single;
mod stage;
mod trying;
