//! Numbers for the greenlets and tasks that hold locks. A number is never used again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pinyon_locks::owners;
use pyo3::prelude::*;
use pyo3::types::{PyWeakrefMethods, PyWeakrefReference};

/// How many there are at least before those that are gone are forgotten.
const MANY: usize = 64;

/// Numbers by address. Another object can get the same address later; the reference tells whose number it is.
#[derive(Default)]
struct Known {
    numbers: HashMap<usize, (Py<PyWeakrefReference>, u64)>,
    /// How many there are when those that are gone are forgotten next.
    full: usize,
}

/// The number of a greenlet or task.
pub(super) fn number_of(owner: &Bound<'_, PyAny>) -> PyResult<u64> {
    static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
    let py = owner.py();
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    let address = owner.as_ptr() as usize;
    if let Some((reference, number)) = known.numbers.get(&address) {
        if reference.bind(py).upgrade().is_some_and(|known| known.is(owner)) {
            return Ok(*number);
        }
    }
    let reference = PyWeakrefReference::new(owner)?.unbind();
    if known.numbers.len() >= known.full {
        known.numbers.retain(|_, (reference, _)| reference.bind(py).upgrade().is_some());
        known.full = MANY.max(2 * known.numbers.len());
    }
    let number = owners::new_owner();
    known.numbers.insert(address, (reference, number));
    Ok(number)
}
