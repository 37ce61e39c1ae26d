//! What a lock is asked for: names to write, names to read, and permits of pools.

use magnus::r_hash::ForEach;
use magnus::{Error, Integer, RArray, RHash, Ruby, Value};
use pinyon_locks::{Limits, Names, PermitsAsked};

use super::client::{name_bytes, texts};
use crate::errors::{checked, unsupported};

/// The names of one lock in each of their modes.
pub(super) struct Wanted {
    write: Vec<Vec<u8>>,
    read: Vec<Vec<u8>>,
    permits: Vec<Permits>,
}

struct Permits {
    pool: Vec<u8>,
    count: u32,
    limit: Option<u32>,
}

impl Wanted {
    /// `shared`: names to read, and a Hash from pools to how many permits, or to that and the pool's limit.
    pub(super) fn of(ruby: &Ruby, write: RArray, shared: RArray) -> Result<Self, Error> {
        let [read, permits] = shared.to_array::<Value, 2>()?;
        let read = RArray::from_value(read).ok_or_else(|| unsupported(ruby, "names to read are an Array", read))?;
        let permits = permits_of(ruby, permits)?;
        Ok(Self { write: texts(ruby, write)?, read: texts(ruby, read)?, permits })
    }

    /// Permits of one pool.
    pub(super) fn of_pool(ruby: &Ruby, pool: Value, count: Value, limit: Value) -> Result<Self, Error> {
        let permits = Permits {
            pool: name_bytes(ruby, pool)?,
            count: number(ruby, "a number of permits", count)?,
            limit: Some(number(ruby, "a limit of permits", limit)?),
        };
        Ok(Self { write: Vec::new(), read: Vec::new(), permits: vec![permits] })
    }

    /// All names, as they were given. Their hash tags decide where the lock is kept.
    pub(super) fn given(&self) -> impl Iterator<Item = &[u8]> {
        let pools = self.permits.iter().map(|permits| &permits.pool);
        self.write.iter().chain(&self.read).chain(pools).map(Vec::as_slice)
    }

    /// The names for the core. Remembers the limits.
    pub(super) fn names(&self, ruby: &Ruby, limits: &Limits) -> Result<Names, Error> {
        let write: Vec<&[u8]> = self.write.iter().map(Vec::as_slice).collect();
        let read: Vec<&[u8]> = self.read.iter().map(Vec::as_slice).collect();
        let permits = self.permits.iter().map(|Permits { pool, count, limit }| PermitsAsked {
            pool,
            count: *count,
            limit: *limit,
        });
        checked(ruby, limits.wanted(&write, &read, &permits.collect::<Vec<_>>()))
    }
}

fn permits_of(ruby: &Ruby, given: Value) -> Result<Vec<Permits>, Error> {
    let expected = "permits are a Hash such as {\"stripe\" => 2}, or {\"stripe\" => [2, 10]} with the limit";
    let given = RHash::from_value(given).ok_or_else(|| unsupported(ruby, expected, given))?;
    let mut all = Vec::new();
    given.foreach(|pool: Value, wanted: Value| {
        let (count, limit) = match RArray::from_value(wanted) {
            None => (wanted, None),
            Some(pair) if pair.len() == 2 => (pair.entry(0)?, Some(pair.entry(1)?)),
            Some(_) => return Err(unsupported(ruby, expected, wanted)),
        };
        all.push(Permits {
            pool: name_bytes(ruby, pool)?,
            count: number(ruby, "a number of permits", count)?,
            limit: limit.map(|limit| number(ruby, "a limit of permits", limit)).transpose()?,
        });
        Ok(ForEach::Continue)
    })?;
    Ok(all)
}

/// What no pool can have becomes 0 or the largest number, which the core refuses by name.
fn number(ruby: &Ruby, what: &str, given: Value) -> Result<u32, Error> {
    let number =
        Integer::from_value(given).ok_or_else(|| unsupported(ruby, &format!("{what} is an Integer"), given))?;
    let nearest = if number.to_i64().is_ok_and(|number| number < 1) { 0 } else { u32::MAX };
    Ok(number.to_u32().unwrap_or(nearest))
}
