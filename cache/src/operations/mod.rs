//! What a client does: commands on one key, on many keys, on every server, and quiet batches of commands.
//!
//! An [`Operation`] is a value. It says what to ask of which server, receives replies and failures, and says whether it
//! is over or begins again. It never waits, and it does not know its driver: [`blocking`](crate::blocking) runs it in a
//! thread, [`shared`](crate::shared) in an event loop.
//!
//! The host supplies its [`Values`], which turn bytes and client flags into the host's objects. Their code runs while a
//! reply is read, and must neither wait nor unwind. A host that cannot promise this uses [`AsBytes`], and makes its
//! objects once the operation is over.
//!
//! The operation alone decides what is retried, where, and what a failure means. It repeats a request only if the
//! request was not sent or only reads, and only within the deadline. Its driver records the servers' health.

mod account;
mod any;
mod change;
mod everywhere;
mod failures;
mod fetch;
mod finding;
mod keys;
mod meaning;
mod policy;
mod quiet;
mod request;
mod route;
mod several;
mod single;
mod tagging;
#[cfg(test)]
pub(crate) mod tests;
mod untaken;
mod values;

use std::time::Instant;

pub use pinyon_proto::{Direction, Head, Item, Key, KeyError, KeyRules, Mode, Status};

pub(crate) use account::Account;
pub use account::{Broken, Unsuccessful};
pub use any::AnyOperation;
pub use change::{Change, Changed, DataBlock};
pub use everywhere::{statistics, version, Everywhere, ServerCommand, ServerLines};
pub use failures::Failures;
pub use fetch::{Fetch, Fetched, FoundKey, Unanswered, Unreadable};
pub use finding::{Finding, Win, RENEWALS};
pub use keys::Keys;
pub use meaning::{remaining, Answer, Compared, Fact, Found, FoundTags};
pub use policy::Policy;
pub use quiet::Quiet;
pub use request::{Beside, Initial, Request};
pub(crate) use route::{choose, may_go_on, told};
pub use several::Several;
pub use single::{Answered, Failed, LateLease, Single};
pub use tagging::{ReadTags, Tagging, Tags};
pub use values::{AsBytes, BorrowedKey, Bytes, OwnedData, OwnedKey, SentData, SentKey, Unread, Values};

use crate::fleet::{Choice, Fleet};
use crate::session::{Destination, Refused, Reply, Session, Ticket};
use crate::spare::SpareVector;
use pinyon_net::error::Error;
use pinyon_net::network::Network;

/// One task of a client: an exchange with one server, or several exchanges with one common outcome.
///
/// A driver begins the operation, carries out each [`Ask`] and reports how it ended. The operation is over when no ask
/// is open and none of them wants to begin again. Its type then says how to take the outcome.
pub trait Operation {
    /// The command's name, for errors, events and metrics.
    fn name(&self) -> &'static str;

    /// The name of the command that carries out this ask, for operations that use several.
    fn name_of(&self, _part: u32) -> &'static str {
        self.name()
    }

    /// Says what to ask now, given these servers. The driver calls it at the start, and whenever the operation wants to
    /// begin again. The operation is over if no ask is returned and none is open.
    fn begin(&mut self, fleet: &Fleet, now: Instant) -> Asks;

    /// The key of an ask, in the form that the ring hashes. Asks for the same key keep their order.
    fn routed(&self, part: u32) -> &[u8];

    /// Submits the request of an ask.
    fn submit<N: Network>(&mut self, part: u32, session: &mut Session<N>, sending: Sending) -> Result<Ticket, Refused>;

    /// Takes a reply, or one part of it.
    fn reply(&mut self, part: u32, reply: Reply<'_>);

    /// Says where to receive a large value. `index`: as in [`Reply::index`].
    fn destination(&mut self, _part: u32, _index: usize, head: &Head) -> Box<dyn Destination> {
        Box::new(vec![0; head.size.unwrap_or_default()])
    }

    /// Takes note of the end of an ask.
    fn over(&mut self, part: u32, end: End) -> Next;

    /// Takes note that the operation cannot begin: no server is known, or the client is closed.
    fn fail(&mut self, error: Error);

    /// Whether this ask changes nothing, so that it may be asked a second time meanwhile.
    fn only_reads(&self, _part: u32) -> bool {
        false
    }

    /// Whether it may win a lease, which other callers wait for until it is given back.
    fn may_win(&self) -> bool {
        false
    }

    /// Whether it must reach its end although its caller was interrupted, because others wait for what it decides.
    fn outlives_its_caller(&self) -> bool {
        self.may_win()
    }

    /// What goes on with an ask that must reach its end, without the caller: it borrows nothing, and reads no value.
    fn late(&self, _part: u32) -> Option<LateLease> {
        None
    }

    /// Gives back a lease that was won. The driver calls it when the operation is over and its caller is gone.
    fn give_back(&mut self) -> Next {
        Next::Nothing
    }
}

/// One exchange with one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Identifies the ask within its operation.
    pub part: u32,
    pub choice: Choice,
}

/// How to send a request.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// Whether other operations use this session too. Then the request may be joined with theirs.
    pub is_shared: bool,
    /// The longest ttl allowed for items that the request creates, in seconds.
    pub longest_ttl: Option<i32>,
    pub deadline: Instant,
}

/// What an operation asks now.
#[derive(Debug, PartialEq, Eq)]
pub enum Asks {
    None,
    /// The usual case. It allocates nothing.
    One(Ask),
    Many(Vec<Ask>),
}

/// How an ask ended.
#[derive(Debug)]
pub enum End {
    Answered,
    /// `in_time`: the caller still waits, and there is time to ask again.
    Failed {
        error: Error,
        in_time: bool,
    },
    /// The server left before anything was sent.
    Withdrawn,
}

/// What an operation wants after an ask has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing beyond the asks that are open.
    Nothing,
    /// To begin again.
    Again,
}

thread_local! {
    static ASKS: SpareVector<Ask> = const { SpareVector::new() };
}

impl Asks {
    /// Room for so many.
    fn room(many: usize) -> Vec<Ask> {
        let mut asks = SpareVector::take(&ASKS);
        asks.reserve(many);
        asks
    }

    /// Keeps the memory of asks that were taken.
    pub(crate) fn keep(asks: Vec<Ask>) {
        SpareVector::give(&ASKS, asks);
    }

    fn of(mut asks: Vec<Ask>) -> Self {
        match asks.len() {
            0 => Asks::None,
            1 => asks.pop().map_or(Asks::None, Asks::One),
            _ => Asks::Many(asks),
        }
    }
}
