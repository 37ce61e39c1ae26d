//! An event loop of locks. It has one connection, or one for each hash tag if names have their own.
//!
//! Each connection's machine has a lock of its own, because any thread may ask how long a held lock lasts, or free it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pinyon_locks::{AwaitedLock, Front, GiveUp, LockFinished, LockOperation, LoopDriver};
use pinyon_net::driven::{HostAlarm, Order, Stepwise};
use pinyon_net::fork;

use super::lanes::{place, renumbered};
use crate::awaited::callers::{Caller, Callers};
use crate::errors::{Error, Failure};
use crate::locks::client::Locks;
use crate::locks::listener::{Grant, Listener};
use crate::locks::lock::{Driver, Held};
use crate::structs::Reply;
use crate::wishes::wanted::{About, Becomes, Wanted, Wish};

/// The machine of one connection. Locks that it holds refer to it, from any thread.
type LockMachine = Mutex<Stepwise<Front<Waiting, Listener>>>;

impl LoopDriver<Listener> for LockMachine {
    type Error = Infallible;

    fn remaining(&self, grant: &Arc<Grant>) -> Result<Option<Duration>, Infallible> {
        Ok(self.lock().unwrap_or_else(PoisonError::into_inner).machine().remaining(grant))
    }

    fn give_up(&self, grant: &Arc<Grant>, what: GiveUp) -> Result<(), Infallible> {
        change(self, |front, now| front.give_up(grant, what, now));
        Ok(())
    }

    fn forsake(&self, grant: &Arc<Grant>) {
        change(self, |front, _| front.forsake(grant));
    }
}

fn change(machine: &LockMachine, change: impl FnOnce(&mut Front<Waiting, Listener>, Instant)) {
    // It is refused in a forked child, which does not hold the lock.
    let _ = machine.lock().unwrap_or_else(PoisonError::into_inner).begin(change);
}

/// How many connections of hash tags are kept while no lock there is held or wanted.
const KEPT: usize = 64;

/// A caller, and what it waits for.
pub struct Waiting {
    caller: Arc<Caller>,
    becomes: Becomes,
}

pub struct LocksLoop {
    locks: Locks,
    branches: Vec<Option<Branch>>,
    /// The host's lanes: the branch, and the lane in its machine.
    lanes: Vec<Option<(usize, usize)>>,
    callers: Callers,
    /// The branch and the lock for which the caller with this ticket waits.
    awaited: HashMap<u64, (usize, AwaitedLock<Listener>)>,
    alarm: HostAlarm,
    uses: u64,
    generation: u64,
}

/// The connection of one hash tag, or of names without one.
struct Branch {
    tag: Option<Box<[u8]>>,
    machine: Arc<LockMachine>,
    /// When it was used last, in uses of the loop.
    used: u64,
    /// Whether it is dropped once the host has carried out its last orders.
    is_closed: bool,
}

impl Branch {
    fn machine(&self) -> MutexGuard<'_, Stepwise<Front<Waiting, Listener>>> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LocksLoop {
    pub fn new(locks: Locks) -> Result<Self, Error> {
        locks.check_open()?;
        Ok(Self {
            locks,
            branches: Vec::new(),
            lanes: Vec::new(),
            callers: Callers::default(),
            awaited: HashMap::new(),
            alarm: HostAlarm::default(),
            uses: 0,
            generation: fork::generation(),
        })
    }

    /// Begins a wish. Returns its ticket.
    ///
    /// # Safety
    /// What the wish points to stays as it is during the call.
    pub unsafe fn begin(&mut self, wish: &Wish) -> Result<u64, Error> {
        self.locks.check_open()?;
        if !self.is_of_this_process() {
            return Err(Failure::usage("this event loop is the parent process's: a forked child makes its own"));
        }
        // SAFETY: the caller keeps what the wish points to as it is during the call.
        let Wanted { operation, becomes, about } = unsafe { Wanted::of(&self.locks, wish) }?;
        let branch = match about {
            About::All(wait) => return Ok(self.release_all(wait, becomes, wish.context)),
            About::Names(tag) => self.branch_of(tag.as_deref()),
            About::Lock(lock) => self.branch_with(lock.held(&self.locks)?)?,
        };
        let caller = self.callers.begin(wish.context);
        let ticket = caller.ticket;
        if let Some(awaited) = operation.awaited() {
            self.awaited.insert(ticket, (branch, awaited));
        }
        if let Some(branch) = &self.branches[branch] {
            change(&branch.machine, |front, now| front.begin(operation, Waiting { caller, becomes }, now));
        }
        Ok(ticket)
    }

    /// Releases what is held on every connection.
    fn release_all(&mut self, wait: Option<Duration>, becomes: Becomes, context: *mut c_void) -> u64 {
        self.branch_of(None);
        let Becomes::All(several) = becomes else { unreachable!("it is for all") };
        let caller = self.callers.begin(context);
        let open: Vec<&Branch> = self.branches.iter().flatten().filter(|branch| !branch.is_closed).collect();
        several.left.store(open.len(), Ordering::Relaxed);
        for branch in open {
            let waiting = Waiting { caller: caller.clone(), becomes: Becomes::All(several.clone()) };
            change(&branch.machine, |front, now| front.begin(LockOperation::ReleaseAll { wait }, waiting, now));
        }
        caller.ticket
    }

    /// A lock that the caller waits for is given up, or given back if it is there already. One that was to be upgraded
    /// stays as it is.
    pub fn abandon(&mut self, ticket: u64) {
        self.callers.abandon(ticket);
        let Some((branch, awaited)) = self.awaited.remove(&ticket) else { return };
        if let (true, Some(branch)) = (self.is_of_this_process(), &self.branches[branch]) {
            let Ok(()) = branch.machine.give_up(&awaited.grant, awaited.gives_up);
        }
    }

    /// Fills the next reply. False: there is none.
    pub fn next_reply(&mut self, reply: &mut Reply) -> bool {
        for branch in self.branches.iter().flatten() {
            while let Some(finished) = branch.machine().next_finished() {
                // The machine leaves notes with the client of the locks.
                let LockFinished::Done { waiter: Waiting { caller, becomes }, outcome, .. } = finished else {
                    continue;
                };
                if caller.is_gone() || becomes.waits_for_others(&outcome) {
                    continue;
                }
                reply.begin(caller.context);
                reply.ticket = caller.ticket;
                self.awaited.remove(&caller.ticket);
                self.callers.end(caller.ticket);
                becomes.fill(reply, outcome, &self.locks, || (Driver::Loop(branch.machine.clone()), None));
                return true;
            }
        }
        false
    }

    pub fn next_order(&mut self) -> Option<Order> {
        if !self.is_of_this_process() {
            return None;
        }
        for index in 0..self.branches.len() {
            while let Some(branch) = &self.branches[index] {
                let order = branch.machine().next_order();
                match order {
                    Some(Order::Alarm(_)) => self.alarm.outdate(),
                    Some(order) => return Some(renumbered(&mut self.lanes, index, order)),
                    None if branch.is_closed => self.branches[index] = None,
                    None => break,
                }
            }
        }
        let mut alarm = std::mem::take(&mut self.alarm);
        let order = alarm.next_order(|| self.deadline());
        self.alarm = alarm;
        order
    }

    pub fn ready(&mut self, lane: usize) {
        let Some((index, lane)) = self.lanes.get(lane).copied().flatten() else { return };
        if let (true, Some(branch)) = (self.is_of_this_process(), &self.branches[index]) {
            branch.machine().ready(lane);
        }
    }

    pub fn turn(&mut self) {
        self.each(|machine| machine.turn());
    }

    pub fn expire(&mut self) {
        self.alarm.went_off();
        self.each(|machine| machine.expire());
    }

    pub fn close(&mut self) {
        self.each(|machine| machine.close());
    }

    pub fn deadline(&mut self) -> Option<Instant> {
        if !self.is_of_this_process() {
            return None;
        }
        self.branches.iter().flatten().filter_map(|branch| branch.machine().deadline()).min()
    }

    /// Whether no caller waits. Held locks may have to be renewed all the same.
    pub fn is_idle(&self) -> bool {
        self.callers.is_empty()
    }

    fn is_of_this_process(&self) -> bool {
        self.generation == fork::generation()
    }

    fn each(&mut self, call: impl Fn(&mut Stepwise<Front<Waiting, Listener>>)) {
        // In a forked child, a thread that is gone may have one of them.
        if self.is_of_this_process() {
            self.branches.iter().flatten().for_each(|branch| call(&mut branch.machine()));
        }
    }

    /// The branch of a hash tag. A new one is made if needed, and one that nobody needs any more is closed instead.
    fn branch_of(&mut self, tag: Option<&[u8]>) -> usize {
        self.uses += 1;
        for (index, branch) in self.branches.iter_mut().enumerate() {
            if let Some(branch) = branch.as_mut().filter(|branch| branch.tag.as_deref() == tag && !branch.is_closed) {
                branch.used = self.uses;
                return index;
            }
        }
        self.close_one_too_many();
        let setup = self.locks.setup();
        let setup = tag.map_or_else(|| setup.clone(), |tag| setup.tagged(tag));
        let machine = Stepwise::new(Front::with_notes(setup, self.locks.notes().clone()));
        let machine = Arc::new(Mutex::new(machine));
        let branch = Branch { tag: tag.map(Box::from), machine, used: self.uses, is_closed: false };
        place(&mut self.branches, branch)
    }

    fn close_one_too_many(&mut self) {
        let tagged = self.branches.iter_mut().flatten().filter(|branch| branch.tag.is_some() && !branch.is_closed);
        let mut tagged: Vec<&mut Branch> = tagged.collect();
        if tagged.len() < KEPT {
            return;
        }
        tagged.sort_by_key(|branch| branch.used);
        if let Some(branch) = tagged.into_iter().find(|branch| branch.machine().is_idle()) {
            branch.is_closed = true;
            branch.machine().close();
        }
    }

    /// The branch that keeps a lock.
    fn branch_with(&self, held: &Held) -> Result<usize, Error> {
        let Driver::Loop(machine) = held.driver() else {
            return Err(Failure::usage("this lock is not of an event loop: carry out the wish by pinyon_lock_run"));
        };
        let is_it = |branch: &Branch| std::ptr::addr_eq(Arc::as_ptr(&branch.machine), Arc::as_ptr(machine));
        let wrong = || Failure::usage("this lock was acquired in another event loop, or its connection is gone");
        self.branches.iter().position(|branch| branch.as_ref().is_some_and(is_it)).ok_or_else(wrong)
    }
}

impl Drop for LocksLoop {
    /// Tells its locks that they are lost here, and closes the connections although locks refer to their machines.
    fn drop(&mut self) {
        self.each(|machine| {
            machine.close();
            while machine.next_order().is_some() {}
        });
    }
}
