//! Shared locks, for threads and fibers.

mod answers;
mod client;
mod drivers;
mod held;
mod leader;
mod listening;
mod rate;
mod wanted;

use magnus::{function, Error, Object, RModule, Ruby};

pub(crate) fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    client::define(ruby, native)?;
    held::define(ruby, native)?;
    leader::define(ruby, native)?;
    rate::define(ruby, native)?;
    native.define_singleton_method("listen_to_locks", function!(listening::listen, 0))
}
