//! Many requests at once, whose replies a thread waits for.

pub mod keys;
mod reading;

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;

use pinyon_core::blocking;
use pinyon_core::dialect::Packing;
use pinyon_core::invalid::InvalidArgument;
use pinyon_core::operations::{BorrowedKey, Key, Several, Single};
use pinyon_core::Data;

use crate::client::{Client, View};
use crate::errors::Error;
use crate::guard::with;
use crate::host::{Host, Interrupted};
use crate::placing::Placing;
use crate::replies::Status;
use crate::requests::{with as flags, Keyed, Verb};
use crate::structs::{self, borrowed, stride, to_fill, Reply, Request};

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_run_many(
    client: *const Client,
    requests: *const Request,
    replies: *mut Reply,
    count: usize,
    host: *const structs::Host,
) -> i32 {
    if count == 0 {
        return Status::Done as i32;
    }
    // SAFETY: the header says that both are lists of so many structs.
    let (asked, mut replies) = unsafe {
        let Ok(all) = to_fill_each(replies, count) else { return Status::Failed as i32 };
        (each(requests, count), all)
    };
    // SAFETY: as above, and the header says so of the rest.
    let outcome = unsafe {
        with(client, |client| {
            let requests = asked?;
            run_many(client, &requests, &mut replies, &Host::new(host)?)
        })
    };
    (match outcome {
        Ok(status) => status,
        Err(error) => {
            for reply in replies {
                reply.begin(std::ptr::null_mut());
                reply.fail(error.clone());
            }
            Status::Failed
        }
    }) as i32
}

/// # Safety
/// The first struct is followed by the others, each as large as the first says.
unsafe fn each<'a, T: structs::CStruct>(first: *const T, count: usize) -> Result<Vec<&'a T>, Error> {
    // SAFETY: the caller says so.
    unsafe {
        let apart = stride(first)?;
        (0..count).map(|index| borrowed(first.byte_add(index * apart))).collect()
    }
}

/// # Safety
/// As for [`each`], and nobody else uses them.
unsafe fn to_fill_each<'a, T: structs::CStruct>(first: *mut T, count: usize) -> Result<Vec<&'a mut T>, Error> {
    // SAFETY: the caller says so.
    unsafe {
        let apart = stride(first)?;
        (0..count).map(|index| to_fill(first.byte_add(index * apart))).collect()
    }
}

/// # Safety
/// The requests' bytes stay as they are.
unsafe fn run_many(
    view: &View,
    requests: &[&Request],
    replies: &mut [&mut Reply],
    host: &Host,
) -> Result<Status, Error> {
    view.check_open()?;
    // SAFETY: the caller says so.
    if let Some(outcome) = unsafe { reading::read_many(view, requests, replies, host) } {
        return Ok(outcome);
    }
    let mut rooms = Vec::with_capacity(requests.len());
    rooms.extend(requests.iter().zip(replies.iter_mut()).map(|(asked, reply)| reply.begin(asked.context)));
    let mut keys = KeysOfMany::default();
    let mut prepared = Vec::with_capacity(requests.len());
    for (index, asked) in requests.iter().enumerate() {
        // SAFETY: the caller says so.
        match unsafe { prepare(view, asked, &mut keys) } {
            Ok((verb, keyed)) => prepared.push((index, verb, keyed)),
            Err(error) => drop(replies[index].fail(error)),
        }
    }
    let mut singles = Vec::with_capacity(prepared.len());
    for (place, (index, _, keyed)) in prepared.iter().enumerate() {
        let asked = &requests[*index];
        let placing = Placing {
            packing: &*view.shared.packing,
            place: host.place(),
            context: asked.context,
            is_raw: asked.has(flags::RAW),
            room: Cell::new(std::mem::take(&mut rooms[*index])),
        };
        let data = keyed.data.as_deref().map_or(Data::None, Data::Copied);
        singles.push(Single::new(keyed.request, keys.key(place), data, placing, asked.policy(view)));
    }
    let mut several = Several::new(singles);
    if let Err(Interrupted) = blocking::run(&view.shared.directory, host, &mut several) {
        for (index, ..) in &prepared {
            replies[*index].finish(Status::Interrupted);
        }
        return Ok(Status::Interrupted);
    }
    for ((index, verb, _), mut single) in prepared.iter().zip(several.finish()) {
        replies[*index].fill::<Placing<&Packing>>(*verb, single.take_answer());
    }
    let failed = replies.iter().any(|reply| reply.status == Status::Failed as i32);
    Ok(if failed { Status::Failed } else { Status::Done })
}

/// # Safety
/// The request's bytes stay as they are for the lifetime.
unsafe fn prepare<'d>(view: &View, asked: &Request, keys: &mut KeysOfMany<'d>) -> Result<(Verb, Keyed<'d>), Error> {
    let verb = Verb::of(asked)?;
    // SAFETY: the caller says so.
    unsafe {
        let keyed = Keyed::of(view, verb, asked)?;
        let route = asked.route.is_given().then(|| asked.route.slice());
        keys.push(view, asked.key.slice(), route)?;
        Ok((verb, keyed))
    }
}

/// The keys of many requests: those in the caller's memory that are sent as they are, and the others in one piece.
#[derive(Default)]
struct KeysOfMany<'d> {
    written: Vec<u8>,
    keys: Vec<(Sent<'d>, Cow<'d, [u8]>)>,
}

enum Sent<'d> {
    AsGiven(Key<'d>),
    Written { range: Range<usize>, base64: bool },
}

impl<'d> KeysOfMany<'d> {
    fn push(&mut self, view: &View, given: &'d [u8], route: Option<&'d [u8]>) -> Result<(), Error> {
        let sent = match view.keys.as_given(given) {
            Some(key) => Sent::AsGiven(key),
            None => {
                let start = self.written.len();
                let base64 = view.keys.push(given, &mut self.written);
                let base64 = base64.map_err(|why| InvalidArgument::key(&why, given))?;
                Sent::Written { range: start..self.written.len(), base64 }
            }
        };
        self.keys.push((sent, route.map_or_else(|| view.keys.routed(given), Cow::Borrowed)));
        Ok(())
    }

    fn key(&self, place: usize) -> BorrowedKey<'_> {
        let (sent, routed) = &self.keys[place];
        let wire = match sent {
            Sent::AsGiven(key) => *key,
            Sent::Written { range, base64 } => Key::known(&self.written[range.clone()], *base64),
        };
        BorrowedKey { wire, routed }
    }
}
