//! The handler with scripts: encodes calls, and decodes replies and pushes.

use std::fmt;
use std::time::Duration;

use pinyon_proto::resp::{Command, ServerError, Value};

use crate::call::{Attempt, Call, FirstHolder, Holder, Inspected, Name, Names, Pushed, ScriptAnswer};
use crate::keys::LockKeys;
use crate::library::{self, RULES};
use crate::names::{parted, Mode};
use crate::redis::{actual, Refusal};
use crate::remark;
use crate::value::{decimal, holder_in, no_string};

/// How to call the functions, with the beginning of each function's command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Via {
    /// `FCALL`, from version 7 on.
    Functions(Vec<Command>),
    EvalSha(Vec<Command>),
}

impl Via {
    pub fn functions() -> Self {
        Self::Functions(RULES.iter().map(|rule| Command::of(["FCALL", rule.function])).collect())
    }

    /// Reads the replies to [`loading_scripts`], in order.
    pub fn scripts(replies: &[Value]) -> Result<Self, ScriptError> {
        let begin = |reply: &Value| match reply {
            Value::Bytes(sha) | Value::Status(sha) => Ok(Command::of([b"EVALSHA", &**sha])),
            Value::Error(error) => Err(ScriptError::of(error.clone())),
            other => Err(ScriptError::Unexpected(format!("{other:?}"))),
        };
        let commands = replies.iter().map(begin).collect::<Result<Vec<_>, _>>()?;
        match commands.len() == RULES.len() {
            true => Ok(Self::EvalSha(commands)),
            false => Err(ScriptError::Unexpected(format!("{} replies", commands.len()))),
        }
    }
}

/// The command that loads the library. It is harmless if the library is loaded already.
pub fn loading_functions() -> Command {
    Command::of(["FUNCTION", "LOAD", "REPLACE", library::source()])
}

/// The commands that load the scripts.
pub fn loading_scripts() -> Vec<Command> {
    RULES.iter().map(|rule| Command::of(["SCRIPT", "LOAD", rule.source()])).collect()
}

/// Writes a call's command to `out`. `waiter_ttl`: how long the server considers a silent waiter alive. `throughput`:
/// free names go to any caller that asks, without order.
pub fn encode(call: &Call, keys: &LockKeys, waiter_ttl: Duration, throughput: bool, via: &Via, out: &mut Command) {
    out.clear();
    let (Via::Functions(begun) | Via::EvalSha(begun)) = via;
    let Some(place) = library::place(call) else { return remark::encode(call, keys, out) };
    out.extend(&begun[place]);
    push_keys(call, keys, out);
    let fairness = if throughput { "t" } else { "" };
    let mut waiter = |attempt: &Attempt, ttl: &Duration, wait: bool, nested: bool| {
        push_attempt(attempt, out);
        out.push_number(milliseconds(*ttl));
        out.push_number(milliseconds(waiter_ttl));
        out.push(flags(wait, nested, throughput));
    };
    match call {
        Call::Open { seen } => out.push_number(*seen),
        Call::Inspect { .. } | Call::Remark { .. } | Call::Remarks { .. } => {}
        Call::Rate { cost, most, ticks, .. } => {
            [cost, most, ticks].into_iter().for_each(|number| out.push_number(*number))
        }
        Call::Lock { attempt, names, ttl, wait, nested } => {
            waiter(attempt, ttl, *wait, *nested);
            push_modes(names, out);
        }
        Call::Poll { attempt, names, ttl, nested } => {
            waiter(attempt, ttl, false, *nested);
            push_modes(names, out);
        }
        Call::Park { attempt, ttl, .. } | Call::Unpark { attempt, ttl, .. } => waiter(attempt, ttl, false, false),
        Call::Unlock { attempt, names, tombstone, rest } => {
            push_attempt(attempt, out);
            if *tombstone || throughput || rest.is_some() || names.are_shared() {
                let kept = if rest.is_some() { "k" } else { "" };
                out.push_joined([if *tombstone { "x" } else { "" }, fairness, kept].map(str::as_bytes));
            }
            if let Some(rest) = rest {
                out.push_number(milliseconds(*rest));
            }
            push_modes(names, out);
        }
        Call::Adopt { attempt, ttl, from, .. } => {
            push_attempt(attempt, out);
            out.push_number(milliseconds(*ttl));
            push_attempt(from, out);
        }
        Call::Change { attempt, names, ttl, wait, seen } => {
            waiter(attempt, ttl, *wait, false);
            out.push_number(*seen);
            names.each().for_each(|(_, mode)| push_mode(mode, out));
        }
        Call::Extend { held } => {
            out.push_number(held.len() as u64);
            for (attempt, names, ttl) in held {
                push_attempt(attempt, out);
                out.push_number(milliseconds(*ttl));
                match names.are_shared() {
                    false => out.push_number(names.len() as u64),
                    true => out.push(format!("-{}", names.len())),
                }
                push_modes(names, out);
            }
        }
        Call::Raise { attempt, ttl, floor, .. } => {
            push_attempt(attempt, out);
            out.push_number(milliseconds(*ttl));
            out.push_number(*floor);
        }
        Call::Notify { attempt, most, .. } => {
            push_attempt(attempt, out);
            out.push_number(u64::from(*most));
        }
        Call::ForceRelease { token, .. } => {
            out.push(token.map_or(String::new(), |token| token.to_string()));
            out.push(fairness);
        }
    }
}

/// Writes the number of keys, then the keys.
fn push_keys(call: &Call, keys: &LockKeys, out: &mut Command) {
    match call {
        Call::Open { .. } | Call::Remark { .. } | Call::Remarks { .. } => push_keys_of(std::iter::empty(), keys, out),
        Call::Rate { name, .. } => {
            out.push_number(2);
            out.extend(keys.sent_first());
            out.push(keys.rate(name));
        }
        Call::Extend { held } => push_keys_of(held.iter().flat_map(|(_, names, _)| names.iter()), keys, out),
        Call::Raise { names, .. } => push_keys_of(names.iter(), keys, out),
        Call::Lock { names, .. }
        | Call::Unlock { names, .. }
        | Call::Poll { names, .. }
        | Call::Park { names, .. }
        | Call::Unpark { names, .. }
        | Call::Notify { names, .. }
        | Call::Adopt { names, .. }
        | Call::Change { names, .. }
        | Call::Inspect { names, .. }
        | Call::ForceRelease { names, .. } => match keys.declared() {
            None => push_keys_of(names.iter(), keys, out),
            Some(declared) => push_declared(call, names, declared, keys, out),
        },
    }
}

fn push_keys_of<'n>(names: impl Iterator<Item = &'n Name> + Clone, keys: &LockKeys, out: &mut Command) {
    out.push_number(1 + names.clone().count() as u64);
    push_names(names, keys, out);
}

/// Writes the counter and the names.
#[inline]
fn push_names<'n>(names: impl Iterator<Item = &'n Name>, keys: &LockKeys, out: &mut Command) {
    out.extend(keys.sent_first());
    for name in names {
        out.push_joined(keys.parts_of(name));
    }
}

/// Writes first the keys that the function uses beside those of the counter and the names.
fn push_declared(call: &Call, names: &[Name], declared: &Command, keys: &LockKeys, out: &mut Command) {
    let given_up = match call {
        Call::Unlock { attempt, tombstone: true, .. } | Call::Poll { attempt, .. } => Some(attempt),
        _ => call.taker(),
    };
    out.push_number((declared.len() + usize::from(given_up.is_some()) + 1 + names.len()) as u64);
    out.extend(declared);
    given_up.into_iter().for_each(|attempt| out.push(keys.tombstone(attempt)));
    push_names(names.iter(), keys, out);
}

/// Writes how the names are wanted, if not all are written.
#[inline]
fn push_modes(names: &Names, out: &mut Command) {
    if let Some(modes) = names.modes() {
        push_each(modes, out);
    }
}

#[inline(never)]
fn push_each(modes: &[Mode], out: &mut Command) {
    modes.iter().for_each(|mode| push_mode(*mode, out));
}

fn push_mode(mode: Mode, out: &mut Command) {
    match mode {
        Mode::Write => out.push("w"),
        Mode::Read => out.push("r"),
        Mode::Permits { count, limit } => out.push_numbers(count, b'/', limit),
    }
}

fn push_attempt(attempt: &Attempt, out: &mut Command) {
    out.push_written(attempt.written_length(), |out| attempt.write_to(out));
}

fn flags(wait: bool, nested: bool, throughput: bool) -> &'static str {
    const ALL: [&str; 8] = ["", "w", "n", "wn", "t", "wt", "nt", "wnt"];
    ALL[usize::from(wait) | usize::from(nested) << 1 | usize::from(throughput) << 2]
}

fn milliseconds(duration: Duration) -> u64 {
    (duration.as_millis() as u64).max(1)
}

/// Decodes the reply to a call.
pub fn decode(call: &Call, reply: Value) -> Result<ScriptAnswer, ScriptError> {
    if remark::is_plain(call) {
        return match reply {
            Value::Error(error) => Err(ScriptError::of(error)),
            reply => remark::decode(call, &reply).ok_or_else(|| ScriptError::Unexpected(format!("{reply:?}"))),
        };
    }
    let items = match reply {
        Value::Integer(number) => {
            return counted(call, number).ok_or_else(|| ScriptError::Unexpected(number.to_string()));
        }
        Value::Array(items) => items,
        Value::Error(error) => return Err(ScriptError::of(error)),
        other => return Err(ScriptError::Unexpected(format!("{other:?}"))),
    };
    let answer = match call {
        Call::Open { .. } => number(&items, 0).map(|counter| ScriptAnswer::Opened { counter }),
        Call::Lock { .. }
        | Call::Poll { .. }
        | Call::Park { .. }
        | Call::Unpark { .. }
        | Call::Adopt { .. }
        | Call::Change { .. } => taken(&items),
        Call::Unlock { .. } | Call::Rate { .. } | Call::Remark { .. } | Call::Remarks { .. } => None,
        Call::Extend { held } => extended(&items, held.len()),
        Call::Raise { .. } => extended(&items, 1),
        Call::Notify { .. } => notified(&items),
        Call::Inspect { names, .. } => inspected(&items, names.len()),
        Call::ForceRelease { .. } => {
            number(&items, 0).map(|released| ScriptAnswer::ForceReleased { released: released as usize })
        }
    };
    answer.ok_or_else(|| ScriptError::Unexpected(format!("{items:?}")))
}

/// The usual answers are a single number, which is the least work for the server.
fn counted(call: &Call, number: i64) -> Option<ScriptAnswer> {
    match (call, u64::try_from(number)) {
        (
            Call::Lock { .. } | Call::Poll { .. } | Call::Park { .. } | Call::Unpark { .. } | Call::Change { .. },
            Err(_),
        ) => {
            let pttl = u64::try_from(-2 - number).ok().map(Duration::from_millis);
            Some(ScriptAnswer::Queued { pttl })
        }
        (
            Call::Lock { .. } | Call::Poll { .. } | Call::Unpark { .. } | Call::Adopt { .. } | Call::Change { .. },
            Ok(token),
        ) => Some(ScriptAnswer::Granted { token }),
        (Call::Rate { .. }, Ok(ahead)) => Some(ScriptAnswer::Rated { taken: true, ahead }),
        (Call::Rate { .. }, Err(_)) => Some(ScriptAnswer::Rated { taken: false, ahead: number.abs_diff(-1) }),
        (Call::Unlock { .. }, Ok(released)) => Some(ScriptAnswer::Released { released: released as usize }),
        _ => None,
    }
}

fn taken(items: &[Value]) -> Option<ScriptAnswer> {
    Some(match number(items, 0)? {
        2 => {
            let (age, said) = (pttl(items.get(3)?)?, remark::said(items.get(4)));
            let first = holder(items.get(2)?).map(|holder| FirstHolder { holder, age, said }.into());
            ScriptAnswer::Busy { pttl: pttl(items.get(1)?)?, first }
        }
        3 => ScriptAnswer::Cancelled,
        4 => ScriptAnswer::Deadlock { cycle: items[1..].iter().map(attempt).collect::<Option<_>>()? },
        5 => ScriptAnswer::Unknown,
        6 => ScriptAnswer::NotHeld,
        _ => return None,
    })
}

fn extended(items: &[Value], count: usize) -> Option<ScriptAnswer> {
    let extended: Vec<bool> = (0..items.len()).map(|at| Some(number(items, at)? == 1)).collect::<Option<_>>()?;
    (extended.len() == count).then_some(ScriptAnswer::Extended(extended))
}

fn notified(items: &[Value]) -> Option<ScriptAnswer> {
    match number(items, 0)? {
        0 => Some(ScriptAnswer::Notified { moved: u32::try_from(number(items, 1)?).ok()? }),
        6 => Some(ScriptAnswer::NotHeld),
        _ => None,
    }
}

fn inspected(items: &[Value], count: usize) -> Option<ScriptAnswer> {
    let one = |item: &Value| match item {
        Value::Array(fields) => Some(Inspected {
            holder: holder(fields.first()?),
            sharing: sharing(fields.first()?)?,
            permits: permits(fields.first()?),
            pttl: pttl(fields.get(1)?)?,
            age: pttl(fields.get(2)?)?,
            waiting: fields[3..].iter().map(attempt).collect::<Option<_>>()?,
            ..Inspected::default()
        }),
        _ => None,
    };
    let all: Vec<Inspected> = items.iter().map(one).collect::<Option<_>>()?;
    (all.len() == count).then_some(ScriptAnswer::Inspected(all))
}

fn number(items: &[Value], at: usize) -> Option<u64> {
    match items.get(at)? {
        Value::Integer(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// `None` inside if the server reports a negative number, which means that there is none.
fn pttl(value: &Value) -> Option<Option<Duration>> {
    match value {
        Value::Integer(pttl) => Some(u64::try_from(*pttl).ok().map(Duration::from_millis)),
        _ => None,
    }
}

fn attempt(value: &Value) -> Option<Attempt> {
    match value {
        Value::Bytes(text) => Attempt::parse(text),
        _ => None,
    }
}

/// The holders of a name that several have.
fn sharing(value: &Value) -> Option<Vec<Attempt>> {
    match value {
        Value::Array(shared) => shared.get(2..)?.iter().map(attempt).collect(),
        _ => Some(Vec::new()),
    }
}

/// How many of a pool's permits are taken, and its limit.
fn permits(value: &Value) -> Option<(u32, u32)> {
    match value {
        Value::Array(shared) => Some((number(shared, 1)? as u32, number(shared, 0)? as u32)),
        _ => None,
    }
}

/// The holder in a lock's value, or the first that shares the name; `None` if there is no value. A number stands for a
/// value that is no string.
fn holder(value: &Value) -> Option<Holder> {
    match value {
        Value::Bytes(value) => Some(holder_in(value)),
        Value::Integer(_) => Some(no_string()),
        Value::Array(shared) => shared.get(2).and_then(holder),
        _ => None,
    }
}

/// Decodes a push for this namespace: a message on its client's channel or on that of freed names, as `[message,
/// channel, payload]`.
pub fn pushed(keys: &LockKeys, push: &[Value]) -> Option<Pushed> {
    let [Value::Bytes(kind) | Value::Status(kind), Value::Bytes(channel), Value::Bytes(payload)] = push else {
        return None;
    };
    if !matches!(&kind[..], b"message" | b"smessage") {
        return None;
    }
    let channel = channel.strip_prefix(keys.prefix())?;
    if channel == b"#freed" {
        return Some(Pushed::Freed { names: parted(payload) });
    }
    if !channel.starts_with(b"#c:") {
        return None;
    }
    if let Some(names) = payload.strip_prefix(b"f ") {
        return Some(Pushed::Freed { names: parted(names) });
    }
    let words: Vec<&[u8]> = payload.split(|byte| *byte == b' ').collect();
    match words[..] {
        [b"g", attempt, token] => Some(Pushed::Granted { attempt: Attempt::parse(attempt)?, token: decimal(token)? }),
        [b"c", attempt] => Some(Pushed::Contested { attempt: Attempt::parse(attempt)? }),
        [b"p", attempt] => Some(Pushed::Look { attempt: Attempt::parse(attempt)? }),
        [b"l", attempt] => Some(Pushed::ForceReleased { attempt: Attempt::parse(attempt)? }),
        _ => None,
    }
}

/// Why a call was not carried out. The server has changed nothing, unless stated otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptError {
    /// The server does not know the functions or scripts. Load them and send the call again.
    NotLoaded,
    /// The user lacks a permission. A script that lacks only the permission to publish has released its names.
    Forbidden {
        missing: Missing,
        error: ServerError,
    },
    /// The server is a replica.
    ReadOnly(ServerError),
    OutOfMemory(ServerError),
    /// The server is loading its data, or has lost its primary. It will answer later.
    Loading(ServerError),
    /// A script has been running for too long.
    Scripting(ServerError),
    /// Another node has the slot: permanently, or only for this command if `asking`.
    Moved {
        slot: u16,
        address: Box<str>,
        asking: bool,
    },
    /// The slot is moving. Send the call again a little later.
    TryAgain(ServerError),
    /// Scripts may only use keys that they declare.
    Undeclared(ServerError),
    /// The cluster is not available.
    ClusterDown(ServerError),
    /// The keys are in different slots.
    CrossSlot(ServerError),
    /// Any other error from the server.
    Other(ServerError),
    /// A reply that these functions never send.
    Unexpected(String),
}

/// A missing permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The command that was sent, such as `fcall`.
    Command(Box<str>),
    /// A command inside the script.
    Inside,
    Keys,
    Channels,
    Database,
}

impl ScriptError {
    pub fn of(error: ServerError) -> Self {
        let (code, message) = actual(&error);
        match code {
            "NOSCRIPT" => Self::NotLoaded,
            "ERR" if message.starts_with("Function not found") => Self::NotLoaded,
            _ if code == "NOPERM" || is_inside_script(message) => Self::Forbidden { missing: missing(message), error },
            "READONLY" => Self::ReadOnly(error),
            "OOM" => Self::OutOfMemory(error),
            "LOADING" | "MASTERDOWN" => Self::Loading(error),
            "BUSY" => Self::Scripting(error),
            "MOVED" | "ASK" => Self::moved(code, message).unwrap_or(Self::Other(error)),
            "TRYAGAIN" => Self::TryAgain(error),
            _ if message.contains(NOT_HERE) => Self::TryAgain(error),
            _ if is_undeclared(message) => Self::Undeclared(error),
            "CLUSTERDOWN" => Self::ClusterDown(error),
            "CROSSSLOT" => Self::CrossSlot(error),
            _ => Self::Other(error),
        }
    }

    /// What it means for whoever asked.
    pub fn class(&self) -> Refusal {
        match self {
            Self::NotLoaded | Self::Moved { .. } => Refusal::Passing,
            Self::Forbidden { .. } => Refusal::Permission,
            Self::Undeclared(_) => Refusal::AboutScripts,
            Self::Unexpected(_) => Refusal::Final,
            Self::ReadOnly(error)
            | Self::OutOfMemory(error)
            | Self::Loading(error)
            | Self::Scripting(error)
            | Self::TryAgain(error)
            | Self::ClusterDown(error)
            | Self::CrossSlot(error)
            | Self::Other(error) => Refusal::of(error),
        }
    }

    /// Whether it is a replica that has no link to its primary.
    pub fn is_of_replica(&self) -> bool {
        matches!(self, Self::ReadOnly(_)) || matches!(self, Self::Loading(error) if &*error.code == "MASTERDOWN")
    }

    fn moved(code: &str, message: &str) -> Option<Self> {
        let (slot, address) = message.split_once(' ')?;
        let address = address.split(' ').next()?;
        address.rsplit_once(':')?.1.parse::<u16>().ok()?;
        Some(Self::Moved { slot: slot.parse().ok()?, address: address.into(), asking: code == "ASK" })
    }
}

/// How a cluster refuses a key that its slot's next node has, or will have.
const NOT_HERE: &str = "attempted to access a non local key";

/// Whether a script was refused a key that it has not declared: by Dragonfly, Kvrocks or a front end of a cluster.
fn is_undeclared(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| message.contains(word));
    says(&["script", "lua"]) && says(&["key"]) && says(&["undeclared", "non-declared", "not declared", "keys array"])
}

/// Whether a script was refused something that it does: in the words of Redis up to 7.0, or of later ones and Valkey.
fn is_inside_script(message: &str) -> bool {
    message.contains("executing the script can't") || message.starts_with(IN_SCRIPT)
}

/// How Redis 7.2, Redis 8 and Valkey begin a refusal inside a script.
const IN_SCRIPT: &str = "ACL failure in script: ";

/// What a refusal is about. It may quote a user, a key or a channel of any name, so only the words around them count.
/// `vectors/redis-refusals.json` lists what servers say.
fn missing(message: &str) -> Missing {
    let inside = is_inside_script(message);
    // A script's name and line follow.
    let said = message.rsplit_once(" script: ").filter(|(said, _)| inside && *said != IN_SCRIPT.trim());
    let said = said.map_or(message, |(said, _)| said);
    let of_user = said.starts_with("User ") || said.starts_with(&[IN_SCRIPT, "User "].concat());
    let is_about = |word: &str| {
        let detailed = said.contains(" has no permissions to access the '") && said.ends_with(&format!("' {word}"));
        let brief = said.ends_with(&format!("No permissions to access a {word}"));
        detailed || brief || !of_user && said.contains(&format!("one of the {word}s "))
    };
    let runs = said.rsplit_once(" run the '").and_then(|(_, rest)| rest.split_once("' command"));
    match runs {
        Some(_) if inside => Missing::Inside,
        Some((command, _)) => Missing::Command(command.into()),
        None if is_about("key") => Missing::Keys,
        None if is_about("channel") || said.contains("can't publish to the channel") => Missing::Channels,
        None if said.contains(" to access database") => Missing::Database,
        None => Missing::Inside,
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLoaded => {
                write!(f, "the server loads the locks' scripts, but does not find them when they are called")
            }
            Self::Forbidden { missing, error } => write!(f, "{missing} ({error})"),
            Self::Moved { slot, address, .. } => write!(f, "slot {slot} is at {address}"),
            Self::Unexpected(reply) => write!(f, "not a reply of the locks' scripts: {reply}"),
            Self::ReadOnly(error)
            | Self::OutOfMemory(error)
            | Self::Loading(error)
            | Self::Scripting(error)
            | Self::TryAgain(error)
            | Self::Undeclared(error)
            | Self::ClusterDown(error)
            | Self::CrossSlot(error)
            | Self::Other(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for ScriptError {}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command) => write!(f, "the user may not run {}", command.to_uppercase()),
            Self::Inside => write!(f, "the user may not run a command that the locks' scripts use"),
            Self::Keys => write!(f, "the user may not use the namespace's keys"),
            Self::Channels => write!(f, "the user may not use the namespace's channels"),
            Self::Database => write!(f, "the user may not use this database"),
        }
    }
}

#[cfg(test)]
mod tests;
