//! What a server says when it lies or refuses.

use arbitrary::Arbitrary;

use crate::in_resp::{array, bytes, error, map, null, number, status, text};

/// A value of the right form with the wrong content.
#[derive(Arbitrary, Clone, Debug)]
pub enum Lie<'a> {
    Small(u8),
    Integer(i64),
    /// Digits in a string.
    Digits(u64),
    Null,
    Status,
    Bytes(&'a [u8]),
    /// As the value of a lock's key, or of a waiter.
    Holder {
        own: bool,
        owner: u8,
        number: u8,
        token: Option<u64>,
    },
    Error(Refusal<'a>),
    Array(Vec<Lie<'a>>),
    Map(Vec<Lie<'a>>),
}

/// The reason why a server refuses a command.
#[derive(Arbitrary, Clone, Debug)]
pub enum Refusal<'a> {
    Known(u8),
    /// To an address that does not exist.
    MovedNowhere(&'a [u8]),
    Text(&'a [u8]),
}

const KNOWN: [&str; 14] = [
    "NOSCRIPT No matching script.",
    "ERR Function not found",
    "MOVED 7 127.0.0.1:7001",
    "ASK 7 127.0.0.1:7001",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "READONLY You can't write against a read only replica.",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "LOADING Redis is loading the dataset in memory",
    "BUSY Redis is busy running a script.",
    "CLUSTERDOWN The cluster is down",
    "CROSSSLOT Keys in request don't hash to the same slot",
    "NOPERM this user has no permissions to run the 'fcall' command",
    "ERR The user executing the script can't run this command",
    "ERR unknown command 'FCALL', with args beginning with: ",
];

impl Lie<'_> {
    pub fn write(&self, client: &str) -> Vec<u8> {
        match self {
            Lie::Small(small) => number(i64::from(*small) - 1),
            Lie::Integer(integer) => number(*integer),
            Lie::Digits(digits) => text(&digits.to_string()),
            Lie::Null => null(),
            Lie::Status => status("OK"),
            Lie::Bytes(any) => bytes(any),
            Lie::Holder { own, owner, number, token } => {
                let client = if *own { client } else { "other" };
                let token = token.map_or(String::new(), |token| format!(" {token}"));
                text(&format!("{client}:{owner:x}:{number:x}{token}"))
            }
            Lie::Error(refusal) => refusal.write(),
            Lie::Array(items) => array(items.iter().map(|item| item.write(client))),
            Lie::Map(items) => {
                let pairs: Vec<_> =
                    items.chunks_exact(2).map(|pair| [0, 1].map(|side| pair[side].write(client))).collect();
                map(pairs)
            }
        }
    }
}

impl Refusal<'_> {
    pub fn write(&self) -> Vec<u8> {
        error(&match self {
            Refusal::Known(which) => KNOWN[usize::from(*which) % KNOWN.len()].into(),
            Refusal::MovedNowhere(address) => format!("MOVED 7 {}", address.escape_ascii()),
            Refusal::Text(any) => any.escape_ascii().to_string(),
        })
    }
}
