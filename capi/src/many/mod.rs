//! Many requests at once on one pool, whose replies a thread waits for.

pub mod keys;
pub(crate) mod reading;
mod tags;

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;
use std::ptr::null_mut;

use pinyon_cache::blocking::give_back_late;
use pinyon_cache::dialect::Packing;
use pinyon_cache::operations::{Answer, BorrowedKey, Key, SentData, SentKey, Several, Single};
use pinyon_cache::spare::{emptied, SpareVector};
use pinyon_cache::{blocking, Data};
use pinyon_net::invalid::InvalidArgument;

use crate::client::View;
use crate::errors::Error;
use crate::host::{Host, Interrupted};
use crate::placing::Placing;
use crate::requests::{with as flags, Keyed, Verb};
use crate::status::Status;
use crate::structs::{borrowed, stride, to_fill, CStruct, Reply, Request};
use tags::TagsOfMany;

/// # Safety
/// The first struct is followed by the others, each as large as the first says.
pub unsafe fn each<'a, T: CStruct>(first: *const T, count: usize) -> Result<Vec<&'a T>, Error> {
    // SAFETY: the caller's structs follow each other, each as large as the first says.
    unsafe {
        let apart = stride(first)?;
        let mut all = Vec::with_capacity(count);
        for index in 0..count {
            all.push(borrowed(first.byte_add(index * apart))?);
        }
        Ok(all)
    }
}

/// # Safety
/// As for [`each`], and nobody else uses them.
pub unsafe fn to_fill_each<'a, T: CStruct>(first: *mut T, count: usize) -> Result<Vec<&'a mut T>, Error> {
    // SAFETY: the caller's structs follow each other, each as large as the first says, and nobody else uses them.
    unsafe {
        let apart = stride(first)?;
        (0..count).map(|index| to_fill(first.byte_add(index * apart))).collect()
    }
}

/// Says of a call that failed as a whole why it did.
pub fn fail_each(replies: &mut [&mut Reply], error: &Error) -> Status {
    for reply in replies {
        reply.begin(null_mut());
        reply.fail(error.clone());
    }
    Status::Failed
}

/// # Safety
/// The requests' bytes stay as they are.
pub unsafe fn run_many(
    view: &View,
    requests: &[&Request],
    replies: &mut [&mut Reply],
    host: &Host,
) -> Result<Status, Error> {
    view.check_open()?;
    // SAFETY: the caller keeps the requests' bytes as they are.
    if let Some(outcome) = unsafe { reading::read_many(view, requests, replies, host) } {
        return Ok(outcome);
    }
    replies.iter_mut().zip(requests).for_each(|(reply, asked)| reply.empty(asked.context));
    let mut keys = KeysOfMany::with_capacity(requests.len());
    for (index, asked) in requests.iter().enumerate() {
        // SAFETY: the caller keeps the requests' bytes as they are.
        let (given, route) = unsafe { (asked.key.slice(), asked.route.given()) };
        if let Err(error) = keys.push(view, index, given, route) {
            replies[index].fail(error);
        }
    }
    let mut singles: Vec<OneOfMany<'_>> = emptied(SpareVector::take(&SINGLES));
    singles.reserve(keys.all.len());
    let mut indexes = Vec::with_capacity(keys.all.len());
    let mut read = TagsOfMany::default();
    for one in &keys.all {
        let (asked, reply) = (requests[one.index], &mut *replies[one.index]);
        let keyed_of = |verb| {
            // SAFETY: the caller keeps the requests' bytes as they are, and their tags alive.
            unsafe { Ok((Keyed::of(view, verb, asked)?, asked.taken_tags(view, verb)?)) }
        };
        match Verb::of(asked).and_then(keyed_of) {
            Ok((Keyed { request, data }, tags)) => {
                let placing = Placing {
                    packing: &*view.shared.packing,
                    place: host.place(),
                    context: asked.context,
                    is_raw: asked.has(flags::RAW),
                    room: Cell::new(reply.take_memory()),
                };
                singles.push(Single::new(request, keys.key(one), Block(data), placing, asked.policy(view)));
                indexes.push(one.index);
                if let Some(tags) = tags {
                    let Some(single) = singles.last_mut() else { unreachable!("it was added") };
                    match read.tagging(view, tags, *single.key(), host) {
                        Ok(tagging) => single.tag(Some(tagging)),
                        Err(Interrupted) => return Ok(interrupted(replies)),
                    }
                }
            }
            Err(error) => drop(reply.fail(error)),
        }
    }
    let mut several = Several::new(singles);
    if let Err(Interrupted) = blocking::run(&view.shared.directory, host, &mut several) {
        for (index, mut single) in indexes.into_iter().zip(several.finish()) {
            replies[index].finish(Status::Interrupted);
            // Nobody hears of a lease that was won just before.
            if let Ok(Answer::Lease(found)) = single.take_answer() {
                let (directory, key, policy) = (&view.shared.directory, single.key().owned(), single.policy());
                found.win().into_iter().for_each(|win| give_back_late(directory, key.clone(), win, policy));
            }
        }
        return Ok(Status::Interrupted);
    }
    let mut singles = several.finish();
    for (index, single) in indexes.into_iter().zip(&mut singles) {
        let verb = Verb::of(requests[index])?;
        let (directory, policy) = (&view.shared.directory, single.policy());
        replies[index].fill::<Placing<&Packing>>(directory, policy, verb, single.take_answer());
    }
    SpareVector::give(&SINGLES, emptied(singles));
    SpareVector::give(&KEYS, emptied(keys.all));
    let failed = replies.iter().any(|reply| reply.status == Status::Failed as i32);
    Ok(if failed { Status::Failed } else { Status::Done })
}

#[cold]
fn interrupted(replies: &mut [&mut Reply]) -> Status {
    for reply in replies {
        reply.finish(Status::Interrupted);
    }
    Status::Interrupted
}

type OneOfMany<'r> = Single<BorrowedKey<'r>, Block<'r>, Placing<&'r Packing>>;

thread_local! {
    static SINGLES: SpareVector<OneOfMany<'static>> = const { SpareVector::new() };
    static KEYS: SpareVector<KeyOfMany<'static>> = const { SpareVector::new() };
}

/// The block of a request, if it has one.
struct Block<'d>(Option<Cow<'d, [u8]>>);

impl SentData for Block<'_> {
    #[inline]
    fn data(&self) -> Data<'_> {
        self.0.as_deref().map_or(Data::None, Data::Copied)
    }
}

/// The keys of many requests: those in the caller's memory that are sent as they are, and the others in one piece.
struct KeysOfMany<'d> {
    written: Vec<u8>,
    all: Vec<KeyOfMany<'d>>,
}

struct KeyOfMany<'d> {
    /// The request's.
    index: usize,
    sent: Sent<'d>,
    routed: Cow<'d, [u8]>,
}

enum Sent<'d> {
    AsGiven(Key<'d>),
    Written { range: Range<usize>, base64: bool },
}

impl<'d> KeysOfMany<'d> {
    fn with_capacity(keys: usize) -> Self {
        let mut all = emptied(SpareVector::take(&KEYS));
        all.reserve(keys);
        Self { written: Vec::new(), all }
    }

    fn push(&mut self, view: &View, index: usize, given: &'d [u8], route: Option<&'d [u8]>) -> Result<(), Error> {
        let (sent, routed) = match view.keys.as_given(given) {
            Some(key) => (Sent::AsGiven(key), Cow::Borrowed(given)),
            None => {
                let start = self.written.len();
                let base64 = view.keys.push(given, &mut self.written);
                let base64 = base64.map_err(|why| InvalidArgument::key(&why, given))?;
                (Sent::Written { range: start..self.written.len(), base64 }, view.keys.routed(given))
            }
        };
        self.all.push(KeyOfMany { index, sent, routed: route.map_or(routed, Cow::Borrowed) });
        Ok(())
    }

    fn key<'k>(&'k self, one: &'k KeyOfMany<'d>) -> BorrowedKey<'k> {
        let wire = match &one.sent {
            Sent::AsGiven(key) => *key,
            Sent::Written { range, base64 } => Key::known(&self.written[range.clone()], *base64),
        };
        BorrowedKey { wire, routed: &one.routed }
    }
}
