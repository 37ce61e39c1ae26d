//! The two ways to carry out wishes, as clients of a scenario.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pinyon::locks::client::{pinyon_locks_close, pinyon_locks_free, Locks};
use pinyon::locks::notes::{pinyon_next_note, pinyon_note_free};
use pinyon::loops::{pinyon_abandon, pinyon_lock_begin, pinyon_loop_close, pinyon_loop_of_locks};
use pinyon::structs::{empty, Host, Reply};
use pinyon::wishes::pinyon_lock_run;
use pinyon::wishes::wanted::Wish;
use pinyon_locks::settings::{LockParts, UsualLock};
use pinyon_locks::{Loss, Note, Setup};

use crate::call::{Asked, Failure, Held, Over};
use crate::player::{Driver, A_MOMENT};
use crate::polling::Polling;

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

    fn run(self, asked: &Asked, given_up: &AtomicBool) -> Over {
        let mut reply: Reply = empty();
        let place = std::ptr::from_ref(given_up).cast_mut().cast();
        let host = Host { interrupted: Some(is_given_up), host: place, ..empty() };
        // SAFETY: as the header says.
        asked.pass(|wish: &Wish| unsafe { pinyon_lock_run(self.0, wish, &mut reply, &host) });
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

/// # Safety
/// It is the place that was given with this function.
unsafe extern "C" fn is_given_up(place: *mut c_void) -> c_int {
    // SAFETY: the caller says so.
    let given_up = unsafe { &*place.cast::<AtomicBool>() };
    given_up.load(Ordering::Relaxed).into()
}

/// A driver whose callers may stop waiting.
pub trait GivesUp: Driver {
    /// Ends the wait for a lock, which is then not held.
    fn give_up(&mut self, number: usize);
}

/// Each wish waits in its own thread.
pub struct Threads {
    client: Client,
    begun: Vec<Option<JoinHandle<Over>>>,
    given_up: Vec<Arc<AtomicBool>>,
}

impl GivesUp for Threads {
    fn give_up(&mut self, number: usize) {
        self.given_up[number].store(true, Ordering::Relaxed);
    }
}

impl Driver for Threads {
    const SHARES: bool = false;

    fn new(setup: Setup) -> Self {
        Self { client: Client::new(setup), begun: Vec::new(), given_up: Vec::new() }
    }

    fn begin(&mut self, asked: Asked) -> usize {
        let (client, given_up) = (self.client, Arc::<AtomicBool>::default());
        self.given_up.push(given_up.clone());
        let wait = move |client: Client| client.run(&asked, &given_up);
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

    fn close(&mut self) {
        // SAFETY: as the header says.
        unsafe { pinyon_locks_close(self.client.0) }
    }

    fn remaining(&self, held: &Held) -> Option<Duration> {
        held.remaining()
    }

    fn note(&mut self) -> Option<Note<String>> {
        self.client.note()
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.given_up.iter().for_each(|given_up| given_up.store(true, Ordering::Relaxed));
        self.begun.drain(..).flatten().for_each(|thread| drop(thread.join()));
        // SAFETY: it is not used afterwards.
        unsafe { pinyon_locks_free(self.client.0) }
    }
}

/// All wishes run in one event loop, which waits with poll(2).
pub struct Loop {
    client: Client,
    polling: Polling,
    /// Wishes under way, by their tickets.
    begun: HashMap<u64, Asked>,
    over: HashMap<u64, Over>,
}

impl GivesUp for Loop {
    fn give_up(&mut self, number: usize) {
        if self.begun.remove(&(number as u64)).is_some() {
            // SAFETY: as the header says.
            unsafe { pinyon_abandon(self.polling.event_loop, number as u64) };
            self.over.insert(number as u64, Ok(false.into()));
        }
    }
}

impl Driver for Loop {
    const SHARES: bool = true;

    fn new(setup: Setup) -> Self {
        let client = Client::new(setup);
        // SAFETY: as the header says.
        let event_loop = unsafe { pinyon_loop_of_locks(client.0, null_mut()) };
        Self { client, polling: Polling::new(event_loop), begun: HashMap::new(), over: HashMap::new() }
    }

    fn begin(&mut self, asked: Asked) -> usize {
        let (mut ticket, mut error) = (0, null_mut());
        // SAFETY: as the header says.
        asked.pass(|wish: &Wish| unsafe { pinyon_lock_begin(self.polling.event_loop, wish, &mut ticket, &mut error) });
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
        self.polling.act();
        self.polling.advance(Instant::now() + A_MOMENT);
        for mut reply in self.polling.replies.drain(..) {
            let asked = self.begun.remove(&reply.ticket).expect("it was begun and not given up");
            self.over.insert(reply.ticket, asked.over(&mut reply));
        }
    }

    fn outcome(&mut self, number: usize) -> Option<Over> {
        self.over.remove(&(number as u64))
    }

    fn close(&mut self) {
        // SAFETY: as the header says.
        unsafe {
            pinyon_locks_close(self.client.0);
            pinyon_loop_close(self.polling.event_loop);
        }
    }

    fn remaining(&self, held: &Held) -> Option<Duration> {
        held.remaining()
    }

    fn note(&mut self) -> Option<Note<String>> {
        self.client.note()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // SAFETY: it is not used afterwards. The loop has the client, too.
        unsafe { pinyon_locks_free(self.client.0) }
    }
}
