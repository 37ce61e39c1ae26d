//! Batches: commands whose replies are not awaited one by one.

use std::collections::VecDeque;
use std::ffi::c_void;

use pinyon_cache::operations::{Broken, Status as ServerStatus};
use pinyon_cache::{blocking, Data};

use crate::client::Client;
use crate::errors::{Error, Failure};
use crate::exported::exported;
use crate::guard::{free, with, with_mut, Handle, Poison};
use crate::host::{Host, Interrupted};
use crate::loops::batch::LoopBatch;
use crate::loops::{give_ticket, Loop};
use crate::requests::{Keyed, Verb};
use crate::status::Status;
use crate::structs::{self, given, to_fill, Reply, Request};
use crate::submitted::{verb_of, Failed, Submitted};

pub struct Batch {
    kind: Kind,
    poison: Poison,
}

enum Kind {
    /// Of a thread that waits.
    Waiting {
        client: Client,
        batch: Box<blocking::Batch<Submitted>>,
        failed: VecDeque<Failed>,
    },
    Loop(LoopBatch),
}

impl Handle for Batch {
    const NAME: &'static str = "pinyon_batch";

    fn poison(&self) -> &Poison {
        &self.poison
    }
}

impl Batch {
    fn new(client: &Client) -> Result<Self, Error> {
        client.check_open()?;
        client.check_not_migrating()?;
        let batch = blocking::Batch::new(client.shared.directory.clone(), client.policy.failover).into();
        Ok(Self::of(Kind::Waiting { client: client.clone(), batch, failed: VecDeque::new() }))
    }

    fn of(kind: Kind) -> Self {
        Self { kind, poison: Poison::default() }
    }

    /// # Safety
    /// The request's bytes stay as they are.
    unsafe fn add(&mut self, asked: &Request, host: &Host) -> Result<Status, Error> {
        let Kind::Waiting { client, batch, .. } = &mut self.kind else { return Err(of_loop()) };
        let view = &**client;
        view.check_open()?;
        let verb = verb_of(asked)?;
        let mut scratch = Vec::new();
        // SAFETY: the caller keeps the request's bytes as they are.
        let (key, keyed) = unsafe { (asked.key(view, &mut scratch)?, Keyed::of(view, verb, asked)?) };
        let data = keyed.data.as_deref().map_or(Data::None, Data::Copied);
        let submitted = Submitted { context: asked.context as usize, verb };
        outcome(batch.submit(host, &key, keyed.request, &data, submitted)).map(|all| match all {
            Some(()) => Status::Done,
            None => Status::Interrupted,
        })
    }

    fn send(&mut self) -> Result<Status, Error> {
        let Kind::Waiting { batch, .. } = &mut self.kind else { return Err(of_loop()) };
        match batch.send() {
            Ok(()) => Ok(Status::Done),
            Err(why) => Err((&why).into()),
        }
    }

    fn finish(&mut self, host: &Host) -> Result<Status, Error> {
        let Kind::Waiting { batch, failed, .. } = &mut self.kind else { return Err(of_loop()) };
        match outcome(batch.finish(host))? {
            None => Ok(Status::Interrupted),
            Some(unsuccessful) => {
                failed.extend(unsuccessful);
                Ok(if failed.is_empty() { Status::Done } else { Status::Failed })
            }
        }
    }

    fn is_full(&self) -> bool {
        matches!(&self.kind, Kind::Loop(batch) if batch.is_full())
    }

    fn next_failure(&mut self) -> Option<Failed> {
        match &mut self.kind {
            Kind::Waiting { failed, .. } => failed.pop_front(),
            Kind::Loop(batch) => batch.next_failure(),
        }
    }

    fn of_loop(&self) -> Result<&LoopBatch, Error> {
        match &self.kind {
            Kind::Loop(batch) => Ok(batch),
            Kind::Waiting { .. } => Err(Failure::usage(
                "this batch is of a thread that waits: make one of the event loop (pinyon_batch_of_loop)",
            )),
        }
    }
}

#[cold]
fn of_loop() -> Error {
    Failure::usage("this batch is of an event loop, where nothing waits: pinyon_batch_begin, pinyon_batch_begin_finish")
}

/// `None`: it was interrupted.
fn outcome<T>(outcome: Result<T, blocking::Failure<Interrupted>>) -> Result<Option<T>, Error> {
    match outcome {
        Ok(done) => Ok(Some(done)),
        Err(blocking::Failure::Interrupted(Interrupted)) => Ok(None),
        Err(blocking::Failure::Error(error)) => Err((&error).into()),
    }
}

fn tell(failed: Failed, reply: &mut Reply) {
    let Submitted { context, verb } = failed.key;
    reply.begin(context as *mut _);
    reply.number = failed.number as u64;
    match &failed.why {
        Broken::Failed(error) => reply.fail(error.into()),
        Broken::Refused(ServerStatus::Exists) => reply.finish(Status::Changed),
        Broken::Refused(ServerStatus::NotStored) => reply.finish(Status::NotStored),
        Broken::Refused(ServerStatus::NotFound) if matches!(verb, Verb::Replace | Verb::Append | Verb::Prepend) => {
            reply.finish(Status::NotStored)
        }
        Broken::Refused(_) => reply.finish(Status::Miss),
    };
}

exported! {
    fn pinyon_batch_new(client: &Client) -> Result<*mut Batch> { Batch::new(client) }

    fn pinyon_batch_add(batch: &mut Batch, request: *const Request, host: *const structs::Host) -> Result<i32> {
        batch.add(&given(request)?, &Host::new(host)?)
    }

    fn pinyon_batch_send(batch: &mut Batch) -> Result<i32> { batch.send() }

    fn pinyon_batch_finish(batch: &mut Batch, host: *const structs::Host) -> Result<i32> {
        batch.finish(&Host::new(host)?)
    }

    fn pinyon_batch_next_failure(batch: &mut Batch, reply: *mut Reply) -> bool {
        let reply = to_fill(reply)?;
        batch.next_failure().map(|failed| tell(failed, reply)).is_some()
    }

    fn pinyon_batch_of_loop(event_loop: &mut Loop, view: *const Client) -> Result<*mut Batch> {
        let batch = match view.is_null() {
            true => event_loop.batch(None),
            false => with(view, |view| event_loop.batch(Some(view))),
        };
        batch.map(|batch| Batch::of(Kind::Loop(batch)))
    }

    fn pinyon_batch_begin(event_loop: &mut Loop, batch: *mut Batch, request: *const Request) -> Result<i32> {
        with_mut(batch, |batch| event_loop.begin_in_batch(batch.of_loop()?, &given(request)?))?;
        Ok(Status::Done)
    }

    fn pinyon_batch_is_full(batch: &Batch) -> bool { batch.is_full() }

    fn pinyon_batch_begin_finish(
        event_loop: &mut Loop, batch: *mut Batch, context: *mut c_void, ticket: *mut u64
    ) -> Result<i32> {
        let begun = with_mut(batch, |batch| event_loop.begin_finish(batch.of_loop()?, context));
        begun.map(|number| give_ticket(number, ticket))
    }

    fn pinyon_batch_free(batch: *mut Batch) { free(batch) }
}
