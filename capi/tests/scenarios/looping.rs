//! All calls run in one event loop, which waits with poll(2).

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use pinyon::client::{pinyon_client_free, Client};
use pinyon::loops::structs::Action;
use pinyon::loops::*;
use pinyon::replies::pinyon_reply_clear;
use pinyon::structs::{empty, Reply};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use serde_json::Value;

use crate::calls::{afterwards, batch, check_place, client, of_batch, Call};
use crate::playing::{self, Outcome, Raised};
use crate::reading::{self, Wanted};

pub struct Looping {
    client: *mut Client,
    event_loop: *mut Loop,
    /// What is watched, by lane.
    watched: Vec<Option<(i32, bool)>>,
    turn_is_due: bool,
    /// Replies by the tickets of their requests.
    replies: Vec<Reply>,
}

impl Looping {
    fn act(&mut self) {
        let mut action: Action = empty();
        // SAFETY: as the header says.
        while unsafe { pinyon_next_action(self.event_loop, &mut action) } {
            if self.watched.len() <= action.lane {
                self.watched.resize(action.lane + 1, None);
            }
            match action.kind {
                0 => self.watched[action.lane] = Some((action.fd, action.write != 0)),
                1 => drop(self.watched[action.lane].take_if(|(fd, _)| *fd == action.fd)),
                2 => self.turn_is_due = true,
                _ => {}
            }
        }
        loop {
            let mut reply: Reply = empty();
            // SAFETY: as the header says.
            if !unsafe { pinyon_next_reply(self.event_loop, &mut reply) } {
                return;
            }
            self.replies.push(reply);
        }
    }

    /// Waits for what happens next, until then at the latest.
    fn advance(&mut self, until: Instant) {
        // SAFETY: as the header says; what is watched is open until it is forgotten.
        unsafe {
            while std::mem::take(&mut self.turn_is_due) {
                pinyon_turn(self.event_loop);
                self.act();
            }
            if !self.replies.is_empty() {
                return;
            }
            let due = pinyon_due_in(self.event_loop);
            let left = until.saturating_duration_since(Instant::now());
            let time = if due < 0.0 { left } else { left.min(Duration::from_secs_f64(due)) };
            let lanes: Vec<(usize, i32, bool)> = self
                .watched
                .iter()
                .enumerate()
                .filter_map(|(lane, watched)| watched.map(|(fd, write)| (lane, fd, write)))
                .collect();
            let mut descriptors: Vec<PollFd<'_>> = lanes
                .iter()
                .map(|(_, fd, write)| {
                    let flags = if *write { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
                    PollFd::from_borrowed_fd(BorrowedFd::borrow_raw(*fd), flags)
                })
                .collect();
            let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
            let _ = poll(&mut descriptors, Some(&time));
            let ready: Vec<usize> = lanes
                .iter()
                .zip(&descriptors)
                .filter(|(_, descriptor)| !descriptor.revents().is_empty())
                .map(|((lane, ..), _)| *lane)
                .collect();
            for lane in ready {
                pinyon_ready(self.event_loop, lane);
                self.act();
            }
            if pinyon_due_in(self.event_loop) == 0.0 {
                pinyon_expire(self.event_loop);
                self.act();
            }
        }
    }
}

impl Drop for Looping {
    fn drop(&mut self) {
        // SAFETY: neither is used afterwards.
        unsafe {
            pinyon_loop_free(self.event_loop);
            pinyon_client_free(self.client);
        }
    }
}

impl playing::Client for Looping {
    const PROTOCOL: &'static str = "memcached";
    const SHARES: bool = true;
    const LIMITS: &'static [&'static str] = &["timeout"];

    fn connected(scenario: &Value) -> Self {
        let client = client(scenario);
        // SAFETY: as the header says.
        let event_loop = unsafe { pinyon_loop_of_client(client, None, null_mut()) };
        assert!(!event_loop.is_null());
        Self { client, event_loop, watched: Vec::new(), turn_is_due: false, replies: Vec::new() }
    }

    fn carry_out(&mut self, calls: &[&[Value]]) -> Vec<Outcome> {
        if let Some(commands) = of_batch(calls) {
            return vec![batch(self.client, commands)];
        }
        let calls: Vec<Call> = calls.iter().map(|call| Call::new(call)).collect();
        let mut tickets: Vec<Vec<u64>> = Vec::new();
        let mut read: HashMap<u64, Vec<Wanted>> = HashMap::new();
        for call in &calls {
            let mut of_call = Vec::new();
            if call.reads_many() {
                let (ticket, keys) = reading::begin(self.event_loop, call);
                read.insert(ticket, keys);
                tickets.push(vec![ticket]);
                continue;
            }
            for request in &call.requests {
                let mut ticket = 0;
                // SAFETY: as the header says.
                let begun = unsafe { pinyon_begin(self.event_loop, request, &mut ticket, null_mut()) };
                assert_eq!(begun, 0);
                of_call.push(ticket);
            }
            tickets.push(of_call);
        }
        let (until, mut all) = (Instant::now() + Duration::from_secs(60), Vec::new());
        let wanted: usize = tickets.iter().map(Vec::len).sum();
        self.act();
        while all.len() < wanted {
            self.advance(until);
            all.append(&mut self.replies);
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
            self.advance(until);
        }
    }

    fn afterwards(_: &Value) -> Vec<Value> {
        afterwards()
    }

    fn check_place(call: &[Value], address: &str, raised: &Raised) -> Result<(), String> {
        check_place(call, address, raised)
    }
}
