//! What the blocking driver needs of Python: giving up the GIL, looking at signals, resolving names.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use pinyon_core::blocking::{Host, Unresolved};
use pinyon_core::doorbell::{Doorbell, Wake};
use pyo3::prelude::*;

pub(crate) struct PythonHost<'py>(pub(crate) Python<'py>);

impl Host for PythonHost<'_> {
    type Interrupt = PyErr;

    fn unlocked<T: Send>(&self, wait: impl FnOnce() -> T + Send) -> T {
        self.0.detach(wait)
    }

    fn interrupted(&self) -> PyResult<()> {
        self.0.check_signals()
    }

    /// The system's resolver knows no deadline, so it is asked on a thread of its own.
    fn resolve(&self, name: &str, port: u16, deadline: Instant) -> Result<Vec<SocketAddr>, Unresolved<PyErr>> {
        let failed = |error: std::io::Error| Unresolved::Failed(error.to_string());
        let answer = Arc::new((Doorbell::new().map_err(failed)?, Mutex::new(None)));
        let resolver = {
            let (answer, name) = (answer.clone(), name.to_owned());
            move || {
                let resolved = (name.as_str(), port).to_socket_addrs().map(Vec::from_iter);
                *answer.1.lock().unwrap_or_else(PoisonError::into_inner) = Some(resolved);
                answer.0.ring();
            }
        };
        std::thread::Builder::new().name("pinyon-resolve".into()).spawn(resolver).map_err(failed)?;
        loop {
            match self.unlocked(|| answer.0.wait(deadline)) {
                Wake::Ready => {}
                Wake::Interrupted => self.interrupted().map_err(Unresolved::Interrupted)?,
                Wake::Deadline => return Err(Unresolved::Failed("the resolver did not answer in time".into())),
            }
            if let Some(resolved) = answer.1.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return resolved.map_err(failed);
            }
        }
    }
}
