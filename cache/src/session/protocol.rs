//! Which of memcached's two protocols a server gets, and how a session discovers it.
//!
//! The greeting asks for the version and tries `mn`. A proxy that refuses meta commands closes the connection or
//! answers with an error at this point, before any user's command is in flight. The session then reconnects without
//! `mn` and speaks classic text ([`Manner`]), because mcrouter closes the connection after an error.
//!
//! The first greeting sends `mn` after the version's answer. If a server answers and then closes, `mn` is the reason:
//! the server was not just stopped. Later greetings send both in one packet.
//!
//! The version decides what a session may send: meta commands from memcached 1.6.10 on, each flag from the version
//! that knows it, and classic text before.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::Arc;

use pinyon_proto::{Capabilities, ServerVersion};

use super::generations::{Clearing, Generations};
use crate::events::{Event, EventKind, Events};
use crate::near::Near;

/// Which commands to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Meta commands if the server takes them, classic text otherwise. The first connection finds out before it carries
    /// any user's command, so a proxy that cuts off meta commands loses none.
    #[default]
    Auto,
    /// Meta commands, even if the version cannot be read.
    Meta,
    /// Classic text. The server is not even asked for its version, because some proxies do not know that command.
    Classic,
}

impl Protocol {
    pub(crate) const NAMES: [(&'static str, Self); 3] =
        [("auto", Self::Auto), ("meta", Self::Meta), ("classic", Self::Classic)];
}

/// What is known of a server's protocol. All connections to the server share it.
#[derive(Debug)]
pub(crate) struct Manner {
    protocol: Protocol,
    /// A [`Taught`] as a number.
    taught: AtomicU8,
    /// The server's `item_size_max`; 0 while it is unknown.
    largest_item: AtomicUsize,
    /// Whether the server has no CAS tokens.
    without_tokens: AtomicBool,
    events: Option<Arc<Events>>,
    /// What is known of the namespace on the server, if it is clearable.
    generations: Option<Arc<Generations>>,
    /// The client's hot keys, if it keeps them.
    near: Option<Arc<Near>>,
}

/// What the last greeting taught about meta commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taught {
    Nothing,
    Answered,
    Refused,
}

impl Taught {
    /// By their numbers.
    const ALL: [Self; 3] = [Self::Nothing, Self::Answered, Self::Refused];
}

/// When a greeting sends a meta no-op.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Probe {
    #[default]
    Never,
    /// In one packet with `version`.
    AtOnce,
    /// After the answer to `version`. If the server then closes the connection, the cause is the meta command: a server
    /// that is being stopped would hardly have answered.
    AfterVersion,
}

impl Manner {
    pub(crate) fn new(protocol: Protocol, events: Option<Arc<Events>>) -> Self {
        let taught = AtomicU8::new(Taught::Nothing as u8);
        let (largest_item, without_tokens) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { protocol, taught, largest_item, without_tokens, events, generations: None, near: None }
    }

    /// The same with a namespace that can be cleared.
    pub(crate) fn clearing(self, clearing: Option<&Arc<Clearing>>) -> Self {
        Self { generations: clearing.map(|clearing| Generations::new(clearing.clone()).into()), ..self }
    }

    /// The same of a client that keeps hot keys in memory.
    pub(crate) fn keeping(self, near: Option<&Arc<Near>>) -> Self {
        Self { near: near.cloned(), ..self }
    }

    pub(super) fn near(&self) -> Option<&Arc<Near>> {
        self.near.as_ref()
    }

    pub(crate) fn generations(&self) -> Option<&Arc<Generations>> {
        self.generations.as_ref()
    }

    /// Whether a new connection asks for the version.
    pub(super) fn asks_version(&self) -> bool {
        self.protocol != Protocol::Classic
    }

    /// When a new connection sends a meta no-op.
    pub(super) fn probe(&self) -> Probe {
        match (self.protocol, self.taught()) {
            (Protocol::Meta | Protocol::Classic, _) | (_, Taught::Refused) => Probe::Never,
            (Protocol::Auto, Taught::Nothing) => Probe::AfterVersion,
            (Protocol::Auto, Taught::Answered) => Probe::AtOnce,
        }
    }

    /// The commands that a server of this version gets.
    pub(super) fn capabilities(&self, version: Option<ServerVersion>) -> Capabilities {
        let known = Capabilities::of(version);
        match self.protocol {
            Protocol::Classic => Capabilities::classic(version),
            Protocol::Meta if !known.meta() => Capabilities::meta_of_unknown_version(),
            Protocol::Auto if self.taught() == Taught::Refused => Capabilities::classic(version),
            _ => known,
        }
    }

    /// Notes that the server answered a meta command.
    pub(super) fn answers_meta(&self) {
        self.taught.store(Taught::Answered as u8, Ordering::Relaxed);
    }

    /// Notes that the server refused a meta command. None is sent until a connection fails.
    pub(super) fn refuses_meta(&self, server: &Arc<str>) {
        if self.taught.swap(Taught::Refused as u8, Ordering::Relaxed) == Taught::Refused as u8 {
            return;
        }
        let Some(events) = &self.events else { return };
        let (kind, server) = (EventKind::Classic, server.clone());
        events.note(Event { kind, server, command: "", error: None, duration: None });
    }

    /// Notes that no connection could be made: another server may answer at this address next.
    pub(super) fn forget(&self) {
        self.taught.store(Taught::Nothing as u8, Ordering::Relaxed);
        self.largest_item.store(0, Ordering::Relaxed);
        self.without_tokens.store(false, Ordering::Relaxed);
    }

    /// The largest item that the server stores, in bytes, if it is known.
    pub(super) fn largest_item(&self) -> Option<usize> {
        Some(self.largest_item.load(Ordering::Relaxed)).filter(|largest| *largest > 0)
    }

    pub(super) fn learn_largest_item(&self, largest: usize) {
        self.largest_item.store(largest, Ordering::Relaxed);
    }

    /// Notes that the server gave an item the CAS token 0.
    pub(super) fn lacks_tokens(&self) {
        self.without_tokens.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_without_tokens(&self) -> bool {
        self.without_tokens.load(Ordering::Relaxed)
    }

    fn taught(&self) -> Taught {
        Taught::ALL[usize::from(self.taught.load(Ordering::Relaxed))]
    }
}

impl Default for Manner {
    fn default() -> Self {
        Self::new(Protocol::default(), None)
    }
}
