//! The meaning of replies to plain commands, for the calls of locks.

use std::time::Duration;

use pinyon_proto::resp::{ServerError, Value};

use crate::call::{Attempt, Holder};
use crate::value;

/// The results of a transaction. The error of one of its commands says more than that of `EXEC`.
pub(super) fn executed(mut replies: Vec<Value>) -> Result<Vec<Value>, ServerError> {
    if let Some(error) = first_error(&mut replies) {
        return Err(error);
    }
    match replies.pop() {
        Some(Value::Array(mut results)) => match first_error(&mut results) {
            Some(error) => Err(error),
            None => Ok(results),
        },
        other => Err(ServerError { code: "".into(), message: format!("EXEC was answered with {other:?}").into() }),
    }
}

/// Whether the server carried out a transaction, even if some of its commands failed.
pub(super) fn was_carried_out(replies: &[Value]) -> bool {
    matches!(replies.last(), Some(Value::Array(_)))
}

pub(super) fn first_error(replies: &mut Vec<Value>) -> Option<ServerError> {
    let at = replies.iter().position(|reply| matches!(reply, Value::Error(_)))?;
    match replies.swap_remove(at) {
        Value::Error(error) => Some(error),
        _ => None,
    }
}

/// The token that a transaction drew, if it took the names.
pub(super) fn token_if_taken(results: &[Value]) -> Option<u64> {
    let taken = matches!(results.get(1), Some(Value::Integer(1) | Value::Status(_)));
    results.first().filter(|_| taken).and_then(number)
}

/// The values of a section's keys, and the server's clock in microseconds.
pub(super) fn read(replies: &[Value], keys: usize) -> Result<(Vec<Value>, u64), ServerError> {
    match replies {
        [Value::Error(error), ..] | [_, Value::Error(error), _] | [_, _, Value::Error(error)] => Err(error.clone()),
        [_, Value::Array(values), now] if values.len() == keys => {
            let now = time(now).unwrap_or_default();
            Ok((values.clone(), now.as_micros() as u64))
        }
        other => Err(unexpected(other)),
    }
}

pub(super) fn unexpected(replies: &[Value]) -> ServerError {
    ServerError { code: "".into(), message: format!("unexpected replies: {replies:?}").into() }
}

/// The reply to `TIME`.
pub(super) fn time(reply: &Value) -> Option<Duration> {
    let Value::Array(time) = reply else { return None };
    let (seconds, micros) = (time.first().and_then(number)?, time.get(1).and_then(number)?);
    Some(Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros)))
}

pub(super) fn holders(values: &Value) -> Vec<Option<Holder>> {
    match values {
        Value::Array(values) => values.iter().map(holder).collect(),
        _ => Vec::new(),
    }
}

pub(super) fn holder(value: &Value) -> Option<Holder> {
    match value {
        Value::Bytes(value) => Some(value::holder_in(value)),
        _ => None,
    }
}

pub(super) fn is_of(holder: &Option<Holder>, attempt: &Attempt) -> bool {
    holder.as_ref().is_some_and(|holder| holder.attempt == *attempt)
}

pub(super) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Integer(number) => u64::try_from(*number).ok(),
        Value::Bytes(digits) => std::str::from_utf8(digits).ok()?.parse().ok(),
        _ => None,
    }
}

pub(super) fn positive(pttl: &Value) -> Option<Duration> {
    number(pttl).filter(|pttl| *pttl > 0).map(Duration::from_millis)
}
