//! Outcomes of operations on locks as Ruby's objects.

use magnus::value::ReprValue;
use magnus::{Error, Exception, IntoValue, RHash, Ruby, Value};
use pinyon_locks::{
    Attempt, Blocker, Inspected, Known, LockFailure, LockMetrics, LockOutcome, RateAnswer, RedisValue, StatusAnswer,
};

use crate::errors::{exception, from_core, ErrorKind};
use crate::metrics::durations;

/// The object for the thread that waited; nil if a lock is taken and the caller does not wait.
pub(super) fn answer(ruby: &Ruby, outcome: LockOutcome) -> Result<Value, Error> {
    Ok(match outcome {
        LockOutcome::Held { notified } => notified.into_value_with(ruby),
        LockOutcome::Busy => ruby.qnil().as_value(),
        LockOutcome::Released { held } | LockOutcome::Extended { held } => held.into_value_with(ruby),
        LockOutcome::Notified { moved } => moved.into_value_with(ruby),
        LockOutcome::ReleasedAll { released } => released.into_value_with(ruby),
        LockOutcome::HandedOver { ticket } => ticket.into_value_with(ruby),
        LockOutcome::ForceReleased { released } => released.into_value_with(ruby),
        LockOutcome::Status(StatusAnswer::Each(inspected)) => statuses(ruby, &inspected)?,
        LockOutcome::Status(StatusAnswer::IsLocked(is_locked)) => is_locked.into_value_with(ruby),
        LockOutcome::Status(StatusAnswer::FirstOwner(owner)) => {
            owner.map(|owner| owner.to_string()).into_value_with(ruby)
        }
        LockOutcome::Status(StatusAnswer::Waiting(count)) => count.into_value_with(ruby),
        LockOutcome::Rated(answer) => rated(ruby, &answer)?,
        LockOutcome::Status(StatusAnswer::Permits(taken)) => taken.into_value_with(ruby),
        LockOutcome::Value(value) => redis_value(ruby, value)?,
        LockOutcome::Failed(failure) => return Err(raised(ruby, *failure)),
    })
}

pub(super) fn raised(ruby: &Ruby, failure: LockFailure) -> Error {
    if let Some(error) = &failure.cause {
        return from_core(ruby, error);
    }
    let raised = exception(ruby, failure.kind, &failure.message);
    let told = raised.value().and_then(Exception::from_value).map_or(Ok(()), |exception| match &failure.blocker {
        Some(blocker) => blamed(exception, blocker),
        None if failure.kind == ErrorKind::Deadlock => {
            let cycle = ruby.ary_from_iter(failure.cycle.iter().map(Attempt::to_string));
            set(exception, "@cycle", cycle)
        }
        None => Ok(()),
    });
    told.err().unwrap_or(raised)
}

fn set(exception: Exception, name: &str, value: impl IntoValue) -> Result<(), Error> {
    exception.funcall::<_, _, Value>("instance_variable_set", (name, value)).map(drop)
}

/// Tells a `LockTimeout` who holds the lock.
fn blamed(exception: Exception, blocker: &Blocker) -> Result<(), Error> {
    set(exception, "@holder", blocker.holder.to_string())?;
    set(exception, "@held_for", blocker.held_for.map(|time| time.as_secs_f64()))?;
    set(exception, "@note", blocker.remark.as_deref())?;
    let Some(who) = blocker.holder.who() else { return Ok(()) };
    set(exception, "@host", who.host)?;
    set(exception, "@pid", who.pid)?;
    set(exception, "@label", who.label)
}

/// For each name its holder, token, seconds left, waiters, age in seconds and readers, and who all these are.
fn statuses(ruby: &Ruby, inspected: &[Inspected]) -> Result<Value, Error> {
    let all = ruby.ary_new_capa(inspected.len());
    for inspected in inspected {
        let holder = inspected.holder.as_ref().map(|holder| holder.attempt.to_string());
        let token = inspected.holder.as_ref().and_then(|holder| holder.token);
        let waiting = ruby.ary_from_iter(inspected.waiting.iter().map(Attempt::to_string));
        let readers = ruby.ary_from_iter(inspected.sharing.iter().map(Attempt::to_string));
        let [left, age] = [inspected.pttl, inspected.age].map(|time| time.map(|time| time.as_secs_f64()));
        let owners = ruby.ary_new();
        for Known { attempt, who, note } in inspected.known() {
            let (host, pid, label) = who.map_or((None, None, None), |who| (who.host, Some(who.pid), who.label));
            owners.push((attempt.to_string(), host, pid, label, note))?;
        }
        all.push((holder, token, left, waiting, age, readers, owners))?;
    }
    Ok(all.as_value())
}

/// The fields of a `Locks::Rate::Result`.
fn rated(ruby: &Ruby, answer: &RateAnswer) -> Result<Value, Error> {
    let [retry_after, reset] = [answer.retry_after, Some(answer.reset)].map(|time| time.map(|time| time.as_secs_f64()));
    let fields = ruby.ary_new_capa(5);
    fields.push(answer.allowed)?;
    fields.push(answer.limit)?;
    fields.push(answer.remaining)?;
    fields.push(retry_after)?;
    fields.push(reset)?;
    Ok(fields.as_value())
}

/// A reply: text for the server's own words, bytes for stored data.
fn redis_value(ruby: &Ruby, value: RedisValue) -> Result<Value, Error> {
    Ok(match value {
        RedisValue::Null => ruby.qnil().as_value(),
        RedisValue::Boolean(truth) => truth.into_value_with(ruby),
        RedisValue::Integer(number) => number.into_value_with(ruby),
        RedisValue::Double(number) => number.into_value_with(ruby),
        RedisValue::Status(text) => String::from_utf8_lossy(&text).into_value_with(ruby),
        RedisValue::Bytes(bytes) => ruby.str_from_slice(&bytes).as_value(),
        RedisValue::BigNumber(digits) => ruby.str_from_slice(&digits).funcall("to_i", ())?,
        RedisValue::Array(values) | RedisValue::Set(values) => {
            let all = ruby.ary_new_capa(values.len());
            values.into_iter().try_for_each(|value| all.push(redis_value(ruby, value)?))?;
            all.as_value()
        }
        RedisValue::Map(pairs) => {
            let all = ruby.hash_new();
            for (key, value) in pairs {
                all.aset(redis_value(ruby, key)?, redis_value(ruby, value)?)?;
            }
            all.as_value()
        }
        RedisValue::Error(error) => match exception(ruby, ErrorKind::ServerError, &error.to_string()).value() {
            Some(raised) => raised,
            None => unreachable!("it was made from a class"),
        },
    })
}

/// A Hash with Symbols as keys.
pub(super) fn metrics(ruby: &Ruby, metrics: &LockMetrics) -> Result<RHash, Error> {
    let (all, lost, errors) = (ruby.hash_new(), ruby.hash_new(), ruby.hash_new());
    metrics.lost.iter().try_for_each(|(loss, count)| lost.aset(ruby.to_symbol(loss.word()), *count))?;
    metrics.errors.iter().try_for_each(|(kind, count)| errors.aset(kind.as_str(), *count))?;
    for (name, count) in metrics.numbers() {
        all.aset(ruby.to_symbol(name), count)?;
    }
    all.aset(ruby.to_symbol("lost"), lost)?;
    all.aset(ruby.to_symbol("errors"), errors)?;
    durations(ruby, all, &metrics.waits)?;
    Ok(all)
}
