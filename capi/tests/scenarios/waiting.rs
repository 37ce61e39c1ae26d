//! Each call waits in its own thread.

use std::ptr::null;
use std::time::Duration;

use pinyon::client::{pinyon_client_free, Client};
use pinyon::replies::pinyon_reply_clear;
use pinyon::run::{pinyon_run, pinyon_run_many};
use pinyon::structs::{empty, Reply};
use serde_json::Value;

use crate::calls::{afterwards, batch, check_place, client, of_batch, Call};
use crate::playing::{self, Outcome, Raised};

pub struct Waiting(*mut Client);

/// Threads may share it, as the header says.
#[derive(Clone, Copy)]
struct Shared(*mut Client);

// SAFETY: the header says so.
unsafe impl Send for Shared {}

impl Drop for Waiting {
    fn drop(&mut self) {
        // SAFETY: it is not used afterwards.
        unsafe { pinyon_client_free(self.0) }
    }
}

impl playing::Client for Waiting {
    const PROTOCOL: &'static str = "memcached";
    const SHARES: bool = false;
    const LIMITS: &'static [&'static str] = &["timeout"];

    fn connected(scenario: &Value) -> Self {
        Self(client(scenario))
    }

    fn carry_out(&mut self, calls: &[&[Value]]) -> Vec<Outcome> {
        if let Some(commands) = of_batch(calls) {
            return vec![batch(self.0, commands)];
        }
        let client = Shared(self.0);
        std::thread::scope(|threads| {
            let running: Vec<_> = calls.iter().map(|call| threads.spawn(move || run(client, call))).collect();
            running.into_iter().map(|call| call.join().expect("it does not panic")).collect()
        })
    }

    fn rest(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    fn afterwards(_: &Value) -> Vec<Value> {
        afterwards()
    }

    fn check_place(call: &[Value], address: &str, raised: &Raised) -> Result<(), String> {
        check_place(call, address, raised)
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
