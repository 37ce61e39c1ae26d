//! The native half of the gem `pinyon`: converts Ruby's objects for the core, and waits as Ruby's threads and fibers do.
//!
//! Ruby's Strings are mutable, so keys are copied, and values are frozen twins of what the caller gave. Ruby's garbage
//! collector sees the stack and not Rust's heap. So values stay bytes until an operation is over
//! ([`AsBytes`](pinyon_cache::operations::AsBytes)), and the objects that are made of a stored value are kept, in
//! their place, until it is complete (`objects`). A thread's operation is on its stack, so a small String is made at
//! once (`stored`).

mod cache;
mod credentials;
mod errors;
mod events;
mod fibers;
mod host;
mod keys;
mod known;
mod locks;
mod metrics;
mod numbers;
mod objects;
mod settings;
mod stored;
mod texts;
mod ttl;
mod values;

use magnus::{function, Class, Error, Module, Object, RClass, RModule, Ruby, TypedData};

#[magnus::init(name = "native")]
fn init(ruby: &Ruby) -> Result<(), Error> {
    // SAFETY: it is called once, while the extension is loaded. Everything that is shared is behind locks or never
    // changes.
    unsafe { rb_sys::rb_ext_ractor_safe(true) };
    pinyon_net::settings::speak(&settings::WORDS);
    let pinyon = ruby.define_module("Pinyon")?;
    let native = pinyon.define_module("Native")?;
    native.const_set("VERSION", env!("CARGO_PKG_VERSION"))?;
    native.define_singleton_method("error_kinds", function!(errors::error_kinds, 0))?;
    objects::define(ruby, native)?;
    fibers::define(ruby, native)?;
    cache::define(ruby, pinyon, native)?;
    credentials::define(ruby, native)?;
    locks::define(ruby, native)
}

/// Defines the class of a type.
///
/// Magnus finds the class when it first needs it, by calling Ruby, which may let other threads run. One that needs the same
/// class would wait with the VM lock, for ever. So the class is found now, by the only thread that loads the extension.
fn define_class<T: TypedData>(ruby: &Ruby, native: RModule, name: &str) -> Result<RClass, Error> {
    let class = native.define_class(name, ruby.class_object())?;
    class.undef_default_alloc_func();
    T::class(ruby);
    Ok(class)
}
