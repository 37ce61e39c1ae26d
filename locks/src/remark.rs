//! Remarks: what a holder says about its lock, `note` for callers.
//!
//! A remark has a key of its own, `P n:attempt`, as long as its attempt waits or holds. It is written with the question for
//! the names, and again with each sign of life, so it outlives neither its lock nor a lost server for long. Plain commands
//! do that, beside functions as well as beside plain locks, so no function writes remarks, and locks without them pay
//! nothing. Whoever shows holders asks for their remarks once it knows who they are. Only the answer to an
//! attempt that does not wait brings the remark at once, as its caller would wait for another answer.

use std::sync::Arc;

use pinyon_proto::resp::{Command, Value};

use crate::call::{Attempt, Call, Inspected, Said, ScriptAnswer};
use crate::keys::LockKeys;
use pinyon_net::invalid::InvalidArgument;

/// The longest remark, in bytes.
pub const LONGEST_NOTE: usize = 200;

/// The most remarks that are asked for at once.
const MOST_ASKED: usize = 2000;

/// What a caller says about its lock; none if that is nothing.
pub fn checked(given: &str) -> Result<Option<Arc<str>>, InvalidArgument> {
    if given.len() > LONGEST_NOTE {
        let length = given.len();
        let message = format!("note has {length} bytes, and at most {LONGEST_NOTE} are possible: say less");
        return Err(InvalidArgument::usage(message));
    }
    match given.chars().any(char::is_control) {
        true => Err(InvalidArgument::usage("note has a control character, such as a line break: leave it out")),
        false => Ok((!given.is_empty()).then(|| given.into())),
    }
}

impl Inspected {
    /// All that have the name or wait for it, each once.
    pub fn attempts(&self) -> impl Iterator<Item = &Attempt> {
        let holder = self.holder.iter().map(|holder| &holder.attempt).filter(|attempt| !self.sharing.contains(attempt));
        holder.chain(&self.sharing).chain(&self.waiting)
    }
}

/// Whose remarks are asked for.
fn asked(inspected: &[Inspected]) -> impl Iterator<Item = &Attempt> {
    inspected.iter().flat_map(Inspected::attempts).filter(|attempt| !attempt.is_foreign()).take(MOST_ASKED)
}

/// Whether anybody may have a remark.
pub(super) fn may_be_there(inspected: &[Inspected]) -> bool {
    asked(inspected).next().is_some()
}

/// Writes a call that is a plain command with every handler. Other calls are none.
pub(super) fn encode(call: &Call, keys: &LockKeys, out: &mut Command) {
    match call {
        Call::Remark { attempt, remark: Some(remark), ttl } => {
            out.push("SET");
            out.push(keys.remark(attempt));
            out.push(&**remark);
            out.push("PX");
            out.push_number((ttl.as_millis() as u64).max(1));
        }
        Call::Remark { attempt, remark: None, .. } => {
            out.push("DEL");
            out.push(keys.remark(attempt));
        }
        Call::Remarks { inspected } => {
            out.push("MGET");
            asked(inspected).for_each(|attempt| out.push(keys.remark(attempt)));
        }
        _ => {}
    }
}

/// Whether a call is a plain command with every handler.
#[inline]
pub(super) fn is_plain(call: &Call) -> bool {
    matches!(call, Call::Remark { .. } | Call::Remarks { .. })
}

/// The meaning of a reply that is no error.
pub(super) fn decode(call: &Call, reply: &Value) -> Option<ScriptAnswer> {
    match (call, reply) {
        (Call::Remark { .. }, Value::Status(_) | Value::Integer(_)) => Some(ScriptAnswer::Remarked),
        (Call::Remarks { inspected }, Value::Array(values)) => {
            let mut said = asked(inspected).zip(values).filter_map(|(attempt, value)| match value {
                Value::Bytes(text) => Some((attempt.clone(), shown(text))),
                _ => None,
            });
            let said: Vec<(Attempt, Arc<str>)> = said.by_ref().collect();
            let with = |one: &Inspected| Inspected {
                remarks: said.iter().filter(|(of, _)| one.attempts().any(|attempt| attempt == of)).cloned().collect(),
                ..one.clone()
            };
            Some(ScriptAnswer::Inspected(inspected.iter().map(with).collect()))
        }
        _ => None,
    }
}

/// What a holder says, by the last field of a reply; `None` if the reply ends before it.
pub(super) fn said(field: Option<&Value>) -> Said {
    match field {
        None => Said::Untold,
        Some(Value::Bytes(text)) => Said::Remark(shown(text)),
        Some(_) => Said::Nothing,
    }
}

/// A remark as any program may have written it.
fn shown(text: &[u8]) -> Arc<str> {
    let text = String::from_utf8_lossy(&text[..text.len().min(LONGEST_NOTE)]);
    text.chars()
        .map(|next| if next.is_control() { char::REPLACEMENT_CHARACTER } else { next })
        .collect::<String>()
        .into()
}
