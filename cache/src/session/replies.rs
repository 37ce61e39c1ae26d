//! Reading replies: turns arrived bytes into completions, and verifies each against its exchange.

use std::ops::Range;

use pinyon_proto::{Decoded, Form, Head, Malformed, Status};

use super::completion::{Completion, Destination, Outcome, Reply, Ticket, Value};
use super::exchange::{About, Exchange, NOT_ENCODED};
use super::{Session, LARGE, WINDOW_AFTER_LARGE, WINDOW_FOR_ONE};
use pinyon_net::error::{Error, Kind, Sent};
use pinyon_net::network::Network;

/// A reply whose head was read and verified, and whose value is still arriving.
pub(super) struct Current {
    index: usize,
    /// Whether the host was told that the value is large.
    announced: bool,
}

/// A large value on its way into the host's memory.
pub(super) struct Receiving {
    destination: Box<dyn Destination>,
    pub(super) filled: usize,
}

impl Receiving {
    /// The part that is still empty.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.destination.bytes_mut()[self.filled..]
    }

    /// Goes on in memory of its own.
    pub(super) fn leave_host(&mut self) {
        self.destination = Box::new(vec![0; self.destination.bytes().len()]);
    }
}

/// The progress of reading.
pub(super) enum Reading {
    Completed(Ticket, What),
    /// Progress, but nothing to hand out yet: continue.
    Again,
    /// More bytes must arrive first.
    Wait,
}

/// What to hand out, as positions in the receive buffer. The bytes are borrowed only after the last change to the
/// buffer.
pub(super) enum What {
    /// The reply whose head was read last.
    Reply {
        index: usize,
        value: Location,
        line: Range<usize>,
        last: bool,
    },
    /// An outcome that the server did not spell out: a quiet command succeeded, or a key was not found.
    Silence(&'static Head),
    Large,
}

pub(super) enum Location {
    None,
    Buffer(Range<usize>),
    Destination(Box<dyn Destination>),
}

impl<N: Network> Session<N> {
    /// The next completion, or `None` if more bytes must arrive first. Its bytes are borrowed until the next call.
    #[allow(clippy::should_implement_trait)] // what it returns borrows from the session, as an iterator's items cannot
    pub fn next(&mut self) -> Option<Completion<'_>> {
        if self.ended.is_empty() {
            match self.step() {
                Ok(Reading::Completed(ticket, what)) => return Some(self.lend(ticket, what)),
                Ok(Reading::Again) => {}
                Ok(Reading::Wait) => return self.next_late(),
                Err(malformed) => self.fail_on(&malformed),
            }
        }
        self.next_after_steps()
    }

    /// The same where the first step leads to none. The loop stands apart: what it needs would cost each call some
    /// instructions.
    #[cold]
    #[inline(never)]
    fn next_after_steps(&mut self) -> Option<Completion<'_>> {
        loop {
            if let Some((ticket, ended)) = self.ended.pop_front() {
                return Some(self.out_of_turn(ticket, ended));
            }
            match self.step() {
                Ok(Reading::Completed(ticket, what)) => return Some(self.lend(ticket, what)),
                Ok(Reading::Again) => {}
                Ok(Reading::Wait) => return self.next_late(),
                Err(malformed) => self.fail_on(&malformed),
            }
        }
    }

    #[cold]
    fn fail_on(&mut self, malformed: &Malformed) {
        self.fail(Error::new(Kind::Protocol, self.server(), self.explained(malformed)));
    }

    /// The next exchange that is late, once all arrived bytes are read.
    #[cold]
    fn next_late(&mut self) -> Option<Completion<'_>> {
        let looked_at = self.looked_at.take()?;
        self.expire(looked_at);
        self.next()
    }

    /// Supplies memory for the large value that [`Outcome::Large`] announced. It must be exactly as long as the value.
    pub fn receive_into(&mut self, mut destination: Box<dyn Destination>) {
        let length = self.reader.awaited_value().expect("a value is awaited");
        assert_eq!(destination.bytes().len(), length, "the destination is as long as the value");
        let filled = self.incoming.bytes().len().min(length);
        destination.bytes_mut()[..filled].copy_from_slice(&self.incoming.bytes()[..filled]);
        self.incoming.consume(filled);
        self.reader.take_value();
        self.receiving = Some(Receiving { destination, filled });
        self.window = WINDOW_AFTER_LARGE;
    }

    #[inline(always)]
    fn step(&mut self) -> Result<Reading, Malformed> {
        if self.silent > 0 {
            return Ok(self.finish_silent());
        }
        if self.failure().is_some() {
            return Ok(if self.finish_broken() { Reading::Again } else { Reading::Wait });
        }
        let Some(front) = self.queue.front().filter(|front| front.begin != NOT_ENCODED) else {
            return match self.is_ready() && !self.incoming.is_empty() {
                true => Err(Malformed::new("the server sent a reply that no request asked for", self.incoming.bytes())),
                false => Ok(Reading::Wait),
            };
        };
        let form = if front.expect.quiet { Form::Quiet } else { front.expect.form };
        match &self.current {
            None => self.read_head(form),
            Some(Current { index, .. }) if self.reader.head().size.is_none() => {
                let index = *index;
                self.current = None;
                Ok(self.finish_reply(index, Location::None, 0..0))
            }
            Some(_) => self.read_late_value(form),
        }
    }

    #[inline(always)]
    fn read_head(&mut self, form: Form) -> Result<Reading, Malformed> {
        let start = self.incoming.position();
        let Decoded::Head { key, line, consumed } = self.reader.read(self.incoming.bytes(), form)? else {
            return Ok(Reading::Wait);
        };
        let head = self.reader.head();
        if head.status.is_error() {
            let text = self.redacted(line);
            let status = head.status;
            self.incoming.consume(consumed);
            self.finish_error(status, text);
            return Ok(Reading::Again);
        }
        let position = self.answered(form, head, key);
        let position = position.ok_or_else(|| Malformed::new("the reply belongs to no request", line))?;
        if position == 0 && self.unattributed.is_some() {
            return Err(Malformed::new("an error before this reply belongs to no request", line));
        }
        let exchange = &mut self.queue[position];
        if form == Form::Quiet {
            exchange.expect.form.check(head.status, line)?;
        }
        let index = exchange.verify(head, key, line)?;
        let (line, size) = (start..start + line.len(), head.size);
        if head.item.won {
            self.learn_tokens();
        }
        self.incoming.consume(consumed);
        if size.is_some_and(|size| size > self.limits.value) {
            self.refuse_value(size.unwrap_or_default());
            return Ok(Reading::Again);
        }
        if position == 0 && size.is_none() {
            return Ok(self.finish_reply(index, Location::None, line));
        }
        self.current = Some(Current { index, announced: false });
        if position == 0 {
            return self.read_value(form);
        }
        self.silent = position;
        Ok(Reading::Again)
    }

    /// Finds the exchange that a reply answers. It skips quiet exchanges that succeeded silently, and keys of a shared
    /// line that were not found.
    fn answered(&self, form: Form, head: &Head, key: &[u8]) -> Option<usize> {
        if form == Form::Quiet {
            let quiet = self.queue.iter().take_while(|exchange| exchange.expect.quiet).count();
            return self.queue.iter().take(quiet + 1).position(|exchange| exchange.is_echoed_by(head));
        }
        if !self.queue.front()?.is_in_line() {
            return Some(0);
        }
        let keys = self.lines.answered();
        for (position, exchange) in self.queue.iter().enumerate() {
            if exchange.is_answered_in_line(keys, head, key) {
                return Some(position);
            }
            if matches!(exchange.about, About::EndOfLine) {
                break;
            }
        }
        None
    }

    /// A value that did not arrive together with its head.
    #[inline(never)]
    fn read_late_value(&mut self, form: Form) -> Result<Reading, Malformed> {
        self.read_value(form)
    }

    #[inline(always)]
    fn read_value(&mut self, form: Form) -> Result<Reading, Malformed> {
        if self.awaits_large_value() {
            return Ok(Reading::Wait);
        }
        let start = self.incoming.position();
        let Decoded::Value { value, consumed } = self.reader.read(self.incoming.bytes(), form)? else {
            return Ok(self.announce_large());
        };
        if self.queue.front().is_some_and(|front| front.counts) && !is_number(value) {
            return Err(Malformed::new("expected a number in reply to ma", value));
        }
        let range = start..start + value.len();
        self.incoming.consume(consumed);
        let Some(Current { index, .. }) = self.current.take() else { unreachable!("a value follows a head") };
        let value = match self.receiving.take() {
            Some(receiving) => Location::Destination(receiving.destination),
            None => {
                if range.len() > WINDOW_AFTER_LARGE / 2 {
                    self.window = WINDOW_FOR_ONE;
                }
                Location::Buffer(range)
            }
        };
        Ok(self.finish_reply(index, value, 0..0))
    }

    /// Announces a large value to the host once. If the host supplies no memory, allocates it.
    fn announce_large(&mut self) -> Reading {
        let (Some(current), Some(front)) = (&mut self.current, self.queue.front()) else { return Reading::Wait };
        let length = self.reader.awaited_value().unwrap_or_default();
        if self.receiving.is_some() || length < LARGE {
            return Reading::Wait;
        }
        if !current.announced && !front.abandoned {
            current.announced = true;
            return Reading::Completed(front.ticket, What::Large);
        }
        self.receive_into(Box::new(vec![0; length]));
        Reading::Wait
    }

    fn refuse_value(&mut self, size: usize) {
        let limit = self.limits.value;
        let message =
            format!("the stored value has {size} bytes, more than the client's limit (max_value_size) of {limit}");
        self.fail(Error::new(Kind::TooLarge, self.server(), message));
    }

    #[inline(always)]
    fn finish_reply(&mut self, index: usize, value: Location, line: Range<usize>) -> Reading {
        match self.end_reply() {
            Some((ticket, last)) => Reading::Completed(ticket, What::Reply { index, value, line, last }),
            None => {
                self.finish_dropped(line);
                Reading::Again
            }
        }
    }

    /// Takes note of a reply. Returns whose it is and whether it is the last, if a caller takes it as it is.
    fn end_reply(&mut self) -> Option<(Ticket, bool)> {
        let Some(front) = self.queue.front() else { unreachable!("a reply answers an exchange") };
        let (ticket, abandoned) = (front.ticket, front.abandoned);
        if abandoned {
            return None;
        }
        let head = self.reader.head();
        let last = front.ends_with(head);
        if last {
            self.count(front, head);
            self.pop_answered();
        }
        Some((ticket, last))
    }

    /// Ends the exchange whose last reply has arrived.
    #[inline(always)]
    pub(super) fn pop_answered(&mut self) {
        if let Some(Exchange { about: About::Keys(keys), .. }) = self.pop_exchange() {
            self.lines.keep(keys.into_memory());
        }
    }

    /// Counts an answered exchange, if a caller waits for it.
    #[inline(always)]
    fn count(&self, exchange: &Exchange, head: &Head) {
        let Some(meter) = &self.meter else { return };
        let mut answers = 1;
        match exchange.found_and_missing() {
            None => {
                let refused =
                    matches!(head.status, Status::Miss | Status::NotStored | Status::Exists | Status::NotFound)
                        || head.is_placeholder();
                meter.answered(exchange.command, !refused, 1);
            }
            Some((found, missing)) => {
                answers = found + missing;
                meter.answered(exchange.command, true, found);
                meter.answered(exchange.command, false, missing);
            }
        }
        if meter.times_before(Ticket(exchange.ticket.0 + 1)) {
            meter.took(exchange.command, answers, exchange.deadline, exchange.ticket);
        }
    }

    /// Removes the exchange at the front of the queue, which is over.
    fn pop_exchange(&mut self) -> Option<Exchange> {
        if !self.is_plain {
            self.end_writes();
        }
        let exchange = self.queue.pop_front()?;
        if matches!(exchange.about, About::EndOfLine) {
            self.lines.end();
        }
        Some(exchange)
    }

    /// Ends an exchange that has no reply of its own. Its silence has a meaning.
    fn finish_silent(&mut self) -> Reading {
        let Some(exchange) = self.pop_exchange() else { unreachable!("silent exchanges are in the queue") };
        self.silent -= 1;
        let error = match self.silent {
            0 => self.unattributed.take(),
            _ => self.unattributed.clone(),
        };
        if exchange.abandoned {
            self.tell_spoiled(exchange.ticket);
            return Reading::Again;
        }
        if let Some(error) = error {
            self.ended.push_back((exchange.ticket, Err(exchange.failed(error, Sent::Maybe))));
            return Reading::Again;
        }
        let head = exchange.silence();
        self.count(&exchange, head);
        Reading::Completed(exchange.ticket, What::Silence(head))
    }

    /// Ends an exchange that the server answered with an error.
    #[cold]
    fn finish_error(&mut self, status: Status, text: String) {
        let kind = self.kind_of(&text);
        let error = Error::new(kind, self.server(), told(kind, &text));
        let Some(front) = self.queue.front() else { unreachable!("an error answers an exchange") };
        if front.is_in_line() {
            let end = self.queue.iter().position(|exchange| matches!(exchange.about, About::EndOfLine));
            self.silent = end.map_or(0, |end| end + 1);
            self.unattributed = Some(error);
            return;
        }
        let quiet = front.expect.quiet;
        let stores = front.stores || self.queue.iter().take_while(|one| one.expect.quiet).any(|one| one.stores);
        // A server that did not understand a store's command may read its data block as commands.
        if stores && status != Status::ServerError {
            self.fail(Error {
                message: format!("{}; the connection was closed after it", error.message),
                ..error.clone()
            });
        }
        if quiet {
            let message = format!("{} to one of several quiet commands", error.message);
            self.unattributed.get_or_insert(Error { message, ..error });
            return;
        }
        self.end_writes();
        let Some(exchange) = self.queue.pop_front() else { unreachable!("it was there just now") };
        if !exchange.abandoned {
            return self.ended.push_back((exchange.ticket, Err(exchange.failed(error, Sent::Yes))));
        }
        self.refused_question(exchange.ticket, &error);
        match self.take_stamp(exchange.ticket) {
            Some(stamp) => {
                let error = stamp.spoiled.unwrap_or_else(|| exchange.failed(error, Sent::Yes));
                self.ended.push_back((exchange.ticket, Err(error)));
            }
            None => self.hear_no_limit(),
        }
    }

    /// The kind of error that a server's words tell.
    fn kind_of(&self, text: &str) -> Kind {
        if text.contains("too large") {
            return Kind::TooLarge;
        }
        let makes_items = |exchange: &Exchange| exchange.stores || exchange.counts;
        let quiet = self.queue.iter().take_while(|one| one.expect.quiet);
        if !text.to_ascii_lowercase().contains("out of memory")
            || !self.queue.front().into_iter().chain(quiet).any(makes_items)
        {
            return Kind::Server;
        }
        Kind::OutOfMemory
    }

    /// Fails an exchange of a broken connection. Call it while it returns true: until none is left.
    #[cold]
    fn finish_broken(&mut self) -> bool {
        let Some(error) = self.failure().cloned() else { return false };
        self.end_writes();
        let Some(exchange) = self.queue.pop_front() else { return self.fail_held(error) };
        let stamp = if exchange.abandoned { self.take_stamp(exchange.ticket) } else { None };
        if exchange.abandoned && stamp.is_none() {
            return true;
        }
        let sent = if self.outgoing.position() > exchange.begin { Sent::Maybe } else { Sent::No };
        let spoiled = stamp.and_then(|stamp| stamp.spoiled);
        let error = spoiled.unwrap_or_else(|| exchange.failed(error, sent));
        self.ended.push_back((exchange.ticket, Err(error)));
        true
    }

    /// Hands out an exchange that has ended out of turn.
    #[cold]
    fn out_of_turn(&self, ticket: Ticket, ended: Result<(), Error>) -> Completion<'_> {
        let Err(error) = ended else {
            let what = What::Reply { index: 0, value: Location::None, line: 0..0, last: true };
            return self.lend(ticket, what);
        };
        if let Some(meter) = self.meter.as_ref().filter(|_| error.kind != Kind::Outdated) {
            meter.failed(&error);
        }
        Completion { ticket, outcome: Outcome::Failed(error) }
    }

    #[inline(always)]
    fn lend(&self, ticket: Ticket, what: What) -> Completion<'_> {
        let server = self.server();
        let outcome = match what {
            What::Large => {
                let index = self.current.as_ref().map_or(0, |current| current.index);
                Outcome::Large { head: *self.reader.head(), index }
            }
            What::Silence(head) => Outcome::Reply(Reply { head, index: 0, value: Value::None, line: &[], server }),
            What::Reply { index, value, line, last } => {
                let value = match value {
                    Location::None => Value::None,
                    Location::Buffer(range) => Value::Borrowed(self.incoming.at(range)),
                    Location::Destination(destination) => Value::Received(destination),
                };
                let reply = Reply { head: self.reader.head(), index, value, line: self.incoming.at(line), server };
                match last {
                    true => Outcome::Reply(reply),
                    false => Outcome::Part(reply),
                }
            }
        };
        Completion { ticket, outcome }
    }
}

/// The server's words, and what to do about them.
fn told(kind: Kind, text: &str) -> String {
    match kind {
        Kind::OutOfMemory => format!(
            "the server answered \"{text}\": it has no memory left for items of this size. Give it more (its option -m), \
             let it evict old items (leave out -M), or restart it if items of other sizes have taken all its memory"
        ),
        _ => format!("the server answered \"{text}\""),
    }
}

fn is_number(text: &[u8]) -> bool {
    let digits = text.iter().all(u8::is_ascii_digit).then(|| std::str::from_utf8(text).ok()).flatten();
    digits.is_some_and(|digits| digits.parse::<u64>().is_ok())
}
