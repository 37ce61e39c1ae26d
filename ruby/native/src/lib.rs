//! The native half of the gem `pinyon`: converts Ruby's objects for the core, and waits as Ruby's threads and fibers do.

mod cache;
mod errors;
mod fibers;
mod host;
mod keys;
mod locks;
mod migration;
mod objects;
mod settings;
mod texts;
mod ttl;
mod values;

use magnus::{function, Error, Module, Object, Ruby};

#[magnus::init(name = "native")]
fn init(ruby: &Ruby) -> Result<(), Error> {
    // SAFETY: it is called once, while the extension is loaded. Everything that is shared is behind locks or never
    // changes.
    unsafe { rb_sys::rb_ext_ractor_safe(true) };
    let native = ruby.define_module("Pinyon")?.define_module("Native")?;
    native.const_set("VERSION", env!("CARGO_PKG_VERSION"))?;
    native.define_singleton_method("error_kinds", function!(errors::error_kinds, 0))?;
    objects::define(ruby, native)?;
    fibers::define(ruby, native)?;
    cache::define(ruby, native)?;
    migration::define(ruby, native)?;
    locks::define(ruby, native)
}
