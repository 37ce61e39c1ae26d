//! A request on both pools: the core says what to ask of which, by keys and values as each pool's client has them.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::Arc;

use pinyon_cache::dialect::{Packing, ValueError};
use pinyon_cache::migration::{Crossing, OnePool, Plan, Pools, Side, Unconverted, Wanted};
use pinyon_cache::operations::{AnyOperation, DataBlock, OwnedData, OwnedKey, Policy, Tagging, Values};
use pinyon_cache::{blocking, Data};

use crate::client::Migrating;
use crate::errors::Error;
use crate::host::Host;
use crate::placing::{put, Placed, Placing};
use crate::requests::{for_all, with as flags, Keyed, Verb};
use crate::single::{asked_servers, invalidated};
use crate::status::{marks, Status};
use crate::structs::{Bytes, Place, Reply, Request};
use crate::tags::Tags;
use crate::values;

/// What a request needs of the host's, for both pools. It borrows nothing.
pub struct Given<V> {
    migrating: Arc<Migrating>,
    /// Each for the old pool and for the new one.
    keys: Vec<[OwnedKey; 2]>,
    policies: [Policy; 2],
    data: OwnedData,
    tags: Option<Tagging>,
    is_raw: bool,
    kind: PhantomData<fn() -> V>,
}

/// What reads values: threads and event loops have code of their own.
pub trait Kept: Values<Value = Placed, Error = ValueError> + From<Keeping> {}

impl<V: Values<Value = Placed, Error = ValueError> + From<Keeping>> Kept for V {}

/// Keeps values. In a thread it is what reads them.
pub type Keeping = Placing<Arc<Packing>>;

impl<V: Kept> Given<V> {
    /// Requests about keys, of which the first says how they fail.
    pub fn of_keys(migrating: &Arc<Migrating>, keys: Vec<[OwnedKey; 2]>, first: &Request) -> Self {
        let policies = [Side::Old, Side::New].map(|side| first.policy(migrating.client(side)));
        let is_raw = first.has(flags::RAW);
        let (data, tags) = (OwnedData::Nothing, None);
        Self { migrating: migrating.clone(), keys, policies, data, tags, is_raw, kind: PhantomData }
    }

    /// The request's course over both pools.
    ///
    /// # Safety
    /// The request's bytes stay as they are during the call.
    pub unsafe fn crossing(migrating: &Arc<Migrating>, verb: Verb, asked: &Request) -> Result<Crossing<Self>, Error> {
        let (new, ttl, counts) = (migrating.client(Side::New), migrating.ttl, migrating.counts.clone());
        migrating.client(Side::Old).check_open()?;
        new.check_open()?;
        if verb.is_for_all() {
            let wanted = Wanted::Everywhere(for_all(new, verb, asked)?);
            return Ok(Crossing::new(Self::of_keys(migrating, Vec::new(), asked), wanted, 0, counts, ttl));
        }
        if let Verb::InvalidateTags = verb {
            // SAFETY: the caller keeps the request's bytes as they are during the call.
            let (known, tags) = unsafe { asked.invalidated(new)? };
            let wanted = Wanted::Invalidate { known: known.clone(), tags: tags.clone() };
            return Ok(Crossing::new(Self::of_keys(migrating, Vec::new(), asked), wanted, 0, counts, ttl));
        }
        // SAFETY: the caller keeps the request's bytes as they are during the call.
        let (keys, Keyed { request, data }) = unsafe { (both_keys(migrating, asked)?, Keyed::of(new, verb, asked)?) };
        let data = data.as_deref().map_or(Data::None, Data::Copied);
        // SAFETY: the caller keeps the request's tags alive.
        let tags = unsafe { asked.taken_tags(new, verb)? };
        let (data, tagging) = (OwnedData::from(&data), tags.map(Tags::tagging));
        let given = Self { data, tags: tagging, ..Self::of_keys(migrating, vec![keys], asked) };
        let plan = match verb {
            // A value of the old pool would not be as the new one stores it.
            Verb::Get if asked.has(flags::RAW) => Some(Plan::Find),
            Verb::Delete if asked.has(flags::CAS) => Some(Plan::Change),
            Verb::Lease if tags.is_some_and(Tags::are_alone) => None,
            _ => Plan::of(&request),
        };
        Ok(Crossing::planned(given, Wanted::One(request), plan, 1, counts, ttl))
    }
}

/// The key of a request, for the old pool and for the new one.
///
/// # Safety
/// The request's bytes stay as they are during the call.
pub unsafe fn both_keys(migrating: &Migrating, asked: &Request) -> Result<[OwnedKey; 2], Error> {
    let mut scratch = Vec::new();
    // SAFETY: the caller keeps the request's bytes as they are during the call.
    let mut key = |side| unsafe { asked.key(migrating.client(side), &mut scratch).map(OwnedKey::from) };
    Ok([key(Side::Old)?, key(Side::New)?])
}

impl<V: Kept> Pools for Given<V> {
    type Key = OwnedKey;
    type Data = OwnedData;
    type Values = V;

    fn key(&self, side: Side, index: usize) -> OwnedKey {
        self.keys[index][side as usize].clone()
    }

    fn data(&self) -> OwnedData {
        self.data.clone()
    }

    fn tags(&self) -> Option<Tagging> {
        self.tags.clone()
    }

    fn values(&self, side: Side) -> V {
        let (packing, room) = (self.migrating.client(side).shared.packing.clone(), Cell::default());
        Placing { packing, place: None, context: null_mut(), is_raw: self.is_raw, room }.into()
    }

    fn policy(&self, side: Side) -> Policy {
        self.policies[side as usize]
    }

    fn convert(&mut self, value: &Placed) -> Result<DataBlock<OwnedData>, Unconverted> {
        let stored = value.kept.as_deref().unwrap_or_default();
        let (mut bytes, mut client_flags) = converted(&self.migrating, stored, value.client_flags)?;
        let packing = &self.migrating.client(Side::New).shared.packing;
        if packing.compresses() {
            if let Some(packed) = packing.pack(&bytes, client_flags).map_err(|_| Unconverted::Refused)? {
                (bytes, client_flags) = packed;
            }
        }
        Ok(DataBlock { size: bytes.len(), data: OwnedData::Copied(bytes), client_flags })
    }
}

/// A value of the old pool as the new client stores it.
fn converted(migrating: &Migrating, bytes: &[u8], client_flags: u32) -> Result<(Vec<u8>, u32), Unconverted> {
    let Some(convert) = migrating.convert else {
        let [old, new] = [Side::Old, Side::New].map(|side| migrating.client(side));
        return values::converted(old, new, bytes, client_flags).map_err(|_| Unconverted::Refused);
    };
    let (mut value, mut flags) = (Bytes::NONE, 0);
    // SAFETY: the header says that the function may be called with its context from any thread.
    match Status::of(unsafe { convert(migrating.context, Bytes::of(bytes), client_flags, &mut value, &mut flags) }) {
        // SAFETY: the header says that the value stays until it is copied, which is now.
        Status::Done => Ok((unsafe { value.slice() }.to_vec(), flags)),
        Status::Interrupted => Err(Unconverted::Interrupted),
        _ => Err(Unconverted::Refused),
    }
}

/// Runs a request by waiting.
///
/// # Safety
/// The request's bytes stay as they are.
pub unsafe fn run(
    migrating: &Arc<Migrating>,
    asked: &Request,
    reply: &mut Reply,
    host: &Host,
) -> Result<Status, Error> {
    let verb = Verb::of(asked)?;
    // SAFETY: the caller keeps the request's bytes as they are.
    let mut crossing = unsafe { Given::<Keeping>::crossing(migrating, verb, asked)? };
    Ok(match carry_out(migrating, host, &mut crossing) {
        true => fill(reply, migrating, verb, crossing.finish().1, host.place()),
        false => reply.finish(Status::Interrupted),
    })
}

/// False: it was interrupted.
pub fn carry_out(migrating: &Migrating, host: &Host, crossing: &mut Crossing<Given<Keeping>>) -> bool {
    let [old, new] = [Side::Old, Side::New].map(|side| &*migrating.client(side).shared.directory);
    blocking::run_on_both(old, new, host, crossing).unwrap_or(false)
}

/// Fills the caller's reply with what a request came to.
pub fn fill<V: Kept>(
    reply: &mut Reply,
    migrating: &Migrating,
    verb: Verb,
    over: Vec<(Side, OnePool<Given<V>>)>,
    place: Option<Place>,
) -> Status {
    if verb.is_for_all() {
        let asked = over.into_iter().filter_map(|(_, operation)| match operation {
            AnyOperation::Everywhere(asked) => Some(*asked),
            _ => None,
        });
        return asked_servers(asked, reply);
    }
    let (side, mut single) = match over.into_iter().next() {
        Some((side, AnyOperation::Single(single))) => (side, single),
        Some((_, AnyOperation::Change(change))) => return invalidated(*change, reply),
        _ => unreachable!("a request about one key, or about tags, has one outcome"),
    };
    let (directory, policy) = (&migrating.client(side).shared.directory, single.policy());
    drop(reply.take_memory()); // the value has its own
    let status = reply.fill::<V>(directory, policy, verb, single.take_answer());
    hand_over(reply, side, place);
    status
}

/// Says of which pool a value is, and gives it to the host's memory, if it has a place for it.
pub fn hand_over(reply: &mut Reply, side: Side, place: Option<Place>) {
    if reply.marks & marks::HAS_VALUE == 0 {
        return;
    }
    reply.marks |= if side == Side::Old { marks::OF_OLD } else { 0 };
    let Some(place) = place else { return };
    // SAFETY: a reply has its value until it is cleared, and the header says so of the place.
    if unsafe { put(place, reply.context, reply.value.slice(), reply.client_flags) } {
        reply.value = Bytes::NONE;
    }
}
