//! Conditional stores: every store but `set`. A refused one must leave the present item alone, but memcached deletes
//! the item when it refuses an `ms`. So conditional stores leave in classic text, and their order verifies their
//! replies.
//!
//! Classic text cannot express every conditional store. If such a store may also be too large, it waits until `stats
//! settings` has told the server's limit. All connections to the server share this limit.

use std::ops::Range;
use std::time::Instant;

use pinyon_proto::{encode, Command, Form, Opaque, StatsKind, Status, Store};

use super::completion::Ticket;
use super::exchange::{About, Exchange, NOT_ENCODED};
use super::{Data, Refused, Session, SharedBytes};
use crate::metrics::Counted;
use pinyon_net::error::{Error, Sent};
use pinyon_net::network::Network;

/// Stands for the CAS token of a server that has none. No item has it: servers count tokens from 1.
pub(crate) const NO_TOKEN: u64 = u64::MAX;

/// The most bytes of an item besides its key and value.
const HEADER: usize = 64;

/// For a server that does not tell its limit: it decides by itself.
const UNLIMITED: usize = usize::MAX;

/// A store that waits until the server's limit is known. Meanwhile the session accepts nothing.
pub(super) struct Held {
    exchange: Exchange,
    line: Vec<u8>,
    shared: Option<SharedBytes>,
    size: usize,
    item: usize,
}

impl Held {
    pub(super) fn ticket(&self) -> Ticket {
        self.exchange.ticket
    }

    pub(super) fn exchange_mut(&mut self) -> &mut Exchange {
        &mut self.exchange
    }

    pub(super) fn deadline(&self) -> Instant {
        self.exchange.deadline
    }
}

/// Why a server does not store a value of this size, and what to do.
pub(crate) fn larger_than_stored(size: usize) -> String {
    format!(
        "the value has {size} bytes, more than the server stores: raise its option -I (1 MiB by default; \"stats \
         settings\" has it as item_size_max), or store less"
    )
}

impl<N: Network> Session<N> {
    /// Queues a conditional store.
    #[inline(never)]
    pub(super) fn enqueue_guarded(
        &mut self,
        store: &Store<'_>,
        data: Data<'_>,
        deadline: Instant,
    ) -> Result<Ticket, Refused> {
        self.end_quiet_run(deadline);
        let has_token = store.cas != Some(NO_TOKEN) || !self.manner.is_without_tokens();
        let store = &Store { cas: store.cas.filter(|_| has_token), ..*store };
        let command = Command::Store(*store);
        let is_safe = store.spares_item() || !store.may_be_too_large() || !self.capabilities.meta();
        if is_safe || store.size > self.limits.value {
            return self.enqueue(&command, data, false, deadline);
        }
        let (size, item) = (store.size, store.size + store.key.wire().len() + HEADER);
        match self.manner.largest_item() {
            Some(limit) if item > limit => Err(Refused::TooLargeForServer { size, limit }),
            Some(_) => self.enqueue(&command, data, false, deadline),
            None => self.hold(&command, data, (size, item), deadline),
        }
    }

    /// Takes note of a lease that was won: a server without CAS tokens gives it the token 0.
    #[cold]
    pub(super) fn learn_tokens(&self) {
        if self.reader.head().item.cas == Some(0) {
            self.manner.lacks_tokens();
        }
    }

    /// Keeps a store and asks the server for its limit.
    fn hold(
        &mut self,
        command: &Command<'_>,
        data: Data<'_>,
        (size, item): (usize, usize),
        deadline: Instant,
    ) -> Result<Ticket, Refused> {
        let generation = self.generation_of(command, deadline)?;
        let ticket = Ticket(self.next_ticket);
        let (mut line, mut shared) = (Vec::new(), None);
        let expect = encode(command, &self.capabilities, Opaque(ticket.0 as u16), false, &mut line);
        let expect = expect.map_err(Refused::Unsupported)?;
        if let (Some(generation), Some(stamping)) = (generation, &self.stamping) {
            stamping.write(generation, &mut line);
        }
        match data {
            Data::None => {}
            Data::Copied(bytes) => line.extend_from_slice(bytes),
            Data::Shared(bytes) => shared = Some(bytes),
        }
        self.next_ticket += 1;
        let settings = StatsKind::new("settings").expect("it is a word");
        self.enqueue(&Command::Stats(settings), Data::None, false, deadline)?;
        if let Some(question) = self.queue.back_mut() {
            question.abandoned = true;
        }
        let exchange = Exchange {
            ticket,
            command: Counted::of(command),
            expect,
            deadline,
            begin: NOT_ENCODED,
            stores: true,
            counts: false,
            abandoned: false,
            about: About::Echo,
        };
        self.held = Some(Box::new(Held { exchange, line, shared, size, item }));
        self.keep_stamp(ticket, generation);
        Ok(ticket)
    }

    /// Reads the server's limit from a reply that no caller waits for.
    pub(super) fn hear_limit(&mut self, line: Range<usize>) {
        if self.held.is_some() {
            self.hear(line);
        }
    }

    #[cold]
    fn hear(&mut self, line: Range<usize>) {
        match self.reader.head().status {
            Status::Stat => {
                let told = self.incoming.at(line).strip_prefix(b"STAT item_size_max ");
                let limit = told.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
                limit.into_iter().for_each(|limit| self.manner.learn_largest_item(limit));
            }
            Status::End => self.let_go(),
            _ => {}
        }
    }

    /// Goes on without the limit: the server answered the question with an error.
    pub(super) fn hear_no_limit(&mut self) {
        if self.held.is_some() {
            self.let_go();
        }
    }

    /// Queues the store that waited, or refuses it.
    #[cold]
    fn let_go(&mut self) {
        if self.queue.iter().any(|exchange| exchange.expect.form == Form::Stats) {
            return;
        }
        let Some(held) = self.held.take() else { return };
        let Held { mut exchange, line, shared, size, item } = *held;
        let limit = self.manner.largest_item().unwrap_or(UNLIMITED);
        self.manner.learn_largest_item(limit);
        if item > limit {
            let refused = Refused::TooLargeForServer { size, limit };
            let error = refused.into_error(self.server(), exchange.command.as_str());
            return self.ended.push_back((exchange.ticket, Err(error)));
        }
        exchange.begin = self.outgoing.end();
        self.outgoing.append_bytes(&line);
        if let Some(bytes) = shared {
            self.outgoing.append_shared(bytes);
        }
        self.outgoing.append_bytes(b"\r\n");
        self.queue.push_back(exchange);
    }

    /// Fails the store that waits, if its deadline has passed.
    pub(super) fn expire_held(&mut self, now: Instant) {
        let Some(held) = self.held.take_if(|held| held.deadline() <= now) else { return };
        let error = Error::unanswered(self.server()).of(held.exchange.command.as_str(), Sent::No);
        self.ended.push_back((held.ticket(), Err(error)));
    }

    /// Fails the store that waits, as the connection broke. Returns whether there was one.
    #[cold]
    pub(super) fn fail_held(&mut self, error: Error) -> bool {
        let Some(held) = self.held.take() else { return false };
        self.ended.push_back((held.ticket(), Err(error.of(held.exchange.command.as_str(), Sent::No))));
        true
    }
}
