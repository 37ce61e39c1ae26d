//! Many keys that are read by one operation of an event loop.

use std::sync::Arc;

use pinyon_cache::dialect::Packing;
use pinyon_cache::operations::{AnyOperation, Fetch, Fetched, Policy};

use super::callers::Waiting;
use super::client::{Asked, ClientLoop};
use super::structs::Reading;
use super::values::{LoopValues, ManyValues};
use super::{begun, Loop};
use crate::client::Client;
use crate::errors::Error;
use crate::guard::with_mut;
use crate::many::keys::{no_place, Slotted, Structs};
use crate::many::reading::tell;
use crate::replies::Status;
use crate::requests::{with as flags, Verb};
use crate::structs::{self, given, Request};

/// The structs of keys that a caller wants.
pub struct Wanted {
    pub slots: Slotted<Arc<Packing>>,
    policy: Policy,
}

// SAFETY: the host says that its structs may be used, and that its pointers may be passed to `place`, from the thread that
// drives the loop. No other thread uses them.
unsafe impl Send for Wanted {}
// SAFETY: as above.
unsafe impl Sync for Wanted {}

impl ClientLoop {
    /// Begins to read many keys. Returns the ticket.
    ///
    /// # Safety
    /// The structs stay where they are, and nobody else uses them, until the reply or until the caller leaves. The keys' bytes
    /// stay as they are during the call.
    unsafe fn begin_reading(&mut self, view: Option<&Client>, asked: &Reading) -> Result<u64, Error> {
        let view = self.view_of(view)?.clone();
        view.check_open()?;
        let place = asked.place.ok_or_else(|| no_place("pinyon_begin_reading needs a pinyon_reading"))?;
        let policy = Request { with: asked.with, ..structs::empty() }.policy(&view);
        // SAFETY: the caller says so.
        let (slots, keys) = unsafe {
            let all = Structs::new(asked.keys, asked.count)?;
            Slotted::new(&view, view.shared.packing.clone(), all, place, asked.with)
        };
        let (wanted, caller) = (Arc::new(Wanted { slots, policy }), self.callers.begin(asked.context));
        let ticket = caller.ticket;
        let values = LoopValues::Many(ManyValues { wanted: wanted.clone(), caller: caller.clone() });
        let fetch = Fetch::new(keys, asked.with & flags::CAS != 0, values, policy).named("get");
        let waiter = Asked { waiting: Waiting(caller), verb: Verb::Get };
        self.start_operation(AnyOperation::from(fetch), waiter)?;
        self.wanted.insert(ticket, wanted);
        Ok(ticket)
    }

    /// Fills the structs of keys that were read for the caller with this ticket.
    #[cold]
    pub(super) fn end_reading(&mut self, ticket: u64, fetch: Fetch<LoopValues>) -> Status {
        let Some(wanted) = self.wanted.remove(&ticket) else { return Status::Failed };
        let Fetched { found, unanswered, .. } = fetch.finish();
        tell(&wanted.slots, wanted.policy, &found, unanswered);
        wanted.slots.status()
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_begin_reading(
    event_loop: *mut Loop,
    view: *const Client,
    reading: *const Reading,
    ticket: *mut u64,
    error: *mut *mut Error,
) -> i32 {
    // SAFETY: the header says so.
    unsafe {
        let begin = |event_loop: &mut Loop| {
            let reading = given(reading)?;
            event_loop.with_readings()?.begin_reading(view.as_ref(), &reading)
        };
        begun(with_mut(event_loop, begin), ticket, error)
    }
}
