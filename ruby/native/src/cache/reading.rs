//! `Pinyon::Client#get`, the method that programs call most. A Ruby method around the native one, with an optional
//! argument, would take 400 instructions more.

use magnus::error::ErrorType;
use magnus::rb_sys::{AsRawId, AsRawValue, FromRawValue};
use magnus::scan_args::scan_args;
use magnus::value::{LazyId, ReprValue};
use magnus::{method, Error, Module, RModule, Ruby, TryConvert, Value};
use pinyon_cache::operations::{Beside, Request};

use super::{Cache, Returned};
use crate::errors::{exception, ErrorKind};
use crate::known::This;

/// The variable of a client that holds its native half.
static NATIVE: LazyId = LazyId::new("@native");

pub(super) fn define(ruby: &Ruby, pinyon: RModule) -> Result<(), Error> {
    let client = pinyon.define_class("Client", ruby.class_object())?;
    client.define_method("get", method!(get, -1))?;
    client.define_alias("[]", "get")
}

fn get(ruby: &Ruby, client: Value, arguments: &[Value]) -> Returned {
    if ruby.block_given() {
        return Err(with_block(ruby));
    }
    let (key, default) = match *arguments {
        [key] => (key, ruby.qnil().as_value()),
        [key, default] => (key, default),
        _ => return Err(miscounted(arguments)),
    };
    let variable = LazyId::get_inner_with(&NATIVE, ruby).as_raw();
    // SAFETY: reading a variable that is not set returns nil, and raises nothing.
    let native = unsafe { Value::from_raw(rb_sys::rb_ivar_get(client.as_raw(), variable)) };
    let cache = This::<Cache>::try_convert(native)?;
    if let Some(near) = cache.directory.near_to(cache.policy) {
        if let Some(found) = cache.in_memory(ruby, near, key)? {
            return Ok(found);
        }
    }
    let got = cache.ask_or(ruby, key, Request::Get(Beside::Nothing), default);
    match cache.has_events() {
        true => told(client, got),
        false => got,
    }
}

/// Tells the events that the operation has led to, as Ruby's `ensure` would. What stops the thread must not call Ruby
/// on its way: the next operation tells them.
#[cold]
fn told(client: Value, got: Returned) -> Returned {
    let is_stopped = got.as_ref().is_err_and(|raised| matches!(raised.error_type(), ErrorType::Jump(_)));
    if !is_stopped {
        client.funcall::<_, _, Value>("tell", ())?;
    }
    got
}

#[cold]
fn with_block(ruby: &Ruby) -> Error {
    let message = "get reads, and runs no block; use fetch to make a missing value by one";
    exception(ruby, ErrorKind::UsageError, message)
}

#[cold]
fn miscounted(arguments: &[Value]) -> Error {
    match scan_args::<(Value,), (Option<Value>,), (), (), (), ()>(arguments) {
        Err(error) => error,
        Ok(_) => unreachable!("the number of arguments is wrong"),
    }
}
