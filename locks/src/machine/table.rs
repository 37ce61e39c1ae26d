//! Decides which attempts of this process may ask the server for which names, with one line of attempts for each name.
//!
//! Only the attempt in front of all its lines goes to the server. The others wait here at no cost, and follow as soon
//! as it leaves. This also spares the server the many waiters of one process.

use std::collections::hash_map::Entry;
use std::collections::VecDeque;

use foldhash::HashMap;

use crate::call::{Name, Names};

/// The order in which waiters for the same names get their turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fairness {
    /// First come, first served, for each name. No waiter is overtaken.
    #[default]
    Fifo,
    /// An attempt that finds all its names free takes them, even if others have waited longer for some of them.
    Throughput,
}

#[derive(Default)]
pub(crate) struct Table {
    fairness: Fairness,
    lines: HashMap<Name, Line>,
    waiting: HashMap<u64, Waiting>,
}

/// The attempts that want one name.
#[derive(Default)]
struct Line {
    /// The attempt that has gone to the server for it.
    started: Option<u64>,
    waiting: VecDeque<u64>,
}

struct Waiting {
    names: Names,
    /// For how many of its names other attempts are ahead.
    blocked: usize,
}

impl Table {
    pub(crate) fn new(fairness: Fairness) -> Self {
        Self { fairness, ..Self::default() }
    }

    /// Adds an attempt to its lines. Returns whether it may go to the server at once.
    pub(crate) fn enter(&mut self, number: u64, names: &Names) -> bool {
        let fairness = self.fairness;
        let is_blocked = |line: Option<&Line>| {
            line.is_some_and(|line| line.started.is_some() || fairness == Fairness::Fifo && !line.waiting.is_empty())
        };
        let blocked = names.iter().filter(|name| is_blocked(self.lines.get(*name))).count();
        if blocked == 0 {
            self.occupy(number, names);
            return true;
        }
        for name in names.iter() {
            self.lines.entry(name.clone()).or_default().waiting.push_back(number);
        }
        self.waiting.insert(number, Waiting { names: names.clone(), blocked });
        false
    }

    /// Whether no other attempt has any of the names.
    pub(crate) fn is_free(&self, names: &Names) -> bool {
        names.iter().all(|name| !self.lines.contains_key(name))
    }

    /// Removes an attempt that is over. Returns those that may go to the server now, in order.
    pub(crate) fn leave(&mut self, number: u64, names: &Names) -> Vec<u64> {
        match self.waiting.remove(&number) {
            Some(_) => self.give_up(number, names),
            None => self.vacate(number, names),
        }
    }

    fn occupy(&mut self, number: u64, names: &Names) {
        for name in names.iter() {
            let line = self.lines.entry(name.clone()).or_default();
            line.waiting.retain(|waiting| *waiting != number);
            line.started = Some(number);
            if self.fairness == Fairness::Throughput {
                for other in &line.waiting {
                    self.waiting.entry(*other).and_modify(|other| other.blocked += 1);
                }
            }
        }
    }

    /// Frees the names of an attempt that went to the server.
    fn vacate(&mut self, number: u64, names: &Names) -> Vec<u64> {
        let mut unblocked = Vec::new();
        for name in names.iter() {
            let Entry::Occupied(mut line) = self.lines.entry(name.clone()) else { continue };
            if line.get().started != Some(number) {
                continue;
            }
            line.get_mut().started = None;
            match (self.fairness, line.get().waiting.front()) {
                (_, None) => drop(line.remove()),
                (Fairness::Fifo, Some(first)) => unblocked.push(*first),
                (Fairness::Throughput, Some(_)) => unblocked.extend(&line.get().waiting),
            }
        }
        self.unblock(unblocked)
    }

    /// Removes an attempt that waited here.
    fn give_up(&mut self, number: u64, names: &Names) -> Vec<u64> {
        let mut unblocked = Vec::new();
        for name in names.iter() {
            let Entry::Occupied(mut entry) = self.lines.entry(name.clone()) else { continue };
            let line = entry.get_mut();
            let was_first = line.waiting.front() == Some(&number);
            line.waiting.retain(|waiting| *waiting != number);
            if line.started.is_some() {
                continue;
            }
            match line.waiting.front() {
                None => drop(entry.remove()),
                Some(next) if was_first && self.fairness == Fairness::Fifo => unblocked.push(*next),
                Some(_) => {}
            }
        }
        self.unblock(unblocked)
    }

    /// Counts one obstacle less for each of these. Returns those without obstacles, which go to the server.
    fn unblock(&mut self, unblocked: Vec<u64>) -> Vec<u64> {
        let mut free = Vec::new();
        for number in unblocked {
            let Some(waiting) = self.waiting.get_mut(&number) else { continue };
            waiting.blocked -= 1;
            if waiting.blocked == 0 {
                free.push(number);
            }
        }
        free.sort_unstable();
        free.into_iter().filter(|number| self.start(*number)).collect()
    }

    /// Sends an attempt to the server, unless another one has just taken one of its names.
    fn start(&mut self, number: u64) -> bool {
        if self.waiting.get(&number).is_none_or(|waiting| waiting.blocked > 0) {
            return false;
        }
        let Some(Waiting { names, .. }) = self.waiting.remove(&number) else { return false };
        self.occupy(number, &names);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(letters: &str) -> Names {
        letters.bytes().map(|letter| Name::from([letter])).collect()
    }

    #[test]
    fn who_comes_first_goes_first_for_each_name() {
        let mut table = Table::new(Fairness::Fifo);
        assert!(table.enter(1, &names("ab")));
        assert!(!table.enter(2, &names("bc")));
        assert!(!table.enter(3, &names("c")), "2 waits for c longer");
        assert!(table.enter(4, &names("d")));
        assert_eq!(table.leave(1, &names("ab")), [2]);
        assert_eq!(table.leave(2, &names("bc")), [3]);
        assert!(table.leave(3, &names("c")).is_empty());
        assert!(table.leave(4, &names("d")).is_empty());
        assert!(table.lines.is_empty() && table.waiting.is_empty());
    }

    #[test]
    fn who_gives_up_lets_those_behind_go_on() {
        let mut table = Table::new(Fairness::Fifo);
        assert!(table.enter(1, &names("a")));
        assert!(!table.enter(2, &names("ab")));
        assert!(!table.enter(3, &names("bc")));
        assert!(!table.enter(4, &names("c")));
        assert_eq!(table.leave(2, &names("ab")), [3]);
        assert_eq!(table.leave(3, &names("bc")), [4]);
        assert!(table.leave(1, &names("a")).is_empty());
        assert!(table.leave(4, &names("c")).is_empty());
        assert!(table.lines.is_empty() && table.waiting.is_empty());
    }

    #[test]
    fn throughput_lets_pass_whoever_finds_its_names_free() {
        let mut table = Table::new(Fairness::Throughput);
        assert!(table.enter(1, &names("ab")));
        assert!(!table.enter(2, &names("bc")));
        assert!(table.enter(3, &names("c")), "nobody uses c");
        assert!(!table.enter(4, &names("ab")));
        assert_eq!(table.leave(1, &names("ab")), [4], "c is in use: 2 cannot go, 4 can");
        assert!(table.leave(3, &names("c")).is_empty());
        assert_eq!(table.leave(4, &names("ab")), [2]);
        assert!(table.leave(2, &names("bc")).is_empty());
        assert!(table.lines.is_empty() && table.waiting.is_empty());
    }

    mod whatever_happens {
        use super::*;
        use proptest::prelude::*;

        proptest! {
            #[test]
            fn no_name_is_used_twice_and_nobody_is_forgotten(
                fifo: bool,
                steps in proptest::collection::vec((any::<bool>(), proptest::collection::btree_set(0u8..5, 1..4), any::<usize>()), 1..60),
            ) {
                let mut table = Table::new(if fifo { Fairness::Fifo } else { Fairness::Throughput });
                let mut all: Vec<(u64, Names, bool)> = Vec::new();
                for (number, (enters, wanted, which)) in steps.into_iter().enumerate() {
                    if enters || all.is_empty() {
                        let wanted: Names = wanted.into_iter().map(|letter| Name::from([letter])).collect();
                        let started = table.enter(number as u64, &wanted);
                        all.push((number as u64, wanted, started));
                    } else {
                        let (leaving, wanted, _) = all.remove(which % all.len());
                        for started in table.leave(leaving, &wanted) {
                            all.iter_mut().find(|(number, ..)| *number == started).unwrap().2 = true;
                        }
                    }
                    for (at, (_, wanted, started)) in all.iter().enumerate() {
                        let uses = |(_, other, is_started): &(u64, Names, bool)| {
                            *is_started && other.iter().any(|name| wanted.contains(name))
                        };
                        let users = all.iter().filter(|other| uses(other)).count();
                        prop_assert!(!started || users == 1);
                        let earlier = all[..at].iter().any(|(_, other, _)| other.iter().any(|name| wanted.contains(name)));
                        let may_wait = if fifo { earlier } else { users > 0 };
                        prop_assert!(*started || may_wait, "{at} of {all:?}");
                    }
                }
                for (number, wanted, _) in std::mem::take(&mut all) {
                    table.leave(number, &wanted);
                }
                prop_assert!(table.lines.is_empty() && table.waiting.is_empty());
            }
        }
    }
}
