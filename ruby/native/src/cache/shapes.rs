//! The methods about keys, made from the table of calls: one function for all calls that take the same arguments. It finds the
//! request by the name under which Ruby called it.

use std::sync::OnceLock;

use magnus::rb_sys::AsRawId;
use magnus::value::ReprValue;
use magnus::{method, Error, Module, RArray, RClass, RHash, Ruby, TryConvert, Value};
use pinyon_cache::calls::{Language, Takes, ALL, SET};
use pinyon_cache::operations::{Mode, Request};

use super::{Cache, Returned};
use crate::known::This;
use crate::numbers::{Delta, Initial};
use crate::ttl;

/// The requests by the ids of their methods.
static REQUESTS: OnceLock<Vec<(rb_sys::ID, Request)>> = OnceLock::new();

pub(super) fn define(ruby: &Ruby, class: RClass) -> Result<(), Error> {
    let mut requests = Vec::new();
    for call in ALL {
        let (Some(name), Some(request)) = (call.name_in(Language::Ruby), Request::of(call)) else { continue };
        match call.takes {
            [Takes::Key] => class.define_method(name, method!(of_key, 1))?,
            [Takes::Key, Takes::Ttl] => class.define_method(name, method!(of_key_and_ttl, 2))?,
            [Takes::Key, Takes::Value, Takes::StoredTtl] if *call == SET => {
                class.define_method(name, method!(set, 4))?
            }
            [Takes::Key, Takes::Value, Takes::StoredTtl] => class.define_method(name, method!(of_value, 4))?,
            [Takes::Key, Takes::Bytes] => class.define_method(name, method!(of_bytes, 2))?,
            [Takes::Key, Takes::Delta, ..] => class.define_method(name, method!(of_delta, 4))?,
            [Takes::Keys, .., Takes::Failed] => class.define_method(name, method!(of_read_keys, -1))?,
            [Takes::Keys, ..] => class.define_method(name, method!(of_changed_keys, -1))?,
            _ => continue,
        }
        requests.push((ruby.intern(name).as_raw(), request));
    }
    let _ = REQUESTS.set(requests);
    Ok(())
}

/// The request of the method that Ruby is calling.
#[inline]
fn called() -> Request {
    // SAFETY: a method is being called.
    let method = unsafe { rb_sys::rb_frame_this_func() };
    let found = REQUESTS.get().and_then(|requests| requests.iter().find(|(id, _)| *id == method));
    found.map_or_else(|| unreachable!("it was defined under this name"), |(_, request)| *request)
}

fn of_key(ruby: &Ruby, this: This<Cache>, key: Value) -> Returned {
    this.ask(ruby, key, called())
}

fn of_key_and_ttl(ruby: &Ruby, this: This<Cache>, key: Value, ttl: Value) -> Returned {
    this.ask(ruby, key, called().with_ttl(ttl::sent(ruby, ttl)?))
}

/// Programs call it often, and looking for its request would take 100 instructions.
fn set(ruby: &Ruby, this: This<Cache>, key: Value, value: Value, ttl: Value, tags: Value) -> Returned {
    this.store(ruby, Mode::Set, key, value, ttl, tags)
}

fn of_value(ruby: &Ruby, this: This<Cache>, key: Value, value: Value, ttl: Value, tags: Value) -> Returned {
    match called() {
        Request::Store { mode, .. } => this.store(ruby, mode, key, value, ttl, tags),
        _ => unreachable!("it stores a value"),
    }
}

fn of_bytes(ruby: &Ruby, this: This<Cache>, key: Value, value: Value) -> Returned {
    of_value(ruby, this, key, value, ruby.integer_from_i64(0).as_value(), ruby.qnil().as_value())
}

fn of_delta(
    ruby: &Ruby,
    this: This<Cache>,
    key: Value,
    delta: Delta,
    initial: Option<Initial>,
    ttl: Value,
) -> Returned {
    match called() {
        Request::Arithmetic { direction, .. } => this.calculate(ruby, direction, key, delta, initial, ttl),
        _ => unreachable!("it calculates"),
    }
}

/// Arguments: the keys, a ttl for those that take one, and `failed`.
fn of_read_keys(ruby: &Ruby, this: This<Cache>, given: &[Value]) -> Returned {
    let [before @ .., failed] = given else { return Err(miscounted(ruby)) };
    let (keys, each) = each_of(ruby, before)?;
    this.read_many(ruby, keys, each, Option::<RHash>::try_convert(*failed)?)
}

/// Arguments: the keys, and a ttl for those that take one.
fn of_changed_keys(ruby: &Ruby, this: This<Cache>, given: &[Value]) -> Returned {
    let (keys, each) = each_of(ruby, given)?;
    this.change_many(ruby, keys, each)
}

fn each_of(ruby: &Ruby, given: &[Value]) -> Result<(RArray, Request), Error> {
    match *given {
        [keys] => Ok((RArray::try_convert(keys)?, called())),
        [keys, ttl] => Ok((RArray::try_convert(keys)?, called().with_ttl(ttl::sent(ruby, ttl)?))),
        _ => Err(miscounted(ruby)),
    }
}

#[cold]
fn miscounted(ruby: &Ruby) -> Error {
    Error::new(ruby.exception_arg_error(), "wrong number of arguments")
}
