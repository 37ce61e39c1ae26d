//! Leases: what Python sees of a reply that says who is to make a value.

use pinyon_core::Reply;
use pyo3::prelude::*;

use crate::values::Codec;

/// What was found when a lease was asked for.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct Found {
    state: State,
    value: Option<Py<PyAny>>,
    /// There is a value, whether it can be read or not.
    has_value: bool,
    cas: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Hit,
    Stale,
    Won,
    Filling,
}

impl Found {
    pub(crate) fn read(py: Python<'_>, codec: &Codec, reply: Reply<'_>) -> PyResult<Self> {
        let (head, cas) = (reply.head, reply.head.item.cas);
        let has_value = !head.is_placeholder();
        let state = match &head.item {
            item if item.won => State::Won,
            _ if !has_value => State::Filling,
            item if item.already_won || item.stale => State::Stale,
            _ => State::Hit,
        };
        let value = has_value.then(|| codec.decode(py, head, reply.value).map(Bound::unbind)).transpose();
        // A winner has no need of it, and is the one who can put something better in its place.
        let value = if state == State::Won { value.unwrap_or_default() } else { value? };
        Ok(Self { state, value, has_value, cas })
    }

    /// Of a server that could not be asked, or that made no placeholder: the caller may make a value, and cannot store it.
    pub(crate) fn nothing() -> Self {
        Self { state: State::Won, value: None, has_value: false, cas: None }
    }

    /// The CAS token of a lease that was won, and whether there is a value besides.
    pub(crate) fn won(&self) -> Option<(u64, bool)> {
        self.cas.filter(|_| self.state == State::Won).map(|cas| (cas, self.has_value))
    }
}

#[pymethods]
impl Found {
    /// "hit": the value is fresh; "stale": it is not, and somebody else makes another; "won": the caller is to make one;
    /// "filling": there is none, and somebody else makes it.
    #[getter]
    fn state(&self) -> &'static str {
        match self.state {
            State::Hit => "hit",
            State::Stale => "stale",
            State::Won => "won",
            State::Filling => "filling",
        }
    }

    /// The value, which beside "won" is a stale one; None where there is none.
    #[getter]
    fn value(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.value.as_ref().map(|value| value.clone_ref(py))
    }

    /// Whether the item has a value, even one that could not be read.
    #[getter]
    fn has_value(&self) -> bool {
        self.has_value
    }

    /// What a winner stores under (`Client.cas`) or gives back; None when nothing can be stored.
    #[getter]
    fn cas(&self) -> Option<u64> {
        self.cas
    }
}
