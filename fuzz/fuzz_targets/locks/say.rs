//! A server's replies as bytes, honest or made up.

use arbitrary::Arbitrary;

pub fn number(number: i64) -> Vec<u8> {
    format!(":{number}\r\n").into_bytes()
}

pub fn bytes(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

pub fn text(text: &str) -> Vec<u8> {
    bytes(text.as_bytes())
}

pub fn status(text: &str) -> Vec<u8> {
    format!("+{text}\r\n").into_bytes()
}

pub fn error(text: &str) -> Vec<u8> {
    format!("-{text}\r\n").into_bytes()
}

pub fn null() -> Vec<u8> {
    b"$-1\r\n".to_vec()
}

pub fn array(items: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    aggregate('*', items)
}

pub fn aggregate(kind: char, items: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let items: Vec<Vec<u8>> = items.into_iter().collect();
    [format!("{kind}{}\r\n", items.len()).into_bytes(), items.concat()].concat()
}

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
    NotLoaded,
    NoFunction,
    Moved,
    /// To an address that does not exist.
    MovedNowhere(&'a [u8]),
    Ask,
    TryAgain,
    ReadOnly,
    OutOfMemory,
    Loading,
    Scripting,
    ClusterDown,
    CrossSlot,
    NotPermitted,
    NotPermittedInside,
    UnknownCommand,
    Text(&'a [u8]),
}

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
                let pairs = items.chunks_exact(2).flatten().map(|item| item.write(client));
                let pairs: Vec<Vec<u8>> = pairs.collect();
                [format!("%{}\r\n", pairs.len() / 2).into_bytes(), pairs.concat()].concat()
            }
        }
    }
}

impl Refusal<'_> {
    pub fn write(&self) -> Vec<u8> {
        error(&match self {
            Refusal::NotLoaded => "NOSCRIPT No matching script.".into(),
            Refusal::NoFunction => "ERR Function not found".into(),
            Refusal::Moved => "MOVED 7 127.0.0.1:7001".into(),
            Refusal::MovedNowhere(address) => format!("MOVED 7 {}", address.escape_ascii()),
            Refusal::Ask => "ASK 7 127.0.0.1:7001".into(),
            Refusal::TryAgain => "TRYAGAIN Multiple keys request during rehashing of slot".into(),
            Refusal::ReadOnly => "READONLY You can't write against a read only replica.".into(),
            Refusal::OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.".into(),
            Refusal::Loading => "LOADING Redis is loading the dataset in memory".into(),
            Refusal::Scripting => "BUSY Redis is busy running a script.".into(),
            Refusal::ClusterDown => "CLUSTERDOWN The cluster is down".into(),
            Refusal::CrossSlot => "CROSSSLOT Keys in request don't hash to the same slot".into(),
            Refusal::NotPermitted => "NOPERM this user has no permissions to run the 'fcall' command".into(),
            Refusal::NotPermittedInside => "ERR The user executing the script can't run this command".into(),
            Refusal::UnknownCommand => "ERR unknown command 'FCALL', with args beginning with: ".into(),
            Refusal::Text(any) => any.escape_ascii().to_string(),
        })
    }
}
