//! An honest Redis server, of several kinds. It has every key, and values derive from their keys.

use std::collections::VecDeque;

use arbitrary::Arbitrary;
use pinyon_proto::resp::Reader;

use crate::in_resp as say;

/// How it answers a greeting.
#[derive(Arbitrary, Clone, Copy, Debug, PartialEq)]
pub enum Manners {
    Resp3,
    /// It does not know `HELLO`.
    Resp2,
    Loading,
    /// It quotes the request in its error, as some servers do.
    RefusesLogin,
}

pub struct Server {
    manners: Manners,
    reader: Reader,
    /// The replies in order, separately.
    pub replies: VecDeque<Vec<u8>>,
}

pub fn value_of(key: u8) -> Vec<u8> {
    let text = format!("value of {key};");
    text.repeat(1 + usize::from(key) * usize::from(key % 7)).into_bytes()
}

impl Server {
    pub fn new(manners: Manners) -> Self {
        Self { manners, reader: say::reader(), replies: VecDeque::new() }
    }

    pub fn push(&mut self, number: u8) {
        if self.manners != Manners::Resp2 {
            self.message("message", number.into());
        }
    }

    pub fn serve(&mut self, sent: &[u8]) {
        for command in say::commands(&mut self.reader, sent) {
            self.answer(&command.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
    }

    fn answer(&mut self, words: &[&[u8]]) {
        let name = words[0].to_ascii_uppercase();
        let reply = match (&name[..], self.manners) {
            (b"HELLO", Manners::Resp2) => say::error("ERR unknown command 'HELLO'"),
            (b"HELLO" | b"AUTH", Manners::RefusesLogin) => {
                let said = words.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join(" ");
                say::error(&format!("WRONGPASS refused: {said}"))
            }
            (b"HELLO", _) => say::map([
                [say::text("server"), say::text("redis")],
                [say::text("version"), say::text("7.0.15")],
                [say::text("proto"), say::number(3)],
            ]),
            (b"PING", Manners::Loading) => say::error("LOADING Redis is loading the dataset in memory"),
            (b"INFO", _) => say::text("redis_version:5.0.14"),
            (b"SUBSCRIBE" | b"PSUBSCRIBE" | b"SSUBSCRIBE" | b"UNSUBSCRIBE" | b"PUNSUBSCRIBE" | b"SUNSUBSCRIBE", _) => {
                let kind = String::from_utf8_lossy(&name).to_ascii_lowercase();
                return (1..words.len()).for_each(|number| self.message(&kind, number as i64));
            }
            (b"GET", _) if words.len() == 2 && words[1].len() == 1 => say::bytes(&value_of(words[1][0])),
            _ => say::status("OK"),
        };
        self.replies.push_back(reply);
    }

    /// A message about a channel.
    fn message(&mut self, kind: &str, number: i64) {
        let mark = if self.manners == Manners::Resp2 { '*' } else { '>' };
        self.replies.push_back(say::aggregate(mark, [say::text(kind), say::text("c"), say::number(number)]));
    }
}
