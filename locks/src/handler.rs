//! Turns calls into commands, and replies into answers: by scripts, or by plain commands.
//!
//! If the server does not know the scripts, the handler loads them and repeats the calls. If the server does not permit
//! scripts to its user, or runs none, calls use plain commands on this connection, unless the settings insist on scripts.
//! A refusal for another reason is the answer of the calls.

#[cfg(test)]
mod declaring;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use pinyon_proto::resp::{Command, Value};

use crate::call::{Attempt, Call, ScriptAnswer};
use crate::keys::{Declared, LockKeys};
use crate::pure::{Pure, NOBODY};
use crate::redis::{Refusal, ServerInfo};
use crate::remark;
use crate::script::{self, Missing, ScriptError, Via};
use crate::sequence::Sequence;

/// The handler that the settings ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandlerKind {
    /// Scripts, or plain commands if the server permits no scripts.
    #[default]
    Auto,
    Script,
    Pure,
}

/// How many calls may wait for a slot that is moving. Further calls fail.
const MOST_WAITING: usize = 4096;

/// The largest allocation of a command that is reused.
const KEPT_BYTES: usize = 4096;

/// The first version with functions and with `PEXPIRE … NX`.
const FUNCTIONS_SINCE: u16 = 7;

pub(super) struct Handler {
    kind: HandlerKind,
    keys: LockKeys,
    /// The first job whose command declares keys strictly.
    strict_since: Option<u64>,
    waiter_ttl: Duration,
    throughput: bool,
    speaks: Speaks,
    next_job: u64,
    commands: VecDeque<(u64, Command)>,
    answers: VecDeque<(u64, Result<ScriptAnswer, ScriptError>)>,
    /// The memory of a sent command, for the next one.
    spare: Command,
    warning: Option<String>,
    /// Why scripts could not be used, as was warned.
    told: Option<String>,
    /// Whether it uses less than the server may have, on this connection.
    stepped_down: bool,
    redirected: Option<Redirection>,
    server: ServerInfo,
}

/// Another node of the cluster serves the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Redirection {
    pub(super) slot: u16,
    /// `host:port`. An empty host means the node that was asked.
    pub(super) address: Box<str>,
}

enum Speaks {
    Scripts(Scripts),
    Plainly(Box<Pure>),
}

struct Scripts {
    via: Option<Via>,
    jobs: Sequence<Job>,
    /// Calls that wait until the scripts are loaded, or until a slot has moved.
    waiting: VecDeque<(u64, Call)>,
    /// Whether the scripts were loaded, and no call has found them since.
    loaded_in_vain: bool,
}

enum Job {
    Call {
        id: u64,
        call: Call,
    },
    LoadFunctions,
    /// The number of outstanding replies, and the replies so far.
    LoadScripts {
        replies: Vec<Value>,
    },
}

impl Handler {
    pub(super) fn new(kind: HandlerKind, keys: LockKeys, waiter_ttl: Duration, throughput: bool) -> Self {
        Self {
            kind,
            keys,
            strict_since: None,
            waiter_ttl,
            throughput,
            speaks: Speaks::Scripts(Scripts::new(None)),
            next_job: 0,
            commands: VecDeque::new(),
            answers: VecDeque::new(),
            spare: Command::default(),
            warning: None,
            told: None,
            stepped_down: false,
            redirected: None,
            server: ServerInfo::default(),
        }
    }

    /// What the server last said it is: `standalone`, `cluster` or `sentinel`.
    pub(super) fn mode(&self) -> &str {
        &self.server.mode
    }

    /// Begins on a new connection to this server, and forgets what was under way. The machine repeats it.
    pub(super) fn meet(&mut self, server: &ServerInfo) {
        let known = std::mem::replace(&mut self.server, server.clone()) == *server;
        self.reset();
        let stepped_down = std::mem::take(&mut self.stepped_down);
        if !known {
            let moves_slots = &*server.mode == "cluster";
            self.strict_since = None;
            self.keys = self.keys.declaring(if moves_slots { Declared::All } else { Declared::Few });
        }
        if self.kind == HandlerKind::Pure {
            self.speak_plainly();
        } else if !known || stepped_down {
            let has_functions = self.has_version(FUNCTIONS_SINCE);
            self.speaks = Speaks::Scripts(Scripts::new(has_functions.then(Via::functions)));
        }
        if matches!(&self.speaks, Speaks::Scripts(Scripts { via: None, .. })) {
            self.load_scripts();
        }
    }

    /// Forgets what was under way on a broken connection.
    pub(super) fn reset(&mut self) {
        self.commands.clear();
        self.answers.clear();
        match &mut self.speaks {
            Speaks::Scripts(scripts) => {
                scripts.jobs.clear();
                scripts.waiting.clear();
                scripts.loaded_in_vain = false;
            }
            Speaks::Plainly(pure) => pure.reset(),
        }
    }

    pub(super) fn begin(&mut self, id: u64, call: Call) {
        if let (Call::Unlock { attempt, .. }, Speaks::Scripts(scripts)) = (&call, &mut self.speaks) {
            let cancelled = take_cancelled(&mut scripts.waiting, attempt);
            self.answers.extend(cancelled.into_iter().map(|id| (id, Ok(ScriptAnswer::Cancelled))));
        }
        match &mut self.speaks {
            Speaks::Plainly(pure) => pure.begin(id, call),
            Speaks::Scripts(Scripts { via: None, waiting, jobs, .. }) => {
                waiting.push_back((id, call));
                if jobs.is_empty() {
                    self.load_scripts();
                }
            }
            Speaks::Scripts(_) => self.send(id, call),
        }
    }

    /// The next command to send, with the job that its reply belongs to.
    pub(super) fn next_command(&mut self) -> Option<(u64, Command)> {
        if let Speaks::Plainly(pure) = &mut self.speaks {
            self.commands.extend(pure.take_commands());
        }
        self.commands.pop_front()
    }

    /// Takes back a sent command.
    pub(super) fn reuse(&mut self, command: Command) {
        if command.capacity() <= KEPT_BYTES {
            self.spare = command;
        }
    }

    pub(super) fn next_answer(&mut self) -> Option<(u64, Result<ScriptAnswer, ScriptError>)> {
        if let Speaks::Plainly(pure) = &mut self.speaks {
            let answers = pure.take_answers().into_iter();
            self.answers.extend(answers.map(|(id, answer)| (id, answer.map_err(ScriptError::of))));
        }
        let (id, answer) = self.answers.pop_front()?;
        if let Err(ScriptError::Moved { slot, address, asking: false }) = &answer {
            self.redirected = Some(Redirection { slot: *slot, address: address.clone() });
        }
        Some((id, answer))
    }

    /// Whether it works without scripts.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.speaks, Speaks::Plainly(_))
    }

    /// A warning for the operators of the program.
    pub(super) fn take_warning(&mut self) -> Option<String> {
        self.warning.take()
    }

    /// The node to connect to instead.
    pub(super) fn take_redirection(&mut self) -> Option<Redirection> {
        self.redirected.take()
    }

    /// Whether calls wait for a slot that is moving. [`Self::try_again`] repeats them.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(&self.speaks, Speaks::Scripts(Scripts { via: Some(_), waiting, .. }) if !waiting.is_empty())
    }

    pub(super) fn try_again(&mut self) {
        let Speaks::Scripts(scripts) = &mut self.speaks else { return };
        let waiting = std::mem::take(&mut scripts.waiting);
        for (id, call) in waiting {
            self.send(id, call);
        }
    }

    pub(super) fn reply(&mut self, job: u64, reply: Value) {
        let scripts = match &mut self.speaks {
            Speaks::Plainly(pure) => return pure.reply(job, reply),
            Speaks::Scripts(scripts) => scripts,
        };
        match scripts.jobs.remove(job) {
            Some(Job::Call { id, call }) => self.replied(job, id, call, reply),
            Some(Job::LoadFunctions) => {
                if let Value::Error(error) = reply {
                    self.functions_refused(&ScriptError::of(error));
                }
            }
            Some(Job::LoadScripts { mut replies }) => {
                replies.push(reply);
                self.loading(job, replies);
            }
            None => {}
        }
    }

    fn send(&mut self, id: u64, call: Call) {
        let Speaks::Scripts(Scripts { via: Some(via), jobs, .. }) = &mut self.speaks else { return };
        let mut command = std::mem::take(&mut self.spare);
        script::encode(&call, &self.keys, self.waiter_ttl, self.throughput, via, &mut command);
        let job = self.next_job;
        self.next_job += 1;
        jobs.insert(job, Job::Call { id, call });
        self.commands.push_back((job, command));
    }

    fn replied(&mut self, job: u64, id: u64, call: Call, reply: Value) {
        match script::decode(&call, reply) {
            // Each sign of life writes a remark again, so it need not be repeated.
            Err(error) if remark::is_plain(&call) && !matches!(error, ScriptError::Unexpected(_)) => {
                self.answers.push_back((id, Err(error)));
            }
            // Repeating it now would place it after the call that cancels it.
            Err(error) if is_to_be_repeated(&error) && self.is_given_up(&call) => {
                self.answers.push_back((id, Ok(ScriptAnswer::Cancelled)));
            }
            Err(ScriptError::NotLoaded) => self.load_and_send(id, call),
            Err(ScriptError::Undeclared(_)) if self.strict_since.is_none_or(|since| job < since) => {
                self.declare_strictly();
                self.send(id, call);
            }
            Err(error @ ScriptError::Unexpected(_)) => self.disbelieve(id, &error),
            Err(error @ (ScriptError::TryAgain(_) | ScriptError::Moved { asking: true, .. })) => {
                self.put_off(id, call, error);
            }
            Err(error) if is_about_scripts(&error) => {
                if let Speaks::Scripts(scripts) = &mut self.speaks {
                    scripts.waiting.push_back((id, call));
                }
                self.step_down(error);
            }
            answer => {
                if let Speaks::Scripts(scripts) = &mut self.speaks {
                    scripts.loaded_in_vain = false;
                }
                self.answers.push_back((id, answer));
            }
        }
    }

    /// Declares all keys from now on, as the server wants it.
    fn declare_strictly(&mut self) {
        if self.strict_since.is_none() {
            self.strict_since = Some(self.next_job);
            self.keys = self.keys.declaring(Declared::Strictly);
        }
    }

    /// Repeats a call after a pause, unless too many are waiting already.
    fn put_off(&mut self, id: u64, call: Call, error: ScriptError) {
        match &mut self.speaks {
            Speaks::Scripts(Scripts { waiting, .. }) if waiting.len() < MOST_WAITING => waiting.push_back((id, call)),
            _ => self.answers.push_back((id, Err(error))),
        }
    }

    /// Stops awaiting replies, since they no longer match their commands and would answer the wrong calls.
    fn disbelieve(&mut self, id: u64, error: &ScriptError) {
        let Speaks::Scripts(scripts) = &mut self.speaks else { return };
        let in_flight = scripts.jobs.take().filter_map(|job| match job {
            Job::Call { id, .. } => Some(id),
            Job::LoadFunctions | Job::LoadScripts { .. } => None,
        });
        let waiting = scripts.waiting.drain(..).map(|(id, _)| id);
        let calls = std::iter::once(id).chain(in_flight).chain(waiting);
        self.answers.extend(calls.map(|id| (id, Err(error.clone()))));
    }

    /// Whether the call takes names for an attempt whose unlock is already under way.
    fn is_given_up(&self, call: &Call) -> bool {
        let (Some(attempt), Speaks::Scripts(scripts)) = (call.taker(), &self.speaks) else { return false };
        let gives_up =
            |job: &Job| matches!(job, Job::Call { call: Call::Unlock { attempt: of, .. }, .. } if of == attempt);
        scripts.jobs.iter().any(|(_, job)| gives_up(job))
    }

    /// Loads the scripts and sends the call right behind them; the server keeps the order. If they are not found even
    /// then, this is the answer: otherwise the two would repeat this at the network's speed.
    fn load_and_send(&mut self, id: u64, call: Call) {
        let Speaks::Scripts(scripts) = &mut self.speaks else { return };
        let is_loading = scripts.jobs.iter().any(|(_, job)| !matches!(job, Job::Call { .. }));
        if !is_loading && std::mem::take(&mut scripts.loaded_in_vain) {
            return self.answers.push_back((id, Err(ScriptError::NotLoaded)));
        }
        if !is_loading {
            scripts.loaded_in_vain = true;
            self.load();
        }
        self.send(id, call);
    }

    fn load(&mut self) {
        let Speaks::Scripts(scripts) = &mut self.speaks else { return };
        match &scripts.via {
            Some(Via::Functions(_)) => {
                let job = self.next_job;
                self.next_job += 1;
                scripts.jobs.insert(job, Job::LoadFunctions);
                self.commands.push_back((job, script::loading_functions()));
            }
            Some(Via::EvalSha(_)) => self.load_scripts(),
            None => {}
        }
    }

    fn load_scripts(&mut self) {
        let Speaks::Scripts(scripts) = &mut self.speaks else { return };
        let job = self.next_job;
        self.next_job += 1;
        scripts.jobs.insert(job, Job::LoadScripts { replies: Vec::new() });
        self.commands.extend(script::loading_scripts().into_iter().map(|parts| (job, parts)));
    }

    fn loading(&mut self, job: u64, replies: Vec<Value>) {
        let Speaks::Scripts(scripts) = &mut self.speaks else { return };
        if replies.len() < script::loading_scripts().len() {
            scripts.jobs.insert(job, Job::LoadScripts { replies });
            return;
        }
        match Via::scripts(&replies) {
            Ok(via) => {
                scripts.via = Some(via);
                self.try_again();
            }
            Err(error) => self.step_down(error),
        }
    }

    /// Uses scripts on this connection, as the server refuses to load functions. That may be because it takes no writes
    /// now, or has no memory for them: scripts need neither.
    fn functions_refused(&mut self, error: &ScriptError) {
        if let Speaks::Scripts(Scripts { via: Some(Via::Functions(_)), .. }) = &self.speaks {
            self.step_down(error.clone());
        }
    }

    /// Takes all calls that have no answer, in order.
    fn take_calls(&mut self) -> VecDeque<(u64, Call)> {
        let Speaks::Scripts(scripts) = &mut self.speaks else { return VecDeque::new() };
        let mut calls = std::mem::take(&mut scripts.waiting);
        calls.extend(scripts.jobs.take().filter_map(|job| match job {
            Job::Call { id, call } => Some((id, call)),
            Job::LoadFunctions | Job::LoadScripts { .. } => None,
        }));
        calls.make_contiguous().sort_unstable_by_key(|(id, _)| *id);
        calls
    }

    /// Falls back to another kind of scripts, or to none if this is about scripts. It lasts until the next connection.
    fn step_down(&mut self, error: ScriptError) {
        let calls = self.take_calls();
        let Speaks::Scripts(scripts) = &mut self.speaks else { return };
        match (&scripts.via, self.kind) {
            (Some(Via::Functions(_)), _) => {
                *scripts = Scripts::new(None);
                scripts.waiting = calls;
                self.stepped_down = true;
                self.load_scripts();
            }
            (_, HandlerKind::Auto) if is_about_scripts(&error) => {
                self.stepped_down = true;
                self.warn_of_plain_commands(&error);
                self.speak_plainly();
                if !calls.iter().any(|(_, call)| matches!(call, Call::Open { .. })) {
                    // The scripts checked the counter by themselves; plain commands must check it here.
                    self.begin(NOBODY, Call::Open { seen: 0 });
                }
                calls.into_iter().for_each(|(id, call)| self.begin(id, call));
            }
            _ => self.answers.extend(calls.into_iter().map(|(id, _)| (id, Err(error.clone())))),
        }
    }

    /// Says, once for each reason, that scripts cannot be used.
    fn warn_of_plain_commands(&mut self, error: &ScriptError) {
        let why = error.to_string();
        if self.told.as_ref() != Some(&why) {
            let remedy = match error {
                ScriptError::Undeclared(_) => "permit scripts to use keys that they have not declared",
                _ => "permit FCALL and FUNCTION LOAD, or EVALSHA and SCRIPT LOAD",
            };
            self.warning = Some(format!(
                "locks go without scripts on this connection, unfairly and with more commands: {why}; {remedy}, or set \
                 handler to \"pure\""
            ));
            self.told = Some(why);
        }
    }

    fn speak_plainly(&mut self) {
        let expire_nx = self.has_version(FUNCTIONS_SINCE);
        let pure = Pure::new(self.keys.clone(), expire_nx, self.waiter_ttl, self.next_job);
        self.speaks = Speaks::Plainly(Box::new(pure));
    }

    fn has_version(&self, major: u16) -> bool {
        self.server.version.as_ref().is_some_and(|version| version.major >= major)
    }
}

impl Scripts {
    fn new(via: Option<Via>) -> Self {
        Self { via, jobs: Sequence::default(), waiting: VecDeque::new(), loaded_in_vain: false }
    }
}

/// Whether the call was not carried out, so that it is sent again behind later ones.
fn is_to_be_repeated(error: &ScriptError) -> bool {
    matches!(
        error,
        ScriptError::NotLoaded
            | ScriptError::TryAgain(_)
            | ScriptError::Undeclared(_)
            | ScriptError::Moved { asking: true, .. }
    )
}

/// Removes the calls that take names for this attempt, which was given up.
fn take_cancelled(calls: &mut VecDeque<(u64, Call)>, attempt: &Attempt) -> Vec<u64> {
    let is_cancelled = |call: &Call| call.taker() == Some(attempt);
    let cancelled = calls.iter().filter(|(_, call)| is_cancelled(call)).map(|(id, _)| *id).collect();
    calls.retain(|(_, call)| !is_cancelled(call));
    cancelled
}

/// Whether another kind of handler may succeed.
fn is_about_scripts(error: &ScriptError) -> bool {
    match error {
        ScriptError::Forbidden { missing: Missing::Command(_), .. } => true,
        error => error.class() == Refusal::AboutScripts,
    }
}
