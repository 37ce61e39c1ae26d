//! The whole client of locks, and a server that it reaches by connections in memory. The fuzzer says what its users
//! want, what becomes of connections and time, and when the server errs or lies.
//!
//! No panic, no endless loop, bounded memory; everybody who waits is told once what came of it, before the time for it
//! is over; no name is held by two; and when all is given back, nothing is left of it.
#![no_main]

mod functions;
mod plain;
mod platform;
mod run;
mod say;
mod server;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use pinyon_core::locks::call;
use pinyon_core::locks::machine::{Fairness, Renewal};
use pinyon_core::locks::HandlerKind;

use platform::{End, Opening};
use run::Run;
use say::{Lie, Refusal};
use server::{Manners, Scripts};

#[allow(dead_code)]
#[path = "../../../core/src/locks/model.rs"]
mod model;

/// The one client's name.
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

/// What happens next. Times of one byte are in units of twenty milliseconds, those of two in milliseconds.
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
    Execute {
        patience: u8,
    },
    Command(Command, &'a [u8]),
    /// The client is driven as far as it goes by itself.
    Turn,
    Pass(u16),
    Suspend(u16),
    Resolve(bool),
    /// The server reads what it was sent.
    Serve,
    /// It also reads what was sent on connections that are closed.
    Astray,
    NoticeEnds,
    /// What it has said arrives: so many replies, or all there are and will be.
    Deliver(u8),
    Converse,
    /// From now on it answers at once while time passes, or does not.
    Lively(bool),
    /// Somebody else takes names, or gives them back.
    Disturb(u8, bool),
    Expect(Opening),
    Receive(Manners, Scripts),
    Refuse(Refusal<'a>),
    Insist(Option<Refusal<'a>>),
    Narrow(u8, u16),
    End(u8, End),
    /// From here on it is not honest any more.
    /// So many replies later.
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

/// What a user may ask of a connection that is not the user's own.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Command {
    Ping,
    Subscribe,
    Unsubscribe,
    Monitor,
    Nothing,
}

/// What nobody has published.
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
