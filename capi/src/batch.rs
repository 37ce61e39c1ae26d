//! Batches: commands whose replies are not awaited one by one.

use std::collections::VecDeque;

use pinyon_core::blocking;
use pinyon_core::operations::{Broken, Status as ServerStatus, Unsuccessful};
use pinyon_core::Data;

use crate::client::Client;
use crate::errors::{Error, Failure};
use crate::guard::{free, made, with, with_mut, Handle, Poison};
use crate::host::{Host, Interrupted};
use crate::replies::{status, Status};
use crate::requests::{with as flags, Keyed, Verb};
use crate::structs::{self, given, to_fill, Reply, Request};

pub struct Batch {
    client: Client,
    batch: blocking::Batch<Submitted>,
    failed: VecDeque<Unsuccessful<Submitted>>,
    poison: Poison,
}

/// What its reply says of a command.
struct Submitted {
    context: usize,
    verb: Verb,
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
        let batch = blocking::Batch::new(client.shared.directory.clone(), client.policy.failover);
        Ok(Self { client: client.clone(), batch, failed: VecDeque::new(), poison: Poison::default() })
    }

    /// # Safety
    /// The request's bytes stay as they are.
    unsafe fn add(&mut self, asked: &Request, host: &Host) -> Result<Status, Error> {
        let view = &*self.client;
        view.check_open()?;
        let verb = Verb::of(asked)?;
        if let Verb::Get | Verb::Gat | Verb::Lease | Verb::Metadata = verb {
            return Err(Failure::usage(
                "a batch takes commands that change something: what it reads, nobody would see",
            ));
        }
        if asked.has(flags::INITIAL) {
            return Err(Failure::usage("in a batch, a missing counter cannot be made from an initial number: run it"));
        }
        let mut scratch = Vec::new();
        // SAFETY: the caller says so.
        let (key, keyed) = unsafe { (asked.key(view, &mut scratch)?, Keyed::of(view, verb, asked)?) };
        let data = keyed.data.as_deref().map_or(Data::None, Data::Copied);
        let submitted = Submitted { context: asked.context as usize, verb };
        outcome(self.batch.submit(host, &key, keyed.request, &data, submitted)).map(|all| match all {
            Some(()) => Status::Done,
            None => Status::Interrupted,
        })
    }

    fn finish(&mut self, host: &Host) -> Result<Status, Error> {
        match outcome(self.batch.finish(host))? {
            None => Ok(Status::Interrupted),
            Some(failed) => {
                self.failed.extend(failed);
                Ok(if self.failed.is_empty() { Status::Done } else { Status::Failed })
            }
        }
    }
}

/// `None`: it was interrupted.
fn outcome<T>(outcome: Result<T, blocking::Failure<Interrupted>>) -> Result<Option<T>, Error> {
    match outcome {
        Ok(done) => Ok(Some(done)),
        Err(blocking::Failure::Interrupted(Interrupted)) => Ok(None),
        Err(blocking::Failure::Error(error)) => Err((&error).into()),
    }
}

fn tell(failed: Unsuccessful<Submitted>, reply: &mut Reply) {
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

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_batch_new(client: *const Client, error: *mut *mut Error) -> *mut Batch {
    // SAFETY: the header says so.
    unsafe { made(with(client, Batch::new), error) }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_batch_add(
    batch: *mut Batch,
    request: *const Request,
    host: *const structs::Host,
    error: *mut *mut Error,
) -> i32 {
    // SAFETY: the header says so.
    unsafe { status(with_mut(batch, |batch| batch.add(&given(request)?, &Host::new(host)?)), error) }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_batch_send(batch: *mut Batch, error: *mut *mut Error) -> i32 {
    let send = |batch: &mut Batch| match batch.batch.send() {
        Ok(()) => Ok(Status::Done),
        Err(why) => Err((&why).into()),
    };
    // SAFETY: the header says so.
    unsafe { status(with_mut(batch, send), error) }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_batch_finish(
    batch: *mut Batch,
    host: *const structs::Host,
    error: *mut *mut Error,
) -> i32 {
    // SAFETY: the header says so.
    unsafe { status(with_mut(batch, |batch| batch.finish(&Host::new(host)?)), error) }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_batch_next_failure(batch: *mut Batch, reply: *mut Reply) -> bool {
    // SAFETY: the header says so.
    let Ok(reply) = (unsafe { to_fill(reply) }) else { return false };
    // SAFETY: the header says so.
    let Ok(Some(failed)) = (unsafe { with_mut(batch, |batch| Ok(batch.failed.pop_front())) }) else { return false };
    tell(failed, reply);
    true
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_batch_free(batch: *mut Batch) {
    // SAFETY: the header says so.
    unsafe { free(batch) }
}
