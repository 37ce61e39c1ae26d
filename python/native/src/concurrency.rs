//! How the callers of a client wait: as threads, or as coroutines of event loops that share connections.
//!
//! Programs make clients before gevent patches them, or patch before they import Pinyon. So a client of `pinyon` decides
//! when it is first used, and keeps its class.

use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;

use crate::driver::LoopDriver;
use crate::loops::{Connect, Loops};

/// Returns the running event loop, or None; and the class of drivers in Python, as in `pinyon._loop_driver.LoopDriver`.
type Sharing = (Py<PyAny>, Py<PyAny>);

/// What a client is made with.
#[derive(FromPyObject)]
pub(crate) enum Given {
    Loops(Py<PyAny>, Py<PyAny>),
    /// Returns those, or None for threads. It is called when the client is first used.
    Choose(Py<PyAny>),
}

/// The decision, which several clients may share.
pub(crate) struct Concurrency {
    choose: Option<Py<PyAny>>,
    decided: OnceLock<Option<Sharing>>,
}

impl Concurrency {
    pub(crate) fn new(given: Option<Given>) -> Self {
        match given {
            None => Self { choose: None, decided: OnceLock::from(None) },
            Some(Given::Loops(current, make)) => Self { choose: None, decided: OnceLock::from(Some((current, make))) },
            Some(Given::Choose(choose)) => Self { choose: Some(choose), decided: OnceLock::new() },
        }
    }

    fn decide(&self, py: Python<'_>) -> PyResult<Option<&Sharing>> {
        if let Some(decided) = self.decided.get() {
            return Ok(decided.as_ref());
        }
        let chosen: Option<Sharing> = match &self.choose {
            Some(choose) => choose.bind(py).call0()?.extract()?,
            None => None,
        };
        Ok(self.decided.get_or_init(|| chosen).as_ref())
    }
}

/// A client's connections in event loops. None if its callers are threads.
pub(crate) struct SharedConnections<D: LoopDriver> {
    concurrency: Arc<Concurrency>,
    connect: Connect<D>,
    loops: OnceLock<Option<Arc<Loops<D>>>>,
}

impl<D: LoopDriver> SharedConnections<D> {
    pub(crate) fn new(
        concurrency: Arc<Concurrency>,
        connect: impl Fn(&Bound<'_, PyAny>) -> PyResult<D> + Send + Sync + 'static,
    ) -> Self {
        Self { concurrency, connect: Arc::new(connect), loops: OnceLock::new() }
    }

    pub(crate) fn concurrency(&self) -> &Arc<Concurrency> {
        &self.concurrency
    }

    /// Decides, unless that was done before.
    #[inline(always)]
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<Option<&Arc<Loops<D>>>> {
        match self.loops.get() {
            Some(loops) => Ok(loops.as_ref()),
            None => self.decide(py),
        }
    }

    /// As far as it is decided.
    #[inline(always)]
    pub(crate) fn known(&self) -> Option<&Arc<Loops<D>>> {
        self.loops.get()?.as_ref()
    }

    /// The class of drivers in Python. None if callers are threads.
    pub(crate) fn driver_class<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.concurrency.decide(py)?.map(|(_, make)| make.bind(py).clone()))
    }

    #[cold]
    #[inline(never)]
    fn decide(&self, py: Python<'_>) -> PyResult<Option<&Arc<Loops<D>>>> {
        let loops = match self.concurrency.decide(py)? {
            None => None,
            Some((current, make)) => {
                Some(Arc::new(Loops::new(current.clone_ref(py), make.bind(py).clone(), self.connect.clone())?))
            }
        };
        Ok(self.loops.get_or_init(|| loops).as_ref())
    }
}
