//! Times to live: seconds as Python has them, into what memcached understands.

use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::prelude::*;
use pyo3::types::{PyDelta, PyDeltaAccess, PyFloat, PyInt};

use crate::errors::usage;

/// Above this many seconds memcached takes a number for a Unix time.
const LONGEST_RELATIVE: i64 = 30 * 24 * 60 * 60;

/// A ttl as it is sent: 0 for no end, negative for at once.
#[derive(Clone, Copy)]
pub(crate) struct Ttl(pub(crate) i32);

impl Ttl {
    pub(crate) const NONE: Self = Self(0);

    /// As they were given, rounded up.
    pub(crate) fn seconds(ttl: &Bound<'_, PyAny>) -> PyResult<i64> {
        seconds(ttl.as_borrowed())
    }

    /// The seconds of a setting that is a duration with an end, of at most 30 days.
    pub(crate) fn within(ttl: &Bound<'_, PyAny>, name: &str) -> PyResult<i32> {
        match seconds(ttl.as_borrowed())? {
            seconds @ 1..=LONGEST_RELATIVE => Ok(seconds as i32),
            _ => Err(usage(ttl.py(), "UsageError", &format!("{name} must be positive, and at most 30 days"))),
        }
    }

    /// The seconds of a setting that may be none.
    pub(crate) fn up_to_30_days(ttl: &Bound<'_, PyAny>, name: &str) -> PyResult<i32> {
        match seconds(ttl.as_borrowed())? {
            seconds @ 0..=LONGEST_RELATIVE => Ok(seconds as i32),
            _ => Err(usage(ttl.py(), "UsageError", &format!("{name} must be from 0 to 30 days"))),
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for Ttl {
    type Error = PyErr;

    fn extract(ttl: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        seconds(ttl).and_then(|seconds| sendable(ttl.py(), seconds))
    }
}

fn seconds(ttl: Borrowed<'_, '_, PyAny>) -> PyResult<i64> {
    if ttl.is_instance_of::<PyInt>() {
        return ttl.extract().map_err(|_: PyErr| too_long(ttl.py()));
    }
    if let Ok(ttl) = ttl.cast::<PyFloat>() {
        return whole(ttl.py(), ttl.value());
    }
    if let Ok(ttl) = ttl.cast::<PyDelta>() {
        let microseconds = f64::from(ttl.get_microseconds()) / 1e6;
        return whole(ttl.py(), f64::from(ttl.get_days()) * 86_400.0 + f64::from(ttl.get_seconds()) + microseconds);
    }
    let hint = if ttl.is_none() { "; for an item without end give 0" } else { "" };
    let name = ttl.get_type().name()?;
    let message = format!("a ttl is seconds (int or float) or a timedelta, not {name}{hint}");
    Err(usage(ttl.py(), "UnsupportedType", &message))
}

/// Rounded away from zero: zero would mean no end.
fn whole(py: Python<'_>, seconds: f64) -> PyResult<i64> {
    if seconds.is_nan() {
        return Err(usage(py, "UsageError", "a ttl cannot be NaN"));
    }
    if seconds.abs() > 1e15 {
        return Err(too_long(py));
    }
    Ok(if seconds < 0.0 { seconds.floor() } else { seconds.ceil() } as i64)
}

fn sendable(py: Python<'_>, seconds: i64) -> PyResult<Ttl> {
    if seconds < 0 {
        return Ok(Ttl(-1));
    }
    if seconds <= LONGEST_RELATIVE {
        return Ok(Ttl(seconds as i32));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    now.checked_add(seconds).and_then(|end| end.try_into().ok()).map(Ttl).ok_or_else(|| too_long(py))
}

fn too_long(py: Python<'_>) -> PyErr {
    let message = "the ttl ends after 2038-01-19, memcached's last second; for an item without end give 0";
    usage(py, "UsageError", message)
}
