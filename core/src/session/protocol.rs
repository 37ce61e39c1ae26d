//! Which of memcached's two protocols a server gets, and how a session discovers it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use pinyon_proto::{Capabilities, ServerVersion};

use crate::events::{Event, EventKind, Events};

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
#[derive(Debug, Default)]
pub(crate) struct Manner {
    protocol: Protocol,
    /// Whether it once answered a meta command with an error, or closed the connection.
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

    /// Whether a new connection tries a meta no-op.
    pub(super) fn tries_meta(&self) -> bool {
        self.protocol == Protocol::Auto && !self.refuses_meta.load(Ordering::Relaxed)
    }

    /// The commands that a server of this version gets.
    pub(super) fn capabilities(&self, version: Option<ServerVersion>) -> Capabilities {
        let known = Capabilities::of(version);
        match self.protocol {
            Protocol::Classic => Capabilities::classic(version),
            Protocol::Meta if !known.meta() => Capabilities::meta_of_unknown_version(),
            Protocol::Auto if self.refuses_meta.load(Ordering::Relaxed) => Capabilities::classic(version),
            _ => known,
        }
    }

    /// Notes that the server refused a meta command. None is sent from now on.
    pub(super) fn refuses_meta(&self, server: &Arc<str>) {
        if self.refuses_meta.swap(true, Ordering::Relaxed) {
            return;
        }
        let Some(events) = &self.events else { return };
        let (kind, server) = (EventKind::Classic, server.clone());
        events.note(Event { kind, server, command: "", error: None, duration: None });
    }
}
