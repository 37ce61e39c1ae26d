//! One type for all operations, for drivers that run many kinds at a time.

use std::time::Instant;

use pinyon_proto::Head;

use super::values::{SentData, SentKey, Values};
use super::{Asks, Change, End, Everywhere, Fetch, LateLease, Next, Operation, Quiet, Sending, Several, Single};
use crate::fleet::Fleet;
use crate::session::{Destination, Refused, Reply, Session, Ticket};
use crate::spare::Reused;
use pinyon_net::error::Error;
use pinyon_net::network::Network;

/// Any operation on the host's types of keys, data and values. It is moved often, so it is small.
pub enum AnyOperation<K, D, V: Values> {
    Single(Reused<Single<K, D, V>>),
    Fetch(Box<Fetch<V>>),
    Change(Box<Change<D>>),
    Everywhere(Box<Everywhere>),
    Quiet(Box<Quiet<K, D>>),
    Several(Box<Several<K, D, V>>),
}

macro_rules! each {
    ($any:expr, $operation:ident => $call:expr) => {
        match $any {
            AnyOperation::Single($operation) => $call,
            AnyOperation::Fetch($operation) => $call,
            AnyOperation::Change($operation) => $call,
            AnyOperation::Everywhere($operation) => $call,
            AnyOperation::Quiet($operation) => $call,
            AnyOperation::Several($operation) => $call,
        }
    };
}

impl<K, D, V: Values> From<Single<K, D, V>> for AnyOperation<K, D, V> {
    fn from(single: Single<K, D, V>) -> Self {
        Self::Single(Reused::new(single, None))
    }
}

impl<K, D, V: Values> From<Fetch<V>> for AnyOperation<K, D, V> {
    fn from(fetch: Fetch<V>) -> Self {
        Self::Fetch(fetch.into())
    }
}

impl<K, D, V: Values> From<Change<D>> for AnyOperation<K, D, V> {
    fn from(change: Change<D>) -> Self {
        Self::Change(change.into())
    }
}

impl<K, D, V: Values> From<Several<K, D, V>> for AnyOperation<K, D, V> {
    fn from(several: Several<K, D, V>) -> Self {
        Self::Several(several.into())
    }
}

impl<K, D, V: Values> From<Everywhere> for AnyOperation<K, D, V> {
    fn from(everywhere: Everywhere) -> Self {
        Self::Everywhere(everywhere.into())
    }
}

impl<K: SentKey, D: SentData, V: Values> Operation for AnyOperation<K, D, V> {
    fn name(&self) -> &'static str {
        each!(self, operation => operation.name())
    }

    fn name_of(&self, part: u32) -> &'static str {
        each!(self, operation => operation.name_of(part))
    }

    fn begin(&mut self, fleet: &Fleet, now: Instant) -> Asks {
        each!(self, operation => operation.begin(fleet, now))
    }

    fn routed(&self, part: u32) -> &[u8] {
        each!(self, operation => operation.routed(part))
    }

    fn submit<N: Network>(&mut self, part: u32, session: &mut Session<N>, sending: Sending) -> Result<Ticket, Refused> {
        each!(self, operation => operation.submit(part, session, sending))
    }

    fn reply(&mut self, part: u32, reply: Reply<'_>) {
        each!(self, operation => operation.reply(part, reply))
    }

    fn destination(&mut self, part: u32, index: usize, head: &Head) -> Box<dyn Destination> {
        each!(self, operation => operation.destination(part, index, head))
    }

    fn over(&mut self, part: u32, end: End) -> Next {
        each!(self, operation => operation.over(part, end))
    }

    fn fail(&mut self, error: Error) {
        each!(self, operation => operation.fail(error))
    }

    fn only_reads(&self, part: u32) -> bool {
        each!(self, operation => operation.only_reads(part))
    }

    fn may_win(&self) -> bool {
        each!(self, operation => operation.may_win())
    }

    fn outlives_its_caller(&self) -> bool {
        each!(self, operation => operation.outlives_its_caller())
    }

    fn late(&self, part: u32) -> Option<LateLease> {
        each!(self, operation => operation.late(part))
    }

    fn give_back(&mut self) -> Next {
        each!(self, operation => operation.give_back())
    }
}
