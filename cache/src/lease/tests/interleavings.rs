//! Threads that want the same value at the same time, in many orders.

use std::sync::atomic::{AtomicUsize, Ordering};

use pinyon_net::sync::interleaved::{play, spawn, yield_now, Bell};

use super::super::flights::{Flights, Part, Progress};
use super::*;

/// Values are the names of the callers that made them.
enum Names {}

impl LeaseTypes for Names {
    type Value = usize;
    type Shared = usize;
    type Error = ();
    type Signal = Waking;
}

/// Wakes a thread.
struct Waking(Arc<Bell>);

impl Signal for Waking {
    fn wake(self) {
        self.0.ring();
    }
}

/// What came of a thread's wish for a value.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Got {
    Made,
    From(usize),
}

/// How a leader ends its flight.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Leads {
    Tells,
    /// It tells twice: only the first answer counts.
    TellsAgain,
    /// As one that is cancelled.
    Leaves,
}

/// Asks for the value, until there is one.
fn get(flights: &Flights<Names>, name: usize, leads: Leads, leading: &AtomicUsize) -> Option<Got> {
    let key = flight_key("key");
    loop {
        let flight = match flights.join(&key, name) {
            Part::Recurs => panic!("a thread asks once at a time"),
            Part::Leads(flight) => {
                assert_eq!(leading.fetch_add(1, Ordering::Relaxed), 0, "one leads at a time");
                yield_now();
                leading.fetch_sub(1, Ordering::Relaxed);
                if leads != Leads::Leaves {
                    flight.tell(Ok(name));
                }
                if leads == Leads::TellsAgain {
                    flight.tell(Ok(100 + name));
                }
                flights.end(&key, &flight);
                return (leads != Leads::Leaves).then_some(Got::Made);
            }
            Part::Follows(flight) => flight,
        };
        let bell = Arc::new(Bell::default());
        if flight.follow(Waking(bell.clone())) {
            bell.wait();
        }
        match flight.progress() {
            Progress::UnderWay => panic!("it was woken for nothing"),
            Progress::Told(told) => return Some(Got::From(told.unwrap())),
            Progress::Over => {}
        }
    }
}

fn share(leads: [Leads; 3]) {
    let (flights, leading) = (Arc::new(Flights::<Names>::default()), Arc::new(AtomicUsize::new(0)));
    let mut names = 0..;
    let threads = leads.map(|leads| {
        let (flights, leading, name) = (flights.clone(), leading.clone(), names.next().unwrap());
        spawn(move || get(&flights, name, leads, &leading))
    });
    let got = threads.map(|thread| thread.join().unwrap());
    for (name, one) in got.iter().enumerate() {
        match one {
            None => assert_eq!(leads[name], Leads::Leaves, "only a leader that leaves has nothing"),
            Some(Got::Made) => assert_ne!(leads[name], Leads::Leaves),
            Some(Got::From(maker)) => assert_eq!(got[*maker], Some(Got::Made), "the first answer counts"),
        }
    }
    assert!(flights.followers().is_empty(), "no flight is left");
}

#[test]
fn every_follower_gets_the_leaders_value() {
    play(|| share([Leads::Tells; 3]));
}

#[test]
fn the_first_answer_stands() {
    play(|| share([Leads::TellsAgain, Leads::Tells, Leads::TellsAgain]));
}

#[test]
fn another_leads_when_a_leader_leaves() {
    play(|| share([Leads::Leaves, Leads::Tells, Leads::Leaves]));
}
