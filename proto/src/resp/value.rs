//! Replies and pushes as values.

/// One complete reply or push.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded {
    /// The reply to the oldest unanswered command.
    Reply(Value),
    /// A push (RESP3): its kind, such as `message`, then its content; never empty.
    Push(Vec<Value>),
}

/// A reply. It hides the differences between the protocol versions.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// RESP3's null, and RESP2's null string and null array.
    Null,
    Boolean(bool),
    Integer(i64),
    Double(f64),
    /// A simple string, such as `OK`.
    Status(Box<[u8]>),
    /// A bulk string, or a verbatim string without its format.
    Bytes(Box<[u8]>),
    /// An integer of any size: digits with an optional sign.
    BigNumber(Box<[u8]>),
    Array(Vec<Value>),
    /// In the server's order, including duplicates.
    Map(Vec<(Value, Value)>),
    Set(Vec<Value>),
    Error(ServerError),
}

/// An error from the server, sent as a line or as a string of any length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// The first word, if it is in capitals: `ERR`, `NOSCRIPT`, `WRONGTYPE`; otherwise empty.
    pub code: Box<str>,
    /// The text after the code.
    pub message: Box<str>,
}

impl ServerError {
    pub(crate) fn parse(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
        let is_code = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        match !word.is_empty() && word.bytes().all(is_code) {
            true => Self { code: word.into(), message: rest.into() },
            false => Self { code: "".into(), message: text.into() },
        }
    }
}

impl std::fmt::Display for ServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.code)?;
        if !self.code.is_empty() && !self.message.is_empty() {
            f.write_str(" ")?;
        }
        f.write_str(&self.message)
    }
}
