//! News that the host must report although no thread waits for it. The core leaves notes, and the host takes them.

use std::collections::VecDeque;
use std::time::Instant;

use crate::loss::Loss;
use crate::observed::LockEvent;
use pinyon_net::events::Level;
use pinyon_net::fork::PerProcess;
use pinyon_net::sync::atomic::{AtomicBool, Ordering};
use pinyon_net::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// How many events are kept for a host that does not take them.
const MOST_EVENTS: usize = 64;

#[derive(Debug, PartialEq)]
pub enum Note<L> {
    /// The lock of this listener was lost.
    Lost { listener: L, loss: Loss },
    /// What happened to the servers of the client with this [`source`](super::Observed::source).
    Event { source: u64, event: Box<LockEvent> },
}

/// The notes of a process's clients, in order. Unless the host takes all events, only those are kept that
/// are told unasked. A forked child starts without its parent's notes.
#[derive(Debug)]
pub struct Notes<L> {
    left: PerProcess<Left<L>>,
    /// Whether the host takes all events.
    all_events: bool,
}

#[derive(Debug)]
struct Left<L> {
    notes: Mutex<Waiting<L>>,
    some: Condvar,
}

#[derive(Debug)]
struct Waiting<L> {
    notes: VecDeque<Note<L>>,
    closed: bool,
}

impl<L> Default for Left<L> {
    fn default() -> Self {
        Self { notes: Mutex::new(Waiting { notes: VecDeque::new(), closed: false }), some: Condvar::new() }
    }
}

impl<L> Default for Notes<L> {
    fn default() -> Self {
        Self::new(false)
    }
}

impl<L> Notes<L> {
    /// `all_events`: or only those that are told unasked.
    pub fn new(all_events: bool) -> Self {
        Self { left: PerProcess::new(Left::default()), all_events }
    }

    /// Waits for the next note. [`Self::close`] ends the wait with `None`.
    pub fn wait(&self) -> Option<Note<L>> {
        self.wait_unless(&AtomicBool::new(false))
    }

    /// The same. [`Self::interrupt`] ends the wait with `None`, too, if `interrupted` was set before.
    pub fn wait_unless(&self, interrupted: &AtomicBool) -> Option<Note<L>> {
        let left = self.of_process();
        let mut waiting = left.lock();
        while !waiting.closed && !interrupted.load(Ordering::Relaxed) {
            if let Some(note) = waiting.notes.pop_front() {
                return Some(note);
            }
            waiting = left.some.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    /// The next note, if it comes before `deadline`.
    pub fn wait_until(&self, deadline: Instant) -> Option<Note<L>> {
        let left = self.of_process();
        let mut waiting = left.lock();
        loop {
            let time = deadline.saturating_duration_since(Instant::now());
            match waiting.notes.pop_front() {
                None if !waiting.closed && !time.is_zero() => {}
                note => return note,
            }
            waiting = left.some.wait_timeout(waiting, time).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Lets all who wait look whether they were interrupted.
    pub fn interrupt(&self) {
        let left = self.of_process();
        // With the lock, so that nobody is between looking and waiting.
        let _waiting = left.lock();
        left.some.notify_all();
    }

    /// The next note, if there is one.
    pub fn take(&self) -> Option<Note<L>> {
        self.of_process().lock().notes.pop_front()
    }

    /// Ends all waits: nothing in this process takes notes any more.
    pub fn close(&self) {
        let left = self.of_process();
        left.lock().closed = true;
        left.some.notify_all();
    }

    pub fn is_closed(&self) -> bool {
        self.of_process().lock().closed
    }

    pub(super) fn leave(&self, note: Note<L>) {
        if !self.all_events && matches!(&note, Note::Event { event, .. } if !event.kind.is_told_unasked()) {
            return;
        }
        let left = self.of_process();
        let mut waiting = left.lock();
        if note.level().is_some() && !waiting.make_room(note.level()) {
            return;
        }
        waiting.notes.push_back(note);
        left.some.notify_one();
    }

    fn of_process(&self) -> &Left<L> {
        self.left.get(|_| Left::default())
    }
}

impl<L> Note<L> {
    /// The level of an event.
    fn level(&self) -> Option<Level> {
        match self {
            Note::Event { event, .. } => Some(event.kind.level()),
            Note::Lost { .. } => None,
        }
    }
}

impl<L> Waiting<L> {
    /// Drops the oldest event that is no more important, if there are too many. Returns whether there is room now.
    fn make_room(&mut self, level: Option<Level>) -> bool {
        let events = || self.notes.iter().map(Note::level);
        if self.notes.len() < MOST_EVENTS || events().flatten().count() < MOST_EVENTS {
            return true;
        }
        let dropped = events().position(|of| of.is_some() && of <= level);
        dropped.is_some_and(|dropped| self.notes.remove(dropped).is_some())
    }
}

impl<L> Left<L> {
    fn lock(&self) -> MutexGuard<'_, Waiting<L>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "interleavings")]
    mod interleavings;

    use std::time::Duration;

    use super::*;

    fn event(line: &str) -> Note<i32> {
        Note::Event { source: 1, event: LockEvent::warning(&"a".into(), line.into()).into() }
    }

    /// What a note says, for comparisons.
    fn said(note: Option<Note<i32>>) -> Option<String> {
        note.map(|note| match note {
            Note::Lost { listener, loss } => format!("{listener} lost: {loss}"),
            Note::Event { event, .. } => event.line,
        })
    }

    fn gone(listener: i32) -> Option<String> {
        said(Some(Note::Lost { listener, loss: Loss::Gone }))
    }

    #[test]
    fn notes_come_in_order_to_whoever_waits() {
        let notes = Notes::default();
        let all = std::thread::scope(|scope| {
            let taking = scope.spawn(|| std::iter::from_fn(|| said(notes.wait())).take(3).collect::<Vec<_>>());
            for listener in 1..4 {
                notes.leave(Note::Lost { listener, loss: Loss::Gone });
            }
            taking.join().unwrap()
        });
        assert_eq!(all, [1, 2, 3].map(|listener| gone(listener).unwrap()));
        assert!(notes.take().is_none());
    }

    #[test]
    fn closing_ends_the_wait() {
        let notes = Notes::<i32>::default();
        let late = Instant::now() + Duration::from_secs(60);
        std::thread::scope(|scope| {
            let taking = [scope.spawn(|| notes.wait()), scope.spawn(|| notes.wait_until(late))];
            notes.close();
            assert!(taking.map(|taking| taking.join().unwrap()).iter().all(Option::is_none));
        });
        assert!(Instant::now() < late);
    }

    #[test]
    fn a_wait_with_a_deadline_ends_with_a_note_or_without() {
        let notes = Notes::<i32>::default();
        assert!(notes.wait_until(Instant::now() + Duration::from_millis(1)).is_none());
        std::thread::scope(|scope| {
            let taking = scope.spawn(|| notes.wait_until(Instant::now() + Duration::from_secs(60)));
            notes.leave(event("w"));
            assert_eq!(said(taking.join().unwrap()).as_deref(), Some("w"));
        });
    }

    #[test]
    fn an_interrupt_ends_the_wait_of_whoever_it_is_for() {
        let (notes, interrupted) = (Notes::<i32>::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let ended = scope.spawn(|| notes.wait_unless(&interrupted));
            let goes_on = scope.spawn(|| notes.wait());
            interrupted.store(true, Ordering::Relaxed);
            notes.interrupt();
            assert!(ended.join().unwrap().is_none());
            notes.leave(Note::Lost { listener: 1, loss: Loss::Gone });
            assert_eq!(said(goes_on.join().unwrap()), gone(1));
        });
    }

    #[test]
    fn events_that_nobody_takes_are_bounded_and_losses_are_not_dropped_for_them() {
        let notes = Notes::default();
        for number in 0..10 * MOST_EVENTS {
            notes.leave(event(&number.to_string()));
        }
        notes.leave(Note::Lost { listener: 1, loss: Loss::Gone });
        let all: Vec<String> = std::iter::from_fn(|| said(notes.take())).collect();
        assert_eq!(all.len(), MOST_EVENTS + 1);
        assert_eq!((&all[0], &all[MOST_EVENTS]), (&(9 * MOST_EVENTS).to_string(), &gone(1).unwrap()));
    }

    #[test]
    fn a_warning_is_kept_rather_than_lesser_events() {
        let notes = Notes::new(true);
        let connected = || Note::Event { source: 1, event: LockEvent::connected(&"a".into(), None).into() };
        for _ in 0..MOST_EVENTS {
            notes.leave(connected());
        }
        notes.leave(event("w"));
        let all: Vec<String> = std::iter::from_fn(|| said(notes.take())).collect();
        assert_eq!((all.len(), &*all[MOST_EVENTS - 1]), (MOST_EVENTS, "w"));
        for _ in 0..MOST_EVENTS {
            notes.leave(event("w"));
        }
        notes.leave(connected());
        let all: Vec<String> = std::iter::from_fn(|| said(notes.take())).collect();
        assert_eq!(all, ["w"; MOST_EVENTS]);
    }
}
