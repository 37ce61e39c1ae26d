//! Stamping: writes the generation of a clearable namespace into keys, and asks for it when it is not known well enough.
//!
//! A question leaves directly before the command that needs it, in the same send. The session takes the answer itself. If
//! the answer shows that a command behind it was stamped with another generation, the command has touched only items that
//! nobody sees. Its reply is dropped, and it fails as [`Kind::Outdated`] and as not sent, so its operation begins again: even
//! one that must not run twice. The generation stays out of the operations and of the drivers.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use pinyon_proto::{Command, Generation, Head, Key, Mode, Status, Store, GENERATION_LENGTH, NO_GENERATION};

use super::completion::Ticket;
use super::exchange::Exchange;
use super::generations::{Generations, Known, Purpose, Question};
use super::{Data, Refused, Session};
use pinyon_net::connection::Incoming;
use pinyon_net::error::{Error, Kind, Sent};
use pinyon_net::network::Network;

/// The stamping of a session's keys.
pub(super) struct Stamping {
    generations: Arc<Generations>,
    asked: VecDeque<Asked>,
    /// Those of the exchanges in flight, and of some that are over, in their order.
    stamps: VecDeque<Stamp>,
}

/// A question in flight.
struct Asked {
    question: Question,
    /// The exchange whose reply answers it.
    ticket: Ticket,
    /// Where it begins in the stream of sent bytes.
    begin: u64,
    /// What the server has answered so far.
    found: Found,
    /// The server's refusal to begin with a generation.
    refusal: Option<Error>,
}

#[derive(Clone, Copy)]
enum Found {
    Nothing,
    Generation(Generation),
    SomethingElse,
}

/// The generation in an exchange's keys.
pub(super) struct Stamp {
    ticket: Ticket,
    generation: Generation,
    /// Whether a caller waits although the reply is not the caller's.
    is_awaited: bool,
    /// Why the exchange does not count, whatever its reply.
    pub(super) spoiled: Option<Error>,
}

impl Stamping {
    pub(super) fn new(generations: Arc<Generations>) -> Self {
        Self { generations, asked: VecDeque::new(), stamps: VecDeque::new() }
    }

    /// Writes a stamp into keys that single spaces separate.
    #[cold]
    pub(super) fn write(&self, generation: Generation, keys: &mut [u8]) {
        generation.write_into(keys, self.generations.clearing().namespace());
    }

    /// Forgets questions whose connection broke.
    pub(super) fn forget(&mut self) {
        self.asked.clear();
    }

    fn position(&self, ticket: Ticket) -> Option<usize> {
        self.stamps.binary_search_by_key(&ticket, |stamp| stamp.ticket).ok()
    }

    #[cold]
    fn awaits(&self, ticket: Ticket) -> bool {
        self.position(ticket).is_some_and(|position| self.stamps[position].is_awaited)
    }

    /// Has an exchange fail once its reply has arrived, if a caller waits for that reply, and it was stamped.
    fn spoil(&mut self, exchange: &mut Exchange, error: &Error, which: &impl Fn(Generation) -> bool) {
        let Some(position) = self.position(exchange.ticket).filter(|_| !exchange.abandoned) else { return };
        let stamp = &mut self.stamps[position];
        if which(stamp.generation) {
            stamp.is_awaited = true;
            stamp.spoiled = Some(error.clone().of(exchange.command.as_str(), Sent::No));
            exchange.abandoned = true;
        }
    }

    /// The generation that this session is about to set.
    fn replacement(&self, known: &Known) -> Option<Generation> {
        self.asked.iter().rev().find_map(|asked| match asked.question.purpose {
            Purpose::Replace(generation) if known.is_paid_by(&asked.question) => Some(generation),
            _ => None,
        })
    }

    /// The generation with which this session is about to begin if there is none.
    fn candidate(&self) -> Option<Generation> {
        self.asked.iter().rev().find_map(|asked| match asked.question.purpose {
            Purpose::Begin(generation) => Some(generation),
            _ => None,
        })
    }

    /// Whether a question in flight answers for a command that is submitted now: it is not sent yet, or was submitted just now.
    fn is_covered(&self, position: u64, now: Instant) -> bool {
        let covers = |asked: &Asked| asked.begin >= position || asked.question.is_recent(&self.generations, now);
        self.asked.back().is_some_and(covers)
    }
}

/// Whether a caller waits for the end of an exchange.
pub(super) fn is_awaited(exchange: &Exchange, stamping: &Option<Box<Stamping>>) -> bool {
    !exchange.abandoned || stamping.as_ref().is_some_and(|stamping| stamping.awaits(exchange.ticket))
}

impl<N: Network> Session<N> {
    /// The generation for a command about keys of a clearable namespace. Asks for it first if necessary.
    #[cold]
    pub(super) fn generation_of(
        &mut self,
        command: &Command<'_>,
        deadline: Instant,
    ) -> Result<Option<Generation>, Refused> {
        match keys_of(command) {
            Some(keys) => self.generation(keys, deadline),
            None => Ok(None),
        }
    }

    /// The same for keys that single spaces separate.
    #[cold]
    pub(super) fn generation(&mut self, keys: &[u8], deadline: Instant) -> Result<Option<Generation>, Refused> {
        let Some(stamping) = &self.stamping else { return Ok(None) };
        let generations = stamping.generations.clone();
        let rest = keys.strip_prefix(generations.clearing().namespace());
        if rest.is_none_or(|rest| !rest.starts_with(NO_GENERATION)) {
            return Ok(None);
        }
        let (known, now) = (generations.known(), generations.now());
        let is_covered = stamping.is_covered(self.outgoing.position(), now);
        let generation = match (stamping.replacement(&known), known.generation.or(stamping.candidate())) {
            (Some(replacement), _) => Some(replacement),
            (None, generation) => generation.filter(|_| !known.owes()),
        };
        let generation = match generation {
            Some(generation) if is_covered || generations.is_fresh(&known, now) => generation,
            Some(generation) => {
                self.ask(Purpose::Ask, deadline)?;
                generation
            }
            None => {
                let new = generations.new_generation();
                let purpose = if known.owes() { Purpose::Replace(new) } else { Purpose::Begin(new) };
                self.ask(purpose, deadline)?;
                new
            }
        };
        Ok(Some(generation))
    }

    /// Keeps the generation that an exchange is stamped with, and forgets those of exchanges that are over.
    #[cold]
    pub(super) fn keep_stamp(&mut self, ticket: Ticket, generation: Option<Generation>) {
        let (Some(stamping), Some(generation)) = (&mut self.stamping, generation) else { return };
        let held = self.held.as_ref().map(|held| held.ticket());
        let oldest = self.queue.front().map(|front| front.ticket).into_iter().chain(held).min().unwrap_or(ticket);
        while stamping.stamps.front().is_some_and(|stamp| stamp.ticket < oldest) {
            stamping.stamps.pop_front();
        }
        stamping.stamps.push_back(Stamp { ticket, generation, is_awaited: false, spoiled: None });
    }

    /// The stamp of an exchange that is over and was abandoned, if a caller waits although.
    #[cold]
    pub(super) fn take_stamp(&mut self, ticket: Ticket) -> Option<Stamp> {
        let stamping = self.stamping.as_mut()?;
        let position = stamping.position(ticket)?;
        stamping.stamps.remove(position).filter(|stamp| stamp.is_awaited)
    }

    /// Takes note that no caller waits for an exchange any more.
    pub(super) fn drop_stamp(&mut self, ticket: Ticket) {
        if self.stamping.is_some() {
            self.take_stamp(ticket);
        }
    }

    /// Sets a new generation, so that no item of the namespace is asked for any more.
    pub(crate) fn submit_clearing(&mut self, deadline: Instant) -> Result<Ticket, Refused> {
        let Some(stamping) = &self.stamping else { return Err(Refused::NotClearable) };
        if !self.accepts() {
            return Err(Refused::Full);
        }
        let generation = stamping.generations.new_generation();
        let ticket = self.ask(Purpose::Replace(generation), deadline)?;
        self.keep_stamp(ticket, Some(generation));
        if let Some(stamp) = self.stamping.as_mut().and_then(|stamping| stamping.stamps.back_mut()) {
            stamp.is_awaited = true;
        }
        Ok(ticket)
    }

    /// Submits a question. Its answer goes to [`Self::finish_dropped`].
    fn ask(&mut self, purpose: Purpose, deadline: Instant) -> Result<Ticket, Refused> {
        self.end_quiet_run(deadline);
        let Some(generations) = self.stamping.as_ref().map(|stamping| stamping.generations.clone()) else {
            return Err(Refused::NotClearable);
        };
        let question = generations.question(purpose);
        let key = Key::known(generations.clearing().key(), false);
        let (begin, size) = (self.outgoing.end(), GENERATION_LENGTH);
        let store =
            |mode| Command::Store(Store { mode, key, size, client_flags: 0, ttl: 0, cas: None, returns_cas: false });
        let mut send = |command: Command<'_>, data: Data<'_>| {
            let ticket = self.enqueue(&command, data, false, deadline)?;
            self.queue.iter_mut().next_back().into_iter().for_each(|exchange| exchange.abandoned = true);
            Ok(ticket)
        };
        let ticket = match purpose {
            Purpose::Replace(generation) => send(store(Mode::Set), Data::Copied(&generation.text()))?,
            Purpose::Ask => send(Command::Get { key, cas: false }, Data::None)?,
            Purpose::Begin(generation) => {
                send(store(Mode::Add), Data::Copied(&generation.text()))?;
                send(Command::Get { key, cas: false }, Data::None)?
            }
        };
        if let Some(stamping) = &mut self.stamping {
            stamping.asked.push_back(Asked { question, ticket, begin, found: Found::Nothing, refusal: None });
        }
        Ok(ticket)
    }

    /// Takes a reply that no caller takes as it is: the answer to a question, or the reply of an exchange that does not
    /// count. `line`: where it is in the receive buffer.
    #[cold]
    #[inline(never)]
    pub(super) fn finish_dropped(&mut self, line: Range<usize>) {
        let Some(front) = self.queue.front() else { unreachable!("a reply answers an exchange") };
        let (ticket, is_last) = (front.ticket, front.ends_with(self.reader.head()));
        if is_last {
            self.pop_answered();
        }
        self.hear_limit(line);
        let Some(stamping) = &mut self.stamping else { return };
        if let Some(asked) = stamping.asked.front_mut().filter(|asked| asked.ticket == ticket) {
            if self.reader.head().status == Status::Hit {
                let read = generation_in(&self.incoming, self.reader.head());
                asked.found = read.map_or(Found::SomethingElse, Found::Generation);
            }
            if is_last {
                self.answered_question();
            }
        }
        if let Some(stamp) = is_last.then(|| self.take_stamp(ticket)).flatten() {
            self.ended.push_back((ticket, stamp.spoiled.map_or(Ok(()), Err)));
        }
    }

    /// Tells the caller of an exchange that is over and does not count, if there is one.
    #[cold]
    pub(super) fn tell_spoiled(&mut self, ticket: Ticket) {
        let spoiled = self.take_stamp(ticket).and_then(|stamp| stamp.spoiled);
        self.ended.extend(spoiled.map(|error| (ticket, Err(error))));
    }

    /// Takes a server's error in reply to an exchange that no caller waits for.
    #[cold]
    pub(super) fn refused_question(&mut self, ticket: Ticket, error: &Error) {
        let Some(stamping) = &mut self.stamping else { return };
        match stamping.asked.front_mut() {
            Some(asked) if asked.ticket == ticket => {
                stamping.asked.pop_front();
                self.spoil(error, |_| true);
            }
            Some(asked) if asked.ticket == Ticket(ticket.0 + 1) => asked.refusal = Some(error.clone()),
            _ => {}
        }
    }

    /// Takes the answer to the oldest question.
    fn answered_question(&mut self) {
        let Some(stamping) = &mut self.stamping else { return };
        let Some(Asked { question, found, refusal, .. }) = stamping.asked.pop_front() else { return };
        let heard = match (question.purpose, found) {
            (Purpose::Replace(generation), _) => Some(generation),
            (_, Found::Generation(generation)) => Some(generation),
            (_, Found::Nothing) => None,
            (_, Found::SomethingElse) => return self.spoil(&self.unreadable(), |_| true),
        };
        stamping.generations.settle(&question, heard);
        match (heard, refusal) {
            (None, Some(refusal)) => self.spoil(&refusal, |_| true),
            _ => {
                let message = "the namespace was cleared while the command was on its way, and the time was over";
                let error = Error::new(Kind::Outdated, self.server(), message);
                self.spoil(&error, |generation| Some(generation) != heard);
            }
        }
    }

    /// Has exchanges fail once their replies have arrived.
    fn spoil(&mut self, error: &Error, which: impl Fn(Generation) -> bool) {
        let Some(stamping) = &mut self.stamping else { return };
        let held = self.held.iter_mut().map(|held| held.exchange_mut());
        for exchange in self.queue.iter_mut().chain(held) {
            stamping.spoil(exchange, error, &which);
        }
    }

    fn unreadable(&self) -> Error {
        let key = self.stamping.as_ref().map_or(&[][..], |stamping| stamping.generations.clearing().key());
        let message = format!(
            "the item {} is not a generation of the namespace, because something else was stored there: call \
             clear_namespace(), or choose another namespace",
            String::from_utf8_lossy(key)
        );
        Error::new(Kind::Unreadable, self.server(), message)
    }
}

/// The keys of a command, separated by single spaces.
fn keys_of<'a>(command: &Command<'a>) -> Option<&'a [u8]> {
    match command {
        Command::GetMany { keys, .. } => Some(keys),
        Command::Get { key, .. }
        | Command::GetAndTouch { key, .. }
        | Command::Touch { key, .. }
        | Command::Delete { key }
        | Command::DeleteIf { key, .. } => Some(key.wire()),
        Command::Store(store) => Some(store.key.wire()),
        Command::MarkStale(mark) => Some(mark.key.wire()),
        Command::Lease(lease) => Some(lease.key.wire()),
        Command::Arithmetic(arithmetic) => Some(arithmetic.key.wire()),
        Command::Meta(meta) => Some(meta.key.wire()),
        Command::NoOp | Command::FlushAll { .. } | Command::Stats(_) | Command::Version | Command::ClusterConfig => {
            None
        }
    }
}

/// The generation that was read last, if the value is one: it lies before what is still to be read.
fn generation_in(incoming: &Incoming, head: &Head) -> Option<Generation> {
    let end = incoming.position().checked_sub(b"\r\n".len())?;
    let start = end.checked_sub(head.size.filter(|size| *size == GENERATION_LENGTH)?)?;
    Generation::read(incoming.at(start..end))
}
