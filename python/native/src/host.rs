//! What the blocking driver needs from Python: releasing the GIL, and handling signals.

use std::time::Duration;

use pinyon_net::host::{Host, LONGEST_SLEEP, UNDISTURBED};
use pyo3::prelude::*;
use pyo3::{ffi, intern};

pub(crate) struct PythonHost<'py>(pub(crate) Python<'py>);

impl Host for PythonHost<'_> {
    type Interrupt = PyErr;

    fn unlocked<T: Send>(&self, wait: impl FnOnce() -> T + Send) -> PyResult<T> {
        Ok(self.0.detach(wait))
    }

    /// Python handles signals in its main thread, and exceptions for other threads only between their instructions.
    fn asleep<T: Send>(&self, wait: impl FnOnce(Duration) -> T + Send, _wake: impl Fn() + Sync) -> PyResult<T> {
        let longest = if self.is_main_thread()? { LONGEST_SLEEP } else { UNDISTURBED };
        self.unlocked(|| wait(longest))
    }

    fn interrupted(&self) -> PyResult<()> {
        self.0.check_signals()
    }
}

impl PythonHost<'_> {
    fn is_main_thread(&self) -> PyResult<bool> {
        let py = self.0;
        let main = py.import(intern!(py, "threading"))?.call_method0(intern!(py, "main_thread"))?;
        let main: std::ffi::c_ulong = main.getattr(intern!(py, "ident"))?.extract()?;
        // SAFETY: it only asks which thread this is.
        Ok(main == unsafe { ffi::PyThread_get_thread_ident() })
    }
}
