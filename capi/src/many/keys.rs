//! Many keys without a request and a reply for each. The values go straight to the host's memory.

use std::cell::Cell;
use std::ffi::c_void;
use std::ops::Deref;
use std::ptr::null_mut;

use pinyon_cache::dialect::{Packing, ValueError};
use pinyon_cache::operations::Keys;
use pinyon_net::invalid::InvalidArgument;

use super::reading::{read, Slots};
use crate::client::{Client, View};
use crate::errors::{Error, Failure};
use crate::exported::exported;
use crate::guard::{free, with};
use crate::host::{Host, Interrupted};
use crate::placing::{Placed, Placing};
use crate::requests::with as flags;
use crate::status::Status;
use crate::structs::{self, stride, Found, Place, Request};

#[cold]
pub fn of_two_pools(function: &str, instead: &str) -> Error {
    Failure::usage(format!("{function} cannot say of which pool a value is: use {instead} with a client of two pools"))
}

/// The caller's structs. They are used by pointers, as `place` may write to what is behind them.
#[derive(Clone, Copy)]
pub struct Structs {
    first: *mut Found,
    apart: usize,
    count: usize,
}

impl Structs {
    /// # Safety
    /// So many structs follow, each as large as the first says. Nobody else uses them as long as this is used.
    pub unsafe fn new(first: *mut Found, count: usize) -> Result<Self, Error> {
        // SAFETY: the caller's first struct says how large each is.
        let all = Self { first, apart: unsafe { stride(first) }?, count };
        (0..count).for_each(|index| all.begin(index));
        Ok(all)
    }

    /// Whether any has failed.
    fn has_failed(self) -> bool {
        (0..self.count).any(|index| self.status(index) == Status::Failed as i32)
    }

    #[inline]
    fn at(self, index: usize) -> *mut Found {
        assert!(index < self.count);
        // SAFETY: there are more structs than `index`, each as far from the next as the first says.
        unsafe { self.first.byte_add(index * self.apart) }
    }

    /// Uses one of them. Nothing that is called meanwhile may use it too.
    #[inline]
    fn with<T>(self, index: usize, work: impl FnOnce(&mut Found) -> T) -> T {
        // SAFETY: it is the caller's, who does not use it meanwhile.
        work(unsafe { &mut *self.at(index) })
    }

    #[inline]
    fn begin(self, index: usize) {
        self.with(index, |one| {
            (one.status, one.client_flags, one.cas, one.error) = (Status::Miss as i32, 0, 0, null_mut());
        });
    }

    #[inline]
    fn status(self, index: usize) -> i32 {
        self.with(index, |one| one.status)
    }

    #[inline]
    fn finish(self, index: usize, status: Status) {
        self.with(index, |one| one.status = status as i32);
    }

    #[cold]
    fn fail(self, index: usize, error: Error) {
        self.forget_error(index);
        self.with(index, |one| one.error = error.into_raw());
        self.finish(index, Status::Failed);
    }

    /// Says of a call that failed as a whole why it did.
    fn fail_each(self, error: &Error) -> Status {
        (0..self.count).for_each(|index| self.fail(index, error.clone()));
        Status::Failed
    }

    #[cold]
    fn forget_error(self, index: usize) {
        // SAFETY: only this library sets it, from a handle of its own.
        unsafe { free(self.with(index, |one| std::mem::replace(&mut one.error, null_mut()))) };
    }
}

/// # Safety
/// The keys' bytes stay as they are until they are copied.
unsafe fn get_many(view: &View, all: Structs, asked: u32, host: &Host) -> Result<Status, Error> {
    view.check_open()?;
    let place = host.place().ok_or_else(|| no_place("pinyon_get_many needs a host"))?;
    // SAFETY: the caller keeps the keys' bytes as they are until they are copied, which is done here.
    let (slots, keys) = unsafe { Slotted::new(view, &*view.shared.packing, all, place, asked) };
    let policy = Request { with: asked, ..structs::empty() }.policy(view);
    if let Err(Interrupted) = read(view, host, keys, asked & flags::CAS != 0, policy, &slots) {
        for index in 0..all.count {
            all.forget_error(index);
            all.finish(index, Status::Interrupted);
        }
        return Ok(Status::Interrupted);
    }
    Ok(slots.status())
}

#[cold]
pub fn no_place(who: &str) -> Error {
    Failure::usage(format!("{who} with a `place`"))
}

/// Structs, which are misses until something else is known. `P` is a reference to the client's packing.
pub struct Slotted<P> {
    all: Structs,
    /// Which struct each key is of, if some have keys that are refused.
    places: Option<Vec<usize>>,
    packing: P,
    place: Place,
    is_raw: bool,
}

impl<P: Deref<Target = Packing>> Slotted<P> {
    /// The structs, and the keys to read for them. A key that is refused has its error at once.
    ///
    /// # Safety
    /// The keys' bytes stay as they are during the call.
    pub unsafe fn new(view: &View, packing: P, all: Structs, place: Place, asked: u32) -> (Self, Keys) {
        let mut keys = Keys::with_capacity(all.count);
        let mut places: Option<Vec<usize>> = None;
        for index in 0..all.count {
            // SAFETY: the caller keeps the keys' bytes as they are during the call.
            let given = unsafe { all.with(index, |one| one.key).slice() };
            match keys.push(&view.keys, given) {
                Ok(()) => places.iter_mut().for_each(|places| places.push(index)),
                Err(why) => {
                    places.get_or_insert_with(|| (0..index).collect());
                    all.fail(index, InvalidArgument::key(&why, given).into());
                }
            }
        }
        (Self { all, places, packing, place, is_raw: asked & flags::RAW != 0 }, keys)
    }

    #[inline]
    fn position(&self, index: usize) -> usize {
        self.places.as_ref().map_or(index, |places| places[index])
    }

    /// How all of them went, once they are read.
    pub fn status(&self) -> Status {
        if self.all.has_failed() {
            Status::Failed
        } else {
            Status::Done
        }
    }
}

impl<P: Deref<Target = Packing>> Slots for Slotted<P> {
    #[inline]
    fn take(&self, index: usize, read: impl FnOnce(Placing<&Packing>) -> Result<Placed, ValueError>) {
        let position = self.position(index);
        if self.all.status(position) != Status::Miss as i32 {
            // An earlier try found a value that could not be read.
            self.all.forget_error(position);
            self.all.finish(position, Status::Miss);
        }
        match read(self.placing(index)) {
            Ok(Placed { client_flags, kept: None }) => self.all.with(position, |one| one.client_flags = client_flags),
            Ok(_) => self.all.fail(position, Failure::usage("`place` returned NULL, and a value has no other place")),
            Err(error) => self.all.fail(position, InvalidArgument::from(error).into()),
        }
    }

    #[inline]
    fn placing(&self, index: usize) -> Placing<&Packing> {
        let context: *mut c_void = self.all.at(self.position(index)).cast();
        let room = Cell::default();
        Placing { packing: &*self.packing, place: Some(self.place), context, is_raw: self.is_raw, room }
    }

    #[inline]
    fn found(&self, index: usize, cas: Option<u64>) {
        let position = self.position(index);
        if self.all.status(position) == Status::Miss as i32 {
            self.all.with(position, |one| one.cas = cas.unwrap_or_default());
            self.all.finish(position, Status::Done);
        }
    }

    fn failed(&self, index: usize, error: &pinyon_net::Error) {
        self.all.fail(self.position(index), error.into());
    }
}

exported! {
    fn pinyon_get_many(
        client: *const Client, keys: *mut Found, count: usize, asked: u32, host: *const structs::Host
    ) -> i32 {
        if count == 0 {
            return Status::Done as i32;
        }
        let Ok(all) = Structs::new(keys, count) else { return Status::Failed as i32 };
        let outcome = with(client, |client| match &client.migrating {
            None => get_many(client, all, asked, &Host::new(host)?),
            Some(_) => Err(of_two_pools("pinyon_get_many", "pinyon_run_many")),
        });
        outcome.unwrap_or_else(|error| all.fail_each(&error)) as i32
    }
}
