//! A coroutine, whose host carries out the steps.

use std::sync::Arc;

use super::run::fill;
use super::{At, Making};
use crate::errors::Error;
use crate::exported::exported;
use crate::flights::{Made, Wake};
use crate::status::{numbered, Status};
use crate::structs::{empty, given, to_fill, Reply, Step};

numbered! {
    StepKind: u32 {
        Ask = 0,
        Pause = 1,
        Follow = 2,
        Make = 3,
        Over = 4,
        MakeWithin = 5,
        ReturnOld = 6,
    }
}

impl Making {
    fn step(&mut self, step: &mut Step, reply: &mut Reply) -> Result<(), Error> {
        loop {
            self.advance()?;
            let (kind, seconds, request) = match &self.at {
                At::Asking(asked) => (StepKind::Ask, 0.0, self.request(*asked)),
                At::Pausing(time) => (StepKind::Pause, time.as_secs_f64(), empty()),
                At::Following(time) => {
                    let woken = self.client.shared.woken().clone();
                    let signal = Wake::Scope { woken, scope: self.scope, context: self.context as usize };
                    if !self.machine.follow(signal) {
                        continue;
                    }
                    (StepKind::Follow, time.as_secs_f64(), empty())
                }
                At::Making => (StepKind::Make, 0.0, empty()),
                At::MakingWithin(time) => {
                    self.give_old(reply);
                    (StepKind::MakeWithin, time.as_secs_f64(), empty())
                }
                At::MakingBehind => {
                    self.give_old(reply);
                    (StepKind::ReturnOld, 0.0, empty())
                }
                At::Over(outcome) => {
                    self.fill(reply, outcome);
                    (StepKind::Over, 0.0, empty())
                }
                At::Beginning | At::Unreadable => unreachable!("it has advanced"),
            };
            *step = Step { size: step.size, kind: kind as u32, seconds, request };
            return Ok(());
        }
    }

    fn give_old(&self, reply: &mut Reply) {
        let old = self.machine.value().cloned().unwrap_or_default();
        self.fill(reply, &Ok(old));
    }

    fn fill(&self, reply: &mut Reply, outcome: &Result<Arc<Made>, Error>) {
        let room = reply.begin(self.context);
        reply.keep(room);
        fill(reply, outcome, None);
    }
}

exported! {
    fn pinyon_making_step(making: &mut Making, step: *mut Step, reply: *mut Reply) -> i32 {
        let reply = to_fill(reply)?;
        match making.step(to_fill(step)?, reply) {
            Ok(()) => Status::Done,
            Err(error) => reply.fail(error),
        }
    }

    fn pinyon_making_replied(making: &mut Making, reply: *const Reply) { making.replied(&given(reply)?) }
}
