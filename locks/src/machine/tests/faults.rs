//! Faults of the server, and which faults the upgrades of a schedule have met.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::ends::Ends;
use super::world::{names, World};
use crate::call::{Call, Name, ScriptAnswer};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// The connection was cut before the answer came.
    CutOff,
    /// The server refused to answer for now.
    Refused,
    /// The lock was not there any more, because its time was up or somebody deleted it.
    Lost,
    /// Somebody released one of its names by force.
    Forced,
}

#[derive(Default)]
pub(super) struct Upgrades {
    /// What those under way have met, by client and number.
    open: BTreeMap<(usize, u64), BTreeSet<Fault>>,
    /// How many have met a fault, whatever became of them.
    pub(super) met: BTreeMap<Fault, usize>,
    /// How many of them were granted after all.
    pub(super) survived: BTreeMap<Fault, usize>,
    pub(super) granted: usize,
}

impl Upgrades {
    pub(super) fn begin(&mut self, client: usize, number: u64) {
        self.open.insert((client, number), BTreeSet::new());
    }

    pub(super) fn meets(&mut self, fault: Fault, client: usize, number: u64) {
        if let Some(faults) = self.open.get_mut(&(client, number)) {
            if faults.insert(fault) {
                *self.met.entry(fault).or_default() += 1;
            }
        }
    }

    pub(super) fn all_meet(&mut self, fault: Fault, client: usize) {
        let numbers: Vec<u64> = self.open.keys().filter(|(of, _)| *of == client).map(|(_, number)| *number).collect();
        numbers.into_iter().for_each(|number| self.meets(fault, client, number));
    }

    pub(super) fn granted(&mut self, client: usize, number: u64) {
        self.granted += 1;
        for fault in self.open.remove(&(client, number)).unwrap_or_default() {
            *self.survived.entry(fault).or_default() += 1;
        }
    }

    /// It has failed, or its caller has gone.
    pub(super) fn end(&mut self, client: usize, number: u64) {
        self.open.remove(&(client, number));
    }

    /// Adds those of another schedule.
    pub(super) fn add(&mut self, other: &Self) {
        self.granted += other.granted;
        for (all, more) in [(&mut self.met, &other.met), (&mut self.survived, &other.survived)] {
            for (fault, count) in more {
                *all.entry(*fault).or_default() += count;
            }
        }
    }
}

impl World {
    /// Somebody takes a name away from all who have it. Until they hear of it, they may believe that they have it.
    pub(super) fn force_release(&mut self, letter: &str) {
        let names = names(letter);
        let inspect = Call::Inspect { names: names.clone(), remarks: false };
        let ScriptAnswer::Inspected(inspected) = self.model.call(self.server_clock, &inspect) else { unreachable!() };
        self.answer(0, &Call::ForceRelease { names, token: None });
        for name in inspected {
            for attempt in name.holder.into_iter().map(|holder| holder.attempt).chain(name.sharing) {
                let client = self.clients.iter().position(|client| client.name == attempt.client);
                self.upgrades.meets(Fault::Forced, client.expect("a client of this world"), attempt.number);
                self.ends.taken_away(&attempt);
                self.forced.insert(attempt);
            }
        }
    }

    pub(super) fn flush(&mut self) {
        self.note(|| "the server loses everything".into());
        self.model.flush();
        self.excuse();
    }

    pub(super) fn delete(&mut self, name: u8) {
        self.note(|| format!("somebody deletes {}", name as char));
        self.model.delete(&Name::from([name]));
        self.excuse();
    }

    pub(super) fn set_server_clock(&mut self, ahead: Duration) {
        self.note(|| format!("the server's clock jumps by {ahead:?}"));
        self.server_clock += ahead;
        self.excuse();
    }

    /// Holders cannot know of the loss until they ask again, or their time is up.
    fn excuse(&mut self) {
        self.ends = Ends::default();
        self.excused_until = self.now + Duration::from_secs(3600);
    }
}
