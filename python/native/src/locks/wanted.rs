//! What a lock wants beside the names that it writes: names to read, and permits of pools.

use std::sync::Arc;

use pinyon_locks::{Names, PermitsAsked};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PyTuple};

use super::client::Locks;
use super::drivers::Drivers;
use super::names::{lock_names, name_bytes, texts, GivenNames};
use crate::errors::{checked, exception, ErrorKind};

/// What a lock wants beside the names that it writes.
pub(super) struct Shared<'py> {
    pub(super) read: Bound<'py, PyTuple>,
    /// Of each pool its name, how many permits, and the limit or an ellipsis, one after the other.
    pub(super) permits: Bound<'py, PyTuple>,
}

impl<'py> Shared<'py> {
    /// The names as they were given, their client, and all names with their modes.
    pub(super) fn of(
        &self,
        locks: &Locks,
        written: &Bound<'py, PyTuple>,
    ) -> PyResult<(GivenNames, Arc<Drivers>, Names)> {
        let (py, Self { read, permits }) = (written.py(), self);
        match (written.as_slice(), read.as_slice(), permits.as_slice()) {
            ([], _, []) => Ok((GivenNames::Locks(read.clone().unbind()), locks.of(read)?, lock_names(read)?.to_read())),
            ([], [], [pool, count, limit]) => {
                let asked = asked(pool, count, limit)?;
                let client = locks.of_tag(py, || checked(py, pinyon_locks::common_tag(&[asked.pool])))?;
                Ok((GivenNames::Pools(permits.clone().unbind()), client, checked(py, locks.limits().permits(&asked))?))
            }
            _ => self.mixed(locks, written),
        }
    }

    fn mixed(&self, locks: &Locks, written: &Bound<'py, PyTuple>) -> PyResult<(GivenNames, Arc<Drivers>, Names)> {
        let (py, Self { read, permits }) = (written.py(), self);
        let pools = permits.as_slice().chunks_exact(3);
        let pools = pools.map(|pool| asked(&pool[0], &pool[1], &pool[2])).collect::<PyResult<Vec<_>>>()?;
        let (write, read_names) = (texts(written)?, texts(read)?);
        let tag = || {
            let pools: Vec<_> = pools.iter().map(|asked| asked.pool).collect();
            checked(py, pinyon_locks::common_tag(&[&*write, &*read_names, &*pools].concat()))
        };
        let given = match write.is_empty() && read_names.is_empty() {
            true => GivenNames::Pools(permits.clone().unbind()),
            false => GivenNames::Locks(PyTuple::new(py, written.iter().chain(read).collect::<Vec<_>>())?.unbind()),
        };
        let client = locks.of_tag(py, tag)?;
        Ok((given, client, checked(py, locks.limits().wanted(&write, &read_names, &pools))?))
    }
}

/// The name of a pool, how many of its permits, and the limit, if it is given.
fn asked<'n>(
    pool: &'n Bound<'_, PyAny>,
    count: &Bound<'_, PyAny>,
    limit: &Bound<'_, PyAny>,
) -> PyResult<PermitsAsked<'n>> {
    let limit = (!limit.is(PyEllipsis::get(limit.py()))).then(|| whole("limit", limit)).transpose()?;
    Ok(PermitsAsked { pool: name_bytes(pool)?, count: whole("n", count)?, limit })
}

/// The core says which numbers make sense.
fn whole(what: &str, number: &Bound<'_, PyAny>) -> PyResult<u32> {
    let is_int = number.is_exact_instance_of::<PyInt>()
        || number.is_instance_of::<PyInt>() && !number.is_instance_of::<PyBool>();
    match number.extract() {
        Ok(count) if is_int => Ok(count),
        _ => {
            let message = format!("{what} must be a whole number of at least 1, not {}", number.repr()?);
            Err(exception(number.py(), ErrorKind::UsageError, &message))
        }
    }
}
