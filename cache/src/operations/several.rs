//! Several requests of any kind, each about one key, at the same time.

use std::time::Instant;

use pinyon_proto::Head;

use super::values::{SentData, SentKey, Values};
use super::{Ask, Asks, End, Next, Operation, Sending, Single};
use crate::fleet::Fleet;
use crate::session::{Destination, Refused, Reply, Session, Ticket};
use pinyon_net::error::Error;
use pinyon_net::network::Network;

/// Several requests, each with an answer of its own. Those to one server leave together: gets share lines, and stores are
/// quiet. Requests about the same key are carried out in order.
pub struct Several<K, D, V: Values> {
    singles: Vec<Single<K, D, V>>,
    /// The requests to ask in the next `begin`.
    wanted: Vec<u32>,
}

impl<K: SentKey, D: SentData, V: Values> Several<K, D, V> {
    pub fn new(singles: Vec<Single<K, D, V>>) -> Self {
        Self { wanted: (0..singles.len() as u32).collect(), singles }
    }

    /// The requests, to take the answer of each. Call it once the operation is over.
    pub fn finish(self) -> Vec<Single<K, D, V>> {
        self.singles
    }
}

impl<K: SentKey, D: SentData, V: Values> Operation for Several<K, D, V> {
    fn name(&self) -> &'static str {
        "several"
    }

    fn name_of(&self, part: u32) -> &'static str {
        self.singles[part as usize].name()
    }

    fn begin(&mut self, fleet: &Fleet, now: Instant) -> Asks {
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.sort_unstable();
        let mut asks = Asks::room(wanted.len());
        for part in wanted {
            if let Asks::One(Ask { choice, .. }) = self.singles[part as usize].begin(fleet, now) {
                asks.push(Ask { part, choice });
            }
        }
        Asks::of(asks)
    }

    fn routed(&self, part: u32) -> &[u8] {
        self.singles[part as usize].routed(0)
    }

    fn submit<N: Network>(&mut self, part: u32, session: &mut Session<N>, sending: Sending) -> Result<Ticket, Refused> {
        let is_shared = sending.is_shared || self.singles.len() > 1;
        self.singles[part as usize].submit(0, session, Sending { is_shared, ..sending })
    }

    fn reply(&mut self, part: u32, reply: Reply<'_>) {
        self.singles[part as usize].reply(0, reply);
    }

    fn destination(&mut self, part: u32, index: usize, head: &Head) -> Box<dyn Destination> {
        self.singles[part as usize].destination(0, index, head)
    }

    fn over(&mut self, part: u32, end: End) -> Next {
        if self.singles[part as usize].over(0, end) == Next::Again {
            self.wanted.push(part);
        }
        match self.wanted.is_empty() {
            true => Next::Nothing,
            false => Next::Again,
        }
    }

    fn only_reads(&self, part: u32) -> bool {
        self.singles[part as usize].only_reads(0)
    }

    fn fail(&mut self, error: Error) {
        for part in std::mem::take(&mut self.wanted) {
            let single = &mut self.singles[part as usize];
            let error = error.clone().of(single.name(), error.sent);
            single.fail(error);
        }
    }
}
