//! The commands on one key: what each sends, and what its reply means in Python. Written once, for every way to
//! drive them.

use pinyon_core::lease::Win;
use pinyon_core::Reply;
use pinyon_proto::{
    Arithmetic, Command, Direction, Flag, Item, Key, Lease, MarkStale, MetaCommand, Mode, Status, Store, Verb,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::IntoPyObjectExt;

use crate::leases::Found;
use crate::values::Codec;

/// What to ask of the server, besides the key.
#[derive(Clone, Copy)]
pub(crate) enum Request {
    Get {
        cas: bool,
    },
    GetAndTouch {
        ttl: i32,
    },
    Touch {
        ttl: i32,
    },
    Store {
        mode: Mode,
        size: usize,
        client_flags: u32,
        ttl: i32,
        cas: Option<u64>,
    },
    Delete,
    MarkStale {
        ttl: i32,
    },
    Lease {
        lease: i32,
        recache: i32,
    },
    /// Others may win it again; a value that is there stays.
    GiveBack(Win),
    Arithmetic {
        direction: Direction,
        delta: u64,
        initial: Option<(u64, i32)>,
    },
    GetWithTtl,
    Metadata,
}

const GET_WITH_TTL: &[Flag<'_>] = &[Flag::ReturnClientFlags, Flag::RemainingTtl, Flag::Value];

const METADATA: &[Flag<'_>] = &[
    Flag::ReturnClientFlags,
    Flag::ReturnCas,
    Flag::HitBefore,
    Flag::LastAccess,
    Flag::Size,
    Flag::RemainingTtl,
    Flag::NoBump,
];

impl Request {
    /// Whether it does the same when it is done twice, so that it may be joined with others and, should the server
    /// fail one of them, be tried by itself.
    pub(crate) fn may_be_joined(&self) -> bool {
        matches!(self, Request::Get { cas: false } | Request::Store { mode: Mode::Set, cas: None, .. })
    }

    pub(crate) fn command<'k>(&self, key: Key<'k>) -> Command<'k> {
        match *self {
            Request::Get { cas } => Command::Get { key, cas },
            Request::GetAndTouch { ttl } => Command::GetAndTouch { key, ttl },
            Request::Touch { ttl } => Command::Touch { key, ttl },
            Request::Store { mode, size, client_flags, ttl, cas } => {
                Command::Store(Store { mode, key, size, client_flags, ttl, cas })
            }
            Request::Delete => Command::Delete { key },
            Request::MarkStale { ttl } => Command::MarkStale(MarkStale { key, ttl: Some(ttl), cas: None }),
            Request::Lease { lease, recache } => Command::Lease(Lease { key, lease, recache }),
            Request::GiveBack(Win { cas, keep: false }) => Command::DeleteIf { key, cas },
            Request::GiveBack(Win { cas, keep: true }) => {
                Command::MarkStale(MarkStale { key, ttl: None, cas: Some(cas) })
            }
            Request::Arithmetic { direction, delta, initial } => {
                Command::Arithmetic(Arithmetic { key, direction, delta, initial })
            }
            Request::GetWithTtl => Command::Meta(MetaCommand { verb: Verb::Get, key, size: None, flags: GET_WITH_TTL }),
            Request::Metadata => Command::Meta(MetaCommand { verb: Verb::Get, key, size: None, flags: METADATA }),
        }
    }
}

/// What the reply becomes in Python.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The value, or the default.
    Value,
    /// The value and its CAS token, or None.
    ValueAndCas,
    /// The value and the seconds until it expires, None for never; or None.
    ValueAndTtl,
    /// Whether it was done.
    Done,
    /// True: stored; False: changed meanwhile; None: gone.
    Compared,
    /// The number, or None.
    Number,
    /// An `ItemMetadata`, or None.
    Metadata,
    /// A `Found`.
    Lease,
}

impl Shape {
    /// That of what a `get` finds.
    pub(crate) fn found(cas: bool) -> Self {
        match cas {
            true => Shape::ValueAndCas,
            false => Shape::Value,
        }
    }
}

/// Makes Python's answer of the replies to a request.
pub(crate) struct Answer {
    shape: Shape,
    status: Status,
    value: Option<Result<Py<PyAny>, Box<PyErr>>>,
    /// It may be a placeholder that was found.
    pub(crate) is_in_doubt: bool,
}

impl Answer {
    pub(crate) fn new(shape: Shape) -> Self {
        Self { shape, status: Status::Miss, value: None, is_in_doubt: false }
    }

    /// Of a request that no server carried out: as if there were no item, and nothing stored.
    pub(crate) fn lost(shape: Shape) -> Self {
        Self { status: Status::NotFound, ..Self::new(shape) }
    }

    /// That of a request which failed after a part of its reply had come.
    pub(crate) fn into_lost(self) -> Self {
        Self::lost(self.shape)
    }

    pub(crate) fn take(&mut self, py: Python<'_>, codec: &Codec, reply: Reply<'_>) {
        let head = reply.head;
        self.status = head.status;
        self.is_in_doubt = head.may_be_placeholder();
        let value = match (self.shape, head.status) {
            (Shape::Lease, Status::Hit) => Found::read(py, codec, reply).and_then(|found| found.into_bound_py_any(py)),
            _ if head.is_placeholder() => return self.status = Status::Miss,
            (Shape::Value, Status::Hit) => found(py, codec, reply, false),
            (Shape::ValueAndCas, Status::Hit) => found(py, codec, reply, true),
            (Shape::ValueAndTtl, Status::Hit) => codec
                .decode(py, head, reply.value, reply.server)
                .and_then(|value| (value, remaining(&head.item)).into_bound_py_any(py)),
            (Shape::Number, Status::Hit) => number(&reply).into_bound_py_any(py),
            (Shape::Metadata, Status::Done) => metadata(py, &head.item),
            _ => return,
        };
        self.value = Some(value.map(Bound::unbind).map_err(Box::new));
    }

    /// What was won, of a lease.
    pub(crate) fn win(&self, py: Python<'_>) -> Option<Win> {
        let found = self.value.as_ref()?.as_ref().ok()?.bind(py).cast::<Found>().ok()?;
        found.get().won()
    }

    /// Whether the server said that it did it.
    pub(crate) fn is_done(&self) -> bool {
        self.status == Status::Done
    }

    /// What was found, if anything.
    pub(crate) fn into_value(self) -> Option<PyResult<Py<PyAny>>> {
        self.value.map(|value| value.map_err(|error| *error))
    }

    /// What to return, or raise.
    pub(crate) fn finish<'py>(
        self,
        py: Python<'py>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match (self.shape, self.status) {
            (Shape::Done, status) => (status == Status::Done).into_bound_py_any(py),
            (Shape::Compared, Status::NotFound) => Ok(py.None().into_bound(py)),
            (Shape::Compared, status) => (status == Status::Done).into_bound_py_any(py),
            (Shape::Lease, _) if self.value.is_none() => Found::nothing().into_bound_py_any(py),
            _ => match self.value {
                Some(value) => value.map(|value| value.into_bound(py)).map_err(|error| *error),
                None => Ok(default.unwrap_or_else(|| py.None().into_bound(py))),
            },
        }
    }
}

/// The value of a hit, with its CAS token where that was asked for.
pub(crate) fn found<'py>(py: Python<'py>, codec: &Codec, reply: Reply<'_>, cas: bool) -> PyResult<Bound<'py, PyAny>> {
    let value = codec.decode(py, reply.head, reply.value, reply.server)?;
    match cas {
        true => (value, reply.head.item.cas.unwrap_or_default()).into_bound_py_any(py),
        false => Ok(value),
    }
}

/// The number a meta or classic arithmetic command answers.
fn number(reply: &Reply<'_>) -> Option<u64> {
    if reply.head.number.is_some() {
        return reply.head.number;
    }
    std::str::from_utf8(reply.value.bytes()).ok()?.trim_end().parse().ok()
}

fn metadata<'py>(py: Python<'py>, item: &Item) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    fields.set_item("size", item.size)?;
    fields.set_item("flags", item.client_flags)?;
    fields.set_item("cas", item.cas)?;
    fields.set_item("ttl", remaining(item))?;
    fields.set_item("last_access", item.last_access)?;
    fields.set_item("fetched", item.hit_before)?;
    py.import("pinyon.metadata")?.getattr("ItemMetadata")?.call((), Some(&fields))
}

/// Seconds until an item expires; the server says -1 of one that never does.
fn remaining(item: &Item) -> Option<i64> {
    item.ttl.filter(|ttl| *ttl >= 0)
}
