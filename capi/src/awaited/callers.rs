//! The callers that wait in an event loop, by ticket.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use pinyon_cache::shared::Waiter;

/// One caller, as its operation knows it.
#[derive(Debug)]
pub struct Caller {
    pub ticket: u64,
    pub context: *mut c_void,
    is_gone: AtomicBool,
}

// SAFETY: the context is only handed back to the host.
unsafe impl Send for Caller {}
// SAFETY: the context never changes, and the mark is atomic.
unsafe impl Sync for Caller {}

impl Caller {
    /// One that is not among the callers of a loop: its ticket is a number of something else.
    pub fn numbered(ticket: u64) -> Self {
        Self { ticket, context: std::ptr::null_mut(), is_gone: AtomicBool::new(false) }
    }

    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }
}

/// The callers of one loop. A ticket has the caller's seat in its lower half, and above it a number that changes with
/// each caller there: a ticket that is over is recognized.
#[derive(Debug, Default)]
pub struct Callers {
    seats: Vec<Seat>,
    vacant: Vec<u32>,
    begun: u32,
}

#[derive(Debug)]
struct Seat {
    caller: Arc<Caller>,
    is_taken: bool,
}

impl Callers {
    #[inline]
    pub fn begin(&mut self, context: *mut c_void) -> Arc<Caller> {
        // 0 is never a ticket.
        self.begun = self.begun.wrapping_add(1).max(1);
        let seat = match self.vacant.pop() {
            Some(seat) => seat,
            None => self.seats.len() as u32,
        };
        let ticket = u64::from(self.begun) << 32 | u64::from(seat);
        let caller = Caller { ticket, context, is_gone: AtomicBool::new(false) };
        let Some(known) = self.seats.get_mut(seat as usize) else {
            let caller = Arc::new(caller);
            self.seats.push(Seat { caller: caller.clone(), is_taken: true });
            return caller;
        };
        known.is_taken = true;
        match Arc::get_mut(&mut known.caller) {
            Some(memory) => *memory = caller,
            None => known.caller = Arc::new(caller),
        }
        known.caller.clone()
    }

    /// Frees the seat of a caller that has its reply, or is gone.
    #[inline]
    pub fn end(&mut self, ticket: u64) -> Option<&Arc<Caller>> {
        let seat = ticket as u32;
        let known = self.seats.get_mut(seat as usize)?;
        if known.caller.ticket != ticket || !known.is_taken {
            return None;
        }
        known.is_taken = false;
        self.vacant.push(seat);
        Some(&known.caller)
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.seats.len() == self.vacant.len()
    }

    /// Marks a caller that no longer waits.
    pub fn abandon(&mut self, ticket: u64) -> bool {
        let caller = self.end(ticket);
        caller.inspect(|caller| caller.is_gone.store(true, Ordering::Relaxed)).is_some()
    }
}

/// A caller's operation in the machine.
pub struct Waiting(pub Arc<Caller>);

impl Waiter for Waiting {
    fn is_gone(&self) -> bool {
        self.0.is_gone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(callers: &mut Callers) -> Arc<Caller> {
        callers.begin(std::ptr::null_mut())
    }

    #[test]
    fn a_ticket_that_is_over_is_nobodys() {
        let mut callers = Callers::default();
        let [first, second] = [(); 2].map(|()| begin(&mut callers));
        assert!(callers.end(first.ticket).is_some() && callers.end(first.ticket).is_none());
        let third = begin(&mut callers);
        assert_eq!(third.ticket as u32, first.ticket as u32, "in the seat of the first");
        assert!(!callers.abandon(first.ticket) && !third.is_gone());
        assert!(callers.abandon(third.ticket) && third.is_gone() && !second.is_gone());
        assert!(!callers.abandon(third.ticket) && !callers.abandon(0) && !callers.abandon(u64::MAX));
        assert!(!callers.is_empty() && callers.end(second.ticket).is_some() && callers.is_empty());
    }

    #[test]
    fn a_caller_that_its_operation_still_knows_stays_as_it_is() {
        let mut callers = Callers::default();
        let gone = begin(&mut callers);
        callers.abandon(gone.ticket);
        let next = begin(&mut callers);
        assert!(gone.is_gone() && !next.is_gone());
    }
}
