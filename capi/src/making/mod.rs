//! `get_or_set`: one caller makes a value for all. The core decides on the steps, and a thread or an event loop
//! carries them out.

pub mod run;
pub mod step;

use std::ffi::c_void;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinyon_cache::lease::{FlightKey, GetOrSet, Refusal, Step, StepOutcome};
use pinyon_cache::operations::{self, Found, Win};
use pinyon_cache::{lease, ttl};
use pinyon_locks as locks;

use crate::client::Client;
use crate::errors::{Error, Failure, Kind};
use crate::exported::exported;
use crate::flights::{Made, Types};
use crate::guard::{free, Handle, Poison};
use crate::replies::{finding, is_outage};
use crate::requests::{with as flags, Verb};
use crate::status::{marks, Status};
use crate::structs::{empty, given, to_fill, Bytes, Reply, Request, Terms, FOREVER};

/// One caller's way to a value.
pub struct Making {
    client: Client,
    key: Vec<u8>,
    route: Option<Vec<u8>>,
    context: *mut c_void,
    scope: u64,
    machine: GetOrSet<Types>,
    at: At,
    /// What came of the step under way.
    outcome: Option<StepOutcome<Types>>,
    poison: Poison,
}

/// What the caller must do.
enum At {
    /// Nothing was asked yet.
    Beginning,
    /// A request, and the verb it has in C.
    Asking(Asked),
    Pausing(Duration),
    Following(Duration),
    Making,
    Over(Result<Arc<Made>, Error>),
    /// It was over with a value that the caller cannot read.
    Unreadable,
}

#[derive(Clone, Copy)]
enum Asked {
    /// `unreadable`: the token of a value that this caller cannot read.
    Lease {
        lease: i32,
        recache: i32,
        unreadable: Option<u64>,
    },
    Store {
        cas: u64,
        ttl: i64,
    },
    GiveBack(Win),
}

impl Handle for Making {
    const NAME: &'static str = "pinyon_making";

    fn poison(&self) -> &Poison {
        &self.poison
    }
}

impl Making {
    fn new(client: &Client, asked: &Terms) -> Result<Self, Error> {
        client.check_open()?;
        let whole = ttl::whole_seconds;
        let lease = if asked.lease == 0.0 { 10.0 } else { asked.lease };
        let wait = match asked.wait {
            0.0 => None,
            wait => Some(wait.max(0.0)),
        };
        let terms =
            lease::Terms::new(whole(asked.ttl)?, whole(asked.stale)?, whole(asked.early)?, whole(lease)?, wait)?;
        asked.key.check("key")?;
        asked.route.check("route")?;
        // SAFETY: the caller's bytes stay as they are during the call.
        let (key, route) = unsafe { (asked.key.slice(), asked.route.is_given().then(|| asked.route.slice().to_vec())) };
        let flight_key = FlightKey {
            scope: asked.scope as usize,
            key: [client.keys.namespace(), key].concat().into(),
            policy: client.policy,
        };
        let caller = if asked.caller == 0 { locks::owners::this_thread() } else { asked.caller };
        let (flights, chance) = (client.shared.flights.clone(), RandomState::new().hash_one(()));
        Ok(Self {
            client: client.clone(),
            key: key.to_vec(),
            route,
            context: asked.context,
            scope: asked.scope,
            machine: GetOrSet::new(flights, flight_key, caller as usize, terms, chance, Instant::now()),
            at: At::Beginning,
            outcome: None,
            poison: Poison::default(),
        })
    }

    /// Begins again for a caller that cannot read the value at the end. False: there is no value.
    fn unreadable(&mut self, reason: &str) -> bool {
        let At::Over(Ok(_)) = self.at else { return false };
        self.client.shared.directory.unreadable("", "lease", reason);
        self.at = At::Unreadable;
        true
    }

    /// Goes on to the next step that the caller must carry out.
    fn advance(&mut self) -> Result<(), Error> {
        let mut step = match (&self.at, self.outcome.take()) {
            (At::Unreadable, _) => self.machine.unreadable(Instant::now()),
            (At::Beginning, _) => self.machine.begin(Instant::now()),
            (At::Over(_), _) => return Err(Failure::usage("the value is there already, or cannot be had: it is over")),
            (At::Pausing(_) | At::Following(_), _) => self.machine.next(StepOutcome::Done, Instant::now()),
            (_, Some(outcome)) => self.machine.next(outcome, Instant::now()),
            (At::Asking(_), None) => {
                return Err(Failure::usage("the request of the last step has no reply: pinyon_making_replied"))
            }
            (At::Making, None) => {
                let missing = "say what came of the value: pinyon_making_made, or pinyon_making_failed";
                return Err(Failure::usage(missing));
            }
        };
        loop {
            self.at = match step {
                Step::Share => {
                    let value = self.machine.value().cloned().unwrap_or_default();
                    step = self.machine.next(StepOutcome::Shared(value), Instant::now());
                    continue;
                }
                Step::Copy(shared) => {
                    step = self.machine.next(StepOutcome::Value(shared), Instant::now());
                    continue;
                }
                Step::Ask(operations::Request::Lease { lease, recache }) => {
                    At::Asking(Asked::Lease { lease, recache, unreadable: None })
                }
                Step::Ask(operations::Request::Renew { lease, recache, cas }) => {
                    At::Asking(Asked::Lease { lease, recache, unreadable: Some(cas) })
                }
                Step::Store { cas, ttl } => At::Asking(Asked::Store { cas, ttl }),
                Step::GiveBack(operations::Request::GiveBack(win)) => At::Asking(Asked::GiveBack(win)),
                Step::Ask(_) | Step::GiveBack(_) => unreachable!("these steps ask for nothing else"),
                Step::Pause(time) => At::Pausing(time),
                Step::Follow(time) => At::Following(time),
                Step::Make => At::Making,
                Step::Return(value) => At::Over(Ok(value)),
                Step::Raise(error) => At::Over(Err(error)),
                Step::Refuse(refusal) => At::Over(Err(self.refused(refusal))),
            };
            return Ok(());
        }
    }

    fn refused(&self, refusal: Refusal) -> Error {
        let message = refusal.message(&format!("{:?}", String::from_utf8_lossy(&self.key)));
        Failure::of_kind(Kind::Core(refusal.kind()), &message)
    }

    /// The request of a step. It points to what this caller has.
    fn request(&self, asked: Asked) -> Request {
        let mut request = Request {
            key: Bytes::of(&self.key),
            route: self.route.as_deref().map_or(Bytes::NONE, Bytes::of),
            ..empty()
        };
        match asked {
            Asked::Lease { lease, recache, unreadable } => {
                request.verb = Verb::Lease as u32;
                if let Some(cas) = unreadable {
                    (request.with, request.cas) = (flags::CAS, cas);
                }
                request.lease = lease as u32;
                request.recache = recache.into();
            }
            Asked::Store { cas, ttl } => {
                request.verb = Verb::Set as u32;
                request.with = flags::CAS;
                request.cas = cas;
                request.ttl = if ttl == 0 { FOREVER } else { ttl };
                if let Some(value) = self.machine.value() {
                    request.value = Bytes::of(&value.bytes);
                    request.client_flags = value.client_flags;
                }
            }
            Asked::GiveBack(Win { cas, keep }) => {
                request.verb = Verb::GiveBack as u32;
                request.with = if keep { flags::KEEP } else { 0 };
                request.cas = cas;
            }
        }
        request
    }

    /// Takes the reply to the request of a step.
    fn replied(&mut self, reply: &Reply) {
        let At::Asking(asked) = self.at else { return };
        // SAFETY: a reply has its error until it is cleared.
        let error = unsafe { reply.error.as_ref() };
        self.outcome = Some(match (error, asked) {
            (Some(error), _) => StepOutcome::Failed { error: error.clone(), is_outage: is_outage(error) },
            (None, Asked::Lease { .. }) => StepOutcome::Found(found(reply)),
            (None, Asked::Store { .. }) => StepOutcome::Stored(reply.status == Status::Done as i32),
            (None, Asked::GiveBack(_)) => StepOutcome::Done,
        });
    }

    fn made(&mut self, bytes: &[u8], client_flags: u32) {
        if let At::Making = self.at {
            self.outcome = Some(StepOutcome::Value(Arc::new(Made { bytes: bytes.to_vec(), client_flags })));
        }
    }

    fn failed(&mut self, message: &str) {
        if let At::Making = self.at {
            let error = Failure::of_kind(Kind::Maker, message);
            self.outcome = Some(StepOutcome::Failed { error, is_outage: false });
        }
    }

    /// The request that gives back the lease of a caller that was cancelled.
    fn leave(&mut self) -> Option<Request> {
        let win = self.machine.leave()?;
        Some(self.request(Asked::GiveBack(win)))
    }
}

/// What a reply to a request for a lease says.
fn found(reply: &Reply) -> Found<Arc<Made>> {
    let value = (reply.marks & marks::HAS_VALUE != 0).then(|| {
        // SAFETY: a reply has its value until it is cleared.
        let bytes = unsafe { reply.value.slice() }.to_vec();
        Arc::new(Made { bytes, client_flags: reply.client_flags })
    });
    Found { finding: finding(reply), value, cas: (reply.marks & marks::HAS_CAS != 0).then_some(reply.cas) }
}

exported! {
    fn pinyon_making_new(client: &Client, terms: *const Terms) -> Result<*mut Making> {
        Making::new(client, &given(terms)?)
    }

    fn pinyon_making_made(making: &mut Making, value: Bytes, client_flags: u32) {
        value.check("value")?;
        making.made(value.slice(), client_flags);
    }

    fn pinyon_making_failed(making: &mut Making, message: Bytes) {
        making.failed(&String::from_utf8_lossy(message.slice()));
    }

    fn pinyon_making_unreadable(making: &mut Making, reason: Bytes) -> bool {
        making.unreadable(&String::from_utf8_lossy(reason.slice()))
    }

    fn pinyon_making_leave(making: &mut Making, give_back: *mut Request) -> bool {
        let request = making.leave();
        if let (Some(request), Ok(give_back)) = (request, to_fill(give_back)) {
            *give_back = Request { size: give_back.size, ..request };
        }
        request.is_some()
    }

    fn pinyon_making_free(making: *mut Making) { free(making) }
}
