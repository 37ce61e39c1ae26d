//! An event loop that waits with poll(2).

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use pinyon::loops::structs::Action;
use pinyon::loops::*;
use pinyon::structs::{empty, Reply};
use rustix::event::{poll, PollFd, PollFlags, Timespec};

pub struct Polling {
    pub event_loop: *mut Loop,
    /// What is watched, by lane.
    watched: Vec<Option<(i32, bool)>>,
    turn_is_due: bool,
    pub replies: Vec<Reply>,
}

impl Polling {
    pub fn new(event_loop: *mut Loop) -> Self {
        assert!(!event_loop.is_null());
        Self { event_loop, watched: Vec::new(), turn_is_due: false, replies: Vec::new() }
    }

    /// Carries out what the loop asks for, and takes its replies.
    pub fn act(&mut self) {
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
    pub fn advance(&mut self, until: Instant) {
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

impl Drop for Polling {
    fn drop(&mut self) {
        // SAFETY: it is not used afterwards.
        unsafe { pinyon_loop_free(self.event_loop) }
    }
}
