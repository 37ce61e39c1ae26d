//! Futures, on which tasks wait.

use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// The outcome for a coroutine. It is moved often, so what is large and rare is boxed.
pub(crate) type Answer = Result<Py<PyAny>, Box<Unsettled>>;

/// Why there is no value for a coroutine yet.
pub(crate) enum Unsettled {
    Raised(PyErr),
    /// It is made for this coroutine alone, when it resumes: this may run code of the user's.
    Loading(Loading),
}

pub(crate) type Loading = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

impl Unsettled {
    #[cold]
    pub(crate) fn raised(error: PyErr) -> Box<Self> {
        Self::Raised(error).into()
    }

    #[cold]
    pub(crate) fn settle(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        match self {
            Self::Raised(error) => Err(error),
            Self::Loading(load) => load(py).map(|value| value.into_bound(py)),
        }
    }

    /// The same for a future, which takes no `StopIteration`.
    #[cold]
    fn settle_for_future(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        self.settle(py).map_err(|error| match error.is_instance_of::<PyStopIteration>(py) {
            false => error,
            true => {
                let raised = PyRuntimeError::new_err("loading a value raised StopIteration");
                raised.set_cause(py, Some(error));
                raised
            }
        })
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

    /// Sets the outcome of a future. Has a frame of its own, because a hub that switches to a greenlet keeps a copy of the
    /// stack below it.
    #[inline(never)]
    pub(crate) fn resume(&self, future: &Bound<'_, PyAny>, answer: Answer) -> PyResult<()> {
        let py = future.py();
        match self {
            Futures::Asyncio(asyncio) => asyncio.resume(future, answer),
            Futures::Others(_) if is_done(future)? => Ok(()),
            Futures::Others(_) => match settled(py, answer) {
                Ok(value) => future.call_method1(intern!(py, "set_result"), (value,)),
                Err(error) => future.call_method1(intern!(py, "set_exception"), (error.into_value(py),)),
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
        match settled(py, answer) {
            Ok(value) => self.set_result.bind(py).call1((future, value)),
            Err(error) => self.set_exception.bind(py).call1((future, error.into_value(py))),
        }
        .map(drop)
    }
}

#[inline]
fn settled(py: Python<'_>, answer: Answer) -> PyResult<Bound<'_, PyAny>> {
    match answer {
        Ok(value) => Ok(value.into_bound(py)),
        Err(unsettled) => unsettled.settle_for_future(py),
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
