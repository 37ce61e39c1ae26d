//! All calls run in one event loop, which waits with poll(2).

use std::collections::HashMap;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use pinyon::client::{pinyon_client_free, Client};
use pinyon::loops::{pinyon_begin, pinyon_loop_of_client};
use pinyon::replies::pinyon_reply_clear;
use pinyon::structs::{empty, Reply};
use serde_json::Value;

use crate::cache::Cache;
use crate::calls::{batch, client, Call};
use crate::playing::Outcome;
use crate::polling::Polling;
use crate::reading::{self, Wanted};

pub struct Looping {
    client: *mut Client,
    polling: Polling,
}

impl Drop for Looping {
    fn drop(&mut self) {
        // SAFETY: it is not used afterwards. The loop has the client, too.
        unsafe { pinyon_client_free(self.client) }
    }
}

impl Cache for Looping {
    const SHARES: bool = true;
    const UNNAMED: &'static str = "_many";

    fn connected(scenario: &Value) -> Self {
        let client = client(scenario);
        // SAFETY: as the header says.
        let event_loop = unsafe { pinyon_loop_of_client(client, None, null_mut()) };
        Self { client, polling: Polling::new(event_loop) }
    }

    fn together(&mut self, calls: &[&[Value]]) -> Vec<Outcome> {
        let calls: Vec<Call> = calls.iter().map(|call| Call::new(call)).collect();
        let mut tickets: Vec<Vec<u64>> = Vec::new();
        let mut read: HashMap<u64, Vec<Wanted>> = HashMap::new();
        for call in &calls {
            let mut of_call = Vec::new();
            if call.reads_many() {
                let (ticket, keys) = reading::begin(self.polling.event_loop, call);
                read.insert(ticket, keys);
                tickets.push(vec![ticket]);
                continue;
            }
            for request in &call.requests {
                let mut ticket = 0;
                // SAFETY: as the header says.
                let begun = unsafe { pinyon_begin(self.polling.event_loop, request, &mut ticket, null_mut()) };
                assert_eq!(begun, 0);
                of_call.push(ticket);
            }
            tickets.push(of_call);
        }
        let (until, mut all) = (Instant::now() + Duration::from_secs(60), Vec::new());
        let wanted: usize = tickets.iter().map(Vec::len).sum();
        self.polling.act();
        while all.len() < wanted {
            self.polling.advance(until);
            all.append(&mut self.polling.replies);
            assert!(Instant::now() < until, "nothing happens any more");
        }
        let mut outcomes = Vec::new();
        for (call, tickets) in calls.iter().zip(&tickets) {
            let of = |ticket: &u64| *all.iter().find(|reply| reply.ticket == *ticket).expect("its reply");
            let replies: Vec<Reply> = match read.get(&tickets[0]) {
                None => tickets.iter().map(of).collect(),
                Some(keys) => {
                    let replies = reading::replies(keys);
                    let failed = replies.iter().any(|reply| !reply.error.is_null());
                    assert_eq!(of(&tickets[0]).status < 0, failed);
                    all.extend(replies.iter().map(|reply| Reply { error: reply.error, ..empty() }));
                    replies
                }
            };
            outcomes.push(call.outcome(&replies));
        }
        // SAFETY: as the header says.
        all.iter_mut().for_each(|reply| unsafe { pinyon_reply_clear(reply) });
        outcomes
    }

    /// The loop goes on while its callers pause.
    fn rest(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.polling.advance(until);
        }
    }

    fn batch(&mut self, commands: &[Value]) -> Outcome {
        batch(self.client, commands)
    }
}
