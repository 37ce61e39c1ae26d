//! Functions in Python that return credentials, and how they are called.

use std::any::Any;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pinyon_net::credentials::{Function, Question, Told};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDelta, PyDict, PyFloat, PyInt, PyString};

use crate::arguments::delta_seconds;
use crate::classes::Registered;

/// A callable of the user's that returns credentials.
pub(crate) struct Returns(pub(crate) Py<PyAny>);

impl Function for Returns {
    /// Calls it in a thread of its own, for clients whose threads wait.
    fn ask(&self, question: Question) {
        question.answer_in_thread(|question| {
            let called = Python::try_attach(|py| match function(question) {
                Some(Returns(function)) => call(function.bind(py)).map_err(|error| described(py, &error)),
                None => Err("it is no function of Python".to_owned()),
            });
            called.unwrap_or_else(|| Err("the interpreter is about to end".to_owned()))
        });
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn function(question: &Question) -> Option<&Returns> {
    let (_, function) = question.function()?;
    function.as_any().downcast_ref()
}

/// Calls a function in a thread that has no event loop. A coroutine gets a loop of its own.
fn call(function: &Bound<'_, PyAny>) -> PyResult<Told> {
    let py = function.py();
    let mut returned = function.call0()?;
    if returned.hasattr("__await__")? {
        returned = Registered::known()?.run_awaitable.bind(py).call1((returned,))?;
    }
    told(&returned)
}

/// What an error says, for the message of the connection that fails.
fn described(py: Python<'_>, error: &PyErr) -> String {
    let class = error.get_type(py).name().map_or_else(|_| "an error".to_owned(), |name| name.to_string());
    match error.value(py).str() {
        Ok(text) if text.len().is_ok_and(|length| length > 0) => format!("{class}: {text}"),
        _ => class,
    }
}

/// Reads what a function returned. No message shows it.
fn told(returned: &Bound<'_, PyAny>) -> PyResult<Told> {
    let wrong = |what: String| Err(pyo3::exceptions::PyTypeError::new_err(what));
    if let Some(own) = bytes(returned)? {
        return Ok(Told { own: Some(own), ..Told::default() });
    }
    let Ok(mapping) = returned.cast::<PyDict>() else {
        let class = returned.get_type().name()?;
        return wrong(format!("it returned {class} instead of text, or of a dict of username, password and lifetime"));
    };
    let mut told = Told::default();
    // The user's program may change it meanwhile, in another thread.
    for (name, value) in mapping.copy()?.iter() {
        let name: String = name.extract().unwrap_or_default();
        let (part, expected) = match &*name {
            "lifetime" => {
                told.lifetime = match value.is_none() {
                    true => None,
                    false => Some(seconds(&value)?),
                };
                continue;
            }
            "username" => (&mut told.username, "username"),
            "password" => (&mut told.password, "password"),
            _ => return wrong("it returned a dict with other keys than username, password and lifetime".to_owned()),
        };
        *part = bytes(&value)?;
        if part.is_none() && !value.is_none() {
            return wrong(format!("it returned a {expected} that is not text but {}", value.get_type().name()?));
        }
    }
    Ok(told)
}

fn bytes(value: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u8>>> {
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Some(text.to_str()?.into()));
    }
    Ok(value.cast::<PyBytes>().ok().map(|bytes| bytes.as_bytes().into()))
}

fn seconds(value: &Bound<'_, PyAny>) -> PyResult<f64> {
    if let Ok(delta) = value.cast::<PyDelta>() {
        return Ok(delta_seconds(delta));
    }
    if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        return value.extract();
    }
    let class = value.get_type().name()?;
    let message = format!("it returned a lifetime that is not a number of seconds but {class}");
    Err(pyo3::exceptions::PyTypeError::new_err(message))
}

/// A question for credentials, for a driver that calls the function in its event loop.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct CredentialsQuestion(Mutex<Option<Question>>);

impl CredentialsQuestion {
    pub(crate) fn new(question: Question) -> Self {
        Self(Mutex::new(Some(question)))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Question>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(&self, told: Result<Told, String>) {
        let mut question = self.lock();
        // If it is over, the question is kept, for `notify`.
        if let Some(open) = question.take() {
            *question = Some(open.answered(told));
        }
    }
}

#[pymethods]
impl CredentialsQuestion {
    /// The function to call next. None if it is being called for an earlier connection, or nothing remains to ask.
    #[getter]
    fn function(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.lock().as_ref().and_then(function).map(|Returns(function)| function.clone_ref(py))
    }

    /// Takes what the function returned.
    fn answer(&self, py: Python<'_>, returned: &Bound<'_, PyAny>) {
        self.give(told(returned).map_err(|error| described(py, &error)));
    }

    /// Takes the error that the function raised.
    fn fail(&self, py: Python<'_>, error: &Bound<'_, PyAny>) {
        self.give(Err(described(py, &PyErr::from_value(error.clone()))));
    }

    /// Has `notify` called once it is answered, in any thread; at once if it is.
    fn notify(&self, notify: Py<PyAny>) {
        let question = self.lock().take();
        let Some(question) = question else { return };
        question.notify(move || {
            Python::try_attach(|py| {
                if let Err(error) = notify.call0(py) {
                    error.write_unraisable(py, Some(notify.bind(py)));
                }
            });
        });
    }
}
