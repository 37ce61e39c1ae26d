//! What the blocking driver needs from Python: releasing the GIL, and handling signals.

use pinyon_core::blocking::Host;
use pyo3::prelude::*;

pub(crate) struct PythonHost<'py>(pub(crate) Python<'py>);

impl Host for PythonHost<'_> {
    type Interrupt = PyErr;

    fn unlocked<T: Send>(&self, wait: impl FnOnce() -> T + Send) -> PyResult<T> {
        Ok(self.0.detach(wait))
    }

    fn interrupted(&self) -> PyResult<()> {
        self.0.check_signals()
    }
}
