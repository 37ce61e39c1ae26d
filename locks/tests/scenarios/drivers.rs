//! The two drivers, as clients of a scenario.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pinyon_locks::{Front, LockFinished, LockOutcome, Note, Notes, Setup, ThreadLocks};
use pinyon_net::driven::Polled;
use pinyon_net::host::NoHost;

use crate::call::{Held, Listener, Operation};
use crate::player::{Driver, A_MOMENT};

/// Each operation waits in its own thread.
pub struct Threads {
    locks: ThreadLocks<Listener>,
    notes: Arc<Notes<Listener>>,
    begun: Vec<Option<JoinHandle<LockOutcome>>>,
}

impl Driver for Threads {
    const SHARES: bool = false;

    fn new(setup: Setup) -> Self {
        let notes = Arc::<Notes<Listener>>::default();
        Self { locks: ThreadLocks::new(setup, notes.clone()), notes, begun: Vec::new() }
    }

    fn begin(&mut self, operation: Operation) -> usize {
        let station = self.locks.station().expect("it is open");
        self.begun.push(Some(std::thread::spawn(move || {
            let Ok(outcome) = station.run(&NoHost, operation);
            outcome
        })));
        self.begun.len() - 1
    }

    fn go_on(&mut self) {
        std::thread::sleep(A_MOMENT);
    }

    fn outcome(&mut self, number: usize) -> Option<LockOutcome> {
        let over = self.begun[number].take_if(|thread| thread.is_finished())?;
        Some(over.join().expect("it does not panic"))
    }

    fn close(&mut self) {
        self.locks.close();
    }

    fn remaining(&self, held: &Held) -> Option<Duration> {
        self.locks.station().expect("it is open").remaining(held)
    }

    fn note(&mut self) -> Option<Note<Listener>> {
        self.notes.take()
    }
}

/// All operations run in one event loop.
pub struct Loop {
    polled: Polled<Front<usize, Listener>>,
    begun: usize,
    over: HashMap<usize, LockOutcome>,
    notes: Vec<Note<Listener>>,
}

impl Driver for Loop {
    const SHARES: bool = true;

    fn new(setup: Setup) -> Self {
        let polled = Polled::new(Front::new(setup)).expect("descriptors are left");
        Self { polled, begun: 0, over: HashMap::new(), notes: Vec::new() }
    }

    fn begin(&mut self, operation: Operation) -> usize {
        self.begun += 1;
        let number = self.begun;
        self.polled.begin(|front, now| front.begin(operation, number, now)).expect("it is this process's");
        number
    }

    fn go_on(&mut self) {
        self.polled.wait(Instant::now() + A_MOMENT).expect("the system watches descriptors");
        while let Some(finished) = self.polled.next_finished() {
            match finished {
                LockFinished::Done { waiter, outcome, .. } => drop(self.over.insert(waiter, outcome)),
                LockFinished::Note(note) => self.notes.push(note),
            }
        }
    }

    fn outcome(&mut self, number: usize) -> Option<LockOutcome> {
        self.over.remove(&number)
    }

    fn close(&mut self) {
        self.polled.close().expect("it is this process's");
    }

    fn remaining(&self, held: &Held) -> Option<Duration> {
        self.polled.machine().remaining(held)
    }

    fn note(&mut self) -> Option<Note<Listener>> {
        self.notes.pop()
    }
}
