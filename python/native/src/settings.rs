//! What a client's settings may be, and what is said of those that make no sense.

use std::time::Duration;

use pinyon_core::address::{Endpoint, ServerListError, ServerSpec};
use pinyon_core::directory::{Settings as Discovery, Source as Finding};
use pinyon_core::fleet::Options;
use pinyon_core::login::{Login, Password};
use pinyon_core::ring::RingError;
use pinyon_core::settings::{InvalidKind, InvalidSetting};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::errors::usage;
use crate::keys::text_bytes;

pub(crate) fn finding(py: Python<'_>, name: &str) -> PyResult<Finding> {
    match name {
        "config" => Ok(Finding::ClusterConfig),
        "dns" => Ok(Finding::Names),
        _ => Err(usage(py, "UsageError", &format!("discovery is \"config\" or \"dns\", not {name:?}"))),
    }
}

pub(crate) fn discovery(
    py: Python<'_>,
    source: Finding,
    given: Vec<ServerSpec>,
    interval: Duration,
    options: &Options,
) -> PyResult<Discovery> {
    if let Some(path) = given.iter().find(|spec| matches!(spec.endpoint, Endpoint::Unix(_))) {
        let message = format!("nothing is found out by way of {}: give hosts for discovery, not paths", path.name());
        return Err(usage(py, "UsageError", &message));
    }
    if let Some(endpoint) = given.iter().find(|spec| source == Finding::ClusterConfig && spec.weight != 1) {
        let message = format!(
            "a configuration endpoint holds no keys, and {} has a weight: leave out the :{}",
            endpoint.name(),
            endpoint.weight
        );
        return Err(usage(py, "UsageError", &message));
    }
    Ok(Discovery { source, given, interval, timeout: options.timeout })
}

pub(crate) fn login(
    py: Python<'_>,
    username: Option<&str>,
    password: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<Login>> {
    let login = match (username, password) {
        (None, None) => return Ok(None),
        (Some(username), Some(password)) => {
            Login::new(username, Password::from(text_bytes(password, "UsageError", "the password", "passwords")?))
        }
        _ => Err("username and password go together: give both"),
    };
    login.map(Some).map_err(|why| usage(py, "UsageError", why))
}

/// The exception for settings that the core refuses.
pub(crate) fn refused(py: Python<'_>, invalid: &InvalidSetting) -> PyErr {
    let class = match invalid.kind {
        InvalidKind::Usage => "UsageError",
        InvalidKind::Servers => "InvalidServers",
        InvalidKind::Key => "InvalidKey",
        InvalidKind::Type => "UnsupportedType",
    };
    usage(py, class, &invalid.message)
}

/// Of a setting of the wrong type: its name, and what is wrong.
pub(crate) fn naming_setting(py: Python<'_>, error: PyErr) -> PyErr {
    let Some(cause) = error.cause(py) else { return error };
    let path = error.value(py).to_string();
    PyTypeError::new_err(format!("{}: {}", path.rsplit('.').next().unwrap_or_default(), cause.value(py)))
}

pub(crate) fn no_ring(py: Python<'_>, error: &RingError) -> PyErr {
    usage(py, "UsageError", &error.to_string())
}

pub(crate) fn invalid(py: Python<'_>, error: &ServerListError) -> PyErr {
    usage(py, "InvalidServers", &error.to_string())
}

pub(crate) fn duration(py: Python<'_>, name: &str, seconds: f64) -> PyResult<Duration> {
    let valid = Duration::try_from_secs_f64(seconds).ok().filter(|duration| !duration.is_zero());
    valid
        .filter(|duration| duration.as_secs() < 1 << 31)
        .ok_or_else(|| usage(py, "UsageError", &format!("{name} must be a positive number of seconds, not {seconds}")))
}

pub(crate) fn positive(py: Python<'_>, name: &str, number: isize) -> PyResult<usize> {
    let positive = usize::try_from(number).ok().filter(|number| *number > 0);
    positive.ok_or_else(|| usage(py, "UsageError", &format!("{name} must be at least 1, not {number}")))
}

pub(crate) fn up_to(py: Python<'_>, name: &str, number: isize, most: usize) -> PyResult<usize> {
    let number = positive(py, name, number)?;
    match number <= most {
        true => Ok(number),
        false => Err(usage(py, "UsageError", &format!("{name} must be at most {most}, not {number}"))),
    }
}
