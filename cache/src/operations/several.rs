//! Several requests of any kind, each about one key, at the same time.

use std::time::Instant;

use pinyon_proto::Head;

use super::values::{SentData, SentKey, Values};
use super::{Ask, Asks, End, LateLease, Next, Operation, Sending, Single};
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

    /// The request that a part belongs to, and the number of the part there. The first parts are those of all requests
    /// about themselves.
    #[inline]
    fn place(&self, part: u32) -> (usize, u32) {
        match part as usize {
            index if index < self.singles.len() => (index, 0),
            part => (part % self.singles.len(), (part / self.singles.len()) as u32),
        }
    }

    fn placed(&self, index: u32, Ask { part, choice }: Ask) -> Ask {
        Ask { part: part * self.singles.len() as u32 + index, choice }
    }
}

impl<K: SentKey, D: SentData, V: Values> Operation for Several<K, D, V> {
    fn name(&self) -> &'static str {
        "several"
    }

    fn name_of(&self, part: u32) -> &'static str {
        let (index, of_single) = self.place(part);
        self.singles[index].name_of(of_single)
    }

    fn begin(&mut self, fleet: &Fleet, now: Instant) -> Asks {
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.sort_unstable();
        let mut asks = Asks::room(wanted.len());
        for part in wanted {
            match self.singles[part as usize].begin(fleet, now) {
                Asks::One(Ask { part: 0, choice }) => asks.push(Ask { part, choice }),
                Asks::None => {}
                Asks::One(ask) => asks.push(self.placed(part, ask)),
                Asks::Many(many) => asks.extend(many.into_iter().map(|ask| self.placed(part, ask))),
            }
        }
        Asks::of(asks)
    }

    fn routed(&self, part: u32) -> &[u8] {
        let (index, of_single) = self.place(part);
        self.singles[index].routed(of_single)
    }

    fn submit<N: Network>(&mut self, part: u32, session: &mut Session<N>, sending: Sending) -> Result<Ticket, Refused> {
        let is_shared = sending.is_shared || self.singles.len() > 1;
        let sending = Sending { is_shared, ..sending };
        match self.singles.get_mut(part as usize) {
            Some(single) => single.submit(0, session, sending),
            None => {
                let (index, of_single) = self.place(part);
                self.singles[index].submit(of_single, session, sending)
            }
        }
    }

    fn reply(&mut self, part: u32, reply: Reply<'_>) {
        match self.singles.get_mut(part as usize) {
            Some(single) => single.reply(0, reply),
            None => {
                let (index, of_single) = self.place(part);
                self.singles[index].reply(of_single, reply);
            }
        }
    }

    fn destination(&mut self, part: u32, index: usize, head: &Head) -> Box<dyn Destination> {
        let (place, of_single) = self.place(part);
        self.singles[place].destination(of_single, index, head)
    }

    fn over(&mut self, part: u32, end: End) -> Next {
        let (index, next) = match self.singles.get_mut(part as usize) {
            Some(single) => (part, single.over(0, end)),
            None => {
                let (index, of_single) = self.place(part);
                (index as u32, self.singles[index].over(of_single, end))
            }
        };
        if next == Next::Again && !self.wanted.contains(&index) {
            self.wanted.push(index);
        }
        match self.wanted.is_empty() {
            true => Next::Nothing,
            false => Next::Again,
        }
    }

    fn only_reads(&self, part: u32) -> bool {
        let (index, of_single) = self.place(part);
        self.singles[index].only_reads(of_single)
    }

    fn may_win(&self) -> bool {
        self.singles.iter().any(Operation::may_win)
    }

    fn outlives_its_caller(&self) -> bool {
        self.singles.iter().any(Operation::outlives_its_caller)
    }

    fn late(&self, part: u32) -> Option<LateLease> {
        let (index, of_single) = self.place(part);
        self.singles[index].late(of_single)
    }

    fn give_back(&mut self) -> Next {
        for (part, single) in self.singles.iter_mut().enumerate() {
            if single.may_win() && single.give_back() == Next::Again {
                self.wanted.push(part as u32);
            }
        }
        match self.wanted.is_empty() {
            true => Next::Nothing,
            false => Next::Again,
        }
    }

    fn fail(&mut self, error: Error) {
        for part in std::mem::take(&mut self.wanted) {
            let single = &mut self.singles[part as usize];
            let error = error.clone().of(single.name(), error.sent);
            single.fail(error);
        }
    }
}
