//! Data of no language in particular: what the notations of other languages are read into and written from.

/// A value made of plain data alone: no object of a class, and nothing that running code would make.
#[derive(Clone, Debug, PartialEq)]
pub enum Plain {
    Null,
    Bool(bool),
    Integer(i64),
    /// Of more than 64 bits: its absolute value, the least significant byte first.
    Big {
        negative: bool,
        magnitude: Vec<u8>,
    },
    Float(f64),
    Bytes(Vec<u8>),
    Text(String),
    /// Text in an encoding other than UTF-8, by the name its language gives that.
    Encoded(Vec<u8>, String),
    List(Vec<Plain>),
    /// A list that cannot be changed, in languages that tell the two apart.
    Tuple(Vec<Plain>),
    /// In the order in which it was written.
    Map(Vec<(Plain, Plain)>),
}

impl Plain {
    /// Of a language whose strings do not say whether they are text: it is where they are UTF-8.
    pub(super) fn string(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Plain::Text(text.to_owned()),
            Err(_) => Plain::Bytes(bytes.to_vec()),
        }
    }

    /// An integer in its simplest form; the least significant byte of its absolute value comes first.
    pub(super) fn integer(negative: bool, magnitude: &[u8]) -> Self {
        let significant = magnitude.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if significant <= 8 {
            let mut bytes = [0; 8];
            bytes[..significant].copy_from_slice(&magnitude[..significant]);
            let value = i128::from(u64::from_le_bytes(bytes));
            if let Ok(value) = i64::try_from(if negative { -value } else { value }) {
                return Plain::Integer(value);
            }
        }
        Plain::Big { negative, magnitude: magnitude[..significant].to_vec() }
    }

    /// What to call it where it is refused.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Plain::Null => "null",
            Plain::Bool(_) => "a boolean",
            Plain::Integer(_) => "an integer",
            Plain::Big { .. } => "an integer of more than 64 bits",
            Plain::Float(_) => "a float",
            Plain::Bytes(_) => "bytes",
            Plain::Text(_) => "text",
            Plain::Encoded(..) => "text in another encoding",
            Plain::List(_) => "a list",
            Plain::Tuple(_) => "a tuple",
            Plain::Map(_) => "a map",
        }
    }
}
