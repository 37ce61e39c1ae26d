//! Numbers for the greenlets and tasks that hold locks. A number is never used again.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use pinyon_locks::owners;
use pyo3::prelude::*;
use pyo3::types::{PyWeakrefMethods, PyWeakrefReference};

/// How many there may always be.
const MANY: usize = 64;

/// Numbers by address. Another object can get the same address later; the reference tells whose number it is.
#[derive(Default)]
struct Known {
    numbers: HashMap<usize, (Py<PyWeakrefReference>, u64)>,
    /// How many there may be before those that are gone are forgotten next.
    full: usize,
}

/// The number of a greenlet or task.
pub(super) fn number_of(owner: &Bound<'_, PyAny>) -> PyResult<u64> {
    let (py, address) = (owner.py(), owner.as_ptr() as usize);
    let known = lock_known().numbers.get(&address).map(|(reference, number)| (reference.clone_ref(py), *number));
    if let Some((reference, number)) = known {
        if reference.bind(py).upgrade().is_some_and(|known| known.is(owner)) {
            return Ok(number);
        }
    }
    let (reference, number) = (PyWeakrefReference::new(owner)?.unbind(), owners::new_owner());
    let (replaced, is_full) = {
        let mut known = lock_known();
        (known.numbers.insert(address, (reference, number)), known.numbers.len() > known.full)
    };
    drop(replaced);
    if is_full {
        forget_gone(py);
    }
    Ok(number)
}

/// Forgets the numbers of objects that are gone.
#[cold]
fn forget_gone(py: Python<'_>) {
    let all =
        lock_known().numbers.iter().map(|(at, (of, number))| (*at, of.clone_ref(py), *number)).collect::<Vec<_>>();
    let gone = all.iter().filter(|(_, reference, _)| reference.bind(py).upgrade().is_none());
    let gone = gone.map(|(address, _, number)| (*address, *number)).collect::<Vec<_>>();
    let forgotten = {
        let mut known = lock_known();
        // Meanwhile another object may have got the address, and a number.
        let still = gone.into_iter().filter(|(at, number)| known.numbers.get(at).is_some_and(|now| now.1 == *number));
        let still = still.collect::<Vec<_>>();
        let forgotten = still.iter().filter_map(|(at, _)| known.numbers.remove(at)).collect::<Vec<_>>();
        known.full = MANY.max(2 * known.numbers.len());
        forgotten
    };
    drop((all, forgotten));
}

/// Call nothing of Python's, and drop no reference, while this is locked: both may run code that asks for a number.
fn lock_known() -> MutexGuard<'static, Known> {
    static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}
