//! The native half of the Python package `pinyon`: commands from Python objects, replies into Python objects.

mod admin;
mod batch;
mod client;
mod driver;
mod errors;
mod events;
mod foreign;
mod futures;
mod gather;
mod host;
mod keys;
mod leases;
mod locks;
mod loops;
mod many;
mod metrics;
mod operations;
mod packing;
mod parts;
mod plain;
mod policy;
mod requests;
mod settings;
mod shared;
mod single;
mod spare;
mod tls;
mod ttl;
mod values;
mod waiter;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::batch::Batch;
    #[pymodule_export]
    use crate::client::Client;
    #[pymodule_export]
    use crate::leases::{Found, Leasing};
    #[pymodule_export]
    use crate::locks::{thread_number, Grant, Keeper, Lock, Locks, LocksDriver};
    #[pymodule_export]
    use crate::plain::{dump_plain, load_plain, unknown_flags};
    #[pymodule_export]
    use crate::shared::Driver;
    #[pymodule_export]
    use crate::tls::Tls;
    #[pymodule_export]
    use crate::waiter::GreenletWaiter;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("LATENCY_BOUNDS", crate::metrics::bounds())?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
