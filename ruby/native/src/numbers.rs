//! Whole numbers from Ruby. The error for anything else, or for a number out of range, names the argument.

use magnus::value::ReprValue;
use magnus::{Error, Integer, Ruby, TryConvert, Value};
use pinyon_cache::operations::Request;

use crate::errors::{exception, unsupported, ErrorKind};

/// How much to add to a counter, or to subtract from it. The core knows the range.
pub(crate) struct Delta(pub(crate) i128);

/// The initial value of a missing counter.
pub(crate) struct Initial(pub(crate) u64);

/// The token that is returned with a value.
pub(crate) struct CasToken(pub(crate) u64);

impl TryConvert for Delta {
    fn try_convert(delta: Value) -> Result<Self, Error> {
        whole(delta, "delta", "an Integer", Request::DELTAS).map(Self)
    }
}

impl TryConvert for Initial {
    fn try_convert(initial: Value) -> Result<Self, Error> {
        whole(initial, "initial", "an Integer", "from 0 to 2**64-1").map(Self)
    }
}

impl TryConvert for CasToken {
    fn try_convert(token: Value) -> Result<Self, Error> {
        if token.is_nil() {
            let message =
                "cas must be the token that gets returned with the value, not nil: where gets found nothing, use add";
            return Err(exception(&Ruby::get_with(token), ErrorKind::UnsupportedType, message));
        }
        whole(token, "cas", "the token that gets returned with the value", "from 0 to 2**64-1").map(Self)
    }
}

/// `kind`, `range`: the number's kind and the valid values, for the message.
fn whole<T: TryConvert>(given: Value, name: &str, kind: &str, range: &str) -> Result<T, Error> {
    let ruby = Ruby::get_with(given);
    let Some(number) = Integer::from_value(given) else {
        return Err(unsupported(&ruby, &format!("{name} must be {kind}"), given));
    };
    T::try_convert(number.as_value())
        .map_err(|_| exception(&ruby, ErrorKind::UsageError, &format!("{name} must be {range}, not {number}")))
}
