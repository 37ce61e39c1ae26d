//! The memcached protocol as bytes: meta commands and the classic text commands. Beside it, in [`resp`], that of Redis.
//!
//! Nothing here reads a socket or a clock. [`encode`] turns a [`Command`] into a request and says what reply
//! to [`Expect`]; a [`ReplyReader`] takes whatever bytes have arrived and turns them into reply heads and values.
//! Facts come from memcached's `doc/protocol.txt` and its parser, `proto_parser.c`.
#![forbid(unsafe_code)]

mod classic;
mod command;
mod encode;
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
pub use key::{Key, KeyError, MAX_KEY};
pub use key_rules::{KeyRule, KeyRules};
pub use reader::{Decoded, ReplyReader, MAX_LINE};
pub use reply::{Head, Item, Malformed, Status};
pub use version::{Capabilities, ServerVersion};
