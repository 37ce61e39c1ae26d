//! Metrics, as in `pinyon.metrics`.

use pinyon_cache::metrics::{CommandMetrics, ServerMetrics};
use pinyon_cache::near::Figures;
use pinyon_locks::LockMetrics;
use pinyon_net::latencies;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyMappingProxy, PyTuple};

use crate::classes::Class;
use crate::client::Client;

/// How long answers took, from the call until the reply had arrived.
///
/// One answer in thirty-two is timed, chosen at random. All keys of one line are timed together. So fewer answers are
/// counted here than there were, but the percentiles are right.
///
/// Args:
///     counts: the number of answers in each bucket. `BOUNDS` has the upper bounds of the buckets.
///     total: the sum of the times, in seconds.
#[pyclass(frozen, eq, hash, module = "pinyon.metrics")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Latencies(latencies::Latencies);

#[pymethods]
impl Latencies {
    #[new]
    #[pyo3(signature = (counts = None, total = 0.0))]
    fn new(counts: Option<Vec<u64>>, total: f64) -> PyResult<Self> {
        let mut latencies = latencies::Latencies { nanoseconds: (total * 1e9).round() as u64, ..Default::default() };
        if let Some(counts) = counts {
            let wrong = |counts: Vec<u64>| PyValueError::new_err(format!("BOUNDS are not {} buckets", counts.len()));
            latencies.buckets = counts.try_into().map_err(wrong)?;
        }
        Ok(Self(latencies))
    }

    /// The number of answers in each bucket.
    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.buckets)
    }

    /// The sum of the times, in seconds.
    #[getter]
    fn total(&self) -> f64 {
        self.0.seconds()
    }

    /// The number of timed answers.
    #[getter]
    fn count(&self) -> u64 {
        self.0.count()
    }

    /// The average time in seconds, or None if no answer was timed.
    #[getter]
    fn mean(&self) -> Option<f64> {
        self.0.mean()
    }

    /// Return a percentile of the times.
    ///
    /// The bounds of a bucket are a quarter apart, and the times within a bucket count as evenly spread.
    ///
    /// Args:
    ///     percent: from 0 to 100.
    ///
    /// Returns:
    ///     The time in seconds, or None if no answer was timed.
    fn percentile(&self, percent: f64) -> PyResult<Option<f64>> {
        self.0.percentile(percent).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Return the number of answers that took at most so many seconds, rounded down to the bounds of a bucket.
    fn within(&self, seconds: f64) -> u64 {
        self.0.within(seconds)
    }

    fn __add__(&self, other: &Self) -> Self {
        Self(self.0.clone() + &other.0)
    }

    fn __sub__(&self, earlier: &Self) -> Self {
        Self(self.0.clone() - &earlier.0)
    }

    fn __repr__(&self) -> String {
        format!("<{}>", self.0)
    }

    fn __getnewargs__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyTuple>, f64)> {
        Ok((self.counts(py)?, self.total()))
    }
}

impl Client {
    /// The counts for each server, by name.
    pub(crate) fn measured<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let measured = PyDict::new(py);
        for metrics in self.directory.known().metrics() {
            measured.set_item(&*metrics.server.clone(), of_server(py, metrics)?)?;
        }
        Ok(measured)
    }

    /// What became of the hot keys that the client keeps in memory.
    pub(crate) fn measured_near<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let figures = self.directory.near().map_or_else(Figures::default, |near| near.figures());
        let Figures { hits, revalidations, fills, evictions, bytes } = figures;
        Class::NearMetrics.of(py)?.call1((hits, revalidations, fills, evictions, bytes))
    }
}

/// What the locks of a client have come to.
pub(crate) fn of_locks<'py>(py: Python<'py>, metrics: LockMetrics) -> PyResult<Bound<'py, PyAny>> {
    let fields = metrics.numbers().into_py_dict(py)?;
    let lost = metrics.lost.into_iter().map(|(loss, count)| (loss.word(), count));
    let errors = metrics.errors.into_iter().map(|(kind, count)| (kind.as_str(), count));
    let lost = PyMappingProxy::new(py, lost.collect::<Vec<_>>().into_py_dict(py)?.as_mapping());
    let errors = PyMappingProxy::new(py, errors.collect::<Vec<_>>().into_py_dict(py)?.as_mapping());
    fields.set_item("lost", lost)?;
    fields.set_item("errors", errors)?;
    fields.set_item("waits", Latencies(metrics.waits))?;
    Class::LockMetrics.of(py)?.call((), Some(&fields))
}

/// The upper bounds of the latency buckets, in seconds.
pub(crate) fn bounds(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, latencies::Latencies::bounds().collect::<Vec<_>>())
}

fn of_server(py: Python<'_>, metrics: ServerMetrics) -> PyResult<Bound<'_, PyAny>> {
    let ServerMetrics { server, is_up, is_gutter, idle, traffic } = metrics;
    let commands = PyDict::new(py);
    for command in traffic.commands {
        commands.set_item(command.command.as_str(), of_command(py, command)?)?;
    }
    let commands = PyMappingProxy::new(py, commands.as_mapping());
    let (connections, sent, received) = (traffic.connections, traffic.sent, traffic.received);
    let fields = (&*server, is_up, is_gutter, connections, idle, sent, received, commands);
    Class::ServerMetrics.of(py)?.call1(fields)
}

fn of_command(py: Python<'_>, metrics: CommandMetrics) -> PyResult<Bound<'_, PyAny>> {
    let errors = PyMappingProxy::new(py, metrics.raised().into_py_dict(py)?.as_mapping());
    let CommandMetrics { command, hits, misses, stored, not_stored, kept, answered, retries, latencies, .. } = metrics;
    let latencies = Latencies(latencies);
    let fields = (command.as_str(), hits, misses, stored, not_stored, answered, errors, retries, latencies, kept);
    Class::CommandMetrics.of(py)?.call1(fields)
}
