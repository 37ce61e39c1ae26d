//! Ends of locks other than their holder's release: all are released at once, or one is handed over.

use std::sync::Arc;
use std::time::Duration;

use super::{About, Front, LockFinished, LockOutcome, Pending};
use crate::client::{Now, Outcome, Platform};
use crate::grant::Grant;
use crate::loss::Loss;
use crate::notes::Note;
use crate::ticket::Ticket;

/// Callers that wait for the release of all locks.
pub(super) struct Endings<W> {
    next: u64,
    waiting: Vec<Ending<W>>,
}

struct Ending<W> {
    number: u64,
    waiter: W,
    /// How many releases are not answered.
    left: usize,
    released: usize,
}

impl<W> Default for Endings<W> {
    fn default() -> Self {
        Self { next: 0, waiting: Vec::new() }
    }
}

impl<W, L, P: Platform> Front<W, L, P> {
    /// Releases all locks that are held. Their holders are told that they have lost them.
    pub(super) fn release_all(&mut self, wait: Option<Duration>, waiter: Pending<W, L>, now: Now) {
        let Some(waiter) = waiter.waiter else { return };
        let numbers = self.registry.numbers().into_iter().filter(|number| self.held(*number).is_some());
        let numbers: Vec<u64> = numbers.collect();
        let ending = self.endings.next;
        self.endings.next += 1;
        if numbers.is_empty() {
            let outcome = LockOutcome::ReleasedAll { released: 0 };
            self.finished.push_back(LockFinished::Done { waiter, outcome, unheard: Vec::new() });
            return self.end_turn();
        }
        let wait = wait.unwrap_or(self.settings().options.patience);
        self.endings.waiting.push(Ending { number: ending, waiter, left: numbers.len(), released: 0 });
        for number in numbers {
            let listeners = self.registry.lose(number, Loss::Released).into_iter();
            let note = |listener| LockFinished::Note(Note::Lost { listener, loss: Loss::Released });
            self.finished.extend(listeners.map(note));
            self.release_wholly(number, wait, Pending { waiter: None, about: About::Ending(ending) }, now);
        }
    }

    /// Counts the release of one of them. After the last one, returns the outcome.
    pub(super) fn one_ended(&mut self, about: &About<L>, outcome: &Outcome) -> Option<LockFinished<W, L>> {
        let About::Ending(number) = about else { return None };
        let at = self.endings.waiting.iter().position(|ending| ending.number == *number)?;
        let ending = &mut self.endings.waiting[at];
        let was_held = matches!(outcome, Outcome::Released { held: true });
        (ending.left, ending.released) = (ending.left - 1, ending.released + usize::from(was_held));
        self.counts.released.add(u64::from(was_held));
        if ending.left > 0 {
            return None;
        }
        let Ending { waiter, released, .. } = self.endings.waiting.swap_remove(at);
        Some(LockFinished::Done { waiter, outcome: LockOutcome::ReleasedAll { released }, unheard: Vec::new() })
    }

    /// Hands a lock over that was just extended. Also returns the listeners, which are not told. `None`: it is not held
    /// any more.
    pub(super) fn hand_over(&mut self, grant: &Arc<Grant<L>>) -> Option<(LockOutcome, Vec<L>)> {
        let (attempt, names, rest) = self.forget_handed_over(grant.number())?;
        let listeners = self.registry.lose(grant.number(), Loss::HandedOver);
        let ticket = Ticket {
            prefix: self.settings().keys.prefix().into(),
            attempt,
            rest,
            note: grant.note().map(Into::into),
            names,
        };
        Some((LockOutcome::HandedOver { ticket: ticket.to_string() }, listeners))
    }
}
