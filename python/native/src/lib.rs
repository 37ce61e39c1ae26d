//! The native half of the Python package `pinyon`: turns Python objects into commands, and replies into Python objects.

mod answers;
mod arguments;
mod callers;
mod classes;
mod client;
mod concurrency;
mod credentials;
mod driver;
mod errors;
mod events;
mod foreign;
mod futures;
mod greenlets;
mod host;
mod interpreter;
mod keys;
mod leases;
mod locks;
mod loops;
mod many_leases;
mod metrics;
mod parts;
mod reading;
mod replies;
mod runs;
mod serializers;
mod settings;
mod shared;
mod stored;
mod supplied;
mod tags;
mod ttl;
mod value_bytes;
mod values;
mod waiter;

use pinyon_net::error::kinds::{ErrorKind, Standard};
use pinyon_net::settings::Described;
use pyo3::prelude::*;

/// The interpreter is checked before there is any object for it. So nothing is exported by attributes.
#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    interpreter::claim(module.py())?;
    pinyon_net::settings::speak(&settings::WORDS);
    replies::AwaitedMethod::prepare(module)?;
    add_classes(module)?;
    add_functions(module)?;
    add_constants(module)
}

fn add_classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<callers::Found>()?;
    module.add_class::<client::batch::Batch>()?;
    module.add_class::<client::Client>()?;
    module.add_class::<credentials::CredentialsQuestion>()?;
    module.add_class::<leases::GetOrSet>()?;
    module.add_class::<tags::Tags>()?;
    module.add_class::<many_leases::GetOrSetMany>()?;
    module.add_class::<locks::Candidate>()?;
    module.add_class::<locks::Held>()?;
    module.add_class::<locks::Lock>()?;
    module.add_class::<locks::Locks>()?;
    module.add_class::<locks::LocksDriver>()?;
    module.add_class::<locks::Rate>()?;
    module.add_class::<metrics::Latencies>()?;
    module.add_class::<client::migrating::Migration>()?;
    module.add_class::<client::MigrationCounts>()?;
    module.add_class::<replies::AwaitedMethod>()?;
    module.add_class::<settings::Tls>()?;
    module.add_class::<shared::Driver>()
}

fn add_functions(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(classes::register, module)?)?;
    module.add_function(wrap_pyfunction!(locks::stop_telling, module)?)?;
    module.add_function(wrap_pyfunction!(locks::tell_threads, module)?)?;
    module.add_function(wrap_pyfunction!(replies::turning_plain, module)?)?;
    module.add_function(wrap_pyfunction!(serializers::dump_plain, module)?)?;
    module.add_function(wrap_pyfunction!(serializers::load_plain, module)?)?;
    module.add_function(wrap_pyfunction!(serializers::unknown_flags, module)?)?;
    module.add_function(wrap_pyfunction!(settings::check_compression, module)?)?;
    module.add_function(wrap_pyfunction!(settings::check_near, module)?)?;
    module.add_function(wrap_pyfunction!(settings::check_setting, module)?)
}

fn add_constants(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let kind = |kind: ErrorKind| {
        (
            kind.as_str(),
            kind.parents().iter().map(|parent| parent.as_str()).collect::<Vec<_>>(),
            kind.resembles().map(Standard::as_str),
            kind.is_outage(),
        )
    };
    let crates =
        [pinyon_cache::settings::described(), pinyon_locks::settings::described(), pinyon_net::settings::described()];
    let [defaults, texts, choices] = Described::joined(crates);
    module.add("DEFAULT_SETTINGS", defaults)?;
    module.add("SETTING_TEXTS", texts)?;
    module.add("SETTING_CHOICES", choices)?;
    module.add("CALLS", pinyon_cache::calls::described())?;
    module.add("DEFAULT_SERVER", pinyon_net::address::DEFAULT_SERVER)?;
    module.add("ERROR_KINDS", ErrorKind::ALL.map(kind).to_vec())?;
    module.add("RENEWALS", pinyon_cache::operations::RENEWALS)?;
    module.add("LATENCY_BOUNDS", metrics::bounds(module.py())?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
