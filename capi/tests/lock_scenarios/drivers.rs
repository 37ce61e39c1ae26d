//! The two ways to carry out wishes, as clients of a scenario.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::ptr::{null, null_mut};
use std::thread::JoinHandle;
use std::time::Duration;

use pinyon::locks::client::{pinyon_locks_free, Locks};
use pinyon::locks::notes::{pinyon_next_note, pinyon_note_free};
use pinyon::loops::structs::Action;
use pinyon::loops::*;
use pinyon::structs::{empty, Reply};
use pinyon::wishes::pinyon_lock_run;
use pinyon::wishes::wanted::Wish;
use pinyon_core::locks::{Loss, Note, Setup};
use pinyon_core::settings::{LockParts, UsualLock};
use rustix::event::{poll, PollFd, PollFlags, Timespec};

use crate::call::{Asked, Failure, Held, Over};

pub type Operation = Asked;

/// How long an idle client waits for something to happen.
const A_MOMENT: Duration = Duration::from_millis(2);

pub trait Driver {
    /// Whether wishes that begin together leave together, in order.
    const SHARES: bool;

    fn new(setup: Setup) -> Self;

    /// Begins a wish, and returns its number.
    fn begin(&mut self, asked: Asked) -> usize;

    /// Continues everything under way for a moment.
    fn go_on(&mut self);

    /// Takes the outcome of a wish.
    fn outcome(&mut self, number: usize) -> Option<Over>;

    fn remaining(&self, held: &Held) -> Option<Duration> {
        held.remaining()
    }

    /// The name of a lock that was lost.
    fn note(&mut self) -> Option<Note<String>>;
}

/// A client of locks, which threads may share.
#[derive(Clone, Copy)]
struct Client(*mut Locks);

// SAFETY: the header says so.
unsafe impl Send for Client {}

impl Client {
    fn new(setup: Setup) -> Self {
        // Each call says what it wants of the usual terms.
        let usual = UsualLock { ttl: 1.0, timeout: 1.0, reentrant: false };
        Self(Box::into_raw(Box::new(Locks::of(LockParts { setup, usual, names_have_tags: false }, false))))
    }

    fn run(self, asked: &Asked) -> Over {
        let mut reply: Reply = empty();
        // SAFETY: as the header says.
        asked.pass(|wish: &Wish| unsafe { pinyon_lock_run(self.0, wish, &mut reply, null()) });
        asked.over(&mut reply)
    }

    fn note(self) -> Option<Note<String>> {
        // SAFETY: as the header says. The contexts are names: see `Held::listen`.
        unsafe {
            let note = pinyon_next_note(self.0);
            let lost = note
                .as_ref()
                .filter(|note| note.event.is_null())
                .map(|note| Note::Lost { listener: (*note.context.cast::<String>()).clone(), loss: Loss::Gone });
            pinyon_note_free(note);
            lost
        }
    }
}

/// Each wish waits in its own thread.
pub struct Threads {
    client: Client,
    begun: Vec<Option<JoinHandle<Over>>>,
}

impl Driver for Threads {
    const SHARES: bool = false;

    fn new(setup: Setup) -> Self {
        Self { client: Client::new(setup), begun: Vec::new() }
    }

    fn begin(&mut self, asked: Asked) -> usize {
        let client = self.client;
        let wait = move |client: Client| client.run(&asked);
        self.begun.push(Some(std::thread::spawn(move || wait(client))));
        self.begun.len() - 1
    }

    fn go_on(&mut self) {
        std::thread::sleep(A_MOMENT);
    }

    fn outcome(&mut self, number: usize) -> Option<Over> {
        let over = self.begun[number].take_if(|thread| thread.is_finished())?;
        Some(over.join().expect("it does not panic"))
    }

    fn note(&mut self) -> Option<Note<String>> {
        self.client.note()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.begun.drain(..).flatten().for_each(|thread| drop(thread.join()));
        // SAFETY: it is not used afterwards.
        unsafe { pinyon_locks_free(self.client.0) }
    }
}

/// All wishes run in one event loop, which waits with poll(2).
pub struct Looping {
    client: Client,
    event_loop: *mut Loop,
    /// What is watched, by lane.
    watched: Vec<Option<(i32, bool)>>,
    turn_is_due: bool,
    /// Wishes under way, by their tickets.
    begun: HashMap<u64, Asked>,
    over: HashMap<u64, Over>,
}

impl Looping {
    fn act(&mut self) {
        let mut action: Action = empty();
        // SAFETY: as the header says.
        while unsafe { pinyon_next_action(self.event_loop, &mut action) } {
            if self.watched.len() <= action.lane {
                self.watched.resize(action.lane + 1, None);
            }
            match action.kind {
                0 => self.watched[action.lane] = Some((action.fd, action.write != 0)),
                1 => self.watched[action.lane] = None,
                2 => self.turn_is_due = true,
                _ => {}
            }
        }
        let mut reply: Reply = empty();
        // SAFETY: as the header says.
        while unsafe { pinyon_next_reply(self.event_loop, &mut reply) } {
            let asked = self.begun.remove(&reply.ticket).expect("it was begun");
            self.over.insert(reply.ticket, asked.over(&mut reply));
        }
    }

    /// The lanes that are ready within a moment.
    fn ready(&self) -> Vec<usize> {
        let watched = self.watched.iter().enumerate();
        let lanes: Vec<_> = watched.filter_map(|(lane, watched)| watched.map(|watched| (lane, watched))).collect();
        let descriptor = |(_, (fd, write)): &(usize, (i32, bool))| {
            let flags = if *write { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            // SAFETY: what is watched is open until it is forgotten.
            PollFd::from_borrowed_fd(unsafe { BorrowedFd::borrow_raw(*fd) }, flags)
        };
        let mut descriptors: Vec<_> = lanes.iter().map(descriptor).collect();
        let moment = Timespec { tv_sec: 0, tv_nsec: A_MOMENT.subsec_nanos().into() };
        let _ = poll(&mut descriptors, Some(&moment));
        let ready = lanes.iter().zip(&descriptors).filter(|(_, descriptor)| !descriptor.revents().is_empty());
        ready.map(|((lane, _), _)| *lane).collect()
    }
}

impl Driver for Looping {
    const SHARES: bool = true;

    fn new(setup: Setup) -> Self {
        let client = Client::new(setup);
        // SAFETY: as the header says.
        let event_loop = unsafe { pinyon_loop_of_locks(client.0, null_mut()) };
        assert!(!event_loop.is_null());
        let (begun, over) = (HashMap::new(), HashMap::new());
        Self { client, event_loop, watched: Vec::new(), turn_is_due: false, begun, over }
    }

    fn begin(&mut self, asked: Asked) -> usize {
        let (mut ticket, mut error) = (0, null_mut());
        // SAFETY: as the header says.
        asked.pass(|wish: &Wish| unsafe { pinyon_lock_begin(self.event_loop, wish, &mut ticket, &mut error) });
        if error.is_null() {
            self.begun.insert(ticket, asked);
        } else {
            // What is refused at once has no ticket. These are others'.
            ticket = u64::MAX - self.over.len() as u64;
            // SAFETY: it is an error.
            self.over.insert(ticket, Err(unsafe { Failure::of(error) }));
        }
        ticket as usize
    }

    fn go_on(&mut self) {
        self.act();
        while std::mem::take(&mut self.turn_is_due) {
            // SAFETY: as the header says.
            unsafe { pinyon_turn(self.event_loop) };
            self.act();
        }
        for lane in self.ready() {
            // SAFETY: as the header says.
            unsafe { pinyon_ready(self.event_loop, lane) };
            self.act();
        }
        // SAFETY: as the header says.
        if unsafe { pinyon_due_in(self.event_loop) } == 0.0 {
            // SAFETY: as the header says.
            unsafe { pinyon_expire(self.event_loop) };
            self.act();
        }
    }

    fn outcome(&mut self, number: usize) -> Option<Over> {
        self.over.remove(&(number as u64))
    }

    fn note(&mut self) -> Option<Note<String>> {
        self.client.note()
    }
}

impl Drop for Looping {
    fn drop(&mut self) {
        // SAFETY: neither is used afterwards.
        unsafe {
            pinyon_loop_free(self.event_loop);
            pinyon_locks_free(self.client.0);
        }
    }
}
