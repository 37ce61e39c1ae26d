//! `pinyon.Tls`: what Python sees of the settings of TLS.

use std::path::PathBuf;
use std::sync::Arc;

use pinyon_core::tls::{self, TlsSettings};
use pyo3::prelude::*;

use crate::errors::usage;

/// TLS, as its settings have it. `pinyon.Tls` documents its arguments.
#[pyclass(frozen, subclass, module = "pinyon._native")]
pub(crate) struct Tls {
    pub(crate) tls: Arc<tls::Tls>,
}

#[pymethods]
impl Tls {
    #[new]
    #[pyo3(signature = (*, ca, certificate, key, server_name, accept_any_certificate))]
    fn new(
        py: Python<'_>,
        ca: Option<PathBuf>,
        certificate: Option<PathBuf>,
        key: Option<PathBuf>,
        server_name: Option<String>,
        accept_any_certificate: bool,
    ) -> PyResult<Self> {
        let settings = TlsSettings { ca, certificate, key, server_name, accept_any_certificate };
        let tls = py.detach(|| tls::Tls::new(&settings));
        let tls = tls.map_err(|error| usage(py, "UsageError", &format!("TLS cannot be used: {error}")))?;
        Ok(Self { tls: Arc::new(tls) })
    }
}
