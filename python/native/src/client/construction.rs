//! How a client is made: of settings, or of another client.

use std::sync::{Arc, OnceLock};

use pinyon_core::settings::{CacheSettings, ViewSettings};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::Client;
use crate::errors::checked;
use crate::events::Watcher;
use crate::keys::Routing;
use crate::settings::changed;
use crate::values::Codec;

/// Arguments that are Python's own.
pub(crate) struct Own<'py> {
    pub(crate) serializer: Option<Bound<'py, PyAny>>,
    pub(crate) on_event: Option<Py<PyAny>>,
    pub(crate) loops: Option<(Py<PyAny>, Bound<'py, PyAny>)>,
}

impl Client {
    /// A client that shares all but its policy with `client`.
    pub(crate) fn viewing(client: &Bound<'_, Self>, settings: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let (py, client) = (client.py(), client.get());
        let view = changed(ViewSettings::default(), settings)?;
        let policy = checked(py, client.policy.with(&view))?;
        Ok(client.view(policy, client.submits_only))
    }

    pub(crate) fn of_settings(py: Python<'_>, own: Own<'_>, settings: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let settings = changed(CacheSettings::default(), settings)?;
        let events = own.on_event.is_some();
        let parts = checked(py, py.detach(|| settings.build(events)))?;
        let serializer = own.serializer.unwrap_or_else(|| py.None().into_bound(py));
        let client = Self {
            directory: Arc::new(parts.directory),
            keys: parts.keys,
            routing: if parts.quotes_bytes { Routing::Repr } else { Routing::Bytes },
            codec: Arc::new(Codec::new(&serializer, parts.packing)?),
            policy: parts.policy,
            watcher: Arc::new(Watcher::new(own.on_event)),
            loops: OnceLock::new(),
            submits_only: false,
            flights: Arc::default(),
            closed: Arc::default(),
        };
        if let Some((current, make)) = own.loops {
            client.share(current, make, parts.connections)?;
        }
        Ok(client)
    }
}
