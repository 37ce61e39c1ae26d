//! An event loop of a client that stands for two pools: a loop for each, and what is under way on both.
//!
//! An operation whose caller leaves goes on to its end, or the pools would differ. The library holds the loop while it
//! calls a host's function that converts values, so the loop refuses calls meanwhile.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use pinyon_cache::migration::Side;
use pinyon_net::driven::{HostAlarm, Order};

use super::callers::{Caller, Callers};
use super::client::ClientLoop;
use super::lanes::renumbered;
use crate::client::{Client, Migrating};
use crate::errors::{Error, Failure};
use crate::migrating::course::{Course, End, Next, Stash};
use crate::requests::Verb;
use crate::structs::{Bytes, Place, Reply, Request};

/// How often `close` lets operations that begin once more fail: each has fewer steps.
const STEPS: usize = 32;

pub struct MigratingLoop {
    client: Client,
    place: Option<Place>,
    /// The old one first.
    pools: [ClientLoop; 2],
    callers: Callers,
    running: HashMap<usize, Running>,
    /// The number of the last operation.
    begun: usize,
    finished: VecDeque<(Arc<Caller>, Running, End)>,
    /// The host's lanes: the pool, and the lane in its machine.
    lanes: Vec<Option<(usize, usize)>>,
    alarm: HostAlarm,
}

/// An operation under way.
struct Running {
    /// `None`: it only gives back a lease.
    caller: Option<Arc<Caller>>,
    migrating: Arc<Migrating>,
    course: Course,
    given: Given,
}

/// The caller's request, with its bytes.
struct Given {
    request: Request,
    _bytes: [Vec<u8>; 3],
}

impl Given {
    /// # Safety
    /// The request's bytes stay as they are during the call.
    unsafe fn new(asked: &Request, number: usize) -> Self {
        // SAFETY: the caller says so.
        let bytes =
            unsafe { [asked.key, asked.value, asked.route].map(|bytes| (bytes.is_given(), bytes.slice().to_vec())) };
        let [key, value, route] =
            bytes.each_ref().map(|(is_given, bytes)| if *is_given { Bytes::of(bytes) } else { Bytes::NONE });
        let request = Request { key, value, route, context: number as *mut _, ..*asked };
        Self { request, _bytes: bytes.map(|(_, bytes)| bytes) }
    }
}

impl MigratingLoop {
    pub fn new(client: Client, place: Option<Place>) -> Result<Self, Error> {
        client.check_open()?;
        let Some(migrating) = client.migrating.clone() else { unreachable!("this client stands for two pools") };
        let pool = |side| ClientLoop::new(migrating.client(side).clone(), None);
        Ok(Self {
            place,
            pools: [pool(Side::Old)?, pool(Side::New)?],
            callers: Callers::default(),
            running: HashMap::new(),
            begun: 0,
            finished: VecDeque::new(),
            lanes: Vec::new(),
            alarm: HostAlarm::default(),
            client,
        })
    }

    /// Begins a request. Returns its ticket.
    ///
    /// # Safety
    /// As for [`ClientLoop::begin`].
    pub unsafe fn begin(&mut self, view: Option<&Client>, asked: &Request) -> Result<u64, Error> {
        let view = view.unwrap_or(&self.client);
        view.check_open()?;
        let migrating = match (&view.migrating, &self.client.migrating) {
            (Some(of_view), Some(own)) if of_view.shares_with(own) => of_view.clone(),
            _ => return Err(Failure::usage("this is not a view of the loop's client, but another client")),
        };
        let mut course = Course::new(&migrating, Verb::of(asked)?, asked);
        let number = self.next_number();
        // SAFETY: the caller says so.
        let given = unsafe { Given::new(asked, number) };
        let Next::Ask(side, request) = course.begin(|_| &given.request) else { unreachable!("it begins by asking") };
        // SAFETY: the bytes are the operation's own.
        unsafe { self.pools[side as usize].begin(Some(migrating.client(side)), &request) }?;
        let caller = self.callers.begin(asked.context);
        let ticket = caller.ticket;
        self.running.insert(number, Running { caller: Some(caller), migrating, course, given });
        Ok(ticket)
    }

    /// The operation goes on to its end, so that both pools agree, but nobody hears of it.
    pub fn abandon(&mut self, ticket: u64) {
        self.callers.abandon(ticket);
        let waits = self.finished.iter().position(|(caller, ..)| caller.ticket == ticket);
        if let Some((_, running, end)) = waits.and_then(|place| self.finished.remove(place)) {
            self.over(running, end);
        }
    }

    /// Whether no caller waits.
    pub fn is_idle(&self) -> bool {
        self.callers.is_empty()
    }

    /// Fills the next reply. False: there is none.
    pub fn next_reply(&mut self, reply: &mut Reply) -> bool {
        let Some((caller, _, end)) = self.finished.pop_front() else { return false };
        let room = reply.begin(caller.context);
        reply.keep(room);
        reply.ticket = caller.ticket;
        self.callers.end(caller.ticket);
        end.fill(reply, self.place);
        true
    }

    /// Goes on with operations that have a reply, until none has. Calls the host's function that converts.
    pub fn go_on(&mut self) {
        let mut scratch = Stash::default();
        while self.pools.iter_mut().any(|pool| pool.next_reply(&mut scratch.0)) {
            let number = scratch.0.context as usize;
            let Some(mut running) = self.running.remove(&number) else { continue };
            let mut next = running.course.replied(&mut scratch, |_| &running.given.request);
            loop {
                match next {
                    Next::Ask(side, request) => {
                        // SAFETY: the bytes are the operation's own.
                        let begun =
                            unsafe { self.pools[side as usize].begin(Some(running.migrating.client(side)), &request) };
                        let Err(error) = begun else {
                            self.running.insert(number, running);
                            break;
                        };
                        scratch.0.fail(error);
                        next = running.course.replied(&mut scratch, |_| &running.given.request);
                    }
                    Next::Over(end) => {
                        self.over(running, end);
                        break;
                    }
                    Next::Read { .. } => unreachable!("it is about one key"),
                }
            }
        }
    }

    /// Hands out the end of an operation. A lease that was won for a caller which is gone is given back.
    fn over(&mut self, running: Running, end: End) {
        let Some(caller) = running.caller.clone() else { return };
        if !caller.is_gone() {
            return self.finished.push_back((caller, running, end));
        }
        let Running { migrating, given, .. } = running;
        let Some(request) = end.give_back(&given.request) else { return };
        let number = self.next_number();
        let request = Request { context: number as *mut _, ..request };
        // SAFETY: the bytes are the operation's own. It can only fail in a forked child.
        if unsafe { self.pools[Side::New as usize].begin(Some(migrating.client(Side::New)), &request) }.is_ok() {
            let course = Course::new(&migrating, Verb::GiveBack, &request);
            self.running.insert(number, Running { caller: None, migrating, course, given });
        }
    }

    pub fn no_batches(&self) -> Error {
        self.client.check_not_migrating().err().unwrap_or_else(Failure::internal)
    }

    fn next_number(&mut self) -> usize {
        self.begun = self.begun.wrapping_add(1);
        self.begun
    }

    pub fn next_order(&mut self) -> Option<Order> {
        for pool in 0..2 {
            while let Some(order) = self.pools[pool].machine().next_order() {
                match order {
                    Order::Alarm(_) => self.alarm.outdate(),
                    order => return Some(renumbered(&mut self.lanes, pool, order)),
                }
            }
        }
        let mut alarm = std::mem::take(&mut self.alarm);
        let order = alarm.next_order(|| self.deadline());
        self.alarm = alarm;
        order
    }

    pub fn ready(&mut self, lane: usize) {
        let Some((pool, lane)) = self.lanes.get(lane).copied().flatten() else { return };
        self.pools[pool].machine().ready(lane);
    }

    pub fn turn(&mut self) {
        self.pools.iter_mut().for_each(|pool| pool.machine().turn());
    }

    pub fn expire(&mut self) {
        self.alarm.went_off();
        self.pools.iter_mut().for_each(|pool| pool.machine().expire());
    }

    pub fn deadline(&mut self) -> Option<Instant> {
        self.pools.iter_mut().filter_map(|pool| pool.machine().deadline()).min()
    }

    pub fn close(&mut self) {
        self.pools.iter_mut().for_each(|pool| pool.machine().close());
        for _ in 0..STEPS {
            self.go_on();
            if self.running.is_empty() {
                return;
            }
            self.turn();
        }
    }
}
