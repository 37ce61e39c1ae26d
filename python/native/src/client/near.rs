//! Gets that memory answers, on a client with hot keys: nothing of an operation is made for them.

use std::time::Instant;

use pinyon_cache::near::{Held, Near};
use pinyon_cache::operations::{Beside, Request};
use pinyon_cache::Value;
use pyo3::prelude::*;

use super::{Client, Returned};
use crate::keys::key_bytes;
use crate::stored::Stored;

impl Client {
    /// The value from memory, or else from the server.
    pub(super) fn get_near<'py>(
        &self,
        near: &Near,
        key: &Bound<'py, PyAny>,
        default: Option<&Bound<'py, PyAny>>,
    ) -> Returned<'py> {
        self.check_open(key.py())?;
        if self.both.is_none() {
            if let Some(found) = self.in_memory(near, key, default)? {
                return Ok(found);
            }
        }
        self.get_from_server(key, default)
    }

    /// The value, or a future that has it. Some values are made by an operation nevertheless: in an event loop those that
    /// run code of the user's.
    #[inline(always)]
    fn in_memory<'py>(
        &self,
        near: &Near,
        key: &Bound<'py, PyAny>,
        default: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = key.py();
        let Some(held) = near.fresh(&self.keys, key_bytes(key)?, Instant::now()) else { return Ok(None) };
        let Some(value) = self.codec.read_plain(py, held.client_flags, &held.bytes) else {
            return self.unusual(near, &held, key, default);
        };
        near.used(&held);
        match self.loops.get(py)? {
            None => Ok(Some(value)),
            Some(loops) => loops.caller(py)?.ready(value).map(Some),
        }
    }

    /// The same for a value that is neither bytes nor text, or cannot be read.
    #[inline(never)]
    fn unusual<'py>(
        &self,
        near: &Near,
        held: &Held,
        key: &Bound<'py, PyAny>,
        default: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = key.py();
        let stored = self.codec.receive(py, &held.head(), Value::Borrowed(&held.bytes), &held.server);
        let loops = self.loops.get(py)?;
        if matches!((&stored, loops), (Stored::Rest(_), Some(_))) {
            return Ok(None);
        }
        near.used(held);
        match (stored, loops) {
            (Stored::Made(value), None) => Ok(Some(value.into_bound(py))),
            (Stored::Made(value), Some(loops)) => loops.caller(py)?.ready(value.into_bound(py)).map(Some),
            (rest, _) => {
                let request = Request::Get(Beside::Nothing);
                let reader = self.reader(request.name(), request.passes_over_unreadable(self.policy));
                let value = reader.read(rest, key);
                self.watcher.tell(py, &self.directory)?;
                Ok(Some(value?.map_or_else(|| default_or_none(py, default), |value| value.into_bound(py))))
            }
        }
    }
}

fn default_or_none<'py>(py: Python<'py>, default: Option<&Bound<'py, PyAny>>) -> Bound<'py, PyAny> {
    default.map_or_else(|| py.None().into_bound(py), Bound::clone)
}
