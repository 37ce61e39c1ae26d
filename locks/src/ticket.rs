//! Tickets: text by which another process, in any language, takes a lock over from its holder.
//!
//! A ticket says which attempt holds which names, and where: `pinyon-lock/1/PREFIX/ATTEMPT/REST/COUNT/NAME/…`. It has no
//! secrets, but whoever has it can take the lock. Bytes other than letters, digits and `-._~:` are written as in URLs. If
//! the lock has a note, a colon and the note follow REST.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::call::{Attempt, Names};
use crate::identity::{unescaped, Escaped};
use crate::keys;
use crate::remark;
use pinyon_net::invalid::InvalidArgument;

const BEGINS: [&str; 2] = ["pinyon-lock", "1"];
const ALSO: &[u8] = b"-._~:";

/// A lock that was handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// What stands before the names of locks in the keys of its client.
    pub prefix: Box<[u8]>,
    /// The attempt that holds the names until they are adopted.
    pub attempt: Attempt,
    /// How long the names stay locked in any case (`at_least`).
    pub rest: Duration,
    /// What its holder has said about it.
    pub note: Option<Arc<str>>,
    pub names: Names,
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (attempt, mut rest) = (self.attempt.to_string(), self.rest.as_millis().to_string());
        if let Some(note) = &self.note {
            rest = format!("{rest}:{note}");
        }
        let count = self.names.len().to_string();
        f.write_str(&BEGINS.join("/"))?;
        for part in [&*self.prefix, attempt.as_bytes(), rest.as_bytes(), count.as_bytes()] {
            write!(f, "/{}", Escaped { bytes: part, also: ALSO })?;
        }
        self.names.iter().try_for_each(|name| write!(f, "/{}", Escaped { bytes: name, also: ALSO }))
    }
}

impl Ticket {
    /// Reads the text that [`Display`](fmt::Display) writes.
    pub fn parse(text: &[u8]) -> Result<Self, InvalidArgument> {
        Self::read(text).ok_or_else(|| {
            let message =
                "this is no ticket of a lock, or only a part of one: pass on the whole text that hand_over gave";
            InvalidArgument::usage(message)
        })
    }

    fn read(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?.trim();
        let mut parts = text.split('/');
        BEGINS.iter().try_for_each(|begin| (parts.next()? == *begin).then_some(()))?;
        let prefix = unescaped(parts.next()?)?.into();
        let attempt = Attempt::parse(&unescaped(parts.next()?)?)?;
        let rest = String::from_utf8(unescaped(parts.next()?)?).ok()?;
        let (rest, note) = rest.split_once(':').map_or((&*rest, None), |(rest, note)| (rest, Some(note)));
        let (rest, note) =
            (Duration::from_millis(rest.parse().ok()?), note.map(remark::checked).transpose().ok()?.flatten());
        let count: usize = parts.next()?.parse().ok()?;
        let given = parts.map(unescaped).collect::<Option<Vec<_>>>()?;
        let names = keys::names(given.iter().map(Vec::as_slice)).ok()?;
        (given.len() == count && names.len() == count).then_some(Self { prefix, attempt, rest, note, names })
    }

    /// Refuses a ticket of another namespace, whose names are other locks.
    pub(super) fn check_prefix(&self, prefix: &[u8]) -> Result<(), InvalidArgument> {
        if *self.prefix == *prefix {
            return Ok(());
        }
        let shown = |prefix: &[u8]| pinyon_net::shown::shown(prefix);
        Err(InvalidArgument::usage(format!(
            "the ticket is for locks whose keys begin with {}, and this client's begin with {}: use the same namespace and \
             prefix",
            shown(&self.prefix),
            shown(prefix)
        )))
    }

    /// The attempt to take it over from.
    pub(super) fn holder(&self) -> Arc<Attempt> {
        Arc::new(self.attempt.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ticket(names: &[&[u8]]) -> Ticket {
        let attempt = Attempt { client: "0123456789abcdef.1f.0".into(), owner: 3, number: 255 };
        let names = keys::names(names.iter().copied()).unwrap();
        Ticket { prefix: b"{app}:"[..].into(), attempt, rest: Duration::from_millis(1500), note: None, names }
    }

    #[test]
    fn a_ticket_is_text_without_blanks() {
        let text = "pinyon-lock/1/%7Bapp%7D:/0123456789abcdef.1f.0:3:ff/1500/2/order:7/%C3%A4%20%2F%25";
        let ticket = ticket(&["order:7".as_bytes(), "ä /%".as_bytes()]);
        assert_eq!(ticket.to_string(), text);
        assert_eq!(Ticket::parse(format!("{text}\n").as_bytes()).unwrap(), ticket);
    }

    #[test]
    fn a_ticket_has_the_note_of_its_lock() {
        let ticket = Ticket { note: Some("ä: 17/3 %".into()), ..ticket(&[b"a"]) };
        assert_eq!(
            ticket.to_string(),
            "pinyon-lock/1/%7Bapp%7D:/0123456789abcdef.1f.0:3:ff/1500:%C3%A4:%2017%2F3%20%25/1/a"
        );
        assert_eq!(Ticket::parse(ticket.to_string().as_bytes()).unwrap(), ticket);
        let wrong = format!("pinyon-lock/1/p/c:1:1/0:{}/1/a", "x".repeat(201));
        assert!(Ticket::parse(wrong.as_bytes()).is_err(), "no lock has such a note");
    }

    #[test]
    fn half_a_ticket_is_refused() {
        let text = Ticket { note: Some("17".into()), ..ticket(&[b"a", b"b"]) }.to_string();
        for end in 0..text.len() {
            assert!(Ticket::parse(&text.as_bytes()[..end]).is_err(), "{}", &text[..end]);
        }
        for wrong in ["", "pinyon-lock/2/a/b:1:1/0/1/a", "pinyon-lock/1/%zz/c:1:1/0/1/a", "pinyon-lock/1/p/c:1/0/1/a"] {
            assert!(Ticket::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_ticket_of_another_namespace_is_refused() {
        let ticket = ticket(&[b"a"]);
        ticket.check_prefix(b"{app}:").unwrap();
        assert!(ticket.check_prefix(b"{other}:").is_err());
    }

    proptest! {
        #[test]
        fn all_names_come_back(names in proptest::collection::btree_set(proptest::collection::vec(1u8.., 1..9), 1..4)) {
            let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
            let ticket = ticket(&names);
            prop_assert_eq!(Ticket::parse(ticket.to_string().as_bytes()).unwrap(), ticket);
        }
    }
}
