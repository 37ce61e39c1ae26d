//! `get_or_set_many`: one caller's way to the values of many keys.

use std::collections::HashMap;
use std::ffi::c_void;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinyon_cache::lease::{self, Behind, Ended, GetOrSetMany, LeftOut, ManyOutcome, ManyStep, StepOutcome, Storing};
use pinyon_cache::operations::BorrowedKey;
use pinyon_net::invalid::InvalidArgument;

use super::run::{fill, Bell};
use super::terms::ANEW;
use super::{built, caller, flight_key, kept_stale, refused, said, stored_with, Asked, TagsOfTerms};
use crate::client::Client;
use crate::errors::{Error, Failure, Kind};
use crate::exported::exported;
use crate::flights::{Made, Types, Wake};
use crate::guard::{free, Handle, Poison};
use crate::status::Status;
use crate::structs::{bytes_of, given, list, to_fill, Bytes, HowMade, Reply, Request, Terms};
use crate::tags::Tags;

pub(super) type Outcome = StepOutcome<Types, LeftOut>;
/// What became of a key: a value, nothing because its maker left it out, or an error.
type Became = Result<Option<Arc<Made>>, Error>;

/// One caller's way to the values of many keys.
pub struct MakingMany {
    pub(super) client: Client,
    keys: Vec<Vec<u8>>,
    pub(super) context: *mut c_void,
    pub(super) scope: u64,
    pub(super) machine: GetOrSetMany<Types>,
    tags: Option<TagsOfTerms>,
    pub(super) at: At,
    became: Vec<Option<Became>>,
    /// Keys whose values the caller cannot read.
    unreadable: Vec<usize>,
    /// What wakes a thread, by key.
    pub(super) bells: HashMap<usize, Bell>,
    /// Leases of a caller that was cancelled, which are to be given back.
    left: Option<Vec<Request>>,
    poison: Poison,
}

/// What the caller must do.
pub(super) enum At {
    /// Nothing was asked yet.
    Beginning,
    Asking(Vec<Asking>),
    Pausing(Duration),
    Following(usize, Duration),
    Making {
        keys: Vec<usize>,
        made: HashMap<usize, Arc<Made>>,
        failed: Option<Error>,
    },
    Over(Result<(), Error>),
}

/// A request of a step, and what came of it.
pub(super) struct Asking {
    asked: Asked,
    /// It points to the tags.
    pub(super) request: Request,
    _stored_with: Option<Arc<Tags>>,
    outcome: Option<Outcome>,
}

impl Handle for MakingMany {
    const NAME: &'static str = "pinyon_making_many";

    fn poison(&self) -> &Poison {
        &self.poison
    }
}

impl MakingMany {
    fn new(client: &Client, asked: &Terms, keys: &[&[u8]]) -> Result<Self, Error> {
        client.check_open()?;
        let terms = built(asked, Behind::WAITS)?;
        if asked.with & ANEW != 0 {
            return Err(Failure::usage("PINYON_TERMS_ANEW is for one key"));
        }
        if asked.key.is_given() || asked.route.is_given() {
            return Err(Failure::usage("the terms of many keys have no key and no route of their own"));
        }
        let mut owned = Vec::with_capacity(keys.len());
        for key in keys {
            BorrowedKey::new(&client.keys, key, &mut Vec::new()).map_err(|why| InvalidArgument::key(&why, key))?;
            owned.push(key.to_vec());
        }
        // SAFETY: the caller's tags live during the call.
        let tags = unsafe { TagsOfTerms::of(client, asked)? };
        let flight_keys = owned.iter().map(|key| flight_key(client, asked, key));
        let (flights, chance) = (&client.shared.flights, RandomState::new().hash_one(()));
        Ok(Self {
            client: client.clone(),
            machine: GetOrSetMany::new(flights, flight_keys, caller(asked), terms, chance, Instant::now()),
            tags,
            became: vec![None; owned.len()],
            keys: owned,
            context: asked.context,
            scope: asked.scope,
            at: At::Beginning,
            unreadable: Vec::new(),
            bells: HashMap::new(),
            left: None,
            poison: Poison::default(),
        })
    }

    /// Goes on to the next step that the caller must carry out. `signal`: makes what wakes the caller that follows another.
    pub(super) fn advance(&mut self, signal: fn(&mut Self, usize) -> Wake) -> Result<(), Error> {
        let mut step = match self.outcome()? {
            None if self.unreadable.is_empty() => self.machine.begin(Instant::now()),
            None => {
                let unreadable = std::mem::take(&mut self.unreadable);
                self.machine.unreadable(&unreadable, Instant::now())
            }
            Some(outcome) => {
                let step = self.machine.next(outcome, Instant::now());
                self.tell_kept();
                step
            }
        };
        loop {
            let done = match step {
                ManyStep::Share(key) => StepOutcome::Shared(self.machine.value(key).cloned().unwrap_or_default()),
                ManyStep::Copy(_, shared) => StepOutcome::Value(shared),
                ManyStep::Listen(keys) => {
                    for key in keys {
                        let signal = signal(self, key);
                        self.machine.follow(key, signal);
                    }
                    StepOutcome::Done
                }
                step => {
                    self.at = self.handed_out(step);
                    return Ok(());
                }
            };
            step = self.machine.next(ManyOutcome::All(done), Instant::now());
        }
    }

    /// What came of the step under way; nothing if none was taken yet, or values cannot be read.
    fn outcome(&mut self) -> Result<Option<ManyOutcome<Types>>, Error> {
        Ok(match &mut self.at {
            At::Beginning => None,
            At::Over(_) if self.unreadable.is_empty() => {
                return Err(Failure::usage("the values are there already, or cannot be had: it is over"));
            }
            At::Over(_) => None,
            At::Pausing(_) | At::Following(..) => Some(ManyOutcome::All(StepOutcome::Done)),
            At::Asking(all) if all.iter().any(|asking| asking.outcome.is_none()) => {
                let missing = "requests of the last step have no reply: pinyon_making_many_replied";
                return Err(Failure::usage(missing));
            }
            At::Asking(all) => Some(ManyOutcome::Each(all.drain(..).filter_map(|asking| asking.outcome).collect())),
            At::Making { failed: Some(error), .. } => {
                Some(ManyOutcome::All(StepOutcome::Failed { error: error.clone(), is_outage: false }))
            }
            At::Making { keys, made, .. } => {
                let each = |key| made.remove(key).map_or(StepOutcome::Nothing(LeftOut), StepOutcome::Value);
                Some(ManyOutcome::Each(keys.iter().map(each).collect()))
            }
        })
    }

    fn handed_out(&mut self, step: ManyStep<Types>) -> At {
        match step {
            ManyStep::Ask(requests) | ManyStep::GiveBack(requests) => {
                At::Asking(requests.into_iter().map(|(key, request)| self.asking(key, Asked::of(request))).collect())
            }
            ManyStep::Store(all) => {
                let storing = |Storing { key, cas, ttl }| self.asking(key, Asked::Store { cas: Some(cas), ttl });
                At::Asking(all.into_iter().map(storing).collect())
            }
            ManyStep::Make(keys) => At::Making { keys, made: HashMap::new(), failed: None },
            ManyStep::Follow(key, time) => At::Following(key, time),
            ManyStep::Pause(time) => At::Pausing(time),
            ManyStep::End(ended) => {
                self.end(ended);
                At::Over(Ok(()))
            }
            ManyStep::Raise(error) => At::Over(Err(error)),
            ManyStep::Refuse(key, refusal) => At::Over(Err(refused(refusal, &self.keys[key]))),
            ManyStep::Share(_) | ManyStep::Copy(..) | ManyStep::Listen(_) => {
                unreachable!("these are carried out here")
            }
        }
    }

    fn asking(&self, key: usize, asked: Asked) -> Asking {
        let stored_with = match asked {
            Asked::Store { .. } => stored_with(&self.client, self.machine.tags(key)),
            _ => None,
        };
        let tags = stored_with.as_deref().or_else(|| TagsOfTerms::to_ask(self.tags.as_ref(), asked));
        let request = asked.request(&self.keys[key], self.machine.value(key), tags);
        Asking { asked, request, _stored_with: stored_with, outcome: None }
    }

    fn end(&mut self, ended: Vec<(usize, Ended<Types>)>) {
        for (key, ended) in ended {
            self.became[key] = Some(match ended {
                Ended::Value(value) => Ok(Some(value)),
                Ended::Nothing => Ok(None),
                Ended::Failed(error) => Err(error),
                Ended::Refused(refusal) => Err(refused(refusal, &self.keys[key])),
            });
        }
        for (key, first) in self.machine.repeated() {
            self.became[*key] = self.became[*first].clone();
        }
    }

    /// Takes the reply to a request of a step.
    pub(super) fn replied(&mut self, index: usize, reply: &Reply) {
        let At::Asking(all) = &mut self.at else { return };
        if let Some(asking) = all.get_mut(index) {
            asking.outcome = Some(asking.asked.outcome(reply));
        }
    }

    /// The key to make that is the next after so many.
    fn wanted(&self, index: usize) -> Option<usize> {
        match &self.at {
            At::Making { keys, .. } => keys.get(index).copied(),
            _ => None,
        }
    }

    /// Takes a value, unless what is said of it makes no sense. One that is not wanted is ignored.
    fn made(&mut self, key: usize, bytes: &[u8], client_flags: u32, how: lease::Made) -> Result<(), Error> {
        if key >= self.keys.len() {
            return Err(Failure::usage(format!("there is no key {key}: the terms are of {} keys", self.keys.len())));
        }
        let At::Making { keys, made, .. } = &mut self.at else { return Ok(()) };
        if keys.contains(&key) {
            self.machine.made_with(key, how)?;
            made.insert(key, Arc::new(Made { bytes: bytes.to_vec(), client_flags }));
        }
        Ok(())
    }

    fn failed(&mut self, message: &str) {
        if let At::Making { failed, .. } = &mut self.at {
            *failed = Some(Failure::of_kind(Kind::Maker, message));
        }
    }

    fn answer(&self, key: usize, reply: &mut Reply) -> Result<Status, Error> {
        let room = reply.begin(self.context);
        reply.keep(room);
        match (&self.at, self.became.get(key)) {
            (At::Over(_), Some(Some(Ok(None)))) => Ok(reply.finish(Status::Miss)),
            (At::Over(_), Some(Some(Ok(Some(value))))) => Ok(fill(reply, &Ok(value.clone()), None)),
            (At::Over(_), Some(Some(Err(error)))) => Err(error.clone()),
            _ => Err(Failure::usage("the values of many keys are there once it is over, by the numbers of the keys")),
        }
    }

    /// Has the value of a key made anew by the next step. False: there is none.
    fn unreadable(&mut self, key: usize, reason: &str) -> bool {
        let (At::Over(_), Some(Some(Ok(Some(_))))) = (&self.at, self.became.get(key)) else { return false };
        let first =
            self.machine.repeated().iter().find(|(repeated, _)| *repeated == key).map_or(key, |(_, first)| *first);
        if !self.unreadable.contains(&first) {
            self.client.shared.directory.unreadable("", "lease", reason);
            self.unreadable.push(first);
        }
        true
    }

    /// Tells which old values stay in use, if it was decided so.
    fn tell_kept(&mut self) {
        for (key, error) in self.machine.suppressed() {
            kept_stale(&self.client, &self.keys[key], None, &error);
        }
    }

    /// The next request that gives back a lease of a caller that was cancelled.
    pub(super) fn leave(&mut self) -> Option<Request> {
        if self.left.is_none() {
            let left = self.machine.leave();
            let give_back = |(key, win): (usize, _)| Asked::GiveBack(win).request(&self.keys[key], None, None);
            self.left = Some(left.into_iter().map(give_back).collect());
        }
        self.left.as_mut()?.pop()
    }
}

exported! {
    fn pinyon_making_many_new(
        client: &Client, terms: *const Terms, keys: *const Bytes, count: usize
    ) -> Result<*mut MakingMany> {
        MakingMany::new(client, &given(terms)?, &bytes_of(list(keys, count, "list of keys")?, "key")?)
    }

    fn pinyon_making_many_wanted(making: &MakingMany, index: usize, key: *mut usize) -> bool {
        let wanted = making.wanted(index);
        if let (Some(wanted), Some(key)) = (wanted, key.as_mut()) {
            *key = wanted;
        }
        wanted.is_some()
    }

    fn pinyon_making_many_made(
        making: &mut MakingMany, key: usize, value: Bytes, client_flags: u32, how: *const HowMade
    ) -> Result<i32> {
        value.check("value")?;
        let how = if how.is_null() { lease::Made::default() } else { said(&given(how)?)? };
        making.made(key, value.slice(), client_flags, how)?;
        Ok(Status::Done)
    }

    fn pinyon_making_many_failed(making: &mut MakingMany, message: Bytes) {
        making.failed(&String::from_utf8_lossy(message.slice()));
    }

    fn pinyon_making_many_answer(making: &MakingMany, key: usize, reply: *mut Reply) -> i32 {
        let reply = to_fill(reply)?;
        making.answer(key, reply).unwrap_or_else(|error| reply.fail(error))
    }

    fn pinyon_making_many_unreadable(making: &mut MakingMany, key: usize, reason: Bytes) -> bool {
        making.unreadable(key, &String::from_utf8_lossy(reason.slice()))
    }

    fn pinyon_making_many_leave(making: &mut MakingMany, give_back: *mut Request) -> bool {
        let request = making.leave();
        if let (Some(request), Ok(give_back)) = (request, to_fill(give_back)) {
            *give_back = Request { size: give_back.size, ..request };
        }
        request.is_some()
    }

    fn pinyon_making_many_free(making: *mut MakingMany) { free(making) }
}
