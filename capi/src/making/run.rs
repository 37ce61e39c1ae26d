//! A thread that carries out the steps by waiting.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{At, Making};
use crate::errors::Error;
use crate::exported::exported;
use crate::flights::{Made, Wake};
use crate::guard::with_mut;
use crate::host::{Host, Interrupted};
use crate::replies::replied;
use crate::run::run;
use crate::status::Status;
use crate::structs::{self, empty, Reply};

/// How often a thread that waits asks whether to go on.
const ASK_AGAIN: Duration = Duration::from_millis(100);

impl Making {
    fn run(&mut self, reply: &mut Reply, host: &Host) -> Result<Status, Error> {
        if let Some(refused) = &self.only_by_steps {
            return Err(refused.clone());
        }
        loop {
            self.advance()?;
            let done = match &self.at {
                At::Asking(asked) => {
                    let (request, mut answer) = (self.request(*asked), empty());
                    // SAFETY: the request points to what this caller has, which stays as it is.
                    let asked = unsafe { run(&self.client, &request, &mut answer, &host.without_place()) };
                    let outcome = asked.unwrap_or_else(|error| answer.fail(error));
                    self.replied(&answer);
                    answer.clear();
                    if outcome == Status::Interrupted {
                        Err(Interrupted)
                    } else {
                        Ok(())
                    }
                }
                At::Pausing(time) => wait(host, *time, &bell()),
                At::Following(time) => {
                    let bell = bell();
                    match self.machine.follow(Wake::Thread(bell.clone())) {
                        true => wait(host, *time, &bell),
                        false => Ok(()),
                    }
                }
                At::Making => return Ok(reply.finish(Status::Make)),
                At::Over(outcome) => return Ok(fill(reply, outcome, host.place())),
                At::MakingWithin(_) | At::MakingBehind => unreachable!("such terms are refused"),
                At::Beginning | At::Unreadable => unreachable!("it has advanced"),
            };
            if let Err(Interrupted) = done {
                return Ok(reply.finish(Status::Interrupted));
            }
        }
    }
}

/// Puts the value into the reply, or why there is none.
pub(super) fn fill(reply: &mut Reply, outcome: &Result<Arc<Made>, Error>, place: Option<structs::Place>) -> Status {
    match outcome {
        Ok(value) => {
            reply.place(&value.bytes, value.client_flags, place);
            reply.finish(Status::Done)
        }
        Err(error) => reply.fail(error.clone()),
    }
}

pub(super) type Bell = Arc<(Mutex<bool>, Condvar)>;

pub(super) fn bell() -> Bell {
    Arc::new((Mutex::new(false), Condvar::new()))
}

/// Waits until the bell is rung, for so long at most.
pub(super) fn wait(host: &Host, time: Duration, bell: &Bell) -> Result<(), Interrupted> {
    let end = Instant::now() + time;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        let is_rung = pinyon_net::host::Host::unlocked(host, || {
            let rung = bell.0.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = bell.1.wait_timeout_while(rung, left.min(ASK_AGAIN), |rung| !*rung);
            *waited.unwrap_or_else(PoisonError::into_inner).0
        })?;
        if is_rung {
            return Ok(());
        }
        pinyon_net::host::Host::interrupted(host)?;
    }
}

exported! {
    fn pinyon_making_run(making: *mut Making, reply: *mut Reply, host: *const structs::Host) -> i32 {
        replied(reply, |reply| with_mut(making, |making| {
            let room = reply.begin(making.context);
            reply.keep(room);
            making.run(reply, &Host::new(host)?)
        }))
    }
}
