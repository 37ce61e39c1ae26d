//! The names of locks and of pools, as Python gives them.

use pinyon_locks::{Names, Ticket};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

use crate::errors::{checked, exception, ErrorKind};
use crate::keys::text_bytes;

/// Names as they were given.
pub(super) enum GivenNames {
    Locks(Py<PyTuple>),
    /// There are only permits, as in `Shared::permits`.
    Pools(Py<PyTuple>),
}

impl GivenNames {
    pub(super) fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Self::Locks(names) => Self::Locks(names.clone_ref(py)),
            Self::Pools(pools) => Self::Pools(pools.clone_ref(py)),
        }
    }

    /// The names of locks, or of pools.
    pub(super) fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        match self {
            Self::Locks(names) => Ok(names.bind(py).clone()),
            Self::Pools(pools) => {
                let names: Vec<_> = pools.bind(py).iter().step_by(3).collect();
                PyTuple::new(py, names)
            }
        }
    }

    /// The first few of the names, for people to read.
    pub(super) fn listed(&self, py: Python<'_>) -> PyResult<String> {
        const FEW: usize = 3;
        let names = self.names(py)?;
        let few = names.iter().take(FEW).map(|name| Ok(name.repr()?.to_string())).collect::<PyResult<Vec<_>>>()?;
        let rest = names.len().saturating_sub(FEW);
        Ok(if rest == 0 { few.join(", ") } else { format!("{} and {rest} more", few.join(", ")) })
    }
}

/// The hash tag that all of these names share, if they have one.
pub(super) fn common_tag<'n>(names: &'n Bound<'_, PyTuple>) -> PyResult<Option<&'n [u8]>> {
    checked(names.py(), pinyon_locks::common_tag(&texts(names)?))
}

/// The names of a lock that was handed over: text, or bytes that are no text.
pub(super) fn names_in<'py>(py: Python<'py>, ticket: &Ticket) -> PyResult<Bound<'py, PyTuple>> {
    let name = |name: &pinyon_locks::Name| match std::str::from_utf8(name) {
        Ok(text) => PyString::new(py, text).into_any(),
        Err(_) => PyBytes::new(py, name).into_any(),
    };
    PyTuple::new(py, ticket.names.iter().map(name))
}

pub(super) fn texts<'n>(names: &'n Bound<'_, PyTuple>) -> PyResult<Vec<&'n [u8]>> {
    names.as_slice().iter().map(name_bytes).collect()
}

pub(super) fn lock_names(names: &Bound<'_, PyTuple>) -> PyResult<Names> {
    let sorted = match names.as_slice() {
        [name] => pinyon_locks::names([name_bytes(name)?]), // needs no list
        _ => pinyon_locks::names(texts(names)?),
    };
    checked(names.py(), sorted)
}

pub(super) fn name_bytes<'n>(name: &'n Bound<'_, PyAny>) -> PyResult<&'n [u8]> {
    match text_bytes(name, ErrorKind::InvalidName, "the lock's name", "names of locks") {
        Err(_) if !is_text(name) => Err(no_name(name)),
        checked => checked,
    }
}

#[cold]
fn no_name(given: &Bound<'_, PyAny>) -> PyErr {
    let py = given.py();
    let class = match given.get_type().name() {
        Ok(class) => class,
        Err(raised) => return raised,
    };
    let hint = if given.is_callable() {
        "; to decorate a function, name the lock: @locks.lock(\"name\")"
    } else if given.hasattr("__iter__").unwrap_or(false) {
        "; write several names one by one, as in lock(*names)"
    } else {
        ""
    };
    let message = format!("names of locks are str or bytes, not {class}{hint}");
    exception(py, ErrorKind::UnsupportedType, &message)
}

pub(super) fn is_text(part: &Bound<'_, PyAny>) -> bool {
    part.is_instance_of::<PyString>() || part.is_instance_of::<PyBytes>()
}
