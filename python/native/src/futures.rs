//! Futures, on which tasks wait.

use std::sync::{Mutex, PoisonError};

use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// The outcome for a coroutine. It is moved often, so a large and rare error is boxed.
pub(crate) type Answer = Result<Py<PyAny>, Box<PyErr>>;

/// The latest future given to a caller, until the next one is given out or the turn ends.
#[derive(Default)]
pub(crate) struct Latest(Mutex<Option<HandedOut>>);

/// A future given to a caller, with the name of the method that returned it.
pub(crate) struct HandedOut {
    pub(crate) future: Py<PyAny>,
    pub(crate) method: &'static str,
}

impl Latest {
    /// Notes a future, or that there is none, and checks the one before it.
    #[inline(always)]
    pub(crate) fn replace(&self, py: Python<'_>, next: Option<HandedOut>) {
        let last = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), next);
        if let Some(last) = last {
            last.check(py);
        }
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let last = self.0.try_lock();
        last.iter().flat_map(|last| last.as_ref()).try_for_each(|last| visit.call(&last.future))
    }
}

impl HandedOut {
    /// Warns if the future was forgotten: only this object and the one that sets its outcome refer to it. If there are
    /// more references, it may still be awaited.
    #[inline(always)]
    fn check(self, py: Python<'_>) {
        let future = self.future.into_bound(py);
        // SAFETY: the object is alive, and this thread holds the GIL.
        let references = unsafe { ffi::Py_REFCNT(future.as_ptr()) };
        if references == 2 {
            warn_of_forgotten(&future, self.method);
        }
    }
}

#[cold]
fn warn_of_forgotten(future: &Bound<'_, PyAny>, method: &str) {
    let py = future.py();
    let warn = || match is_done(future)? || has_callbacks(future)? {
        true => Ok(()),
        false => py.import("pinyon._aio_driver")?.call_method1("warn_of_forgotten", (future, method)).map(drop),
    };
    // If warnings are errors, there is no caller to raise it to, as with a coroutine that is never awaited.
    if let Err(raised) = warn() {
        raised.write_unraisable(py, Some(future));
    }
}

fn has_callbacks(future: &Bound<'_, PyAny>) -> PyResult<bool> {
    match future.getattr_opt(intern!(future.py(), "_callbacks"))? {
        Some(callbacks) => callbacks.is_truthy(),
        None => Ok(true),
    }
}

/// How to make futures and set their outcome.
pub(crate) enum Futures {
    Asyncio(Box<Asyncio>),
    /// The method by which another loop makes its own futures.
    Others(Py<PyAny>),
}

/// asyncio's futures: the class, its arguments and its methods, looked up once. Without the loop as an argument, the
/// class asks for the running one, which takes a system call (`getpid`).
pub(crate) struct Asyncio {
    class: Py<PyAny>,
    settings: Py<PyDict>,
    remove_done_callback: Py<PyAny>,
    set_result: Py<PyAny>,
    set_exception: Py<PyAny>,
    /// The method of a context.
    run: Py<PyAny>,
}

/// The attributes of a driver for tasks, as in `pinyon._loop_driver.TaskDriver`.
#[derive(FromPyObject)]
struct TaskDriver<'py> {
    #[pyo3(attribute("loop"))]
    event_loop: Bound<'py, PyAny>,
    create_future: Option<Py<PyAny>>,
}

impl Futures {
    pub(crate) fn new(driver: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = driver.py();
        let TaskDriver { event_loop, create_future } = driver.extract()?;
        if let Some(create) = create_future {
            return Ok(Futures::Others(create));
        }
        let settings = PyDict::new(py);
        settings.set_item("loop", event_loop)?;
        let class = py.import("asyncio")?.getattr("Future")?;
        let method = |name| -> PyResult<Py<PyAny>> { Ok(class.getattr(name)?.unbind()) };
        Ok(Futures::Asyncio(Box::new(Asyncio {
            settings: settings.unbind(),
            remove_done_callback: method("remove_done_callback")?,
            set_result: method("set_result")?,
            set_exception: method("set_exception")?,
            run: py.import("contextvars")?.getattr("Context")?.getattr("run")?.unbind(),
            class: class.unbind(),
        })))
    }

    pub(crate) fn create(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Futures::Asyncio(asyncio) => asyncio.class.call(py, (), Some(asyncio.settings.bind(py))),
            Futures::Others(create) => create.call0(py),
        }
    }

    /// Sets the outcome of a future.
    pub(crate) fn resume(&self, future: &Bound<'_, PyAny>, answer: Answer) -> PyResult<()> {
        let py = future.py();
        match self {
            Futures::Asyncio(asyncio) => asyncio.resume(future, answer),
            Futures::Others(_) if is_done(future)? => Ok(()),
            Futures::Others(_) => match answer {
                Ok(value) => future.call_method1(intern!(py, "set_result"), (value,)),
                Err(error) => future.call_method1(intern!(py, "set_exception"), ((*error).into_value(py),)),
            }
            .map(drop),
        }
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Futures::Others(create) => visit.call(create),
            Futures::Asyncio(asyncio) => {
                let Asyncio { class, settings, remove_done_callback, set_result, set_exception, run } = &**asyncio;
                visit.call(settings)?;
                [class, remove_done_callback, set_result, set_exception, run]
                    .into_iter()
                    .try_for_each(|object| visit.call(object))
            }
        }
    }
}

impl Asyncio {
    /// Sets the outcome of a future. A task that awaits it continues at once, in the callback that received the reply.
    /// A callback of its own in the loop's next turn would cost more than everything else.
    fn resume(&self, future: &Bound<'_, PyAny>, answer: Answer) -> PyResult<()> {
        let py = future.py();
        let Some((callback, context)) = only_callback(future)? else {
            return if is_done(future)? { Ok(()) } else { self.set_outcome(future, answer) };
        };
        self.remove_done_callback.bind(py).call1((future, &callback))?;
        self.set_outcome(future, answer)?;
        self.run.bind(py).call1((context, callback, future)).map(drop)
    }

    fn set_outcome(&self, future: &Bound<'_, PyAny>, answer: Answer) -> PyResult<()> {
        let py = future.py();
        match answer {
            Ok(value) => self.set_result.bind(py).call1((future, value)),
            Err(error) => self.set_exception.bind(py).call1((future, (*error).into_value(py))),
        }
        .map(drop)
    }
}

/// The callback and its context, if the future has exactly one.
fn only_callback<'py>(future: &Bound<'py, PyAny>) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
    let callbacks = future.getattr(intern!(future.py(), "_callbacks"))?;
    match callbacks.cast::<PyList>() {
        Ok(callbacks) if callbacks.len() == 1 => callbacks.get_item(0)?.extract().map(Some),
        _ => Ok(None),
    }
}

/// Whether a future is done, or cancelled.
pub(crate) fn is_done(future: &Bound<'_, PyAny>) -> PyResult<bool> {
    future.call_method0(intern!(future.py(), "done"))?.is_truthy()
}
