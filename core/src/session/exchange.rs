//! One request and its reply, in the queue of those in flight.

use std::time::Instant;

use pinyon_proto::{Command, Expect, Form, Head, Malformed, Status, Verb};

use super::completion::Ticket;

pub(crate) struct Exchange {
    pub(crate) ticket: Ticket,
    pub(crate) name: &'static str,
    pub(crate) expect: Expect,
    pub(crate) deadline: Instant,
    /// Where its request begins in the stream of bytes sent.
    pub(crate) begin: u64,
    /// Whether a data block follows its command line.
    pub(crate) stores: bool,
    /// Whether its reply is a number.
    pub(crate) counts: bool,
    /// Nobody waits for it any more: its reply is read and dropped.
    pub(crate) abandoned: bool,
    /// The keys a classic reply must repeat, in order.
    pub(crate) keys: Option<Box<Keys>>,
}

impl Exchange {
    /// Whether a reply with this head can be the one to this exchange, by what it echoes.
    pub(crate) fn is_echoed_by(&self, head: &Head) -> bool {
        match self.expect.form {
            Form::NoOp => head.status == Status::NoOp,
            _ => head.status != Status::NoOp && self.expect.opaque == head.opaque,
        }
    }

    /// Refuses a reply that belongs to another request. Returns which of the exchange's keys it is about.
    pub(crate) fn verify(&mut self, head: &Head, key: &[u8], line: &[u8]) -> Result<usize, Malformed> {
        if let (Some(keys), Status::Hit) = (&mut self.keys, head.status) {
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

    /// What it means that a quiet exchange has no reply.
    pub(crate) fn silence(&self) -> Head {
        let status = match self.expect.form {
            Form::Meta(Verb::Get) => Status::Miss,
            _ => Status::Done,
        };
        Head { status, ..Head::default() }
    }
}

/// The keys of a classic `get`. The server answers for those it has, in the order asked.
pub(crate) struct Keys {
    text: Vec<u8>,
    at: usize,
    index: usize,
}

impl Keys {
    pub(crate) fn of(command: &Command<'_>, form: Form) -> Option<Box<Self>> {
        let text = match command {
            _ if form != Form::ClassicGet => return None,
            Command::GetMany { keys, .. } => keys.to_vec(),
            Command::Get { key, .. } | Command::GetAndTouch { key, .. } => key.wire().to_vec(),
            _ => return None,
        };
        Some(Box::new(Self { text, at: 0, index: 0 }))
    }

    /// The index of `key`, which must come after the one found before.
    fn find(&mut self, key: &[u8]) -> Option<usize> {
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            let is_key = rest.starts_with(key) && matches!(rest.get(key.len()), None | Some(b' '));
            let length =
                if is_key { key.len() } else { rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len()) };
            self.at += length + 1;
            self.index += 1;
            if is_key {
                return Some(self.index - 1);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_order_and_each_once() {
        let command = Command::GetMany { keys: b"a ab abc b", cas: false };
        let mut keys = Keys::of(&command, Form::ClassicGet).unwrap();
        assert_eq!([keys.find(b"a"), keys.find(b"abc"), keys.find(b"b")], [Some(0), Some(2), Some(3)]);
        let mut keys = Keys::of(&command, Form::ClassicGet).unwrap();
        assert_eq!([keys.find(b"ab"), keys.find(b"a")], [Some(1), None]);
    }
}
