//! `pinyon.Tls`: what Python sees of the settings of TLS.

use std::path::PathBuf;
use std::sync::Arc;

use pinyon_core::tls::{self, TlsSettings};
use pyo3::prelude::*;

use crate::errors::checked;

/// TLS, as its settings have it. `pinyon.Tls` documents its arguments.
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
}
