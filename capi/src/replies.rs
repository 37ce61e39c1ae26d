//! The core's answers as replies for C: the same for threads and event loops.

use std::mem::ManuallyDrop;
use std::ptr::null_mut;

use pinyon_cache::dialect::ValueError;
use pinyon_cache::directory::Directory;
use pinyon_cache::operations::{
    Answer, Answered, Compared, Fact, Failed, Finding, Found, FoundTags, Item, Policy, Values, Win,
};
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::invalid::InvalidArgument;

use crate::answers::Answers;
use crate::errors::{Error, Kind};
use crate::exported::exported;
use crate::guard::free;
use crate::locks::lock::Lock;
use crate::placing::{put, Placed};
use crate::requests::Verb;
use crate::status::{marks, Status};
use crate::structs::{empty, to_fill, Bytes, Place, Reply};

impl Reply {
    /// Empties it, but for the memory that its value may use again, which is returned.
    #[inline]
    pub fn begin(&mut self, context: *mut std::ffi::c_void) -> Vec<u8> {
        let room = self.take_memory();
        self.drop_rest();
        let size = self.size;
        *self = Reply { size, context, ..empty() };
        room
    }

    /// Empties it, but for its memory.
    #[inline]
    pub fn empty(&mut self, context: *mut std::ffi::c_void) {
        self.drop_rest();
        let Reply { size, memory, memory_size, .. } = *self;
        *self = Reply { size, context, memory, memory_size, ..empty() };
    }

    /// Keeps memory: that of the value, or for the next use.
    #[inline]
    pub fn keep(&mut self, memory: Vec<u8>) {
        if memory.capacity() > 0 && self.memory.is_null() {
            let mut memory = ManuallyDrop::new(memory);
            (self.memory, self.memory_size) = (memory.as_mut_ptr().cast(), memory.capacity());
        }
    }

    /// Copies a value into the memory that it has.
    #[inline]
    pub fn keep_value(&mut self, bytes: &[u8]) {
        let mut room = self.take_memory();
        room.clear();
        room.extend_from_slice(bytes);
        self.value = Bytes::of(&room);
        self.keep(room);
    }

    /// Frees all that it has.
    pub fn clear(&mut self) {
        drop(self.take_memory());
        self.drop_rest();
        let size = self.size;
        *self = Reply { size, ..empty() };
    }

    /// Forgets what came of a request that is over in another way, but for the memory.
    pub fn lose_value(&mut self) {
        self.drop_rest();
        (self.value, self.marks, self.client_flags) = (Bytes::NONE, 0, 0);
    }

    /// Says that its value was found, unless that could not be read.
    #[inline]
    pub fn has_value(&mut self, cas: Option<u64>) {
        if self.status == Status::Miss as i32 {
            self.cas(cas);
            self.finish(Status::Done);
        }
    }

    #[inline]
    pub fn take_memory(&mut self) -> Vec<u8> {
        let memory: *mut u8 = std::mem::replace(&mut self.memory, null_mut()).cast();
        match memory.is_null() {
            true => Vec::new(),
            // SAFETY: only `keep` sets it, from a vector of this capacity.
            false => unsafe { Vec::from_raw_parts(memory, 0, self.memory_size) },
        }
    }

    #[inline]
    fn drop_rest(&mut self) {
        if !self.error.is_null() || !self.answers.is_null() || !self.lock.is_null() {
            self.drop_rare();
        }
    }

    #[cold]
    fn drop_rare(&mut self) {
        // SAFETY: only this library sets them, and they are not used afterwards.
        unsafe {
            free(std::mem::replace(&mut self.error, null_mut()));
            free(std::mem::replace(&mut self.answers, null_mut()).cast::<Answers>());
            free(std::mem::replace(&mut self.lock, null_mut()).cast::<Lock>());
        }
    }

    #[inline]
    pub fn finish(&mut self, status: Status) -> Status {
        self.status = status as i32;
        status
    }

    /// The error of an earlier call may be there still, if this call fails before it begins.
    #[cold]
    pub fn fail(&mut self, error: Error) -> Status {
        // SAFETY: only this library sets it, and it is not used afterwards.
        unsafe { free(std::mem::replace(&mut self.error, error.into_raw())) };
        self.finish(Status::Failed)
    }

    pub fn answer_all(&mut self, answers: Answers) {
        self.answers = Box::into_raw(Box::new(answers)).cast();
    }

    pub fn answer_lock(&mut self, lock: Lock) {
        self.lock = Box::into_raw(Box::new(lock)).cast();
    }

    /// Gives a value to the host, or keeps it if the host has no place for it.
    #[inline]
    pub fn place(&mut self, bytes: &[u8], client_flags: u32, place: Option<Place>) {
        (self.client_flags, self.marks) = (client_flags, self.marks | marks::HAS_VALUE);
        // SAFETY: the header says so of the host's function and of its pointer.
        if !place.is_some_and(|place| unsafe { put(place, self.context, bytes, client_flags) }) {
            self.keep_value(bytes);
        }
    }

    /// Fills it with the outcome of a request about one key.
    #[inline]
    pub fn fill<V: Values<Value = Placed, Error = ValueError>>(
        &mut self,
        directory: &Directory,
        policy: Policy,
        verb: Verb,
        answered: Answered<V>,
    ) -> Status {
        match answered {
            Ok(answer) => self.fill_with(verb, answer),
            Err(Failed::Error(error)) => self.fail((&*error).into()),
            Err(Failed::Unreadable { error, command }) if policy.unreadable_is_miss => {
                directory.unreadable("", command, &error.message);
                self.finish(Status::Miss)
            }
            Err(Failed::Unreadable { error, .. }) => self.fail(InvalidArgument::from(error).into()),
        }
    }

    #[inline]
    fn fill_with(&mut self, verb: Verb, answer: Answer<Placed>) -> Status {
        let status = match answer {
            Answer::Value(value) => self.value(value),
            Answer::Done(true) => Status::Done,
            Answer::Missing => Status::Miss,
            Answer::Done(false) => not_done(verb),
            Answer::ValueAnd(value, Fact::Cas(cas)) => {
                self.cas(Some(cas));
                self.value(value)
            }
            Answer::ValueAnd(value, Fact::Ttl(ttl)) => {
                self.ttl(ttl.map_or(-1, i64::from));
                self.value(value)
            }
            Answer::Compared(Compared::Stored) => Status::Done,
            Answer::Compared(Compared::Changed) => Status::Changed,
            Answer::Compared(Compared::Gone) => Status::Miss,
            Answer::Number(number) if matches!(verb, Verb::Incr | Verb::Decr) => {
                self.number = number;
                Status::Done
            }
            Answer::Number(cas) => {
                self.cas(Some(cas));
                Status::Done
            }
            Answer::Metadata(item) => {
                self.client_flags = item.client_flags;
                self.item(&item)
            }
            Answer::ValueAndMetadata(both) => {
                let (value, item) = *both;
                self.item(&item);
                self.value(value)
            }
            Answer::Lease(found) => self.found(*found),
        };
        self.finish(status)
    }

    #[inline]
    pub fn value(&mut self, Placed { client_flags, kept }: Placed) -> Status {
        self.client_flags = client_flags;
        self.marks |= marks::HAS_VALUE;
        if let Some(bytes) = kept {
            self.value = Bytes::of(&bytes);
            self.keep(bytes);
        }
        Status::Done
    }

    fn cas(&mut self, cas: Option<u64>) {
        if let Some(cas) = cas {
            (self.cas, self.marks) = (cas, self.marks | marks::HAS_CAS);
        }
    }

    fn ttl(&mut self, ttl: i64) {
        (self.ttl, self.marks) = (ttl, self.marks | marks::HAS_TTL);
    }

    #[cold]
    fn item(&mut self, item: &Item) -> Status {
        self.cas(item.cas);
        if let Some(ttl) = item.ttl {
            self.ttl(ttl);
        }
        if let Some(idle) = item.last_access {
            (self.last_access, self.marks) = (idle, self.marks | marks::HAS_LAST_ACCESS);
        }
        self.item_size = item.size.unwrap_or_default();
        for (is_so, mark) in [
            (item.hit_before == Some(true), marks::FETCHED),
            (item.stale, marks::IS_STALE),
            (item.won, marks::IS_WON),
            (item.already_won, marks::IS_FILLING),
        ] {
            self.marks |= if is_so { mark } else { 0 };
        }
        Status::Done
    }

    #[cold]
    fn found(&mut self, found: Found<Placed>) -> Status {
        let win = found.win();
        let Found { finding, value, cas, tags } = found;
        if tags.of_value.is_some() {
            self.marks |= marks::HAS_TAGS;
        }
        if tags != FoundTags::NONE {
            self.answer_all(Answers::of_tags(tags));
        }
        if let Some(value) = value {
            self.value(value);
        }
        match finding {
            Finding::Hit | Finding::Stale => {
                self.cas(cas);
                if finding == Finding::Hit {
                    Status::Done
                } else {
                    Status::Stale
                }
            }
            Finding::Filling => Status::Filling,
            Finding::Won(_) | Finding::Unreadable => {
                self.cas(win.map(|win| win.cas));
                if win.is_some_and(|win| win.keep) {
                    self.marks |= marks::HAS_STALE;
                }
                Status::Won
            }
        }
    }
}

fn not_done(verb: Verb) -> Status {
    match verb {
        Verb::Set | Verb::Add | Verb::Replace | Verb::Append | Verb::Prepend => Status::NotStored,
        _ => Status::Miss,
    }
}

/// How a reply to a request for a lease found the key.
pub fn finding(reply: &Reply) -> Finding {
    match reply.status {
        status if status == Status::Done as i32 => Finding::Hit,
        status if status == Status::Stale as i32 => Finding::Stale,
        status if status == Status::Won as i32 => {
            let win = Win { cas: reply.cas, keep: reply.marks & marks::HAS_STALE != 0 };
            Finding::Won((reply.marks & marks::HAS_CAS != 0).then_some(win))
        }
        _ => Finding::Filling,
    }
}

/// Whether the kind of an error is an outage.
pub fn is_outage(error: &Error) -> bool {
    matches!(error.kind, Kind::Core(kind) if ErrorKind::is_outage(kind)) && error.is_outage
}

/// Makes a call whose error is left in its reply.
///
/// # Safety
/// As for [`to_fill`].
#[inline]
pub unsafe fn replied(reply: *mut Reply, call: impl FnOnce(&mut Reply) -> Result<Status, Error>) -> i32 {
    // SAFETY: the caller's reply is null, or nobody else uses it during the call.
    let Ok(reply) = (unsafe { to_fill(reply) }) else { return Status::Failed as i32 };
    (match call(reply) {
        Ok(status) => status,
        Err(error) => reply.fail(error),
    }) as i32
}

exported! {
    fn pinyon_reply_clear(reply: *mut Reply) {
        if let Ok(reply) = to_fill(reply) {
            reply.clear();
        }
    }
}
