//! Taking commands: each is encoded for sending, and its exchange put into the queue.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Instant;

use pinyon_proto::{encode, Command, Expect, Form, Key, Opaque};

use super::completion::Ticket;
use super::exchange::{About, Exchange, NOT_ENCODED};
use super::{Data, Refused, Session};
use crate::metrics::Counted;
use crate::network::Network;

/// After so many quiet commands a no-op is put in.
const LONGEST_QUIET_RUN: usize = 128;

/// How many keys one classic `get` line asks for at most, and how long it may get: measured, and well below what
/// servers and proxies take.
pub const KEYS_PER_LINE: usize = 200;
pub const BYTES_PER_LINE: usize = 8 * 1024;

/// From how many keys on a classic line costs less than as many meta commands: the server sends each line's reply by
/// itself, while it gathers those to meta commands.
const FEWEST_KEYS_PER_LINE: usize = 16;

/// So many stores of a run are answered each; from then on the others, and a no-op behind them, cost less.
const LOUD_STORES: usize = 3;

/// The `get` lines that several exchanges share.
#[derive(Default)]
pub(super) struct Lines {
    /// How many gets at the end of the queue nothing has been submitted or sent behind: more may join them, and only
    /// then are they encoded.
    keys: usize,
    /// Their keys, each with a space before it.
    open: Vec<u8>,
    /// The keys of the lines that were encoded, until the last reply to each.
    encoded: VecDeque<Vec<u8>>,
    /// Memory for the next one.
    spare: Vec<u8>,
}

impl Lines {
    /// How many bytes are still to be encoded.
    pub(super) fn unencoded(&self) -> usize {
        self.open.len()
    }

    /// The keys of the line that is answered next.
    pub(super) fn answered(&self) -> &[u8] {
        self.encoded.front().map_or(&[], Vec::as_slice)
    }

    /// The last reply to a line has come.
    pub(super) fn end(&mut self) {
        self.spare = self.encoded.pop_front().unwrap_or_default();
        self.spare.clear();
    }

    /// Returns where the key stands.
    fn join(&mut self, key: &[u8]) -> Range<usize> {
        self.keys += 1;
        self.open.push(b' ');
        self.open.extend_from_slice(key);
        self.open.len() - key.len()..self.open.len()
    }

    fn is_full_for(&self, key: &[u8]) -> bool {
        self.keys == KEYS_PER_LINE || self.open.len() + key.len() > BYTES_PER_LINE
    }
}

impl<N: Network> Session<N> {
    /// Queues a command and encodes it for sending. Its data block must be as long as the command says.
    pub fn submit(&mut self, command: &Command<'_>, data: Data<'_>, deadline: Instant) -> Result<Ticket, Refused> {
        if !self.accepts() {
            return Err(Refused::Full);
        }
        if !matches!(command, Command::NoOp) {
            self.end_quiet_run(deadline);
        }
        self.enqueue(command, data, false, deadline)
    }

    /// Like [`Self::submit`], with no reply on success. The outcome is known once a later reply has come: end a
    /// run of quiet commands with a [`Command::NoOp`]. One is put before any other loud command, and between quiet
    /// ones now and then, so that an error which does not say whose it is concerns few.
    pub fn submit_quiet(
        &mut self,
        command: &Command<'_>,
        data: Data<'_>,
        deadline: Instant,
    ) -> Result<Ticket, Refused> {
        if !command.can_be_quiet() {
            return self.submit(command, data, deadline);
        }
        if !self.accepts() {
            return Err(Refused::Full);
        }
        if self.quiet_run >= LONGEST_QUIET_RUN {
            self.end_quiet_run(deadline);
        }
        self.enqueue(command, data, true, deadline)
    }

    /// Reads the value of a key. Many gets that are submitted so one after another share one classic `get` line: it
    /// costs the server about half of as many commands, and repeats the keys that it found. Each keeps a ticket, a
    /// deadline and an outcome of its own.
    #[inline]
    pub fn submit_joined_get(&mut self, key: Key<'_>, deadline: Instant) -> Result<Ticket, Refused> {
        if key.is_base64() {
            return self.submit(&Command::Get { key, cas: false }, Data::None, deadline);
        }
        if !self.accepts() {
            return Err(Refused::Full);
        }
        self.end_quiet_run(deadline);
        self.stores = 0;
        let wire = key.wire();
        if self.lines.is_full_for(wire) {
            self.end_line();
        }
        let place = self.lines.join(wire);
        Ok(self.push_of_line(About::KeyOfLine(place), NOT_ENCODED, deadline))
    }

    /// Like [`Self::submit`], for a store or a deletion that many others may follow. Of those that are submitted so one after
    /// another all but the first few are quiet, which costs the server about half. The no-op that is sent behind them tells
    /// that they are done. An error whose command the server does not name is told to all that it may belong to, as
    /// [`Sent::Maybe`](crate::Sent::Maybe): those that may be done twice can be submitted again by [`Self::submit`].
    pub fn submit_joined(
        &mut self,
        command: &Command<'_>,
        data: Data<'_>,
        deadline: Instant,
    ) -> Result<Ticket, Refused> {
        let stores = self.stores + 1;
        let submitted = match stores > LOUD_STORES {
            true => self.submit_quiet(command, data, deadline),
            false => self.submit(command, data, deadline),
        };
        if submitted.is_ok() {
            self.stores = stores;
        }
        submitted
    }

    /// Ends what was joined, before something else is submitted or all is sent.
    pub(super) fn end_joined(&mut self) {
        self.end_line();
        if std::mem::take(&mut self.stores) > LOUD_STORES {
            let deadline = self.queue.back().map(|last| last.deadline).expect("a run has stores");
            self.end_quiet_run(deadline);
        }
    }

    /// The connection is broken, and what was joined is never sent.
    pub(super) fn forget_joined(&mut self) {
        self.lines = Lines::default();
        self.stores = 0;
    }

    /// Encodes the gets that were to be joined, so that the next one begins another line.
    #[inline]
    fn end_line(&mut self) {
        if self.lines.keys > 0 {
            self.encode_joined();
        }
    }

    fn encode_joined(&mut self) {
        let keys = std::mem::take(&mut self.lines.keys);
        let next = std::mem::take(&mut self.lines.spare);
        let mut text = std::mem::replace(&mut self.lines.open, next);
        let fewest = if self.capabilities.meta() { FEWEST_KEYS_PER_LINE } else { 2 };
        let first = self.queue.len() - keys;
        match keys < fewest {
            true => {
                self.encode_apart(first, &text);
                text.clear();
                self.lines.spare = text;
            }
            false => {
                self.encode_line(first, &text);
                self.lines.encoded.push_back(text);
            }
        }
    }

    fn encode_apart(&mut self, first: usize, text: &[u8]) {
        for exchange in self.queue.range_mut(first..) {
            let About::KeyOfLine(place) = std::mem::replace(&mut exchange.about, About::Echo) else { continue };
            let key = Key::new(&text[place], false).expect("it was a key when it was submitted");
            let command = Command::Get { key, cas: false };
            let opaque = Opaque(exchange.ticket.0 as u16);
            exchange.begin = self.outgoing.end();
            exchange.expect = self
                .outgoing
                .append(|out| encode(&command, &self.capabilities, opaque, false, out))
                .expect("every server takes a get");
            exchange.about = About::of(&command, exchange.expect.form);
        }
    }

    fn encode_line(&mut self, first: usize, text: &[u8]) {
        let begin = self.outgoing.end();
        self.outgoing.append_bytes(b"get");
        self.outgoing.append_bytes(text);
        self.outgoing.append_bytes(b"\r\n");
        for exchange in self.queue.range_mut(first..) {
            exchange.begin = begin;
        }
        let deadline = self.queue[first].deadline;
        self.push_of_line(About::EndOfLine, begin, deadline);
    }

    fn push_of_line(&mut self, about: About, begin: u64, deadline: Instant) -> Ticket {
        self.push(Exchange {
            ticket: Ticket(self.next_ticket),
            command: Counted::Get,
            expect: Expect::classic(Form::ClassicGet),
            deadline,
            begin,
            stores: false,
            counts: false,
            abandoned: matches!(about, About::EndOfLine),
            about,
        })
    }

    /// Puts a no-op behind the quiet commands submitted last, so that their outcome becomes known.
    pub fn end_quiet_run(&mut self, deadline: Instant) {
        if self.quiet_run == 0 {
            return;
        }
        self.enqueue(&Command::NoOp, Data::None, false, deadline).expect("a no-op suits every server");
        if let Some(barrier) = self.queue.back_mut() {
            barrier.abandoned = true;
        }
    }

    fn enqueue(
        &mut self,
        command: &Command<'_>,
        data: Data<'_>,
        quiet: bool,
        deadline: Instant,
    ) -> Result<Ticket, Refused> {
        let size = match &data {
            Data::None => 0,
            Data::Copied(bytes) => bytes.len(),
            Data::Shared(bytes) => (**bytes).as_ref().len(),
        };
        if size > self.limits.value {
            return Err(Refused::TooLarge { size, limit: self.limits.value });
        }
        self.end_line();
        self.stores = 0;
        let begin = self.outgoing.end();
        let opaque = Opaque(self.next_ticket as u16);
        let expect = self
            .outgoing
            .append(|out| encode(command, &self.capabilities, opaque, quiet, out))
            .map_err(Refused::Unsupported)?;
        let stores = !matches!(data, Data::None);
        match data {
            Data::None => {}
            Data::Copied(bytes) => self.outgoing.append_bytes(bytes),
            Data::Shared(bytes) => self.outgoing.append_shared(bytes),
        }
        if stores {
            self.outgoing.append_bytes(b"\r\n");
        }
        self.quiet_run = if expect.quiet { self.quiet_run + 1 } else { 0 };
        Ok(self.push(Exchange {
            ticket: Ticket(self.next_ticket),
            command: Counted::of(command),
            expect,
            deadline,
            begin,
            stores,
            counts: matches!(command, Command::Arithmetic(_)),
            abandoned: false,
            about: About::of(command, expect.form),
        }))
    }

    fn push(&mut self, exchange: Exchange) -> Ticket {
        let ticket = exchange.ticket;
        self.next_ticket += 1;
        self.queue.push_back(exchange);
        ticket
    }
}
