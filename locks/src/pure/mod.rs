//! The handler without scripts: plain commands on the same keys, for servers that permit nothing else.
//!
//! One transaction takes a lock, whether or not its names are free: `MSETNX` takes all or none, and `PEXPIRE … NX`
//! leaves existing ttls alone. Calls that must read before they write use `WATCH`. Its effect belongs to the
//! connection, so these calls are gathered into one section at a time, and no other transaction begins before the
//! section ends. There is no queue: a waiter is told when names are freed, and tries again.
//!
//! Each rule has a file, of the name that its file in Lua has. Rules without a file here need scripts.

mod adopt;
mod change;
mod extend;
mod force_release;
mod inspect;
mod lock;
mod open;
mod poll;
mod rate;
mod remark;
mod replies;
mod shared;
#[cfg(test)]
mod tests;
mod unlock;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

use pinyon_proto::resp::{Command, ServerError, Value};

use crate::call::{Call, Holder, Name, Names, ScriptAnswer};
use crate::keys::LockKeys;
use crate::rate::Level;
use crate::token;
use replies::{executed, holder, number, read, unexpected};
use shared::Seen;

/// The call number of the handler's own calls. No caller awaits their answers.
pub(super) const NOBODY: u64 = u64::MAX;

pub(crate) struct Pure {
    keys: LockKeys,
    /// Whether the server has `PEXPIRE … NX`.
    expire_nx: bool,
    waiter_ttl: Duration,
    next_job: u64,
    /// The highest token or counter seen. A lower token means that the counter was lost.
    highest: u64,
    /// Whether the counter was checked on this connection.
    opened: bool,
    jobs: BTreeMap<u64, Job>,
    /// Calls that begin when the section has ended.
    held_back: VecDeque<(u64, Call)>,
    /// Calls for the next section.
    gathered: Vec<(u64, Call)>,
    /// Whether the values of a section's keys are awaited.
    watching: bool,
    commands: Vec<(u64, Command)>,
    answers: Vec<(u64, Result<ScriptAnswer, ServerError>)>,
}

/// Commands that were sent together, and the meaning of their replies.
struct Job {
    replies: Vec<Value>,
    expected: usize,
    stage: Stage,
}

enum Stage {
    /// A transaction that takes the names if they are free.
    Take {
        id: u64,
        call: Call,
    },
    /// The same again, after announcing that a client waits. Also returns the holder of the names.
    TakeOrTell {
        id: u64,
        call: Call,
    },
    /// `WATCH`, then the values of all keys of a section.
    Watch {
        calls: Vec<(u64, Call)>,
    },
    /// The transaction of a section.
    Commit {
        calls: Vec<(u64, Call)>,
        results: Vec<Then>,
    },
    Inspect {
        id: u64,
        names: usize,
    },
    Remark {
        id: u64,
        call: Call,
    },
    /// A command whose reply does not matter.
    Aside,
}

/// The actions of a section.
#[derive(Default)]
struct Acts {
    commands: Vec<Command>,
    /// Published after the transaction rather than within it. A server whose publisher is itself subscribed may put the
    /// message into the middle of the transaction's reply (redis/redis#12326).
    messages: Vec<Command>,
    /// Sent in any case.
    asides: Vec<Command>,
    /// The rates that it changes.
    levels: BTreeMap<Name, Level>,
}

/// What a section has read for one call.
struct Read<'v> {
    /// The values of its names.
    values: &'v [Value],
    /// The sets of those that are shared.
    sets: &'v [Value],
    counter: u64,
    /// The server's clock.
    now: Duration,
}

/// The answer to a section's call once its transaction is done.
enum Then {
    ScriptAnswer(ScriptAnswer),
    /// Granted, with the token at this position of the transaction's replies.
    Token(usize),
    /// Released by force, as many names as this reply says.
    Deleted(usize),
}

impl Pure {
    /// `first_job`: the number of its first job.
    pub(crate) fn new(keys: LockKeys, expire_nx: bool, waiter_ttl: Duration, first_job: u64) -> Self {
        Self {
            keys,
            expire_nx,
            waiter_ttl,
            next_job: first_job,
            highest: 0,
            opened: false,
            jobs: BTreeMap::new(),
            held_back: VecDeque::new(),
            gathered: Vec::new(),
            watching: false,
            commands: Vec::new(),
            answers: Vec::new(),
        }
    }

    pub(crate) fn begin(&mut self, id: u64, call: Call) {
        match call {
            Call::Park { .. } | Call::Unpark { .. } | Call::Notify { .. } | Call::Raise { .. } => {
                let what = if matches!(call, Call::Raise { .. }) { "quorums" } else { "conditions" };
                let message = format!("{what} need scripts on the server: set handler to \"script\"").into();
                self.answers.push((id, Err(ServerError { code: "".into(), message })));
            }
            Call::Inspect { names, .. } => self.inspect(id, &names),
            Call::Remark { .. } | Call::Remarks { .. } => self.remark(id, call),
            Call::Lock { .. } if self.takes_at_once(&call) => match self.watching || !self.opened {
                true => self.held_back.push_back((id, call)),
                false => self.take(id, call),
            },
            Call::Unlock { ref attempt, .. } => {
                self.cancel(attempt);
                self.gathered.push((id, call));
            }
            _ => self.gathered.push((id, call)),
        }
    }

    /// The commands to send now, each with the job that its reply belongs to.
    pub(crate) fn take_commands(&mut self) -> Vec<(u64, Command)> {
        if !self.watching && !self.gathered.is_empty() {
            self.open_section();
        }
        std::mem::take(&mut self.commands)
    }

    pub(crate) fn take_answers(&mut self) -> Vec<(u64, Result<ScriptAnswer, ServerError>)> {
        std::mem::take(&mut self.answers)
    }

    /// Forgets what was under way on a broken connection.
    pub(crate) fn reset(&mut self) {
        let highest = self.highest;
        *self = Self { highest, ..Self::new(self.keys.clone(), self.expire_nx, self.waiter_ttl, self.next_job) };
    }

    pub(crate) fn reply(&mut self, job: u64, reply: Value) {
        let Some(waiting) = self.jobs.get_mut(&job) else { return };
        waiting.replies.push(reply);
        if waiting.replies.len() < waiting.expected {
            return;
        }
        let Job { replies, stage, .. } = self.jobs.remove(&job).expect("it was there");
        match stage {
            Stage::Take { id, call } => self.taken(id, call, replies),
            Stage::TakeOrTell { id, call } => self.taken_or_told(id, call, replies),
            Stage::Watch { calls } => self.act(calls, replies),
            Stage::Commit { calls, results } => self.committed(calls, results, replies),
            Stage::Inspect { id, names } => self.inspected(id, names, replies),
            Stage::Remark { id, call } => self.remarked(id, &call, replies),
            Stage::Aside => {}
        }
    }

    fn send(&mut self, stage: Stage, commands: Vec<Command>) {
        if commands.is_empty() {
            return;
        }
        let job = self.next_job;
        self.next_job += 1;
        self.jobs.insert(job, Job { replies: Vec::new(), expected: commands.len(), stage });
        self.commands.extend(commands.into_iter().map(|parts| (job, parts)));
    }

    /// Reads, under `WATCH`, the values of everything that the gathered calls concern. The counter is watched only by
    /// calls that set it: every waiter draws a token with each try, so other calls would hardly ever succeed.
    fn open_section(&mut self) {
        let calls = self.calls_of_section();
        let sets_counter = calls.iter().any(|(_, call)| matches!(call, Call::Open { .. }));
        let mut keys: Vec<Vec<u8>> = calls.iter().flat_map(|(_, call)| self.keys_of(call)).collect();
        keys.push(self.keys.counter());
        let watched = if sets_counter || keys.len() == 1 { &keys[..] } else { &keys[..keys.len() - 1] };
        let mut commands = vec![with_each(b"WATCH", watched), with_each(b"MGET", &keys), parts(&[b"TIME"])];
        commands.extend(calls.iter().flat_map(|(_, call)| Self::sets_of(call)).map(|name| self.set(name)));
        self.watching = true;
        self.send(Stage::Watch { calls }, commands);
    }

    /// Takes calls that do not concern each other: each decides by what the section has read. Calls of one client share
    /// no name, unless they read it or want permits. Of those, one goes now, and the others with later sections.
    fn calls_of_section(&mut self) -> Vec<(u64, Call)> {
        let (mut all, mut shared) = (HashSet::new(), HashSet::new());
        let (mut now, mut later) = (Vec::new(), Vec::new());
        for (id, call) in std::mem::take(&mut self.gathered) {
            let changes = matches!(call, Call::Change { .. });
            let sets = changes || names_of(&call).any(Names::are_shared);
            let others = if sets { &all } else { &shared };
            let waits = names_of(&call).flat_map(|names| names.iter()).any(|name| others.contains(name));
            for name in names_of(&call).flat_map(|names| names.iter()) {
                all.insert(name.clone());
                if sets || waits {
                    shared.insert(name.clone());
                }
            }
            if waits { &mut later } else { &mut now }.push((id, call));
        }
        self.gathered = later;
        now
    }

    fn keys_of(&self, call: &Call) -> Vec<Vec<u8>> {
        if let Call::Rate { name, .. } = call {
            return vec![self.keys.rate(name)];
        }
        names_of(call).flat_map(|names| names.iter()).map(|name| self.keys.lock(name)).collect()
    }

    /// Decides what to do with the section's values, in one transaction.
    fn act(&mut self, calls: Vec<(u64, Call)>, replies: Vec<Value>) {
        self.watching = false;
        let counts: Vec<usize> = calls.iter().map(|(_, call)| self.keys_of(call).len()).collect();
        let sets = replies.get(3..).unwrap_or_default();
        let read = read(&replies[..replies.len().min(3)], counts.iter().sum::<usize>() + 1);
        let (values, now) = match read {
            Ok(read) => read,
            Err(error) => return self.refused(calls, &error),
        };
        let mut acts = Acts::default();
        let counter = self.raise_counter(&calls, values.last(), token::floor(now.as_micros() as u64), &mut acts);
        let mut results = Vec::new();
        let (mut at, mut set) = (0, 0);
        for ((_, call), count) in calls.iter().zip(counts) {
            let until = set + Self::sets_of(call).len();
            let read = Read { values: &values[at..at + count], sets: &sets[set..until], counter, now };
            results.push(self.follow(call, read, &mut acts));
            (at, set) = (at + count, until);
        }
        self.send(Stage::Aside, std::mem::take(&mut acts.asides));
        if acts.commands.is_empty() {
            self.send(Stage::Aside, vec![parts(&[b"UNWATCH"])]);
            for ((id, _), then) in calls.into_iter().zip(results) {
                let Then::ScriptAnswer(answer) = then else { continue };
                self.answer(id, answer);
            }
        } else {
            let (begin, end) = (parts(&[b"MULTI"]), parts(&[b"EXEC"]));
            let commands = std::iter::once(begin).chain(acts.commands).chain([end]).collect();
            self.send(Stage::Commit { calls, results }, commands);
            self.send(Stage::Aside, acts.messages);
        }
        self.go_on();
    }

    /// Fails a section that the server refuses. Calls that wait for the check of the counter get the same answer when
    /// they are sent.
    fn refused(&mut self, calls: Vec<(u64, Call)>, error: &ServerError) {
        self.opened |= calls.iter().any(|(_, call)| matches!(call, Call::Open { .. }));
        self.answers.extend(calls.into_iter().map(|(id, _)| (id, Err(error.clone()))));
        self.go_on();
    }

    /// Continues with the calls that waited for the section.
    fn go_on(&mut self) {
        if self.watching || !self.opened {
            return;
        }
        for (id, call) in std::mem::take(&mut self.held_back) {
            self.take(id, call);
        }
    }

    /// Decides what one call does, given what was read for it.
    fn follow(&self, call: &Call, read: Read<'_>, acts: &mut Acts) -> Then {
        let Read { values, sets, counter, now } = read;
        let holders: Vec<Option<Holder>> = values.iter().map(holder).collect();
        let at = (counter, now.as_millis() as u64);
        match call {
            Call::Open { .. } => Then::ScriptAnswer(ScriptAnswer::Opened { counter }),
            Call::Lock { attempt, names, ttl, wait, .. } if names.are_shared() => {
                let seen = Seen::all(names, &holders, sets, at.1);
                self.share((attempt, *ttl, *wait), &seen, at, acts)
            }
            Call::Poll { attempt, names, ttl, .. } if names.are_shared() => {
                self.poll_shared(attempt, *ttl, &Seen::all(names, &holders, sets, at.1), at, acts)
            }
            Call::Unlock { attempt, names, .. } if names.are_shared() => {
                self.leave(attempt, &Seen::all(names, &holders, sets, at.1), acts)
            }
            Call::Lock { attempt, names, ttl, .. } => {
                // Names that are read, and values of other types, are seen as sets only.
                let is_empty = |set: &Value| match set {
                    Value::Error(error) => &*error.code != "WRONGTYPE",
                    set => matches!(set, Value::Array(members) if members.is_empty()),
                };
                let are_free = values.iter().all(|value| matches!(value, Value::Null)) && sets.iter().all(is_empty);
                self.lock_if_free(attempt, names, *ttl, are_free, holders, acts)
            }
            Call::Poll { attempt, names, ttl, .. } => self.poll(attempt, names, *ttl, &holders, acts),
            Call::Unlock { attempt, names, rest, .. } => self.unlock(attempt, names, *rest, &holders, acts),
            Call::Change { attempt, names, ttl, wait, .. } => {
                self.change((attempt, *ttl, *wait), &Seen::all(names, &holders, sets, at.1), at.1, acts)
            }
            Call::Adopt { attempt, names, ttl, from } => self.adopt(attempt, names, *ttl, from, &holders, acts),
            Call::ForceRelease { names, token } => self.force_release(names, *token, (&holders, sets), acts),
            Call::Extend { held } => self.extend(held, (&holders, sets), at.1, acts),
            Call::Rate { name, cost, most, ticks } => {
                self.rate(name, [*cost, *most, *ticks], values.first(), now.as_micros() as u64, acts)
            }
            _ => Then::ScriptAnswer(ScriptAnswer::Unknown),
        }
    }

    fn committed(&mut self, calls: Vec<(u64, Call)>, results: Vec<Then>, replies: Vec<Value>) {
        if matches!(replies.last(), Some(Value::Null)) {
            // A value has changed since the section read it.
            let (given_up, again): (Vec<_>, Vec<_>) = calls.into_iter().partition(|(_, call)| self.is_given_up(call));
            self.answers.extend(given_up.into_iter().map(|(id, _)| (id, Ok(ScriptAnswer::Cancelled))));
            return self.gathered.extend(again);
        }
        match executed(replies) {
            Err(error) => self.refused(calls, &error),
            Ok(transaction) => {
                for ((id, _), then) in calls.into_iter().zip(results) {
                    let answer = match then {
                        Then::ScriptAnswer(answer) => Some(answer),
                        Then::Deleted(at) => transaction
                            .get(at)
                            .and_then(number)
                            .map(|released| ScriptAnswer::ForceReleased { released: released as usize }),
                        Then::Token(at) => {
                            transaction.get(at).and_then(number).map(|token| ScriptAnswer::Granted { token })
                        }
                    };
                    match answer {
                        Some(answer) => self.answer(id, answer),
                        None => self.answers.push((id, Err(unexpected(&transaction)))),
                    }
                }
                self.go_on();
            }
        }
    }

    fn answer(&mut self, id: u64, answer: ScriptAnswer) {
        match answer {
            ScriptAnswer::Opened { counter } => (self.opened, self.highest) = (true, self.highest.max(counter)),
            ScriptAnswer::Granted { token } => self.highest = self.highest.max(token),
            _ => {}
        }
        self.answers.push((id, Ok(answer)));
    }

    fn values_of(&self, names: &Names) -> Command {
        let keys: Vec<Vec<u8>> = names.iter().map(|name| self.keys.lock(name)).collect();
        with_each(b"MGET", &keys)
    }
}

/// The names that a call of a section is about.
fn names_of(call: &Call) -> impl Iterator<Item = &Names> {
    let (one, held) = match call {
        Call::Lock { names, .. }
        | Call::Unlock { names, .. }
        | Call::Poll { names, .. }
        | Call::Adopt { names, .. }
        | Call::Change { names, .. }
        | Call::ForceRelease { names, .. } => (Some(names), &[][..]),
        Call::Extend { held } => (None, &held[..]),
        _ => (None, &[][..]),
    };
    one.into_iter().chain(held.iter().map(|(_, names, _)| names))
}

fn parts(parts: &[&[u8]]) -> Command {
    Command::of(parts)
}

fn with_each(command: &[u8], keys: &[Vec<u8>]) -> Command {
    Command::of(std::iter::once(command).chain(keys.iter().map(Vec::as_slice)))
}

fn milliseconds(duration: Duration) -> Vec<u8> {
    duration.as_millis().to_string().into_bytes()
}
