//! A coroutine, whose host carries out the steps for many keys.

use super::many::{At, MakingMany};
use super::step::StepKind;
use crate::errors::Error;
use crate::exported::exported;
use crate::flights::Wake;
use crate::status::Status;
use crate::structs::{empty, given, to_fill, Reply, Request, Step};

impl MakingMany {
    fn step(&mut self, step: &mut Step, reply: &mut Reply) -> Result<(), Error> {
        self.advance(Self::wake_in_scope)?;
        let (kind, seconds) = match &self.at {
            At::Asking(_) => (StepKind::Ask, 0.0),
            At::Pausing(time) => (StepKind::Pause, time.as_secs_f64()),
            At::Following(_, time) => (StepKind::Follow, time.as_secs_f64()),
            At::Making { .. } => (StepKind::Make, 0.0),
            At::Over(outcome) => {
                let room = reply.begin(self.context);
                reply.keep(room);
                match outcome {
                    Ok(()) => reply.finish(Status::Done),
                    Err(error) => reply.fail(error.clone()),
                };
                (StepKind::Over, 0.0)
            }
            At::Beginning => unreachable!("it has advanced"),
        };
        *step = Step { size: step.size, kind: kind as u32, seconds, request: empty() };
        Ok(())
    }

    fn wake_in_scope(&mut self, _key: usize) -> Wake {
        Wake::Scope { woken: self.client.shared.woken().clone(), scope: self.scope, context: self.context as usize }
    }

    /// The request of a step that is the next after so many.
    fn request(&self, index: usize) -> Option<Request> {
        match &self.at {
            At::Asking(all) => all.get(index).map(|asking| asking.request),
            _ => None,
        }
    }
}

exported! {
    fn pinyon_making_many_step(making: &mut MakingMany, step: *mut Step, reply: *mut Reply) -> i32 {
        let reply = to_fill(reply)?;
        match making.step(to_fill(step)?, reply) {
            Ok(()) => Status::Done,
            Err(error) => reply.fail(error),
        }
    }

    fn pinyon_making_many_request(making: &MakingMany, index: usize, request: *mut Request) -> bool {
        let asked = making.request(index);
        if let (Some(asked), Ok(request)) = (asked, to_fill(request)) {
            *request = Request { size: request.size, ..asked };
        }
        asked.is_some()
    }

    fn pinyon_making_many_replied(making: &mut MakingMany, index: usize, reply: *const Reply) {
        making.replied(index, &given(reply)?)
    }
}
