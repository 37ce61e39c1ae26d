//! Decides which attempts of this process may ask the server for which names, with one line of attempts for each name.
//!
//! Only an attempt whose turn it is in all its lines goes to the server: it is in front, or it reads and only readers are
//! ahead. The others wait here at no cost, and follow as soon as it leaves. This also spares the server the many waiters
//! of one process.

use std::collections::hash_map::Entry;
use std::collections::VecDeque;

use foldhash::HashMap;

use crate::names::{Mode, Name, Names};

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
    waiting: HashMap<u64, Names>,
}

/// The attempts that want one name.
#[derive(Default)]
struct Line {
    /// The attempt that has gone to the server to write it.
    writer: Option<u64>,
    /// How many have gone to the server to read it.
    readers: usize,
    waiting: VecDeque<(u64, Mode)>,
}

impl Line {
    fn is_empty(&self) -> bool {
        self.writer.is_none() && self.readers == 0 && self.waiting.is_empty()
    }

    /// Whether an attempt may go to the server beside those that went there.
    fn has_room(&self, mode: Mode) -> bool {
        self.writer.is_none() && (mode == Mode::Read || self.readers == 0)
    }

    /// Whether it is the turn of an attempt in the line, or of a newcomer. Readers let readers pass.
    fn is_turn_of(&self, number: u64, mode: Mode) -> bool {
        let mut ahead = self.waiting.iter().take_while(|(waiting, _)| *waiting != number);
        ahead.all(|(_, other)| mode == Mode::Read && *other == Mode::Read)
    }
}

impl Table {
    pub(crate) fn new(fairness: Fairness) -> Self {
        Self { fairness, ..Self::default() }
    }

    /// Adds an attempt to its lines. Returns whether it may go to the server at once.
    pub(crate) fn enter(&mut self, number: u64, names: &Names) -> bool {
        if self.may_start(number, names) {
            self.occupy(number, names);
            return true;
        }
        for (name, mode) in lined(names) {
            self.lines.entry(name.clone()).or_default().waiting.push_back((number, mode));
        }
        self.waiting.insert(number, names.clone());
        false
    }

    /// Whether no attempt here is in the way of such a lock.
    pub(crate) fn is_free(&self, names: &Names) -> bool {
        let is_free = |line: &Line, mode| line.has_room(mode) && line.is_turn_of(u64::MAX, mode);
        lined(names).all(|(name, mode)| self.lines.get(name).is_none_or(|line| is_free(line, mode)))
    }

    /// Removes an attempt that is over. Returns those that may go to the server now, in order.
    pub(crate) fn leave(&mut self, number: u64, names: &Names) -> Vec<u64> {
        let waited = self.waiting.remove(&number).is_some();
        let mut next = Vec::new();
        for (name, mode) in lined(names) {
            let Entry::Occupied(mut entry) = self.lines.entry(name.clone()) else { continue };
            let line = entry.get_mut();
            match mode {
                _ if waited => line.waiting.retain(|(waiting, _)| *waiting != number),
                Mode::Read => line.readers -= 1,
                _ => line.writer = None,
            }
            match line.is_empty() {
                true => drop(entry.remove()),
                false => next.extend(entry.get().candidates(self.fairness)),
            }
        }
        next.sort_unstable();
        next.dedup();
        next.into_iter().filter(|number| self.start(*number)).collect()
    }

    /// Gives an attempt that has gone to the server other modes of its names. Returns those that may go there now, in
    /// order.
    pub(crate) fn change(&mut self, number: u64, from: &Names, to: &Names) -> Vec<u64> {
        let mut next = Vec::new();
        for ((name, before), (_, after)) in lined(from).zip(lined(to)) {
            let Some(line) = self.lines.get_mut(name).filter(|_| before != after) else { continue };
            match after {
                Mode::Read => (line.writer, line.readers) = (None, line.readers + 1),
                _ => (line.writer, line.readers) = (Some(number), line.readers - 1),
            }
            next.extend(line.candidates(self.fairness));
        }
        next.sort_unstable();
        next.dedup();
        next.into_iter().filter(|number| self.start(*number)).collect()
    }

    fn may_start(&self, number: u64, names: &Names) -> bool {
        lined(names).all(|(name, mode)| {
            let Some(line) = self.lines.get(name) else { return true };
            line.has_room(mode) && (self.fairness == Fairness::Throughput || line.is_turn_of(number, mode))
        })
    }

    fn occupy(&mut self, number: u64, names: &Names) {
        for (name, mode) in lined(names) {
            let line = self.lines.entry(name.clone()).or_default();
            match mode {
                Mode::Read => line.readers += 1,
                _ => line.writer = Some(number),
            }
        }
    }

    /// Sends an attempt that waits here to the server, if it may go.
    fn start(&mut self, number: u64) -> bool {
        let Some(names) = self.waiting.get(&number).filter(|names| self.may_start(number, names)).cloned() else {
            return false;
        };
        self.waiting.remove(&number);
        for (name, _) in lined(&names) {
            if let Some(line) = self.lines.get_mut(name) {
                line.waiting.retain(|(waiting, _)| *waiting != number);
            }
        }
        self.occupy(number, &names);
        true
    }
}

impl Line {
    /// Those whose turn it may be.
    fn candidates(&self, fairness: Fairness) -> impl Iterator<Item = u64> + '_ {
        let first_writer = self.waiting.iter().position(|(_, mode)| *mode != Mode::Read);
        let most = match (fairness, first_writer) {
            (Fairness::Throughput, _) | (_, None) => self.waiting.len(),
            (Fairness::Fifo, Some(at)) => at.max(1),
        };
        self.waiting.iter().take(most).map(|(number, _)| *number)
    }
}

/// The names for which attempts line up here. For permits they wait on the server: only it knows how many are left.
fn lined(names: &Names) -> impl Iterator<Item = (&Name, Mode)> {
    names.each().filter(|(_, mode)| !matches!(mode, Mode::Permits { .. }))
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

    fn reading(letters: &str) -> Names {
        letters.bytes().map(|letter| (Name::from([letter]), Mode::Read)).collect()
    }

    #[test]
    fn readers_go_together_and_a_writer_that_waits_keeps_later_ones_back() {
        let mut table = Table::new(Fairness::Fifo);
        assert!(table.enter(1, &reading("a")) && table.enter(2, &reading("ab")));
        assert!(!table.enter(3, &names("a")));
        assert!(!table.enter(4, &reading("a")) && !table.enter(5, &reading("a")));
        assert!(!table.enter(6, &names("b")) && table.enter(7, &reading("c")));
        assert!(table.leave(1, &reading("a")).is_empty());
        assert_eq!(table.leave(2, &reading("ab")), [3, 6]);
        assert_eq!(table.leave(3, &names("a")), [4, 5]);
        assert!(!table.is_free(&names("a")) && table.is_free(&reading("a")));
        for (number, of) in [(4, reading("a")), (5, reading("a")), (6, names("b")), (7, reading("c"))] {
            assert!(table.leave(number, &of).is_empty());
        }
        assert!(table.lines.is_empty() && table.waiting.is_empty());
    }

    #[test]
    fn who_reads_on_lets_the_next_readers_go_and_who_writes_then_nobody() {
        let mut table = Table::new(Fairness::Fifo);
        assert!(table.enter(1, &names("ab")));
        assert!(!table.enter(2, &reading("a")) && !table.enter(3, &reading("a")) && !table.enter(4, &names("a")));
        assert!(!table.enter(5, &reading("a")) && !table.enter(6, &names("b")));
        let mixed: Names = [(Name::from(*b"a"), Mode::Read), (Name::from(*b"b"), Mode::Write)].into_iter().collect();
        assert_eq!(table.change(1, &names("ab"), &mixed), [2, 3]);
        assert!(table.leave(2, &reading("a")).is_empty());
        assert!(table.change(1, &mixed, &names("ab")).is_empty());
        assert!(table.leave(3, &reading("a")).is_empty(), "it writes again");
        assert_eq!(table.leave(1, &names("ab")), [4, 6]);
        assert_eq!(table.leave(4, &names("a")), [5]);
        for (number, of) in [(5, reading("a")), (6, names("b"))] {
            assert!(table.leave(number, &of).is_empty());
        }
        assert!(table.lines.is_empty() && table.waiting.is_empty());
    }

    #[test]
    fn for_permits_nobody_waits_here() {
        let mut table = Table::new(Fairness::Fifo);
        let permits: Names = [(Name::from(&b"\0p"[..]), Mode::Permits { count: 1, limit: 1 })].into_iter().collect();
        assert!(table.enter(1, &permits) && table.enter(2, &permits));
        assert!(table.leave(1, &permits).is_empty() && table.lines.is_empty());
    }

    mod whatever_happens {
        use super::*;
        use proptest::prelude::*;

        proptest! {
            #[test]
            fn no_name_is_used_twice_and_nobody_is_forgotten(
                fifo: bool,
                steps in proptest::collection::vec((any::<bool>(), proptest::collection::btree_map(0u8..5, any::<bool>(), 1..4), any::<usize>()), 1..60),
            ) {
                let mut table = Table::new(if fifo { Fairness::Fifo } else { Fairness::Throughput });
                let mut all: Vec<(u64, Names, bool)> = Vec::new();
                for (number, (enters, wanted, which)) in steps.into_iter().enumerate() {
                    if enters || all.is_empty() {
                        let mode = |reads| if reads { Mode::Read } else { Mode::Write };
                        let wanted: Names =
                            wanted.into_iter().map(|(letter, reads)| (Name::from([letter]), mode(reads))).collect();
                        let started = table.enter(number as u64, &wanted);
                        all.push((number as u64, wanted, started));
                    } else {
                        let (leaving, wanted, _) = all.remove(which % all.len());
                        for started in table.leave(leaving, &wanted) {
                            all.iter_mut().find(|(number, ..)| *number == started).unwrap().2 = true;
                        }
                    }
                    for (at, (_, wanted, started)) in all.iter().enumerate() {
                        let conflicts = |other: &Names| other.each().any(|(name, mode)| {
                            wanted.mode_of(name).is_some_and(|own| (own, mode) != (Mode::Read, Mode::Read))
                        });
                        let others = || all.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, other)| other);
                        let in_use = others().any(|(_, other, is_started)| *is_started && conflicts(other));
                        prop_assert!(!started || !in_use);
                        let earlier = all[..at].iter().any(|(_, other, _)| conflicts(other));
                        let may_wait = if fifo { earlier } else { in_use };
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
