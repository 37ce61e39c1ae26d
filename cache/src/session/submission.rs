//! Taking commands: encodes each for sending, and appends its exchange to the queue.
//!
//! Gets and sets that are submitted in one turn of an event loop are *joined*. Sixteen or more gets share a classic
//! `get` line; keys and order tell its `VALUE` lines and its `END` apart. All sets but the first three are quiet, and
//! a no-op follows them. Each command keeps its own ticket, deadline and outcome. If the server fails a quiet set
//! without saying which one, all candidates are submitted again, each by itself, so the server may carry out a set
//! twice.
//!
//! Measurements decided this. A server gathers replies to meta commands into one send, but sends the reply to each
//! classic line by itself. So few gets are `mg`, and many are one line. Quiet sets cost the server a fifth less at 64
//! coroutines, and make no difference at 16.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Instant;

use pinyon_proto::{encode, Command, Expect, Form, Key, Opaque};

use super::completion::Ticket;
use super::exchange::{About, Exchange, NOT_ENCODED};
use super::{Data, Refused, Session};
use crate::metrics::Counted;
use pinyon_net::network::Network;
use pinyon_proto::Generation;

/// A no-op is inserted after so many quiet commands.
const LONGEST_QUIET_RUN: usize = 128;

/// The most keys, and the most bytes, of one classic `get` line. Measured; both are well below the limits of servers
/// and proxies.
pub const KEYS_PER_LINE: usize = 200;
pub const BYTES_PER_LINE: usize = 8 * 1024;

/// The most bytes of keys on one `gat` line. memcached closes a connection whose first 2,048 unread bytes have no end of
/// line, 1,024 in earlier versions, unless they begin with `get` or `gets`: which ones it sees depends on how the bytes
/// arrive. The command and the ttl need the rest.
pub const BYTES_PER_GAT_LINE: usize = 1000;

/// From so many keys on, a classic line costs less than separate meta commands. The server sends each line's reply by
/// itself, whereas it gathers the replies to meta commands.
const FEWEST_KEYS_PER_LINE: usize = 16;

/// So many stores of a run are answered individually. After them, quiet stores with a no-op behind them cost less.
const LOUD_STORES: usize = 3;

/// The `get` lines that several exchanges share.
#[derive(Default)]
pub(super) struct Lines {
    /// The number of gets at the end of the queue that more gets may still join. They are encoded once anything else is
    /// submitted, or something is sent.
    keys: usize,
    /// Their keys, each preceded by a space.
    open: Vec<u8>,
    /// The keys of encoded lines, until the last reply to each.
    encoded: VecDeque<Vec<u8>>,
    /// Memory for the next line.
    spare: Vec<u8>,
}

impl Lines {
    /// The number of bytes still to encode.
    pub(super) fn unencoded(&self) -> usize {
        self.open.len()
    }

    /// The keys of the line to be answered next.
    pub(super) fn answered(&self) -> &[u8] {
        self.encoded.front().map_or(&[], Vec::as_slice)
    }

    /// Drops a line whose last reply has arrived.
    pub(super) fn end(&mut self) {
        let line = self.encoded.pop_front().unwrap_or_default();
        self.keep(line);
    }

    /// Keeps memory for the next line.
    pub(super) fn keep(&mut self, memory: Vec<u8>) {
        self.spare = memory;
        self.spare.clear();
    }

    /// Adds a key, and returns its position.
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
    /// Queues a command and encodes it for sending. The data block must have the size that the command states.
    pub fn submit(&mut self, command: &Command<'_>, data: Data<'_>, deadline: Instant) -> Result<Ticket, Refused> {
        if !self.accepts() {
            return Err(Refused::Full);
        }
        match command {
            Command::NoOp => {}
            Command::Store(store) if store.is_conditional() => return self.enqueue_guarded(store, data, deadline),
            _ => self.end_quiet_run(deadline),
        }
        self.enqueue(command, data, false, deadline)
    }

    /// Like [`Self::submit`], with no reply on success. A later reply reveals the outcome, so end a run of quiet
    /// commands with a [`Command::NoOp`]. The session inserts one before any other loud command. It also inserts some
    /// between quiet ones, so that an error which names no command concerns few.
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

    /// Reads the value of a key. Consecutive gets that are submitted this way share one classic `get` line. It costs
    /// the server about half as much, and its reply repeats the keys that were found. Each get keeps its own ticket,
    /// deadline and outcome.
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
        if self.stamping.is_some() {
            return self.join_stamped(wire, deadline);
        }
        let place = self.lines.join(wire);
        Ok(self.push_of_line(About::KeyOfLine(place), NOT_ENCODED, deadline))
    }

    #[cold]
    fn join_stamped(&mut self, wire: &[u8], deadline: Instant) -> Result<Ticket, Refused> {
        let generation = self.generation(wire, deadline)?;
        let place = self.lines.join(wire);
        let ticket = self.push_of_line(About::KeyOfLine(place.clone()), NOT_ENCODED, deadline);
        if let (Some(generation), Some(stamping)) = (generation, &self.stamping) {
            stamping.write(generation, &mut self.lines.open[place]);
        }
        self.keep_stamp(ticket, generation);
        Ok(ticket)
    }

    /// Like [`Self::submit`], for a store or a deletion that many others may follow. Of consecutive ones, all but the
    /// first few are quiet, which costs the server about half as much; a no-op behind them confirms them. If the server
    /// does not name the command that failed, every candidate fails with [`Sent::Maybe`](pinyon_net::Sent::Maybe).
    /// Candidates that may run twice can be submitted again, by [`Self::submit`].
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

    /// Ends a series of joined commands, before something else is submitted or everything is sent.
    pub(super) fn end_joined(&mut self) {
        self.end_line();
        if std::mem::take(&mut self.stores) > LOUD_STORES {
            let deadline = self.queue.back().map(|last| last.deadline).expect("a run has stores");
            self.end_quiet_run(deadline);
        }
    }

    /// Forgets joined commands that will never be sent because the connection broke.
    pub(super) fn forget_joined(&mut self) {
        self.lines = Lines::default();
        self.stores = 0;
        self.stamping.iter_mut().for_each(|stamping| stamping.forget());
    }

    /// Encodes the joined gets. The next get begins a new line.
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
        // A proxy may answer the keys of a line in another order, so behind one each get has a line of its own.
        let fewest = match self.capabilities {
            capabilities if capabilities.is_classic() => usize::MAX,
            capabilities if capabilities.meta() => FEWEST_KEYS_PER_LINE,
            _ => 2,
        };
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
            exchange.about = About::of(&command, exchange.expect.form, &self.capabilities, &mut self.lines.spare);
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

    /// Inserts a no-op after the latest quiet commands, so that their outcome becomes known.
    pub fn end_quiet_run(&mut self, deadline: Instant) {
        if self.quiet_run == 0 {
            return;
        }
        self.enqueue(&Command::NoOp, Data::None, false, deadline).expect("a no-op suits every server");
        if let Some(barrier) = self.queue.back_mut() {
            barrier.abandoned = true;
        }
    }

    #[inline]
    pub(super) fn enqueue(
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
        match self.is_plain {
            true => self.encode(command, data, quiet, deadline, None),
            false => self.encode_marked(command, data, quiet, deadline),
        }
    }

    /// The same with the generation in its keys, and telling of what it writes.
    #[cold]
    #[inline(never)]
    fn encode_marked(
        &mut self,
        command: &Command<'_>,
        data: Data<'_>,
        quiet: bool,
        deadline: Instant,
    ) -> Result<Ticket, Refused> {
        let generation = self.generation_of(command, deadline)?;
        self.begin_writes(command, Ticket(self.next_ticket));
        let ticket = self.encode(command, data, quiet, deadline, generation)?;
        self.keep_stamp(ticket, generation);
        Ok(ticket)
    }

    #[inline(always)]
    fn encode(
        &mut self,
        command: &Command<'_>,
        data: Data<'_>,
        quiet: bool,
        deadline: Instant,
        generation: Option<Generation>,
    ) -> Result<Ticket, Refused> {
        let begin = self.outgoing.end();
        let opaque = Opaque(self.next_ticket as u16);
        let encoded = self.outgoing.append(|out| {
            let line = out.len();
            let expect = encode(command, &self.capabilities, opaque, quiet, out)?;
            if let (Some(generation), Some(stamping)) = (generation, &self.stamping) {
                stamping.write(generation, &mut out[line..]);
            }
            if let Data::Copied(bytes) = &data {
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            Ok(expect)
        });
        let expect = encoded.map_err(Refused::Unsupported)?;
        let stores = !matches!(data, Data::None);
        if let Data::Shared(bytes) = data {
            self.outgoing.append_shared(bytes);
            self.outgoing.append_bytes(b"\r\n");
        }
        self.quiet_run = if expect.quiet { self.quiet_run + 1 } else { 0 };
        let mut about = About::of(command, expect.form, &self.capabilities, &mut self.lines.spare);
        if let (Some(generation), Some(stamping)) = (generation, &self.stamping) {
            about.rewrite(|keys| stamping.write(generation, keys));
        }
        Ok(self.push(Exchange {
            ticket: Ticket(self.next_ticket),
            command: Counted::of(command),
            expect,
            deadline,
            begin,
            stores,
            counts: matches!(command, Command::Arithmetic(_)),
            abandoned: false,
            about,
        }))
    }

    fn push(&mut self, exchange: Exchange) -> Ticket {
        let ticket = exchange.ticket;
        self.next_ticket += 1;
        self.queue.push_back(exchange);
        ticket
    }
}
