//! The memcached protocol as bytes: meta commands and classic text commands. [`resp`] is the protocol of Redis.
//!
//! Nothing here reads a socket or a clock. [`encode`] turns a [`Command`] into a request, and says which reply to
//! [`Expect`]. A [`ReplyReader`] turns arrived bytes into heads and values of replies. The sources are memcached's
//! `doc/protocol.txt` and its parser, `proto_parser.c`.
#![forbid(unsafe_code)]

mod classic;
mod command;
mod encode;
mod generation;
mod key;
mod key_rules;
mod meta;
mod number;
mod reader;
mod reply;
pub mod resp;
mod version;

pub use command::{Arithmetic, Command, Direction, Flag, Lease, MarkStale, MetaCommand, Mode, StatsKind, Store, Verb};
pub use encode::{encode, Expect, Form, Opaque, Unsupported};
pub use generation::{Generation, GENERATION_LENGTH, NO_GENERATION};
pub use key::{Key, KeyError, MAX_KEY};
pub use key_rules::{KeyRule, KeyRules};
pub use reader::{Decoded, ReplyReader, MAX_LINE};
pub use reply::{Head, Item, Malformed, Status};
pub use version::{Capabilities, ServerVersion};
