//! `Pinyon::Locks::Rate`'s native half.

use std::sync::Arc;

use magnus::value::ReprValue;
use magnus::{method, Error, Integer, Module, RModule, Ruby, Value};
use pinyon_locks::LockOperation;

use super::drivers::{self, Drivers};
use crate::define_class;
use crate::errors::{checked, unsupported};
use crate::ttl::seconds;

/// A rate of one name.
#[magnus::wrap(class = "Pinyon::Native::Rate", free_immediately, frozen_shareable)]
pub(crate) struct Rate {
    rate: Arc<pinyon_locks::Rate>,
    /// The client of this name.
    client: Arc<Drivers>,
    /// How long to wait, unless it is said: the client's setting.
    timeout: f64,
}

pub(super) fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    let class = define_class::<Rate>(ruby, native, "Rate")?;
    class.define_method("allow", method!(Rate::allow, 1))?;
    class.define_method("wait", method!(Rate::wait, 2))?;
    class.define_method("burst", method!(Rate::burst, 0))
}

impl Rate {
    pub(super) fn new(
        ruby: &Ruby,
        name: &[u8],
        [limit, per, burst]: [Value; 3],
        client: Arc<Drivers>,
        timeout: f64,
    ) -> Result<Self, Error> {
        let burst = if burst.is_nil() { None } else { Some(number(ruby, "burst", burst)?) };
        let rate = pinyon_locks::Rate::new(name, number(ruby, "limit", limit)?, seconds(ruby, per)?, burst);
        Ok(Self { rate: checked(ruby, rate)?.into(), client, timeout })
    }

    /// The fields of a `Locks::Rate::Result`.
    fn allow(ruby: &Ruby, this: &Self, permits: Value) -> Result<Value, Error> {
        this.ask(ruby, permits, None)
    }

    /// Like `allow`, once the permits are there. nil is the usual timeout.
    fn wait(ruby: &Ruby, this: &Self, permits: Value, timeout: Value) -> Result<Value, Error> {
        let timeout = if timeout.is_nil() { this.timeout } else { seconds(ruby, timeout)? };
        this.ask(ruby, permits, Some(timeout))
    }

    fn burst(&self) -> u64 {
        self.rate.burst()
    }

    fn ask(&self, ruby: &Ruby, permits: Value, timeout: Option<f64>) -> Result<Value, Error> {
        let question = checked(ruby, self.rate.ask(number(ruby, "n", permits)?, timeout))?;
        let caller = drivers::caller(ruby, &self.client)?;
        drivers::run(ruby, &caller.driver, LockOperation::Rate { question })
    }
}

fn number(ruby: &Ruby, name: &str, given: Value) -> Result<i64, Error> {
    match Integer::from_value(given) {
        // One of more than 64 bits is out of every range.
        Some(number) => Ok(number.to_i64().unwrap_or(i64::MAX)),
        None => Err(unsupported(ruby, &format!("{name} must be an Integer"), given)),
    }
}
