//! Futures, on which tasks wait.
//!
//! A task runs from the callback that received its reply, not in the loop's next turn. With nest_asyncio a callback
//! may run the loop. A task that was resumed in the callback for replies would then keep the loop from calling that
//! callback again. So in such loops tasks resume in callbacks of their own. Whether a loop is such a loop is checked
//! again when its class has changed.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::ffi;
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
    /// See `pinyon._aio_replies.reply_class`.
    class: Py<PyAny>,
    settings: Py<PyDict>,
    nesting: Nesting,
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
    future_class: Py<PyAny>,
    may_nest: Py<PyAny>,
}

/// Whether callbacks of the loop may run the loop, as nest_asyncio permits. It patches the loop's class at any time. So
/// this is asked again whenever the class has changed.
struct Nesting {
    event_loop: Py<PyAny>,
    /// Returns whether callbacks of a loop may run it.
    may_nest: Py<PyAny>,
    answer: AtomicBool,
    /// The version of the loop's class that the answer is about. Python counts versions; 0 stands for an unknown one.
    version: AtomicU32,
}

impl Futures {
    pub(crate) fn new(driver: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = driver.py();
        let TaskDriver { event_loop, create_future, future_class, may_nest } = driver.extract()?;
        if let Some(create) = create_future {
            return Ok(Futures::Others(create));
        }
        let settings = PyDict::new(py);
        settings.set_item("loop", &event_loop)?;
        let class = future_class.bind(py);
        let method = |name| -> PyResult<Py<PyAny>> { Ok(class.getattr(name)?.unbind()) };
        Ok(Futures::Asyncio(Box::new(Asyncio {
            settings: settings.unbind(),
            remove_done_callback: method("remove_done_callback")?,
            set_result: method("set_result")?,
            set_exception: method("set_exception")?,
            run: py.import("contextvars")?.getattr("Context")?.getattr("run")?.unbind(),
            nesting: Nesting::new(event_loop.unbind(), may_nest),
            class: future_class,
        })))
    }

    pub(crate) fn create(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Futures::Asyncio(asyncio) => asyncio.class.call(py, (), Some(asyncio.settings.bind(py))),
            Futures::Others(create) => create.call0(py),
        }
    }

    /// A future that has this value.
    pub(crate) fn ready<'py>(&self, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = value.py();
        let future = self.create(py)?.into_bound(py);
        match self {
            Futures::Asyncio(asyncio) => asyncio.set_result.bind(py).call1((&future, value))?,
            Futures::Others(_) => future.call_method1(intern!(py, "set_result"), (value,))?,
        };
        Ok(future)
    }

    /// Whether a task may run its loop, instead of waiting, while it is resumed.
    #[inline(always)]
    pub(crate) fn may_nest(&self, py: Python<'_>) -> PyResult<bool> {
        match self {
            Futures::Asyncio(asyncio) => asyncio.nesting.is_allowed(py),
            Futures::Others(_) => Ok(false),
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
                let Asyncio { class, settings, nesting, remove_done_callback, set_result, set_exception, run } =
                    &**asyncio;
                visit.call(settings)?;
                visit.call(&nesting.event_loop)?;
                visit.call(&nesting.may_nest)?;
                [class, remove_done_callback, set_result, set_exception, run]
                    .into_iter()
                    .try_for_each(|object| visit.call(object))
            }
        }
    }
}

impl Asyncio {
    /// Sets the outcome of a future. A task that awaits it continues at once, in the callback that received the reply.
    /// A callback of its own in the loop's next turn would cost more than everything else. But a task that may run the
    /// loop must not keep that callback from being called again meanwhile.
    fn resume(&self, future: &Bound<'_, PyAny>, answer: Answer) -> PyResult<()> {
        let py = future.py();
        let only_callback = if self.nesting.is_allowed(py)? { None } else { only_callback(future)? };
        let Some((callback, context)) = only_callback else {
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

impl Nesting {
    fn new(event_loop: Py<PyAny>, may_nest: Py<PyAny>) -> Self {
        Self { event_loop, may_nest, answer: AtomicBool::new(false), version: AtomicU32::new(0) }
    }

    #[inline(always)]
    fn is_allowed(&self, py: Python<'_>) -> PyResult<bool> {
        let version = self.version.load(Ordering::Relaxed);
        if version != 0 && version == self.current_version() {
            return Ok(self.answer.load(Ordering::Relaxed));
        }
        self.ask(py)
    }

    #[cold]
    fn ask(&self, py: Python<'_>) -> PyResult<bool> {
        let answer = self.may_nest.bind(py).call1((&self.event_loop,))?.is_truthy()?;
        self.answer.store(answer, Ordering::Relaxed);
        self.version.store(self.current_version(), Ordering::Relaxed);
        Ok(answer)
    }

    #[inline(always)]
    fn current_version(&self) -> u32 {
        // SAFETY: the loop is alive, and so is its class. Another thread may change the number meanwhile, if there is no
        // GIL: at worst it is an old one.
        unsafe {
            let class = ffi::Py_TYPE(self.event_loop.as_ptr());
            AtomicU32::from_ptr(&raw mut (*class).tp_version_tag).load(Ordering::Relaxed)
        }
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
