//! Times from Ruby: numbers of seconds, and whatever converts to one, such as `ActiveSupport::Duration`.

use magnus::value::ReprValue;
use magnus::{Error, Float, Integer, Ruby, Value};
use pinyon_cache::ttl::{self, DefaultTtl, Ttl};

use crate::errors::{checked, unsupported};

/// A ttl as it is sent. nil is the client's default.
#[inline]
pub(crate) fn stored(ruby: &Ruby, given: Value, usual: DefaultTtl) -> Result<i32, Error> {
    match given.is_nil() {
        true => Ok(usual.relative().unwrap_or_else(|| usual.now()).0),
        false => sent(ruby, given),
    }
}

/// A ttl as it is sent.
pub(crate) fn sent(ruby: &Ruby, given: Value) -> Result<i32, Error> {
    Ok(Ttl::from_seconds(whole(ruby, given)?).0)
}

/// A ttl between 1 second and 30 days. `name`: the argument's, for messages.
pub(crate) fn limited(ruby: &Ruby, name: &str, given: Value) -> Result<i32, Error> {
    checked(ruby, ttl::limited(name, whole(ruby, given)?))
}

/// Whole seconds, rounded up.
pub(crate) fn whole(ruby: &Ruby, given: Value) -> Result<i64, Error> {
    match Integer::from_value(given) {
        Some(number) => Ok(number.to_i64().unwrap_or_else(|_| nearest(number))),
        None => checked(ruby, ttl::whole_seconds(seconds(ruby, given)?)),
    }
}

/// The number of 64 bits that is closest to one that has more.
#[cold]
fn nearest(number: Integer) -> i64 {
    let is_negative = number.funcall::<_, _, bool>("negative?", ()).unwrap_or(false);
    if is_negative {
        i64::MIN
    } else {
        i64::MAX
    }
}

/// A number of seconds.
pub(crate) fn seconds(ruby: &Ruby, given: Value) -> Result<f64, Error> {
    if let Some(number) = Float::from_value(given) {
        return Ok(number.to_f64());
    }
    if let Some(number) = Integer::from_value(given) {
        return number.funcall("to_f", ());
    }
    duration(given).ok_or_else(|| unsupported(ruby, "a time is a number of seconds", given))
}

/// The seconds of an object that stands for a duration. A point in time is none.
pub(crate) fn duration(given: Value) -> Option<f64> {
    let is_duration = given.respond_to("to_f", false).ok()? && given.respond_to("in_seconds", false).ok()?;
    given.funcall("to_f", ()).ok().filter(|_| is_duration)
}
