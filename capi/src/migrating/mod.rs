//! A client that stands for an old and a new pool. The core decides what an operation does on which.

mod given;
mod many;

use std::ffi::c_void;
use std::sync::Arc;

use pinyon_cache::migration::{Counts, Side, Unconverted};

pub use given::{fill, run, Given};
pub use many::run_many;

use crate::client::{Client, View};
use crate::errors::{Error, Failure};
use crate::guard::{made, with};
use crate::options::Options;
use crate::replies::Status;
use crate::requests::FOREVER;
use crate::structs::{given, to_fill, Bytes, Convert, Migration, Progress};
use crate::values;

/// What a view of a migrating client has beside its own settings, which are those for the new pool.
pub struct Migrating {
    old: Client,
    new: Client,
    counts: Arc<Counts>,
    /// Of moved items, if the old servers cannot tell theirs.
    ttl: Option<i64>,
    convert: Option<Convert>,
    context: *mut c_void,
}

// SAFETY: the context is only handed to the host's function, which any thread may call.
unsafe impl Send for Migrating {}
// SAFETY: as above.
unsafe impl Sync for Migrating {}

impl Migrating {
    fn new(old: &Client, new: &Client, asked: &Migration) -> Result<Self, Error> {
        if old.migrating.is_some() || new.migrating.is_some() {
            return Err(Failure::usage("a client that migrates already cannot be the old or the new one of another"));
        }
        let ttl = match asked.ttl {
            0 => None,
            FOREVER => Some(0),
            seconds => Some(seconds.max(1)),
        };
        let (old, new) = (old.clone(), new.clone());
        let migrating = Self { old, new, counts: Arc::default(), ttl, convert: asked.convert, context: asked.context };
        migrating.check_apart()?;
        Ok(migrating)
    }

    /// The same with views of both clients.
    pub fn using<'o>(&self, mut options: impl FnMut() -> Result<Options<'o>, Error>) -> Result<Self, Error> {
        let (old, new) = (self.old.using(options()?)?, self.new.using(options()?)?);
        let migrating = Self { old, new, counts: self.counts.clone(), ..*self };
        migrating.check_apart()?;
        Ok(migrating)
    }

    /// Each would delete the other's keys, if they had the same.
    fn check_apart(&self) -> Result<(), Error> {
        if self.old.keys.namespace() != self.new.keys.namespace() {
            return Ok(());
        }
        if Arc::ptr_eq(&self.old.shared, &self.new.shared) {
            return Err(Failure::usage("the old client and the new one are the same"));
        }
        let servers = |client: &Client| -> Vec<String> {
            client.shared.directory.known().metrics().map(|metrics| metrics.server.to_string()).collect()
        };
        let old = servers(&self.old);
        let mut both: Vec<String> = servers(&self.new).into_iter().filter(|server| old.contains(server)).collect();
        both.sort();
        match both.is_empty() {
            true => Ok(()),
            false => Err(Failure::usage(format!(
                "both clients use {} with the same namespace, and would delete each other's keys: give the new client a \
                 namespace",
                both.join(", ")
            ))),
        }
    }

    pub fn client(&self, side: Side) -> &Client {
        match side {
            Side::Old => &self.old,
            Side::New => &self.new,
        }
    }

    /// Whether both use the connections of the same clients.
    pub fn shares_with(&self, other: &Self) -> bool {
        let same = |side| Arc::ptr_eq(&self.client(side).shared, &other.client(side).shared);
        same(Side::Old) && same(Side::New)
    }

    /// A value of the old pool as the new client stores it.
    fn converted(&self, bytes: &[u8], client_flags: u32) -> Result<(Vec<u8>, u32), Unconverted> {
        let Some(convert) = self.convert else {
            return values::converted(&self.old, &self.new, bytes, client_flags).map_err(|_| Unconverted::Refused);
        };
        let (mut value, mut flags) = (Bytes::NONE, 0);
        // SAFETY: the header says that the function may be called with its context from any thread.
        match Status::of(unsafe { convert(self.context, Bytes::of(bytes), client_flags, &mut value, &mut flags) }) {
            // SAFETY: the header says that the value stays until it is copied, which is now.
            Status::Done => Ok((unsafe { value.slice() }.to_vec(), flags)),
            Status::Interrupted => Err(Unconverted::Interrupted),
            _ => Err(Unconverted::Refused),
        }
    }
}

impl View {
    /// Why this client does not do what only clients of one pool do.
    pub fn check_not_migrating(&self) -> Result<(), Error> {
        match self.migrating {
            None => Ok(()),
            Some(_) => Err(Failure::usage(
                "a migrating client has no batches: what a command does depends on the result of the one before it",
            )),
        }
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_client_migrating(
    old_client: *const Client,
    new_client: *const Client,
    migration: *const Migration,
    error: *mut *mut Error,
) -> *mut Client {
    // SAFETY: the header says so.
    unsafe {
        let migrating = |old: &Client| {
            with(new_client, |new| {
                let migration = if migration.is_null() { crate::structs::empty() } else { given(migration)? };
                Ok(new.migrating(Migrating::new(old, new, &migration)?))
            })
        };
        made(with(old_client, migrating), error)
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_client_progress(client: *const Client, progress: *mut Progress) -> bool {
    // SAFETY: the header says so.
    let Ok(progress) = (unsafe { to_fill(progress) }) else { return false };
    let read = |client: &Client| Ok(client.migrating.as_ref().map(|migrating| migrating.counts.progress()));
    // SAFETY: the header says so.
    let Ok(Some(counted)) = (unsafe { with(client, read) }) else { return false };
    *progress = Progress {
        size: progress.size,
        in_new: counted.new,
        in_old: counted.old,
        moved: counted.moved,
        refused: counted.refused,
        missing: counted.missing,
    };
    true
}
