//! An honest Redis server, of several kinds. It has every key, and values derive from their keys.

use std::collections::VecDeque;

use arbitrary::Arbitrary;
use pinyon_proto::resp::{Decoded, Limits, Reader, Value};

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
    unread: Vec<u8>,
    /// The replies in order, separately.
    pub replies: VecDeque<Vec<u8>>,
}

pub fn value_of(key: u8) -> Vec<u8> {
    let text = format!("value of {key};");
    text.repeat(1 + usize::from(key) * usize::from(key % 7)).into_bytes()
}

impl Server {
    pub fn new(manners: Manners) -> Self {
        let reader = Reader::new(Limits { bulk: usize::MAX, elements: usize::MAX, depth: 2 });
        Self { manners, reader, unread: Vec::new(), replies: VecDeque::new() }
    }

    pub fn push(&mut self, number: u8) {
        let array = match self.manners {
            Manners::Resp2 => return,
            _ => format!(">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n:{number}\r\n"),
        };
        self.replies.push_back(array.into_bytes());
    }

    pub fn serve(&mut self, sent: &[u8]) {
        self.unread.extend_from_slice(sent);
        let unread = std::mem::take(&mut self.unread);
        let mut rest = &unread[..];
        while !rest.is_empty() {
            let (consumed, command) = self.reader.read(rest).expect("a command is RESP");
            rest = &rest[consumed..];
            match command {
                Some(Decoded::Reply(Value::Array(parts))) => self.answer(&parts),
                Some(other) => panic!("not a command: {other:?}"),
                None => break,
            }
        }
        self.unread = rest.to_vec();
    }

    fn answer(&mut self, parts: &[Value]) {
        let words: Vec<&[u8]> = parts.iter().map(bytes).collect();
        let name = words[0].to_ascii_uppercase();
        let reply = match (&name[..], self.manners) {
            (b"HELLO", Manners::Resp2) => b"-ERR unknown command 'HELLO'\r\n".to_vec(),
            (b"HELLO" | b"AUTH", Manners::RefusesLogin) => {
                let said = words.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join(" ");
                format!("-WRONGPASS refused: {said}\r\n").into_bytes()
            }
            (b"HELLO", _) => {
                b"%3\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n".to_vec()
            }
            (b"PING", Manners::Loading) => b"-LOADING Redis is loading the dataset in memory\r\n".to_vec(),
            (b"INFO", _) => b"$20\r\nredis_version:5.0.14\r\n".to_vec(),
            (b"SUBSCRIBE" | b"PSUBSCRIBE" | b"SSUBSCRIBE" | b"UNSUBSCRIBE" | b"PUNSUBSCRIBE" | b"SUNSUBSCRIBE", _) => {
                return self.confirm(&name, words.len() - 1);
            }
            (b"GET", _) if words.len() == 2 && words[1].len() == 1 => {
                let value = value_of(words[1][0]);
                [format!("${}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat()
            }
            _ => b"+OK\r\n".to_vec(),
        };
        self.replies.push_back(reply);
    }

    /// One message for each channel.
    fn confirm(&mut self, name: &[u8], channels: usize) {
        let kind = String::from_utf8(name.to_ascii_lowercase()).unwrap();
        let mark = if self.manners == Manners::Resp2 { '*' } else { '>' };
        for number in 1..=channels {
            let confirmation = format!("{mark}3\r\n${}\r\n{kind}\r\n$1\r\nc\r\n:{number}\r\n", kind.len());
            self.replies.push_back(confirmation.into_bytes());
        }
    }
}

fn bytes(value: &Value) -> &[u8] {
    match value {
        Value::Bytes(text) => text,
        other => panic!("not a part of a command: {other:?}"),
    }
}
