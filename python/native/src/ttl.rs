//! Times to live from Python: int, float or timedelta.

use std::convert::Infallible;

use pinyon_cache::ttl::{self, DefaultTtl, Ttl};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDelta, PyFloat, PyInt};

use crate::arguments::{self, delta_seconds};
use crate::errors::{checked, exception, ErrorKind};

/// A ttl as it is sent: 0 never expires, a negative ttl expires at once.
pub(crate) fn sent(ttl: &Bound<'_, PyAny>) -> PyResult<i32> {
    Ok(Ttl::from_seconds(seconds(ttl)?).0)
}

/// The whole seconds of the argument with this name, rounded up.
pub(crate) fn whole_seconds(time: &Bound<'_, PyAny>, name: &str) -> PyResult<i64> {
    checked(time.py(), ttl::whole_seconds(arguments::seconds(time, name)?))
}

/// The seconds of an argument between 1 second and 30 days.
pub(crate) fn within(ttl: &Bound<'_, PyAny>, name: &str) -> PyResult<i32> {
    checked(ttl.py(), ttl::limited(name, seconds(ttl)?))
}

/// The seconds of an argument that may be 0.
pub(crate) fn up_to_30_days(ttl: &Bound<'_, PyAny>, name: &str) -> PyResult<i32> {
    checked(ttl.py(), ttl::limited_or_none(name, seconds(ttl)?))
}

/// The ttl of a stored value, as it was given. Nothing is converted yet, so that the frame of a waiting greenlet's method,
/// which is copied, has no room for what may go wrong.
#[derive(Clone, Copy)]
pub(crate) enum StoredTtl<'a, 'py> {
    /// No ttl was given: the client's default applies.
    Default,
    /// For commands without a ttl.
    None,
    Given(Borrowed<'a, 'py, PyAny>),
}

impl StoredTtl<'_, '_> {
    #[inline(always)]
    pub(crate) fn or(self, default: DefaultTtl) -> PyResult<i32> {
        match (self, default.relative()) {
            (Self::Given(ttl), _) if !is_default(ttl) => sent(&ttl),
            (Self::None, _) => Ok(Ttl::NONE.0),
            (_, Some(ttl)) => Ok(ttl.0),
            (_, None) => Ok(ending(default)),
        }
    }

    /// Checks a ttl that is not used.
    pub(crate) fn check(self) -> PyResult<()> {
        match self {
            Self::Given(ttl) if !is_default(ttl) => sent(&ttl).map(drop),
            _ => Ok(()),
        }
    }
}

/// Whether it is `...`, by which Python methods pass on that no ttl was given.
#[inline]
fn is_default(ttl: Borrowed<'_, '_, PyAny>) -> bool {
    ttl.is(ttl.py().Ellipsis())
}

/// A default ttl of more than 30 days, from now on.
#[cold]
fn ending(default: DefaultTtl) -> i32 {
    default.now().0
}

impl<'a, 'py> FromPyObject<'a, 'py> for StoredTtl<'a, 'py> {
    type Error = Infallible;

    #[inline(always)]
    fn extract(ttl: Borrowed<'a, 'py, PyAny>) -> Result<Self, Infallible> {
        Ok(Self::Given(ttl))
    }
}

/// Whole seconds, rounded up.
pub(crate) fn seconds(ttl: &Bound<'_, PyAny>) -> PyResult<i64> {
    let py = ttl.py();
    if ttl.is_instance_of::<PyInt>() && !ttl.is_exact_instance_of::<PyBool>() {
        return ttl.extract().or_else(|_: PyErr| Ok(if ttl.lt(0)? { i64::MIN } else { i64::MAX }));
    }
    if let Ok(ttl) = ttl.cast::<PyFloat>() {
        return checked(py, ttl::whole_seconds(ttl.value()));
    }
    if let Ok(ttl) = ttl.cast::<PyDelta>() {
        return checked(py, ttl::whole_seconds(delta_seconds(ttl)));
    }
    let hint = if ttl.is_none() { "; for an item that never expires give 0" } else { "" };
    let name = ttl.get_type().name()?;
    let message = format!("a ttl is seconds (int or float) or a timedelta, not {name}{hint}");
    Err(exception(py, ErrorKind::UnsupportedType, &message))
}
