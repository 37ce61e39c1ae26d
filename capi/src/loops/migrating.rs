//! An event loop of a client that stands for two pools: a loop for each, and what is under way on both.
//!
//! An operation whose caller leaves goes on to its end, or the pools would differ. The library holds the loop while it
//! calls a host's function that converts values, so the loop refuses calls meanwhile.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use pinyon_cache::migration::{Crossing, Next, Side};
use pinyon_cache::shared::Finished;
use pinyon_net::driven::{HostAlarm, Order};

use super::client::{Asked, ClientLoop};
use super::lanes::renumbered;
use crate::awaited::callers::{Caller, Callers, Waiting};
use crate::awaited::{LoopValues, Operation};
use crate::client::{Client, Migrating};
use crate::errors::{Error, Failure};
use crate::migrating::given::{fill, Given};
use crate::requests::Verb;
use crate::status::Status;
use crate::structs::{Place, Reply, Request};

/// How often `close` lets operations that begin once more fail: each has fewer steps.
const STEPS: usize = 32;

pub struct MigratingLoop {
    client: Client,
    place: Option<Place>,
    /// The old one first.
    pools: [ClientLoop; 2],
    callers: Callers,
    running: HashMap<u64, Running>,
    /// The number of the last request.
    begun: u64,
    finished: VecDeque<(Arc<Caller>, Running)>,
    /// The host's lanes: the pool, and the lane in its machine.
    lanes: Vec<Option<(usize, usize)>>,
    alarm: HostAlarm,
}

/// A request under way.
struct Running {
    caller: Arc<Caller>,
    migrating: Arc<Migrating>,
    verb: Verb,
    crossing: Crossing<Given<LoopValues>>,
    /// Whether converting a value was interrupted.
    is_interrupted: bool,
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
        let verb = Verb::of(asked)?;
        // SAFETY: the caller keeps the request's bytes as they are during the call.
        let mut crossing = unsafe { Given::crossing(&migrating, verb, asked)? };
        let Next::Run(side, operation) = crossing.begin() else { unreachable!("it begins by asking") };
        self.begun += 1;
        self.start(side, operation, self.begun, verb)?;
        let caller = self.callers.begin(asked.context);
        let ticket = caller.ticket;
        self.running.insert(self.begun, Running { caller, migrating, verb, crossing, is_interrupted: false });
        Ok(ticket)
    }

    /// Runs an operation of a request on one pool.
    fn start(&mut self, side: Side, operation: Operation, number: u64, verb: Verb) -> Result<(), Error> {
        let waiting = Waiting(Arc::new(Caller::numbered(number)));
        self.pools[side as usize].start_operation(operation, Asked { waiting, verb })
    }

    /// The operation goes on to its end, so that both pools agree, but nobody hears of it.
    pub fn abandon(&mut self, ticket: u64) {
        self.callers.abandon(ticket);
        let waits = self.finished.iter().position(|(caller, _)| caller.ticket == ticket);
        if let Some((_, running)) = waits.and_then(|place| self.finished.remove(place)) {
            self.over(running);
        }
    }

    /// Whether no caller waits.
    pub fn is_idle(&self) -> bool {
        self.callers.is_empty()
    }

    /// Fills the next reply. False: there is none.
    pub fn next_reply(&mut self, reply: &mut Reply) -> bool {
        let Some((caller, running)) = self.finished.pop_front() else { return false };
        let room = reply.begin(caller.context);
        reply.keep(room);
        reply.ticket = caller.ticket;
        self.callers.end(caller.ticket);
        match running.is_interrupted {
            true => reply.finish(Status::Interrupted),
            false => fill(reply, &running.migrating, running.verb, running.crossing.finish().1, self.place),
        };
        true
    }

    /// Goes on with requests of which an operation is over, until there are none. Calls the host's function that converts.
    pub fn go_on(&mut self) {
        while let Some(finished) = self.pools.iter_mut().find_map(|pool| pool.machine.next_finished()) {
            let Finished { operation, waiter: Asked { waiting: Waiting(of), verb } } = finished;
            let Some(mut running) = self.running.remove(&of.ticket) else { continue };
            match running.crossing.ran(operation) {
                Next::Run(side, operation) => {
                    self.running.insert(of.ticket, running);
                    // It can only fail in a forked child, where nobody waits.
                    let _ = self.start(side, operation, of.ticket, verb);
                }
                Next::Over => self.over(running),
                Next::Interrupted => self.over(Running { is_interrupted: true, ..running }),
            }
        }
    }

    /// Hands out the end of a request. A lease that was won for a caller which is gone is given back.
    fn over(&mut self, running: Running) {
        let caller = running.caller.clone();
        if !caller.is_gone() {
            return self.finished.push_back((caller, running));
        }
        for (side, operation) in running.crossing.finish().1 {
            let waiting = Waiting(Arc::new(Caller::numbered(0)));
            let finished = Finished { operation, waiter: Asked { waiting, verb: running.verb } };
            // As above.
            let _ = self.pools[side as usize].machine.begin(|machine, now| machine.take_back(finished, now));
        }
    }

    pub fn no_batches(&self) -> Error {
        self.client.check_not_migrating().err().unwrap_or_else(Failure::internal)
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
