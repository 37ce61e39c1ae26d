//! What a machine tells: the outcomes that waiters await, and what happens by itself.

use std::sync::Arc;
use std::time::Duration;

use pinyon_proto::resp::Value;

use super::Machine;
use crate::call::{Attempt, FirstHolder, Mode, Name, Said, ScriptAnswer};
use crate::loss::Loss;
use pinyon_net::error::Error;

/// What happened to an attempt or a question.
#[derive(Clone, Debug)]
pub enum MachineEvent {
    /// The outcome of what is awaited of this attempt or question.
    Done { number: u64, awaited: Awaited, outcome: Outcome },
    /// A lock was lost: it is no longer held, though its holder did not release it.
    Lost { number: u64, loss: Loss },
    /// On a quorum: an attempt that comes before this one waits for its names on this server.
    Contested { number: u64 },
    /// The server refuses to renew held locks. Reported once, until a renewal succeeds again.
    RenewalRefused { error: Box<Error> },
}

/// The part of an attempt that a waiter awaits, or the answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Awaited {
    Grant,
    Release,
    Extension,
    Answer,
}

/// The outcome of an operation, from the machine up to whoever began it.
#[derive(Clone, Debug)]
pub enum Outcome {
    Granted {
        number: u64,
        token: u64,
        /// For a parked lock: whether it was notified.
        notified: bool,
        /// Whether its owner held it already, and has acquired it once more.
        again: bool,
    },
    /// A release that failed may have succeeded. If not, the lock ends with its ttl.
    Failed(MachineFailure),
    /// `held`: whether it was held until then.
    Released {
        held: bool,
    },
    /// Whether it is still held.
    Extended {
        held: bool,
    },
    Answered(ScriptAnswer),
    /// The reply to a command of the caller's own, which is none of the machine's.
    Value(Value),
}

/// Why a lock was not taken, or a question not answered.
#[derive(Clone, Debug)]
pub enum MachineFailure {
    /// The time to wait is up, and the names are taken according to the server or to this process. `blocker`: their
    /// holder, if known.
    Timeout { waited: Duration, blocker: Option<Box<Blocker>> },
    /// The names are taken, and the request does not wait.
    Busy,
    /// Its owner already holds one of the names.
    AlreadyHeld,
    /// It would wait for an owner that waits for it. Contains the holders of the cycle, in order.
    Deadlock { cycle: Vec<Attempt> },
    /// Some of the names are not held.
    NotHeld,
    /// The lock does not have this name in the other mode than this one.
    NotInMode { name: Name, mode: Mode },
    /// Another caller waits for other modes of the lock.
    Changing,
    /// The error of the server or of the connection.
    Server(Box<Error>),
}

/// The holder of a name that an attempt waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    pub holder: Attempt,
    /// How long it has held the name; unknown if the pure handler acquired it.
    pub held_for: Option<Duration>,
    /// What it says about its lock.
    pub remark: Option<Arc<str>>,
}

/// A usage error of the host: the lock is not held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotHeld;

impl From<Error> for MachineFailure {
    #[cold]
    fn from(error: Error) -> Self {
        Self::Server(error.into())
    }
}

impl MachineFailure {
    pub(crate) fn timeout(waited: Duration, blocker: Option<Blocker>) -> Self {
        Self::Timeout { waited, blocker: blocker.map(Box::new) }
    }
}

impl Blocker {
    pub(super) fn of(first: FirstHolder) -> Self {
        let FirstHolder { holder, age, said } = first;
        let remark = if let Said::Remark(remark) = said { Some(remark) } else { None };
        Self { holder: holder.attempt, held_for: age, remark }
    }
}

impl MachineEvent {
    pub(super) fn failed(number: u64, awaited: Awaited, failure: MachineFailure) -> Self {
        Self::Done { number, awaited, outcome: Outcome::Failed(failure) }
    }

    pub(super) fn released(number: u64, held: bool) -> Self {
        Self::Done { number, awaited: Awaited::Release, outcome: Outcome::Released { held } }
    }
}

impl Machine {
    /// Tells the waiter what it awaits.
    #[inline]
    pub(super) fn done(&mut self, number: u64, awaited: Awaited, outcome: Outcome) {
        self.events.push_back(MachineEvent::Done { number, awaited, outcome });
    }

    pub(super) fn tell_failed(&mut self, number: u64, awaited: Awaited, failure: MachineFailure) {
        self.events.push_back(MachineEvent::failed(number, awaited, failure));
    }

    /// The server or the connection fails what is awaited.
    pub(super) fn tell_error(&mut self, number: u64, awaited: Awaited, error: Error) {
        self.tell_failed(number, awaited, MachineFailure::from(error));
    }
}
