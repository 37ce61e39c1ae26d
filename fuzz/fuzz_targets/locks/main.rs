//! The whole client of locks, connected in memory to a server. The fuzzer decides what the users want, what happens to
//! connections and time, and when the server errs or lies.
//!
//! There must be no panic, no endless loop, and bounded memory. Each waiter is told its outcome once and in time. No
//! two holders have the same name, and once everything is released, nothing is left.
#![no_main]

mod functions;
#[path = "../in_resp.rs"]
mod in_resp;
mod plain;
mod platform;
mod run;
mod say;
mod server;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use pinyon_locks::machine::{Fairness, Renewal};
use pinyon_locks::{call, claim, HandlerKind};

use platform::{End, Opening};
use run::Run;
use say::{Lie, Refusal};
use server::{Manners, Scripts};

#[allow(dead_code)]
#[path = "../../../locks/src/tests/model/mod.rs"]
mod model;

/// The name of the only client.
const CLIENT: &str = "c.1.0";

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    manners: Manners,
    scripts: Scripts,
    handler: Handler,
    throughput: bool,
    /// Whether the server has a name, to be resolved.
    named: bool,
    ends_abruptly: bool,
    steps: Vec<Step<'a>>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Handler {
    Auto,
    Script,
    Pure,
}

/// The next step. Times of one byte are in units of twenty milliseconds, those of two bytes in milliseconds.
#[derive(Arbitrary, Debug)]
enum Step<'a> {
    Lock {
        owner: u8,
        names: u8,
        ttl: u8,
        wait: Option<u8>,
        renewal: Renews,
        reentrant: bool,
    },
    Release(u8),
    Extend(u8, u8),
    Cancel(u8),
    Forsake(u8),
    Park {
        which: u8,
        wait: u8,
        relock: u8,
    },
    Notify(u8),
    Inspect(u8),
    ForceRelease(u8, Option<u64>),
    Rate(u8),
    Execute {
        patience: u8,
    },
    Command(Command, &'a [u8]),
    /// Drives the client until it has nothing more to do.
    Turn,
    Pass(u16),
    Suspend(u16),
    Resolve(bool),
    /// Lets the server read what it was sent.
    Serve,
    /// Lets it also read what was sent on closed connections.
    Astray,
    NoticeEnds,
    /// Delivers so many replies, or all present and future ones.
    Deliver(u8),
    Converse,
    /// Whether the server answers at once from now on while time passes.
    Lively(bool),
    /// Another client takes names, or releases them.
    Disturb(u8, bool),
    Expect(Opening),
    Receive(Manners, Scripts),
    Refuse(Refusal<'a>),
    Insist(Option<Refusal<'a>>),
    Narrow(u8, u16),
    End(u8, End),
    /// Makes the server lie after so many replies. It is not honest any more.
    Lie(u8, Lie<'a>),
    Message(Message<'a>),
    Noise(u8, &'a [u8]),
    Drop(u8),
    Double(u8),
    Flush,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Renews {
    Never,
    Always,
    For(u8),
}

/// A command of a user on the shared connection.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Command {
    Ping,
    Subscribe,
    Unsubscribe,
    Monitor,
    Nothing,
}

/// A push that was never published.
#[derive(Arbitrary, Debug)]
enum Message<'a> {
    Granted { owner: u8, number: u8, token: u64 },
    Forced { owner: u8, number: u8 },
    Freed(u8),
    Text(&'a [u8]),
    Invalidated,
}

impl From<Handler> for HandlerKind {
    fn from(handler: Handler) -> Self {
        match handler {
            Handler::Auto => HandlerKind::Auto,
            Handler::Script => HandlerKind::Script,
            Handler::Pure => HandlerKind::Pure,
        }
    }
}

impl From<Renews> for Renewal {
    fn from(renews: Renews) -> Self {
        match renews {
            Renews::Never => Renewal::Never,
            Renews::Always => Renewal::Always,
            Renews::For(seconds) => Renewal::For(std::time::Duration::from_secs(seconds.into())),
        }
    }
}

impl Input<'_> {
    fn fairness(&self) -> Fairness {
        match self.throughput {
            true => Fairness::Throughput,
            false => Fairness::Fifo,
        }
    }
}

fuzz_target!(|input: Input<'_>| {
    let mut run = Run::new(&input);
    for step in &input.steps {
        run.step(step);
    }
    run.end();
});
