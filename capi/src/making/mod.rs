//! `get_or_set`: one caller makes a value for all. The core decides on the steps, and a thread or an event loop
//! carries them out.

pub mod many;
pub mod many_run;
pub mod many_step;
pub mod run;
pub mod step;

use std::ffi::c_void;
use std::hash::{BuildHasher, RandomState};
use std::ptr::null;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinyon_cache::lease::{self, Behind, FlightKey, GetOrSet, Refusal, Step, StepOutcome};
use pinyon_cache::operations::{self, BorrowedKey, Found, FoundTags, ReadTags, Win};
use pinyon_cache::settings::TermsSettings;
use pinyon_cache::ttl;
use pinyon_locks as locks;

use crate::answers::Answers;
use crate::client::Client;
use crate::errors::{Error, Failure, Kind};
use crate::exported::exported;
use crate::flights::{Made, Types};
use crate::guard::{free, Handle, Poison};
use crate::replies::{finding, is_outage};
use crate::requests::{check_flags, with as flags, Verb};
use crate::status::{marks, Status};
use crate::structs::{empty, given, to_fill, Bytes, HowMade, Reply, Request, Terms, FOREVER};
use crate::tags::Tags;

/// What the flags of terms say.
pub mod terms {
    pub const STALE_ON_ERROR: u32 = 0x1;
    pub const TTL_OF_VALUE: u32 = 0x2;
    pub const ANEW: u32 = 0x4;
    pub const SOFT_TIMEOUT: u32 = 0x8;
    pub const BEHIND: u32 = 0x10;
    pub const ALL: u32 = 0x1f;
}

/// What the flags of a value that was made say.
pub mod made {
    pub const TTL: u32 = 0x1;
    pub const STALE: u32 = 0x2;
    pub const NOT_STORED: u32 = 0x4;
    pub const ALL: u32 = 0x7;
}

/// One caller's way to a value.
pub struct Making {
    client: Client,
    key: Vec<u8>,
    route: Option<Vec<u8>>,
    context: *mut c_void,
    scope: u64,
    /// Whether the value is made whatever is stored.
    is_anew: bool,
    machine: GetOrSet<Types>,
    /// Of the values that this caller makes.
    tags: Option<TagsOfTerms>,
    /// What the value of the step under way is stored with.
    stored_with: Option<Arc<Tags>>,
    /// Why the caller cannot wait in [`run`], as its terms let the maker go on behind it.
    only_by_steps: Option<Error>,
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
    /// Making beside the caller, which waits so long and may then leave with the old value.
    MakingWithin(Duration),
    /// The caller leaves with the old value. The value is made behind it.
    MakingBehind,
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
    /// Asks for tags, and for no lease.
    Tags {
        lease: i32,
        recache: i32,
    },
    /// `cas`: only over the item with this token.
    Store {
        cas: Option<u64>,
        ttl: i64,
    },
    GiveBack(Win),
}

impl Asked {
    /// The core's request for tags.
    fn tags(request: operations::Request) -> Self {
        match request {
            operations::Request::Lease { lease, recache } => Self::Tags { lease, recache },
            _ => unreachable!("tags are read by a request for a lease"),
        }
    }

    /// The core's request for a lease, or to give it back.
    fn of(request: operations::Request) -> Self {
        match request {
            operations::Request::Lease { lease, recache } => Self::Lease { lease, recache, unreadable: None },
            operations::Request::Renew { lease, recache, cas } => Self::Lease { lease, recache, unreadable: Some(cas) },
            operations::Request::GiveBack(win) => Self::GiveBack(win),
            _ => unreachable!("these steps ask for nothing else"),
        }
    }

    /// The request about a key. It points to the key, the value and the tags.
    fn request(self, key: &[u8], value: Option<&Arc<Made>>, tags: Option<&Tags>) -> Request {
        let tags = tags.map_or(null(), |tags| std::ptr::from_ref(tags).cast());
        let mut request = Request { key: Bytes::of(key), tags, ..empty() };
        match self {
            Self::Tags { lease, recache } => {
                request.verb = Verb::Lease as u32;
                (request.lease, request.recache) = (lease as u32, recache.into());
            }
            Self::Lease { lease, recache, unreadable } => {
                request.verb = Verb::Lease as u32;
                if let Some(cas) = unreadable {
                    (request.with, request.cas) = (flags::CAS, cas);
                }
                request.lease = lease as u32;
                request.recache = recache.into();
            }
            Self::Store { cas, ttl } => {
                request.verb = Verb::Set as u32;
                if let Some(cas) = cas {
                    (request.with, request.cas) = (flags::CAS, cas);
                }
                request.ttl = if ttl == 0 { FOREVER } else { ttl };
                if let Some(value) = value {
                    request.value = Bytes::of(&value.bytes);
                    request.client_flags = value.client_flags;
                }
            }
            Self::GiveBack(Win { cas, keep }) => {
                request.verb = Verb::GiveBack as u32;
                request.with = if keep { flags::KEEP } else { 0 };
                request.cas = cas;
            }
        }
        request
    }

    /// What the reply says.
    fn outcome<N>(self, reply: &Reply) -> StepOutcome<Types, N> {
        // SAFETY: a reply has its error until it is cleared.
        let error = unsafe { reply.error.as_ref() };
        match (error, self) {
            (Some(error), _) => StepOutcome::Failed { error: error.clone(), is_outage: is_outage(error) },
            (None, Self::Lease { .. } | Self::Tags { .. }) => StepOutcome::Found(found(reply)),
            (None, Self::Store { .. }) => StepOutcome::Stored(reply.status == Status::Done as i32),
            (None, Self::GiveBack(_)) => StepOutcome::Done,
        }
    }
}

/// The tags of terms, for the requests of their steps.
struct TagsOfTerms {
    beside_lease: Tags,
    alone: Tags,
}

impl TagsOfTerms {
    /// # Safety
    /// The tags of the terms live.
    unsafe fn of(client: &Client, asked: &Terms) -> Result<Option<Self>, Error> {
        // SAFETY: the caller's tags live, or are null.
        let Some(tags) = (unsafe { asked.tags.cast::<Tags>().as_ref() }) else { return Ok(None) };
        tags.check_of(client)?;
        Ok(tags.of_steps().map(|tags| Self { alone: tags.alone(), beside_lease: tags }))
    }

    /// What a request has that stores nothing.
    fn to_ask(tags: Option<&Self>, asked: Asked) -> Option<&Tags> {
        match asked {
            Asked::Lease { .. } => Some(&tags?.beside_lease),
            Asked::Tags { .. } => Some(&tags?.alone),
            Asked::Store { .. } | Asked::GiveBack(_) => None,
        }
    }
}

/// What a value is stored with, by its machine.
fn stored_with(client: &Client, tags: Option<&ReadTags>) -> Option<Arc<Tags>> {
    tags.and_then(|tags| Tags::read(client, tags.clone())).map(Arc::new)
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
        let terms = built(asked, Behind::Can)?;
        asked.key.check("key")?;
        asked.route.check("route")?;
        // SAFETY: the caller's bytes stay as they are during the call.
        let (key, route) = unsafe { (asked.key.slice(), asked.route.given().map(<[u8]>::to_vec)) };
        // SAFETY: the caller's tags live during the call.
        let tags = unsafe { TagsOfTerms::of(client, asked)? };
        let (flight_key, caller) = (flight_key(client, asked, key), caller(asked));
        let (flights, chance) = (client.shared.flights.clone(), RandomState::new().hash_one(()));
        Ok(Self {
            client: client.clone(),
            key: key.to_vec(),
            route,
            context: asked.context,
            scope: asked.scope,
            is_anew: asked.with & terms::ANEW != 0,
            machine: GetOrSet::new(flights, flight_key, caller, terms, chance, Instant::now()),
            tags,
            stored_with: None,
            only_by_steps: only_by_steps(asked),
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
            (At::Beginning, _) if self.is_anew => match self.tags {
                None => self.machine.begin_anew(),
                Some(_) => self.machine.begin_tagged_anew(),
            },
            (At::Beginning, _) => self.machine.begin(Instant::now()),
            (At::Over(_), _) => return Err(Failure::usage("the value is there already, or cannot be had: it is over")),
            (At::Pausing(_) | At::Following(_), _) => self.machine.next(StepOutcome::Done, Instant::now()),
            (_, Some(outcome)) => {
                let step = self.machine.next(outcome, Instant::now());
                self.tell_kept();
                step
            }
            (At::Asking(_), None) => {
                return Err(Failure::usage("the request of the last step has no reply: pinyon_making_replied"))
            }
            (At::MakingWithin(_), None) => self.machine.next(StepOutcome::Late, Instant::now()),
            (At::Making | At::MakingBehind, None) => {
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
                Step::Ask(request) | Step::GiveBack(request) => At::Asking(Asked::of(request)),
                Step::ReadTags(request) => At::Asking(Asked::tags(request)),
                Step::Store { cas, ttl } => self.storing(Some(cas), ttl),
                Step::Set { ttl } => self.storing(None, ttl),
                Step::Pause(time) => At::Pausing(time),
                Step::Follow(time) => At::Following(time),
                Step::Make => At::Making,
                Step::Return(value) => At::Over(Ok(value)),
                Step::Nothing(never) => match never {},
                Step::MakeWithin(time) => At::MakingWithin(time),
                Step::ReturnOld => At::MakingBehind,
                Step::Raise(error) => At::Over(Err(error)),
                Step::Refuse(refusal) => At::Over(Err(refused(refusal, &self.key))),
            };
            return Ok(());
        }
    }

    fn storing(&mut self, cas: Option<u64>, ttl: i64) -> At {
        self.stored_with = stored_with(&self.client, self.machine.tags());
        At::Asking(Asked::Store { cas, ttl })
    }

    /// The request of a step. It points to what this caller has.
    fn request(&self, asked: Asked) -> Request {
        let route = self.route.as_deref().map_or(Bytes::NONE, Bytes::of);
        let tags = match asked {
            Asked::Store { .. } => self.stored_with.as_deref(),
            asked => TagsOfTerms::to_ask(self.tags.as_ref(), asked),
        };
        Request { route, ..asked.request(&self.key, self.machine.value(), tags) }
    }

    /// Takes the reply to the request of a step.
    fn replied(&mut self, reply: &Reply) {
        let At::Asking(asked) = self.at else { return };
        self.outcome = Some(asked.outcome(reply));
    }

    fn is_making(&self) -> bool {
        matches!(self.at, At::Making | At::MakingWithin(_) | At::MakingBehind)
    }

    /// Takes the value, unless what is said of it makes no sense.
    fn made(&mut self, bytes: &[u8], client_flags: u32, how: lease::Made) -> Result<(), Error> {
        if self.is_making() {
            self.machine.made_with(how)?;
            self.outcome = Some(StepOutcome::Value(Arc::new(Made { bytes: bytes.to_vec(), client_flags })));
        }
        Ok(())
    }

    /// Tells that the old value stays in use, if it was decided so.
    fn tell_kept(&mut self) {
        let Some(error) = self.machine.suppressed() else { return };
        kept_stale(&self.client, &self.key, self.route.as_deref(), &error);
    }

    fn failed(&mut self, message: &str) {
        if self.is_making() {
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

fn flight_key(client: &Client, asked: &Terms, key: &[u8]) -> FlightKey {
    let key = [client.keys.namespace(), key].concat().into();
    FlightKey { scope: asked.scope as usize, key, policy: client.policy }
}

fn caller(asked: &Terms) -> usize {
    match asked.caller {
        0 => locks::owners::this_thread() as usize,
        caller => caller as usize,
    }
}

/// Tells that the old value of a key stays in use, because of this error.
fn kept_stale(client: &Client, key: &[u8], route: Option<&[u8]>, error: &Error) {
    let mut scratch = Vec::new();
    if let Ok(key) = BorrowedKey::new(&client.keys, key, &mut scratch) {
        let key = key.asked_about(route);
        client.shared.directory.kept_stale(key.routed, client.policy.failover, &error.message.to_string_lossy());
    }
}

fn refused(refusal: Refusal, key: &[u8]) -> Error {
    let message = refusal.message(&format!("{:?}", String::from_utf8_lossy(key)));
    Failure::of_kind(Kind::Core(refusal.kind()), &message)
}

/// Why a caller with these terms cannot wait until the end.
fn only_by_steps(asked: &Terms) -> Option<Error> {
    match asked.with & (terms::SOFT_TIMEOUT | terms::BEHIND) {
        0 => None,
        _ => built(asked, Behind::WAITS).err(),
    }
}

/// The terms in the core's words. What is 0 is as usual.
fn built(asked: &Terms, behind: Behind) -> Result<lease::Terms, Error> {
    check_flags(asked.with, terms::ALL)?;
    let mut settings =
        TermsSettings { stale: asked.stale, early: asked.early, jitter: asked.jitter, ..TermsSettings::default() };
    if asked.lease != 0.0 {
        settings.lease = asked.lease;
    }
    if asked.wait != 0.0 {
        settings.wait = Some(asked.wait.max(0.0));
    }
    if asked.with & terms::STALE_ON_ERROR != 0 {
        settings.on_error = "stale".into();
    }
    if asked.retry_after != 0.0 {
        settings.retry_after = asked.retry_after;
    }
    if asked.with & terms::SOFT_TIMEOUT != 0 {
        settings.soft_timeout = Some(asked.soft_timeout);
    }
    if asked.with & terms::BEHIND != 0 {
        settings.refresh = "behind".into();
    }
    let ttl = match asked.with & terms::TTL_OF_VALUE != 0 {
        true => None,
        false => Some(ttl::whole_seconds(asked.ttl)?),
    };
    Ok(settings.build_for(ttl, behind)?)
}

/// What is said of a value that was made.
fn said(how: &HowMade) -> Result<lease::Made, Error> {
    check_flags(how.with, made::ALL)?;
    let time = |flag: u32, seconds: f64| (how.with & flag != 0).then(|| ttl::whole_seconds(seconds)).transpose();
    let (ttl, stale) = (time(made::TTL, how.ttl)?, time(made::STALE, how.stale)?);
    Ok(lease::Made { ttl, stale, store: how.with & made::NOT_STORED == 0 })
}

/// What a reply to a request for a lease says.
fn found(reply: &Reply) -> Found<Arc<Made>> {
    let value = (reply.marks & marks::HAS_VALUE != 0).then(|| {
        // SAFETY: a reply has its value until it is cleared.
        let bytes = unsafe { reply.value.slice() }.to_vec();
        Arc::new(Made { bytes, client_flags: reply.client_flags })
    });
    // SAFETY: a reply has its answers until it is cleared.
    let tags = unsafe { reply.answers.cast::<Answers>().as_ref() }.and_then(|answers| answers.tags.clone());
    let lost = || FoundTags { are_lost: reply.marks & marks::HAS_TAGS != 0, ..FoundTags::NONE };
    let tags = tags.unwrap_or_else(lost);
    Found { finding: finding(reply), value, cas: (reply.marks & marks::HAS_CAS != 0).then_some(reply.cas), tags }
}

exported! {
    fn pinyon_making_new(client: &Client, terms: *const Terms) -> Result<*mut Making> {
        Making::new(client, &given(terms)?)
    }

    fn pinyon_making_made(making: &mut Making, value: Bytes, client_flags: u32) {
        value.check("value")?;
        if let Err(error) = making.made(value.slice(), client_flags, lease::Made::default()) {
            making.outcome = Some(StepOutcome::Failed { error, is_outage: false });
        }
    }

    fn pinyon_making_made_with(making: &mut Making, value: Bytes, client_flags: u32, how: *const HowMade) -> Result<i32> {
        value.check("value")?;
        making.made(value.slice(), client_flags, said(&given(how)?)?)?;
        Ok(Status::Done)
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
