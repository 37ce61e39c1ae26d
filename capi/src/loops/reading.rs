//! Many keys that are read by one operation of an event loop.

use std::sync::Arc;

use pinyon_cache::operations::{self, AnyOperation, Beside, Fetch};

use super::client::{Asked, ClientLoop};
use super::structs::Reading;
use crate::awaited::callers::Waiting;
use crate::awaited::{LoopValues, ManyValues, Wanted};
use crate::client::Client;
use crate::errors::Error;
use crate::many::keys::{no_place, Slotted, Structs};
use crate::requests::{with as flags, Verb};
use crate::structs::{empty, Request};

impl ClientLoop {
    /// Begins to read many keys. Returns the ticket.
    ///
    /// # Safety
    /// The structs stay where they are, and nobody else uses them, until the reply or until the caller leaves. The keys' bytes
    /// stay as they are during the call.
    pub unsafe fn begin_reading(&mut self, view: Option<&Client>, asked: &Reading) -> Result<u64, Error> {
        let view = self.view_of(view)?.clone();
        view.check_open()?;
        let place = asked.place.ok_or_else(|| no_place("pinyon_begin_reading needs a pinyon_reading"))?;
        let policy = Request { with: asked.with, ..empty() }.policy(&view);
        // SAFETY: the caller leaves the structs to the loop until the reply, and keeps the keys' bytes as they are
        // during the call.
        let (slots, keys) = unsafe {
            let all = Structs::new(asked.keys, asked.count)?;
            Slotted::new(&view, view.shared.packing.clone(), all, place, asked.with)
        };
        let (wanted, caller) = (Arc::new(Wanted { slots, policy }), self.callers.begin(asked.context));
        let ticket = caller.ticket;
        let values = LoopValues::Many(ManyValues { wanted: wanted.clone(), caller: caller.clone() });
        let each = operations::Request::Get(Beside::token(asked.with & flags::CAS != 0));
        let fetch = Fetch::new(keys, each, values, policy).named("get");
        let waiter = Asked { waiting: Waiting(caller), verb: Verb::Get };
        self.start_operation(AnyOperation::from(fetch), waiter)?;
        self.wanted.insert(ticket, wanted);
        Ok(ticket)
    }
}
