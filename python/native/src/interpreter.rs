//! One interpreter of a process uses this library, for the life of the process.
//!
//! The things that the library keeps for the process belong to the interpreter that imported it: exception classes,
//! and the listeners for lost locks. They stay when that interpreter ends.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

const REFUSAL: &str = "pinyon was imported by another interpreter of this process already, and works in one only: under \
    mod_wsgi, set WSGIApplicationGroup %{GLOBAL}, or give each application a daemon process of its own (WSGIDaemonProcess \
    and WSGIProcessGroup); elsewhere, use one interpreter for each process";

/// Claims the library for the running interpreter. Fails if another one had it, even one that has ended.
pub(crate) fn claim(py: Python<'_>) -> PyResult<()> {
    static CLAIMED: AtomicBool = AtomicBool::new(false);
    // An interpreter that starts after the end of all others may have the number of the first one. So its own dict says
    // whether it is the one.
    const MARK: &str = "pinyon._native";
    let own = own_dict(py)?;
    if CLAIMED.swap(true, Ordering::Relaxed) && !own.contains(MARK)? {
        return Err(PyImportError::new_err(REFUSAL));
    }
    own.set_item(MARK, true)
}

/// The dict that the running interpreter keeps for extensions.
fn own_dict(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    // SAFETY: this thread is attached to an interpreter, which keeps its dict until it ends. Without memory for it,
    // there is a null pointer, and possibly no exception.
    let dict = unsafe {
        let dict = ffi::PyInterpreterState_GetDict(ffi::PyInterpreterState_Get());
        Bound::from_borrowed_ptr_or_opt(py, dict)
    };
    let dict = dict.ok_or_else(|| {
        PyErr::take(py).unwrap_or_else(|| PyImportError::new_err("pinyon: this interpreter has no memory"))
    })?;
    Ok(dict.cast_into()?)
}
