//! Writing: tells the process's store of hot keys which keys are being written.
//!
//! A write begins before its command is sent and ends when its exchange is over: answered, failed, or gone with its
//! session. An exchange whose caller was told that its time is over is still a write until then, because the server may
//! still carry it out.

use std::collections::VecDeque;
use std::sync::Arc;

use pinyon_proto::{Command, Key, Verb};

use super::completion::Ticket;
use super::Session;
use crate::near::{Near, Write};
use pinyon_net::network::Network;

/// The writes of a session's exchanges.
pub(super) struct Writing {
    near: Arc<Near>,
    /// In the order of the exchanges.
    under_way: VecDeque<(Ticket, Written)>,
}

/// What an exchange writes.
enum Written {
    /// Held until it is over.
    Keys {
        _writes: Vec<Write>,
    },
    All(Arc<Near>),
}

impl Drop for Written {
    fn drop(&mut self) {
        if let Written::All(near) = self {
            near.forget_all();
        }
    }
}

impl Writing {
    pub(super) fn new(near: Arc<Near>) -> Self {
        Self { near, under_way: VecDeque::new() }
    }

    fn written(&self, command: &Command<'_>) -> Option<Written> {
        let write = |key: Key<'_>| self.near.write(key);
        let writes = match command {
            Command::GetAndTouch { key, .. }
            | Command::Touch { key, .. }
            | Command::Delete { key }
            | Command::DeleteIf { key, .. } => vec![write(*key)],
            Command::Store(store) => vec![write(store.key)],
            Command::MarkStale(mark) => vec![write(mark.key)],
            Command::Arithmetic(arithmetic) => vec![write(arithmetic.key)],
            Command::Meta(meta) if meta.verb != Verb::Get => vec![write(meta.key)],
            Command::GetMany { keys, ttl: Some(_), .. } => {
                keys.split(|byte| *byte == b' ').map(|key| write(Key::known(key, false))).collect()
            }
            Command::FlushAll { .. } => {
                self.near.forget_all();
                return Some(Written::All(self.near.clone()));
            }
            Command::Get { .. }
            | Command::GetMany { ttl: None, .. }
            | Command::Lease(_)
            | Command::Meta(_)
            | Command::NoOp
            | Command::Stats(_)
            | Command::Version
            | Command::ClusterConfig => return None,
        };
        Some(Written::Keys { _writes: writes })
    }
}

impl<N: Network> Session<N> {
    /// Begins the writes of a command, which is about to be submitted with this ticket.
    #[cold]
    pub(super) fn begin_writes(&mut self, command: &Command<'_>, ticket: Ticket) {
        let Some(writing) = &mut self.writing else { return };
        if let Some(written) = writing.written(command) {
            writing.under_way.push_back((ticket, written));
        }
    }

    /// Ends the writes of the exchange at the front of the queue, which is over.
    #[cold]
    #[inline(never)]
    pub(super) fn end_writes(&mut self) {
        let (Some(writing), Some(front)) = (&mut self.writing, self.queue.front()) else { return };
        while writing.under_way.front().is_some_and(|(of, _)| *of <= front.ticket) {
            writing.under_way.pop_front();
        }
    }
}
