//! A thread that carries out the steps for many keys by waiting.

use super::many::{At, MakingMany};
use super::run::{bell, wait};
use crate::errors::Error;
use crate::exported::exported;
use crate::flights::Wake;
use crate::guard::with_mut;
use crate::host::{Host, Interrupted};
use crate::many::fail_each;
use crate::replies::replied;
use crate::run::carry_out_many;
use crate::status::Status;
use crate::structs::{self, empty, Reply, Request};

impl MakingMany {
    fn run(&mut self, reply: &mut Reply, host: &Host) -> Result<Status, Error> {
        loop {
            self.advance(Self::bell_of)?;
            let done = match &self.at {
                At::Asking(all) => {
                    let requests: Vec<Request> = all.iter().map(|asking| asking.request).collect();
                    self.ask(&requests, host)
                }
                At::Pausing(time) => wait(host, *time, &bell()),
                At::Following(key, time) => {
                    self.bells.get(key).cloned().map_or(Ok(()), |bell| wait(host, *time, &bell))
                }
                At::Making { .. } => return Ok(reply.finish(Status::Make)),
                At::Over(Ok(())) => return Ok(reply.finish(Status::Done)),
                At::Over(Err(error)) => return Ok(reply.fail(error.clone())),
                At::Beginning => unreachable!("it has advanced"),
            };
            if let Err(Interrupted) = done {
                return Ok(reply.finish(Status::Interrupted));
            }
        }
    }

    /// Carries out the requests of a step together.
    fn ask(&mut self, requests: &[Request], host: &Host) -> Result<(), Interrupted> {
        let mut answers: Vec<Reply> = requests.iter().map(|_| empty()).collect();
        let (lent, mut filled): (Vec<_>, Vec<_>) = (requests.iter().collect(), answers.iter_mut().collect());
        // SAFETY: the requests point to what this caller has, which stays as it is.
        let asked = unsafe { carry_out_many(&self.client, &lent, &mut filled, &host.without_place()) };
        let outcome = asked.unwrap_or_else(|error| fail_each(&mut filled, &error));
        for (index, answer) in answers.iter_mut().enumerate() {
            self.replied(index, answer);
            answer.clear();
        }
        match outcome {
            Status::Interrupted => Err(Interrupted),
            _ => Ok(()),
        }
    }

    /// What wakes a thread that follows another for this key.
    fn bell_of(&mut self, key: usize) -> Wake {
        let bell = bell();
        self.bells.insert(key, bell.clone());
        Wake::Thread(bell)
    }
}

exported! {
    fn pinyon_making_many_run(making: *mut MakingMany, reply: *mut Reply, host: *const structs::Host) -> i32 {
        replied(reply, |reply| with_mut(making, |making| {
            let room = reply.begin(making.context);
            reply.keep(room);
            making.run(reply, &Host::new(host)?)
        }))
    }
}
