//! The native half of the Python package `pinyon`: turns Python objects into commands, and replies into Python objects.

mod answers;
mod arguments;
mod callers;
mod client;
mod driver;
mod errors;
mod events;
mod foreign;
mod futures;
mod greenlets;
mod host;
mod keys;
mod leases;
mod locks;
mod loops;
mod metrics;
mod migration;
mod parts;
mod replies;
mod runs;
mod serializers;
mod settings;
mod shared;
mod supplied;
mod ttl;
mod value_bytes;
mod values;
mod waiter;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _native {
    use pinyon_core::error::kinds::{ErrorKind, Standard};
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::{
        callers::Found,
        client::batch::Batch,
        client::Client,
        leases::GetOrSet,
        locks::{new_owner, stop_telling, tell_threads, thread_number, Held, Lock, Locks, LocksDriver},
        metrics::Latencies,
        migration::{Migration, MigrationCounts},
        replies::{turning_plain, AwaitedMethod},
        serializers::{dump_plain, load_plain, unknown_flags},
        settings::{check_compression, check_setting, Tls},
        shared::Driver,
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        AwaitedMethod::prepare(module)?;
        let kind = |kind: ErrorKind| {
            (
                kind.as_str(),
                kind.parents().iter().map(|parent| parent.as_str()).collect::<Vec<_>>(),
                kind.resembles().map(Standard::as_str),
                kind.is_outage(),
            )
        };
        module.add("DEFAULT_SETTINGS", pinyon_core::settings::defaults())?;
        module.add("SETTING_TEXTS", pinyon_core::settings::texts())?;
        module.add("SETTING_CHOICES", pinyon_core::settings::choices())?;
        module.add("DEFAULT_SERVER", pinyon_core::address::DEFAULT_SERVER)?;
        module.add("ERROR_KINDS", ErrorKind::ALL.map(kind).to_vec())?;
        module.add("LATENCY_BOUNDS", crate::metrics::bounds(module.py())?)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
