//! Converts a scenario's call to an operation, and the outcome to JSON.

use std::sync::Arc;
use std::time::Duration;

use pinyon_locks::settings::{lock_ttl, LockTerms, OnFailure, UsualLock};
use pinyon_locks::{
    names, Asked, Grant, Limits, LockFailure, LockOperation, LockOutcome, LockRequest, Mode, NameError, Names,
    PermitsAsked, Rate, RedisCommand, Setup, StatusAnswer, StatusQuestion, Ticket,
};
use pinyon_net::invalid::InvalidArgument;
use pinyon_net::Sent;
use serde_json::{json, Value};

use crate::player::Raised;
use crate::playing;
use crate::reading::{self, plain, texts};

/// The name of a lock that was lost.
pub type Listener = String;
pub type Operation = LockOperation<Listener>;
pub type Held = Arc<Grant<Listener>>;
pub type Over = LockOutcome;

impl From<LockFailure> for Raised {
    fn from(LockFailure { kind, message, cycle, .. }: LockFailure) -> Self {
        Self { kind, message, cycle: cycle.len() }
    }
}

impl From<LockFailure> for playing::Raised {
    fn from(LockFailure { kind, message, cause, .. }: LockFailure) -> Self {
        let (sent, server, command) =
            cause.map_or((Sent::No, "".into(), ""), |error| (error.sent, error.server, error.command));
        Self { kind, sent, server, command, text: message }
    }
}

impl From<InvalidArgument> for Raised {
    fn from(InvalidArgument { kind, message, .. }: InvalidArgument) -> Self {
        Self { kind, message, cycle: 0 }
    }
}

impl From<NameError> for Raised {
    fn from(error: NameError) -> Self {
        InvalidArgument::from(error).into()
    }
}

/// A lock that was asked for, and its time to wait.
#[derive(Clone)]
pub struct Lock {
    pub held: Held,
    relock: f64,
}

/// Asks for a lock. `settings`: those of the call; the others are the defaults.
pub fn acquire(
    owner: u64,
    at_once: bool,
    given: &Value,
    settings: &Value,
    usual: &UsualLock,
    limits: &Limits,
) -> Result<(Lock, Operation), Raised> {
    let number = |name: &str| settings[name].as_f64();
    let names = match (reading::read(settings), reading::permits(settings)) {
        (read, permits) if read.is_empty() && permits.is_empty() => names(texts(given))?,
        (read, permits) => in_modes(limits, &texts(given), &read, &permits)?,
    };
    let relock = number("timeout").unwrap_or(usual.timeout);
    let terms = LockTerms {
        ttl: number("ttl").unwrap_or(usual.ttl),
        timeout: relock,
        renew: settings["renew"] != false,
        max_hold: number("max_hold"),
        reentrant: settings["reentrant"].as_bool().unwrap_or(usual.reentrant),
        at_least: number("at_least"),
        on_failure: settings["on_failure"].as_str().map_or(Ok(OnFailure::Raise), OnFailure::named)?,
        note: settings["note"].as_str(),
    };
    let asked = terms.request(names)?;
    let request = LockRequest { owner, wait: asked.wait.filter(|_| !at_once), ..asked };
    let held = Grant::of(&request);
    Ok((Lock { held: held.clone(), relock }, LockOperation::Acquire { grant: held, request }))
}

fn in_modes(
    limits: &Limits,
    write: &[String],
    read: &[String],
    permits: &[(String, u32, Option<u32>)],
) -> Result<Names, InvalidArgument> {
    let write: Vec<&[u8]> = write.iter().map(String::as_bytes).collect();
    let read: Vec<&[u8]> = read.iter().map(String::as_bytes).collect();
    let asked =
        permits.iter().map(|(pool, count, limit)| PermitsAsked { pool: pool.as_bytes(), count: *count, limit: *limit });
    limits.wanted(&write, &read, &asked.collect::<Vec<_>>())
}

/// Asks for a lock that was handed over.
pub fn adopt(
    owner: u64,
    ticket: &str,
    settings: &Value,
    usual: &UsualLock,
    setup: &Setup,
) -> Result<(Lock, Operation), Raised> {
    let ticket = Ticket::parse(ticket.as_bytes())?;
    let UsualLock { timeout, reentrant, .. } = *usual;
    let ttl = settings["ttl"].as_f64().unwrap_or(usual.ttl);
    let terms = LockTerms {
        ttl,
        timeout,
        renew: true,
        max_hold: None,
        reentrant,
        at_least: None,
        on_failure: OnFailure::Raise,
        note: settings["note"].as_str(),
    };
    let request = LockRequest { owner, ..terms.adopting(&ticket, setup)? };
    let held = Grant::of(&request);
    Ok((Lock { held: held.clone(), relock: timeout }, LockOperation::Acquire { grant: held, request }))
}

pub fn release_all() -> Operation {
    LockOperation::ReleaseAll { wait: None }
}

/// An operation on a lock.
pub fn with(lock: &Lock, method: &str, others: &[Value]) -> Result<Operation, Raised> {
    let (grant, argument) = (lock.held.clone(), others.first().unwrap_or(&Value::Null));
    Ok(match method {
        "release" => LockOperation::Release { grant, early: false },
        "hand_over" => LockOperation::HandOver { grant, ttl: None },
        "upgrade" | "downgrade" => LockOperation::Change {
            grant,
            names: texts(argument).iter().map(|name| name.as_bytes().into()).collect(),
            mode: if method == "upgrade" { Mode::Write } else { Mode::Read },
            wait: Duration::from_secs_f64(others.get(1).and_then(Value::as_f64).unwrap_or(lock.relock)),
        },
        "extend" => LockOperation::Extend { grant, ttl: lock_ttl(argument.as_f64().unwrap())? },
        "wait" => LockOperation::Park {
            grant,
            wait: argument.as_f64().map(Duration::from_secs_f64),
            relock: Duration::from_secs_f64(lock.relock),
        },
        "notify" => LockOperation::Notify { grant, most: argument.as_u64().unwrap() as u32 },
        other => panic!("no call {other}"),
    })
}

/// A question about names.
pub fn about(given: &Value, question: StatusQuestion) -> Result<Operation, Raised> {
    Ok(LockOperation::Inspect { asked: Asked::new(&texts(given))?, question })
}

pub fn force_release(given: &Value, token: Option<u64>) -> Result<Operation, Raised> {
    Ok(LockOperation::ForceRelease { names: names(texts(given))?, token })
}

/// Asks for permits of a rate, and waits for them if there is a timeout.
pub fn permits(name: &str, settings: &Value, permits: i64, timeout: Option<f64>) -> Result<Operation, Raised> {
    let (limit, per) = (settings["limit"].as_i64().expect("limit"), settings["per"].as_f64().expect("per"));
    let rate = Arc::new(Rate::new(name, limit, per, settings["burst"].as_i64())?);
    Ok(LockOperation::Rate { question: rate.ask(permits, timeout)? })
}

pub fn execute(parts: &[String]) -> Operation {
    LockOperation::Execute { command: RedisCommand::of(parts) }
}

/// The result of an operation. For a question about each name: the token of the first one's holder.
pub fn ended(outcome: LockOutcome) -> Result<Value, LockFailure> {
    Ok(match outcome {
        LockOutcome::Busy => json!(false),
        LockOutcome::Held { notified } => json!(notified),
        LockOutcome::Released { held } | LockOutcome::Extended { held } => json!(held),
        LockOutcome::Notified { moved } => json!(moved),
        LockOutcome::ReleasedAll { released } => json!(released),
        LockOutcome::HandedOver { ticket } => json!(ticket),
        LockOutcome::ForceReleased { released } => json!(released),
        LockOutcome::Status(StatusAnswer::IsLocked(locked)) => json!(locked),
        LockOutcome::Status(StatusAnswer::Permits(permits)) => unreachable!("{permits:?}"),
        LockOutcome::Status(StatusAnswer::Waiting(waiting)) => json!(waiting),
        LockOutcome::Status(StatusAnswer::Each(names)) => {
            let owners = names[0].known().map(|one| json!([one.who.and_then(|who| who.label), one.note]));
            let owners: Vec<Value> = owners.collect();
            json!({"token": names[0].holder.as_ref().and_then(|one| one.token), "owners": owners})
        }
        LockOutcome::Status(StatusAnswer::FirstOwner(_)) => unreachable!("nobody asks this"),
        LockOutcome::Rated(answer) => json!(answer.allowed),
        LockOutcome::Value(value) => plain(&value),
        LockOutcome::Failed(failure) => return Err(*failure),
    })
}
