//! Each call waits in its own thread.

use std::ptr::null;
use std::time::Duration;

use pinyon::client::{pinyon_client_free, Client};
use pinyon::replies::pinyon_reply_clear;
use pinyon::run::{pinyon_run, pinyon_run_many};
use pinyon::structs::{empty, Reply};
use serde_json::Value;

use crate::cache::{in_threads, Cache};
use crate::calls::{batch, client, Call};
use crate::playing::Outcome;

pub struct Waiting(*mut Client);

/// Threads may share it, as the header says.
#[derive(Clone, Copy)]
struct Shared(*mut Client);

// SAFETY: the header says so.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Drop for Waiting {
    fn drop(&mut self) {
        // SAFETY: it is not used afterwards.
        unsafe { pinyon_client_free(self.0) }
    }
}

impl Cache for Waiting {
    const SHARES: bool = false;
    const UNNAMED: &'static str = "_many";

    fn connected(scenario: &Value) -> Self {
        Self(client(scenario))
    }

    fn together(&mut self, calls: &[&[Value]]) -> Vec<Outcome> {
        let client = Shared(self.0);
        in_threads(calls, |call| run(client, call))
    }

    fn batch(&mut self, commands: &[Value]) -> Outcome {
        batch(self.0, commands)
    }

    fn rest(&mut self, time: Duration) {
        std::thread::sleep(time);
    }
}

fn run(Shared(client): Shared, call: &[Value]) -> Outcome {
    let call = Call::new(call);
    let mut replies: Vec<Reply> = call.requests.iter().map(|_| empty()).collect();
    // SAFETY: as the header says.
    unsafe {
        match &call.requests[..] {
            [request] => pinyon_run(client, request, &mut replies[0], null()),
            many => pinyon_run_many(client, many.as_ptr(), replies.as_mut_ptr(), many.len(), null()),
        };
        let outcome = call.outcome(&replies);
        replies.iter_mut().for_each(|reply| pinyon_reply_clear(reply));
        outcome
    }
}
