//! Numeric arguments, each with an error that says what it must be.

use pinyon_cache::operations::Request;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDelta, PyDeltaAccess, PyFloat, PyInt};

use crate::errors::{exception, unsupported, ErrorKind};

/// The token that `gets` returned with a value.
pub(crate) fn cas_token(token: &Bound<'_, PyAny>) -> PyResult<u64> {
    if token.is_none() {
        let message =
            "cas must be the token that gets returned with the value, not None: where gets found nothing, use add";
        return Err(exception(token.py(), ErrorKind::UnsupportedType, message));
    }
    whole(token, "cas", "the token that gets returned with the value", "from 0 to 2**64-1")
}

/// The change of a counter, in either direction.
#[inline]
pub(crate) fn delta(delta: &Bound<'_, PyAny>) -> PyResult<i128> {
    // CPython reads 64 bits several times faster than 128, which only refused numbers need.
    if let (true, Ok(usual)) = (delta.is_instance_of::<PyInt>(), delta.extract::<u64>()) {
        return Ok(usual.into());
    }
    whole(delta, "delta", "a whole number (int)", Request::DELTAS)
}

/// The initial value of a missing counter, or None.
pub(crate) fn initial(initial: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    let whole = |initial| whole(initial, "initial", "a whole number (int)", "from 0 to 2**64-1");
    (!initial.is_none()).then(|| whole(initial)).transpose()
}

/// A whole number. `kind`, `range`: its kind and the valid values, for the message.
pub(crate) fn whole<'a, 'py, T>(number: &'a Bound<'py, PyAny>, name: &str, kind: &str, range: &str) -> PyResult<T>
where
    T: FromPyObject<'a, 'py>,
{
    if !number.is_instance_of::<PyInt>() {
        return Err(unsupported(number, &format!("{name} must be {kind}")));
    }
    let refused = |_| match number.str() {
        Ok(shown) => exception(number.py(), ErrorKind::UsageError, &format!("{name} must be {range}, not {shown}")),
        Err(raised) => raised,
    };
    number.extract().map_err(refused)
}

/// Seconds from an int, a float or a timedelta. `name`: the name of the argument.
pub(crate) fn seconds(time: &Bound<'_, PyAny>, name: &str) -> PyResult<f64> {
    if let Some(seconds) = usual_seconds(time) {
        return Ok(seconds);
    }
    let is_number = time.is_instance_of::<PyInt>() || time.is_instance_of::<PyFloat>();
    if is_number && !time.is_instance_of::<PyBool>() {
        let too_large = || format!("{name} is too large for a number of seconds");
        return time.extract().map_err(|_| exception(time.py(), ErrorKind::UsageError, &too_large()));
    }
    match time.cast::<PyDelta>() {
        Ok(delta) => Ok(delta_seconds(delta)),
        Err(_) => Err(unsupported(time, &format!("{name} must be seconds (int or float) or a timedelta"))),
    }
}

/// The same of what nearly all give. Python's own conversion of an int makes a float of it first.
fn usual_seconds(time: &Bound<'_, PyAny>) -> Option<f64> {
    if let Ok(seconds) = time.cast_exact::<PyFloat>() {
        return Some(seconds.value());
    }
    let whole: i32 = time.cast_exact::<PyInt>().ok()?.extract().ok()?;
    Some(whole.into())
}

pub(crate) fn delta_seconds(delta: &Bound<'_, PyDelta>) -> f64 {
    let microseconds = f64::from(delta.get_microseconds()) / 1e6;
    f64::from(delta.get_days()) * 86_400.0 + f64::from(delta.get_seconds()) + microseconds
}
