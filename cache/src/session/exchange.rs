//! One request and its reply, in the queue of those in flight.

use std::ops::Range;
use std::time::Instant;

use pinyon_proto::{Capabilities, Command, Expect, Form, Head, Malformed, Status, Verb};

use super::completion::Ticket;
use crate::metrics::Counted;
use pinyon_net::error::{Error, Sent};

pub(crate) struct Exchange {
    pub(crate) ticket: Ticket,
    pub(crate) command: Counted,
    pub(crate) expect: Expect,
    pub(crate) deadline: Instant,
    /// The position of its request in the stream of sent bytes; [`NOT_ENCODED`] while it has none.
    pub(crate) begin: u64,
    /// Whether a data block follows the command line.
    pub(crate) stores: bool,
    /// Whether the reply is a number.
    pub(crate) counts: bool,
    /// Whether its caller is gone: the reply is read and dropped.
    pub(crate) abandoned: bool,
    pub(crate) about: About,
}

pub(crate) const NOT_ENCODED: u64 = u64::MAX;

/// What identifies a reply to this exchange, besides the order.
pub(crate) enum About {
    /// What the server echoes of a meta command, if anything: see [`Expect::opaque`].
    Echo,
    /// The keys of its own classic `get`, which the replies repeat.
    Keys(Box<KeysOfLine>),
    /// One key of a `get` line that several exchanges share: its position among the line's keys.
    KeyOfLine(Range<usize>),
    /// The `END` of a shared line. It follows the exchanges of the line's keys.
    EndOfLine,
}

impl About {
    /// `memory` may be used.
    #[inline]
    pub(crate) fn of(command: &Command<'_>, form: Form, capabilities: &Capabilities, memory: &mut Vec<u8>) -> Self {
        if form != Form::ClassicGet {
            return About::Echo;
        }
        let memory = std::mem::take(memory);
        match command {
            Command::GetMany { keys, .. } => About::Keys(KeysOfLine::new(keys, capabilities.is_classic(), memory)),
            Command::Get { key, .. } | Command::GetAndTouch { key, .. } => {
                About::Keys(KeysOfLine::new(key.wire(), false, memory))
            }
            _ => About::Echo,
        }
    }
}

impl About {
    /// Changes the keys of its own line as `write` does.
    #[cold]
    pub(crate) fn rewrite(&mut self, write: impl FnOnce(&mut [u8])) {
        if let About::Keys(keys) = self {
            write(&mut keys.text);
        }
    }
}

impl Exchange {
    /// Whether a reply with this head may belong to this exchange, judging by what the head echoes.
    pub(crate) fn is_echoed_by(&self, head: &Head) -> bool {
        match self.expect.form {
            Form::NoOp => head.status == Status::NoOp,
            _ => head.status != Status::NoOp && self.expect.opaque == head.opaque,
        }
    }

    /// Refuses a reply that belongs to another request. Returns the index of the reply's key.
    pub(crate) fn verify(&mut self, head: &Head, key: &[u8], line: &[u8]) -> Result<usize, Malformed> {
        if let (About::Keys(keys), Status::Hit) = (&mut self.about, head.status) {
            return keys.find(key).ok_or_else(|| Malformed::new("the reply has a key that was not asked for", line));
        }
        if self.counts && head.status == Status::Done && !self.expect.quiet {
            return Err(Malformed::new("expected a number in reply to ma", line));
        }
        let silent_miss = head.opaque.is_none() && head.status == Status::Miss && !self.expect.opaque_on_miss;
        if head.opaque != self.expect.opaque && !silent_miss {
            return Err(Malformed::new("the reply belongs to another request", line));
        }
        Ok(0)
    }

    /// Whether this reply is its last.
    pub(crate) fn ends_with(&self, head: &Head) -> bool {
        let several = matches!(self.expect.form, Form::ClassicGet | Form::ClusterConfig | Form::Stats);
        !several || head.status == Status::End || matches!(self.about, About::KeyOfLine(_))
    }

    /// The error of this exchange.
    pub(crate) fn failed(&self, error: Error, sent: Sent) -> Error {
        error.of(self.command.as_str(), sent).reading(self.command.only_reads())
    }

    pub(crate) fn is_in_line(&self) -> bool {
        matches!(self.about, About::KeyOfLine(_) | About::EndOfLine)
    }

    /// Whether a reply on the shared line belongs to this exchange.
    pub(crate) fn is_answered_in_line(&self, keys: &[u8], head: &Head, key: &[u8]) -> bool {
        match &self.about {
            About::KeyOfLine(own) => head.status == Status::Hit && keys.get(own.clone()) == Some(key),
            _ => head.status == Status::End,
        }
    }

    /// How many keys of its own line were found and how many were missing, once its last reply has arrived.
    pub(crate) fn found_and_missing(&self) -> Option<(u64, u64)> {
        match &self.about {
            About::Keys(keys) => Some(keys.found_and_missing()),
            _ => None,
        }
    }

    /// The meaning of a missing reply, once a later exchange has been answered.
    pub(crate) fn silence(&self) -> &'static Head {
        match self.expect.form {
            Form::Meta(Verb::Get) | Form::ClassicGet => const { &Head::of(Status::Miss) },
            _ => const { &Head::of(Status::Done) },
        }
    }
}

/// The keys of a classic `get`. The server answers those that it has, in the requested order. twemproxy changes the order
/// if keys of several servers are missing.
pub(crate) struct KeysOfLine {
    text: Vec<u8>,
    at: usize,
    index: usize,
    found: u64,
    /// Whether the server may answer in any order. Keys that were found are erased from `text` then.
    any_order: bool,
}

impl KeysOfLine {
    fn new(keys: &[u8], any_order: bool, mut text: Vec<u8>) -> Box<Self> {
        text.clear();
        text.extend_from_slice(keys);
        Box::new(Self { text, at: 0, index: 0, found: 0, any_order })
    }

    pub(crate) fn into_memory(self) -> Vec<u8> {
        self.text
    }

    /// The index of `key`, which was not found before. Unless any order will do, it must come after the last one found.
    #[inline]
    fn find(&mut self, key: &[u8]) -> Option<usize> {
        match self.any_order {
            true => self.find_anywhere(key),
            false => self.find_further(key),
        }
    }

    #[cold]
    fn find_anywhere(&mut self, key: &[u8]) -> Option<usize> {
        // No key of a reply contains it.
        const ERASED: u8 = b'\n';
        let further = self.find_further(key);
        let index = further.or_else(|| {
            (self.at, self.index) = (0, 0);
            self.find_further(key)
        })?;
        let end = self.at - 1;
        self.text[end - key.len()..end].fill(ERASED);
        Some(index)
    }

    fn find_further(&mut self, key: &[u8]) -> Option<usize> {
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            let is_key = rest.starts_with(key) && matches!(rest.get(key.len()), None | Some(b' '));
            let length =
                if is_key { key.len() } else { rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len()) };
            self.at += length + 1;
            self.index += 1;
            if is_key {
                self.found += 1;
                return Some(self.index - 1);
            }
        }
        None
    }

    fn found_and_missing(&self) -> (u64, u64) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let left = if rest.is_empty() { 0 } else { 1 + memchr::memchr_iter(b' ', rest).count() };
        (self.found, (self.index + left) as u64 - self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_order_and_each_once() {
        let text = b"a ab abc b";
        let mut keys = KeysOfLine::new(text, false, Vec::new());
        assert_eq!([keys.find(b"a"), keys.find(b"abc"), keys.find(b"b")], [Some(0), Some(2), Some(3)]);
        assert_eq!(keys.found_and_missing(), (3, 1));
        let mut keys = KeysOfLine::new(text, false, keys.into_memory());
        assert_eq!([keys.find(b"ab"), keys.find(b"a")], [Some(1), None]);
    }

    #[test]
    fn keys_are_found_in_any_order_behind_a_proxy_and_each_once() {
        let mut keys = KeysOfLine::new(b"a ab abc b", true, Vec::new());
        assert_eq!([keys.find(b"abc"), keys.find(b"a"), keys.find(b"b")], [Some(2), Some(0), Some(3)]);
        assert_eq!([keys.find(b"abc"), keys.find(b"a"), keys.find(b"x")], [None; 3]);
        assert_eq!(keys.found_and_missing(), (3, 1));
        assert_eq!(keys.find(b"ab"), Some(1));
    }
}
