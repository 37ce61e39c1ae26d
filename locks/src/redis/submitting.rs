//! Taking commands: encodes each for sending, and appends its exchange to the queue.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use pinyon_proto::resp::Command;

use super::RespSession;
use pinyon_net::connection::Ticket;
use pinyon_net::error::{Error, Kind, Sent};
use pinyon_net::network::Network;

/// Why a session did not take a command. Nothing of it was sent or queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RespRefused {
    /// The session is not ready or its queue is full: wait, then submit again.
    Full,
    TooLarge {
        size: usize,
        limit: usize,
    },
    /// Its replies could not be distinguished from those to other commands.
    Unanswerable(&'static str),
}

impl RespRefused {
    /// The error for a caller that cannot wait.
    pub fn into_error(self, server: &Arc<str>, command: &'static str) -> Error {
        let error = match self {
            RespRefused::Full => Error::new(Kind::Usage, server, "the connection accepts no more commands"),
            RespRefused::Unanswerable(why) => Error::new(Kind::Usage, server, why),
            RespRefused::TooLarge { size, limit } => {
                let message = format!("the command has {size} bytes, more than the limit of {limit}");
                Error::new(Kind::TooLarge, server, message)
            }
        };
        error.of(command, Sent::No)
    }
}

/// One command and its reply, in the queue of those in flight.
pub(super) struct Exchange {
    pub(super) ticket: Ticket,
    pub(super) deadline: Instant,
    /// The position of its request in the stream of sent bytes.
    begin: u64,
    /// Whether its caller is gone: the reply is read and dropped.
    pub(super) abandoned: bool,
    /// The confirmations that replace its reply, for commands about subscriptions.
    pub(super) confirmations: Option<Confirmations>,
}

impl Exchange {
    /// An exchange whose reply no caller awaits.
    pub(super) fn unawaited(ticket: Ticket, deadline: Instant, begin: u64) -> Self {
        Self { ticket, deadline, begin, abandoned: true, confirmations: None }
    }

    /// Whether its request was sent, if the stream is sent up to `position`.
    pub(super) fn sent(&self, position: u64) -> Sent {
        match position > self.begin {
            true => Sent::Maybe,
            false => Sent::No,
        }
    }
}

/// A command about subscriptions is answered with one message for each of its channels: a push in RESP3.
#[derive(Clone, Copy)]
pub(super) struct Confirmations {
    /// The command's name in these messages.
    pub(super) kind: &'static str,
    pub(super) missing: usize,
}

impl Confirmations {
    /// The confirmations of a command, if it is answered in this way.
    fn of(name: &[u8], command: &Command) -> Option<Self> {
        const KINDS: [&str; 6] =
            ["subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe"];
        let kind = KINDS.into_iter().find(|kind| is(name, kind))?;
        Some(Self { kind, missing: command.len() - 1 })
    }
}

impl<N: Network> RespSession<N> {
    /// Queues the command of these parts; see [`Self::submit_command`].
    pub fn submit(&mut self, parts: &[&[u8]], deadline: Instant) -> Result<Ticket, RespRefused> {
        self.submit_command(&Command::of(parts), deadline)
    }

    /// Queues a command for sending; its name is the first part. The outcome is an event with the returned ticket.
    ///
    /// `SUBSCRIBE` and its relatives must name their channels. Their answer is the confirmation of the last channel, an
    /// array in either protocol. With RESP2, a connection that has subscribed takes no other commands, and its messages
    /// are reported as pushes too.
    pub fn submit_command(&mut self, command: &Command, deadline: Instant) -> Result<Ticket, RespRefused> {
        let confirmations = self.check(command)?;
        if !self.accepts() {
            return Err(RespRefused::Full);
        }
        self.subscribed |= confirmations.is_some();
        let begin = self.outgoing.end();
        let Ok(()) = self.outgoing.append(|out| {
            command.append_to(out);
            Ok::<(), Infallible>(())
        });
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.queue.push_back(Exchange { ticket, deadline, begin, abandoned: false, confirmations });
        Ok(ticket)
    }

    /// Refuses commands that are never taken.
    fn check(&self, command: &Command) -> Result<Option<Confirmations>, RespRefused> {
        let (size, limit) = (command.size(), self.settings.limits.command);
        if size > limit {
            return Err(RespRefused::TooLarge { size, limit });
        }
        let mut parts = command.iter();
        let Some(name) = parts.next() else {
            return Err(RespRefused::Unanswerable("a command without a name is never answered"));
        };
        let confirmations = Confirmations::of(name, command);
        match confirmations {
            Some(Confirmations { missing: 0, .. }) => {
                Err(RespRefused::Unanswerable("a command about subscriptions must name its channels"))
            }
            _ if changes_replies(name, parts) => Err(RespRefused::Unanswerable(
                "a command that changes how replies arrive cannot be used on a shared connection",
            )),
            _ => Ok(confirmations),
        }
    }

    /// Gives up an exchange: its reply is read and dropped. Other exchanges are not affected.
    pub fn abandon(&mut self, ticket: Ticket) {
        if let Ok(position) = self.queue.binary_search_by_key(&ticket, |exchange| exchange.ticket) {
            self.queue[position].abandoned = true;
        }
        self.expired.retain(|(expired, _)| *expired != ticket);
    }
}

/// Whether the command is answered by a stream, changes the protocol, or turns off replies.
fn changes_replies<'c>(name: &[u8], mut others: impl Iterator<Item = &'c [u8]>) -> bool {
    const NAMES: [&str; 5] = ["monitor", "sync", "psync", "hello", "reset"];
    NAMES.iter().any(|of| is(name, of)) || is(name, "client") && others.next().is_some_and(|what| is(what, "reply"))
}

fn is(part: &[u8], word: &str) -> bool {
    part.eq_ignore_ascii_case(word.as_bytes())
}
