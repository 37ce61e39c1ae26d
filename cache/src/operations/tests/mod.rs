//! Operations in memory, without sockets: the test drives each step and writes every server's answer.

mod change;
mod everywhere;
mod fetch;
mod meaning;
mod quiet;
mod several;
mod single;
mod stage;
mod trying;
