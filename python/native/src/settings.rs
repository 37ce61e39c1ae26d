//! Settings from Python's keyword arguments, and the classes of settings objects. The core checks them.

use std::path::PathBuf;
use std::sync::Arc;

use pinyon_cache::settings::{CacheSettings, CompressionSettings, Dictionaries, NearSettings};
use pinyon_locks::settings::LockSettings;
use pinyon_net::settings::{Given, NamedSettings, Words};
use pinyon_net::tls::{self, TlsSettings};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDelta, PyDict, PyMapping, PyString, PyTuple};

use crate::arguments::delta_seconds;
use crate::credentials::Returns;
use crate::errors::{checked, exception, ErrorKind};

/// Python's words, for messages.
pub(crate) const WORDS: Words = Words {
    nothing: "None",
    yes: "True",
    no: "False",
    flag: "bool",
    whole: "int",
    number: "float",
    text: "str",
    bytes: "bytes",
    both: "str or bytes",
    list: "list",
    plain: "bytes, str, numbers, bool, None, lists and dicts",
    tls: "a pinyon.Tls",
    compression: "a pinyon.Compression",
    near: "a pinyon.Near",
    function: "a function",
};

/// A `pinyon.Compression`.
#[derive(FromPyObject)]
pub(crate) struct Compression {
    algorithm: Option<String>,
    threshold: Option<i64>,
    minimum_gain: f64,
    level: Option<i64>,
    dictionaries: Vec<(u32, Vec<u8>)>,
}

impl Compression {
    fn settings(self) -> CompressionSettings {
        let Self { algorithm, threshold, minimum_gain, level, dictionaries } = self;
        CompressionSettings { algorithm, threshold, minimum_gain, level, dictionaries: Dictionaries(dictionaries) }
    }
}

/// Checks what is wrong in every dialect.
#[pyfunction]
pub(crate) fn check_compression(py: Python<'_>, compression: Compression) -> PyResult<()> {
    checked(py, compression.settings().check())
}

/// A `pinyon.Near`.
#[derive(FromPyObject)]
pub(crate) struct Near {
    max_bytes: i64,
    fresh: f64,
}

impl Near {
    fn settings(self) -> NearSettings {
        let Self { max_bytes, fresh } = self;
        NearSettings { max_bytes, fresh }
    }
}

/// Checks the arguments of a `pinyon.Near`.
#[pyfunction]
pub(crate) fn check_near(py: Python<'_>, near: Near) -> PyResult<()> {
    checked(py, near.settings().check())
}

/// Refuses the name of a setting that a table does not have, and suggests the closest one.
#[pyfunction]
pub(crate) fn check_setting(table: &str, name: &str) -> PyResult<()> {
    let check = match table {
        "Client" => CacheSettings::check_name,
        _ => LockSettings::check_name,
    };
    check(name).map_err(|unknown| PyTypeError::new_err(unknown.message))
}

/// These settings, changed by the given ones.
pub(crate) fn changed<S: NamedSettings>(mut settings: S, given: Option<&Bound<'_, PyDict>>) -> PyResult<S> {
    for (name, value) in given.into_iter().flatten() {
        let (name, value) = (name.cast_into::<PyString>()?, listed(value)?);
        let name = name.to_str()?;
        match settings.set(name, read(name, &value)?) {
            Err(unknown) if !S::NAMES.contains(&name) => return Err(PyTypeError::new_err(unknown.message)),
            set => checked(value.py(), set)?,
        }
    }
    Ok(settings)
}

/// Turns an iterable into a tuple; returns anything else unchanged, and a mapping too, which is no list of its keys.
pub(crate) fn listed(value: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let is_text = value.is_instance_of::<PyString>() || value.is_instance_of::<PyBytes>();
    if is_text || !value.hasattr("__iter__")? || value.cast::<PyMapping>().is_ok() {
        return Ok(value);
    }
    let items = value.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    Ok(PyTuple::new(value.py(), items)?.into_any())
}

pub(crate) fn read<'v>(name: &str, value: &'v Bound<'_, PyAny>) -> PyResult<Given<'v>> {
    if value.is_none() {
        return Ok(Given::Nothing);
    }
    if let Ok(text) = value.cast::<PyString>() {
        let kind = if name == "namespace" { ErrorKind::InvalidKey } else { ErrorKind::UsageError };
        // It is not shown: it may be a password.
        let message = format!("the {name} has a lone surrogate, which UTF-8 cannot express: replace it");
        return text.to_str().map(Given::Text).map_err(|_| exception(text.py(), kind, &message));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Given::Bytes(bytes.as_bytes()));
    }
    if let Ok(items) = value.cast::<PyTuple>() {
        return items.as_slice().iter().map(|item| read(name, item)).collect::<PyResult<_>>().map(Given::List);
    }
    if let Ok(tls) = value.cast::<Tls>() {
        return Ok(Given::Tls(tls.get().tls.clone()));
    }
    if let Ok(compression) = value.extract::<Compression>() {
        return Ok(Given::Compression(Arc::new(compression.settings())));
    }
    if let Ok(near) = value.extract::<Near>() {
        return Ok(Given::Near(Arc::new(near.settings())));
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Given::Flag(flag.is_true()));
    }
    if let Ok(delta) = value.cast::<PyDelta>() {
        return Ok(Given::Number(delta_seconds(delta)));
    }
    if let Ok(number) = value.extract() {
        return Ok(Given::Whole(number));
    }
    if value.is_callable() {
        return Ok(Given::Function(Arc::new(Returns(value.clone().unbind()))));
    }
    let class = value.get_type().name()?;
    Ok(value.extract().map_or_else(|_| Given::Other(class.to_string()), Given::Number))
}

/// TLS settings in use. `pinyon.Tls` documents the arguments.
#[pyclass(frozen, subclass, module = "pinyon._native")]
pub(crate) struct Tls {
    pub(crate) tls: Arc<tls::Tls>,
    settings: TlsSettings,
}

#[pymethods]
impl Tls {
    #[new]
    #[pyo3(signature = (*, ca = None, certificate = None, key = None, server_name = None,
                        accept_any_certificate_which_is_dangerous = false))]
    fn new(
        py: Python<'_>,
        ca: Option<PathBuf>,
        certificate: Option<PathBuf>,
        key: Option<PathBuf>,
        server_name: Option<String>,
        accept_any_certificate_which_is_dangerous: bool,
    ) -> PyResult<Self> {
        let settings = TlsSettings { ca, certificate, key, server_name, accept_any_certificate_which_is_dangerous };
        let tls = checked(py, py.detach(|| tls::Tls::new(&settings)))?;
        Ok(Self { tls: Arc::new(tls), settings })
    }

    fn __repr__(&self) -> String {
        format!("<pinyon.Tls {}>", self.settings)
    }

    /// It is pickled as its arguments: another process reads the files again.
    fn __getnewargs_ex__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
        let TlsSettings { ca, certificate, key, server_name, accept_any_certificate_which_is_dangerous } =
            &self.settings;
        let arguments = PyDict::new(py);
        arguments.set_item("ca", ca.as_ref())?;
        arguments.set_item("certificate", certificate.as_ref())?;
        arguments.set_item("key", key.as_ref())?;
        arguments.set_item("server_name", server_name.as_ref())?;
        arguments.set_item("accept_any_certificate_which_is_dangerous", accept_any_certificate_which_is_dangerous)?;
        Ok((PyTuple::empty(py), arguments))
    }
}
