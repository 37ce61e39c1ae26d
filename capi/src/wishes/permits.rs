//! Permits of pools, and names that are read: what a lock wants beside the names that it writes.

use pinyon_locks::{Mode, Names, PermitsAsked};

use crate::errors::Error;
use crate::exported::exported;
use crate::guard::with;
use crate::locks::client::Locks;
use crate::status::Status;
use crate::structs::{c_structs, list, missing, Bytes};

c_structs! {
    "pinyon_permits" Permits {
        pool: Bytes,
        count: u32,
        limit: u32,
    }
}

/// The names of a lock in each of their modes. `given`: those to write; all others are added, for the hash tag.
pub fn names_in_modes<'w>(
    locks: &Locks,
    given: &mut Vec<&'w [u8]>,
    read: Vec<&'w [u8]>,
    permits: &[PermitsAsked<'w>],
) -> Result<Names, Error> {
    let names = locks.limits().wanted(given, &read, permits)?;
    given.extend(read);
    given.extend(permits.iter().map(|permits| permits.pool));
    Ok(names)
}

/// # Safety
/// The pointer is null, or to so many permits, which stay as they are for the lifetime.
pub unsafe fn permits_of<'p>(first: *const Permits, count: usize) -> Result<Vec<PermitsAsked<'p>>, Error> {
    // SAFETY: the caller has so many permits, and keeps them and their names as they are for the lifetime.
    let all = unsafe { list(first, count, "list of permits") }?;
    let asked = all.iter().map(|Permits { pool, count, limit }| {
        pool.check("the name of a pool")?;
        let limit = (*limit != 0).then_some(*limit);
        // SAFETY: the caller has so many permits, and keeps them and their names as they are for the lifetime.
        Ok(PermitsAsked { pool: unsafe { pool.slice() }, count: *count, limit })
    });
    asked.collect()
}

/// Remembers the limit of a pool, and returns it: the one that is given, or else the one that was told before.
pub fn told(locks: &Locks, asked: &PermitsAsked<'_>) -> Result<u32, Error> {
    let names = locks.limits().permits(asked)?;
    let limits = names.each().filter_map(|(_, mode)| match mode {
        Mode::Permits { limit, .. } => Some(limit),
        Mode::Write | Mode::Read => None,
    });
    Ok(limits.sum())
}

exported! {
    fn pinyon_locks_tell_permits(locks: *const Locks, permits: *const Permits) -> Result<i32> {
        with(locks, |locks| match permits_of(permits, 1)?.as_slice() {
            [asked] => told(locks, asked).map(|_| Status::Done),
            _ => Err(missing("pinyon_permits")),
        })
    }
}
