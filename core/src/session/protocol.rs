//! In which of memcached's two protocols a server is spoken to, and how that is found out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use pinyon_proto::{Capabilities, ServerVersion};

use crate::events::{Event, EventKind, Events};

/// Which commands are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Meta commands where the server takes them, else classic text. What a proxy cuts off is found out when the first
    /// connection is made: no command of the user's is lost for it.
    #[default]
    Auto,
    /// Meta commands, even where the version cannot be read.
    Meta,
    /// Classic text. The server is not even asked for its version, which some proxies do not know.
    Classic,
}

impl Protocol {
    pub(crate) const NAMES: [(&'static str, Self); 3] =
        [("auto", Self::Auto), ("meta", Self::Meta), ("classic", Self::Classic)];
}

/// What is known of how a server is spoken to. All connections to the server share it.
#[derive(Debug, Default)]
pub(crate) struct Manner {
    protocol: Protocol,
    /// It closed a connection, or answered with an error, when it was sent a meta command.
    refuses_meta: AtomicBool,
    events: Option<Arc<Events>>,
}

impl Manner {
    pub(crate) fn new(protocol: Protocol, events: Option<Arc<Events>>) -> Self {
        Self { protocol, refuses_meta: AtomicBool::default(), events }
    }

    /// Whether a new connection asks for the version.
    pub(super) fn asks_version(&self) -> bool {
        self.protocol != Protocol::Classic
    }

    /// Whether a new connection tries a meta command that does nothing.
    pub(super) fn tries_meta(&self) -> bool {
        self.protocol == Protocol::Auto && !self.refuses_meta.load(Ordering::Relaxed)
    }

    /// What may be sent to a server that reports this version.
    pub(super) fn capabilities(&self, version: Option<ServerVersion>) -> Capabilities {
        let known = Capabilities::of(version);
        match self.protocol {
            Protocol::Classic => Capabilities::classic(version),
            Protocol::Meta if !known.meta() => Capabilities::meta_of_unknown_version(),
            Protocol::Auto if self.refuses_meta.load(Ordering::Relaxed) => Capabilities::classic(version),
            _ => known,
        }
    }

    /// The server has refused a meta command: none is sent from now on.
    pub(super) fn refuses_meta(&self, server: &Arc<str>) {
        if self.refuses_meta.swap(true, Ordering::Relaxed) {
            return;
        }
        let Some(events) = &self.events else { return };
        let (kind, server) = (EventKind::Classic, server.clone());
        events.note(Event { kind, server, command: "", error: None, duration: None });
    }
}
