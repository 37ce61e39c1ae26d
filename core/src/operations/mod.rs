//! What a client does: commands on one key, on many keys, on every server, and quiet batches of commands.
//!
//! An [`Operation`] is a value. It says what to ask of which server, is given replies and failures, and says whether it
//! is over, begins again now, or begins again later. It never waits, and it never learns how its driver waits:
//! [`blocking`](crate::blocking) runs it in a thread, [`shared`](crate::shared) in an event loop.
//!
//! The host supplies its [`Values`]: what becomes of a value's bytes and client flags. Its code runs while a reply is
//! read, and must neither wait nor unwind. A host that cannot promise this takes [`AsBytes`] values, and makes its
//! objects once the operation is over.

mod account;
mod any;
mod change;
mod course;
mod everywhere;
mod failures;
mod fetch;
mod keys;
mod quiet;
mod request;
mod single;
#[cfg(test)]
mod tests;
mod values;

use std::time::Instant;

pub use pinyon_proto::{Direction, Head, Item, Key, KeyError, KeyRules, Mode, Status};

pub use crate::lease::{Finding, Win};
pub use crate::settings::Policy;
pub(crate) use account::Account;
pub use account::{Broken, Unsuccessful};
pub use any::AnyOperation;
pub use change::{Change, Changed, DataBlock};
pub(crate) use course::{choose, may_go_on, told};
pub use everywhere::{statistics, version, Everywhere, ServerCommand, ServerLines};
pub use failures::Failures;
pub use fetch::{Fetch, Fetched, FoundKey, Unreadable};
pub use keys::Keys;
pub use quiet::Quiet;
pub use request::{remaining, Answer, Compared, Found, Initial, Request};
pub use single::{Answered, Failed, Single};
pub use values::{AsBytes, BorrowedKey, Bytes, OwnedData, OwnedKey, SentData, SentKey, Values};

use crate::error::Error;
use crate::fleet::{Choice, Fleet};
use crate::network::Network;
use crate::session::{Destination, Refused, Reply, Session, Ticket};

/// Something that a client does: one exchange with a server, or several whose outcomes belong together.
///
/// A driver begins it, carries out each [`Ask`] and says how that ended. When nothing is open any more, and nothing is to
/// begin again, the operation is over, and its type says how to take its outcome.
pub trait Operation {
    /// Its command's name, for errors, events and metrics.
    fn name(&self) -> &'static str;

    /// The name of the command that an ask is carried out by, where there are different ones.
    fn name_of(&self, _part: u32) -> &'static str {
        self.name()
    }

    /// Says what to ask now, given these servers. A driver calls it at the start and whenever the operation wants to
    /// begin again. No asks and none open means that the operation is over.
    fn begin(&mut self, fleet: &Fleet, now: Instant) -> Asks;

    /// The key that an ask is about, as the ring knows it. Asks about one key keep their order.
    fn routed(&self, part: u32) -> &[u8];

    /// Submits the request of an ask.
    fn submit<N: Network>(&mut self, part: u32, session: &mut Session<N>, sending: Sending) -> Result<Ticket, Refused>;

    /// Takes a reply, or one part of it.
    fn reply(&mut self, part: u32, reply: Reply<'_>);

    /// Says where a large value is to be received.
    fn destination(&mut self, _part: u32, head: &Head) -> Box<dyn Destination> {
        Box::new(vec![0; head.size.unwrap_or_default()])
    }

    /// Takes note of how an ask ended.
    fn over(&mut self, part: u32, end: End) -> Next;

    /// Takes note that it cannot begin: no server is known, or the client is closed.
    fn fail(&mut self, error: Error);

    /// Whether it asks for what others wait for until it is given back.
    fn may_win(&self) -> bool {
        false
    }

    /// Called when the operation is over and nobody waits for its outcome any more: gives back what it has won.
    fn give_back(&mut self) -> Next {
        Next::Nothing
    }
}

/// One exchange with one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Tells the asks of an operation apart.
    pub part: u32,
    pub choice: Choice,
}

/// How a request is to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// Other operations submit to the session too: a request that may be is joined with theirs.
    pub is_shared: bool,
    /// Items that the request makes must expire within so many seconds.
    pub longest_ttl: Option<i32>,
    pub deadline: Instant,
}

/// What an operation asks now.
#[derive(Debug, PartialEq, Eq)]
pub enum Asks {
    None,
    /// The usual case, which allocates nothing.
    One(Ask),
    Many(Vec<Ask>),
}

/// How an ask ended.
#[derive(Debug)]
pub enum End {
    Answered,
    /// `in_time`: somebody still waits, and there is time to ask again.
    Failed {
        error: Error,
        in_time: bool,
    },
    /// Its server has left before anything was sent.
    Withdrawn,
}

/// What an operation wants after an ask has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing more than what is open.
    Nothing,
    /// To begin again.
    Again,
}

impl Asks {
    fn of(mut asks: Vec<Ask>) -> Self {
        match asks.len() {
            0 => Asks::None,
            1 => asks.pop().map_or(Asks::None, Asks::One),
            _ => Asks::Many(asks),
        }
    }
}
