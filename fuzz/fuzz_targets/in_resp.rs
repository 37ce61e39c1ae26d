//! RESP as servers read and write it.

use pinyon_proto::resp::{Decoded, Limits, Reader, Value};

pub fn reader() -> Reader {
    Reader::new(Limits { bulk: usize::MAX, elements: usize::MAX, depth: 2 })
}

/// The commands in what a client has sent. The reader keeps a part of one until the rest arrives.
pub fn commands(reader: &mut Reader, sent: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let (mut rest, mut commands) = (sent, Vec::new());
    while !rest.is_empty() {
        let (consumed, command) = reader.read(rest).expect("a command is RESP");
        rest = &rest[consumed..];
        match command {
            Some(Decoded::Reply(Value::Array(parts))) => commands.push(parts.into_iter().map(word).collect()),
            Some(other) => panic!("not a command: {other:?}"),
            None => assert!(rest.is_empty()),
        }
    }
    commands
}

fn word(value: Value) -> Vec<u8> {
    match value {
        Value::Bytes(text) => text.into(),
        other => panic!("not a part of a command: {other:?}"),
    }
}

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

pub fn map(pairs: impl IntoIterator<Item = [Vec<u8>; 2]>) -> Vec<u8> {
    let pairs: Vec<Vec<u8>> = pairs.into_iter().map(|pair| pair.concat()).collect();
    [format!("%{}\r\n", pairs.len()).into_bytes(), pairs.concat()].concat()
}
