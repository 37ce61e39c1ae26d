//! Threads that wait together for outcomes, in many orders. A thread beside them, in a server's place, finishes one after the
//! other. No sleep ends by itself: a thread that is not woken sleeps on, and the play finds a deadlock.

use std::sync::atomic::{AtomicUsize, Ordering};

use pinyon_net::sync::interleaved::{play, spawn, yield_now, Bell, JoinHandle};

use super::super::*;

const LONG: Duration = Duration::from_secs(3600);

/// Threads and their slots, by number.
struct Waiting {
    shared: Mutex<Shared>,
    /// The numbers whose outcomes have arrived, and the bell that says so.
    arrived: Mutex<Vec<usize>>,
    bell: Bell,
    receiving: AtomicUsize,
    left_alone: AtomicUsize,
}

#[derive(Default)]
struct Shared {
    lead: Lead<usize>,
    slots: Vec<(usize, Arc<Slot<usize>>)>,
    errands: usize,
}

impl Led for Waiting {
    type Shared = Shared;
    type Outcome = usize;
    type Errand = ();

    fn shared(&self) -> &Mutex<Shared> {
        &self.shared
    }

    fn lead(shared: &mut Shared) -> &mut Lead<usize> {
        &mut shared.lead
    }

    fn errand(shared: &mut Shared) -> Option<()> {
        shared.errands = shared.errands.checked_sub(1)?;
        Some(())
    }

    fn wait<'s>(&'s self, shared: MutexGuard<'s, Shared>, now: Instant) -> (MutexGuard<'s, Shared>, Wake, Instant) {
        drop(shared);
        assert_eq!(self.receiving.fetch_add(1, Ordering::Relaxed), 0, "one thread receives at a time");
        self.bell.wait();
        self.bell.silence();
        let arrived = std::mem::take(&mut *self.arrived.lock().unwrap());
        self.receiving.fetch_sub(1, Ordering::Relaxed);
        let mut shared = self.lock();
        for number in arrived {
            let place = shared.slots.iter().position(|(of, _)| *of == number).expect("it waits");
            shared.slots.swap_remove(place).1.give(number);
        }
        (shared, Wake::Ready, now)
    }

    fn left_alone(&self, shared: &mut Shared) {
        assert!(shared.lead.following.is_empty());
        self.left_alone.fetch_add(1, Ordering::Relaxed);
    }
}

impl Waiting {
    fn new(errands: usize) -> Arc<Self> {
        let shared = Shared { errands, ..Shared::default() };
        Arc::new(Self {
            shared: Mutex::new(shared),
            arrived: Mutex::default(),
            bell: Bell::default(),
            receiving: AtomicUsize::new(0),
            left_alone: AtomicUsize::new(0),
        })
    }

    /// Begins to wait for the outcome with this number, which `begun` tells the server.
    fn begin(&self, number: usize, begun: &Begun) -> (Arc<Slot<usize>>, Progress<usize, ()>) {
        let mut shared = self.lock();
        let slot = shared.lead.slot();
        shared.slots.push((number, slot.clone()));
        begun.tell(number);
        let progress = self.step(shared, &slot, Instant::now(), LONG);
        (slot, progress)
    }

    /// Waits for the outcome with this number.
    fn outcome(&self, number: usize, begun: &Begun) {
        assert!(self.outcome_unless_called(number, begun, false));
    }

    /// The same, unless a call ends the wait of one that leaves then. Returns whether the outcome came.
    fn outcome_unless_called(&self, number: usize, begun: &Begun, leaves: bool) -> bool {
        let (slot, mut progress) = self.begin(number, begun);
        loop {
            match progress {
                Progress::Done(outcome) => {
                    assert_eq!(outcome, number, "each thread gets its own outcome");
                    return true;
                }
                Progress::Sleepy if leaves => return false,
                Progress::Sleepy | Progress::Errand(()) => {}
                Progress::Interrupted => panic!("nothing interrupts it"),
            }
            progress = self.step(self.lock(), &slot, Instant::now(), LONG);
        }
    }

    /// Begins to lead, with a wait for this number.
    fn leading(self: &Arc<Self>, number: usize, begun: &Arc<Begun>) -> JoinHandle<()> {
        let thread = {
            let (waiting, begun) = (self.clone(), begun.clone());
            spawn(move || waiting.outcome(number, &begun))
        };
        assert_eq!(begun.next(), number);
        while !self.lock().lead.is_taken {
            yield_now();
        }
        thread
    }

    /// Lets an outcome arrive.
    fn arrive(&self, number: usize) {
        self.arrived.lock().unwrap().push(number);
        self.bell.ring();
    }

    /// Nothing is left over.
    fn check_over(&self) {
        let shared = self.lock();
        assert!(!shared.lead.is_taken && shared.lead.following.is_empty() && shared.slots.is_empty());
    }
}

/// The numbers that threads wait for, in the order in which the server hears of them.
#[derive(Default)]
struct Begun(Mutex<Vec<usize>>, Condvar);

impl Begun {
    fn tell(&self, number: usize) {
        self.0.lock().unwrap().push(number);
        self.1.notify_all();
    }

    fn next(&self) -> usize {
        let begun = self.1.wait_while(self.0.lock().unwrap(), |begun| begun.is_empty()).unwrap();
        { begun }.remove(0)
    }
}

/// Three threads wait, two of them twice, and the server finishes what it hears of.
fn wait_together(errands: usize) {
    let (waiting, begun) = (Waiting::new(errands), Arc::new(Begun::default()));
    let threads = [vec![0, 1], vec![2, 3], vec![4]].map(|numbers| {
        let (waiting, begun) = (waiting.clone(), begun.clone());
        spawn(move || {
            for number in numbers {
                waiting.outcome(number, &begun);
            }
        })
    });
    for _ in 0..5 {
        waiting.arrive(begun.next());
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    waiting.check_over();
    assert!(waiting.left_alone.load(Ordering::Relaxed) > 0, "the last one leaves the lead to nobody");
}

#[test]
fn each_thread_gets_its_outcome_whoever_receives_it() {
    play(|| wait_together(0));
}

#[test]
fn a_thread_that_leaves_for_an_errand_keeps_nobody_waiting() {
    play(|| wait_together(2));
}

#[test]
fn a_thread_that_has_its_outcome_does_not_sleep_until_it_may_lead() {
    play(|| {
        let (waiting, begun) = (Waiting::new(0), Arc::new(Begun::default()));
        let leading = waiting.leading(0, &begun);
        let following = {
            let (waiting, begun) = (waiting.clone(), begun.clone());
            spawn(move || waiting.outcome(1, &begun))
        };
        waiting.arrive(begun.next());
        following.join().unwrap();
        waiting.arrive(0);
        leading.join().unwrap();
        waiting.check_over();
    });
}

#[test]
fn a_thread_that_is_called_stops_waiting_even_if_it_was_about_to_sleep() {
    play(|| {
        let (waiting, begun) = (Waiting::new(0), Arc::new(Begun::default()));
        let leading = waiting.leading(0, &begun);
        let slot = waiting.lock().lead.slot();
        let following = {
            let (waiting, slot) = (waiting.clone(), slot.clone());
            spawn(move || waiting.step(waiting.lock(), &slot, Instant::now(), LONG))
        };
        waiting.call(&slot);
        assert!(matches!(following.join().unwrap(), Progress::Sleepy), "only a call wakes it");
        waiting.arrive(0);
        leading.join().unwrap();
        waiting.check_over();
    });
}

#[test]
fn a_thread_that_leaves_when_it_is_called_passes_on_the_lead_that_it_was_given_just_then() {
    play(|| {
        let (waiting, begun) = (Waiting::new(0), Arc::new(Begun::default()));
        let leading = waiting.leading(0, &begun);
        let [leaves, stays] = [(1, true), (2, false)].map(|(number, leaves)| {
            let (waiting, begun) = (waiting.clone(), begun.clone());
            spawn(move || waiting.outcome_unless_called(number, &begun, leaves))
        });
        let _both = [begun.next(), begun.next()];
        let called = {
            let shared = waiting.lock();
            shared.slots.iter().find(|(number, _)| *number == 1).map(|(_, slot)| slot.clone()).expect("it waits")
        };
        let calling = {
            let waiting = waiting.clone();
            spawn(move || waiting.call(&called))
        };
        waiting.arrive(0);
        leading.join().unwrap();
        calling.join().unwrap();
        waiting.arrive(2);
        assert!(stays.join().unwrap());
        waiting.arrive(1);
        // It has left, or leads, or follows nobody and receives its outcome itself.
        leaves.join().unwrap();
    });
}
