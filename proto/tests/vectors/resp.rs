//! RESP: encoding commands, and decoding replies however their bytes are cut.

use pinyon_proto::resp::{encode, Decoded, Reader, ServerError, Value};
use serde_json::Value as Json;

use crate::{bytes, load, text};

#[test]
fn every_command_is_written_as_its_vector_says() {
    for vector in load("resp-requests.json") {
        let parts: Vec<Vec<u8>> =
            vector["parts"].as_array().unwrap().iter().map(|part| bytes(part, "bytes").unwrap()).collect();
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let mut out = b"before".to_vec();
        encode(&parts, &mut out);
        assert_eq!(out[6..], bytes(&vector, "request").unwrap(), "{}", text(&vector, "name"));
    }
}

#[test]
fn every_reply_is_read_as_its_vector_says_wherever_it_is_cut() {
    for vector in load("resp-replies.json") {
        let all = bytes(&vector, "bytes").unwrap();
        check(&vector, &[&all], "whole");
        for cut in 0..=all.len() {
            let (first, second) = all.split_at(cut);
            check(&vector, &[first, second], &format!("cut at {cut}"));
        }
        let single: Vec<&[u8]> = all.chunks(1).collect();
        check(&vector, &single, "byte by byte");
    }
}

#[test]
fn a_reply_that_ends_too_soon_is_waited_for() {
    for vector in load("resp-replies.json") {
        let all = bytes(&vector, "bytes").unwrap();
        let (whole, ending) = read(&[&all]);
        if matches!(ending, Some(Ending::Malformed(_))) {
            continue;
        }
        for end in 0..all.len() {
            let (values, ending) = read(&[&all[..end]]);
            let waits = matches!(ending, None | Some(Ending::Partial));
            assert!(waits, "{}: the first {end} bytes: {ending:?}", text(&vector, "name"));
            assert!(values.len() <= whole.len(), "{}: the first {end} bytes", text(&vector, "name"));
            let same = values.iter().zip(&whole).all(|(one, other)| is_same(one, other));
            assert!(same, "{}: the first {end} bytes", text(&vector, "name"));
        }
    }
}

fn check(vector: &Json, pieces: &[&[u8]], how: &str) {
    let name = text(vector, "name");
    let (values, ending) = read(pieces);
    let expected: Vec<Decoded> = vector["values"].as_array().unwrap().iter().map(decoded).collect();
    assert_eq!(values.len(), expected.len(), "{name}, {how}: {values:?}, {ending:?}");
    for (value, expected) in values.iter().zip(&expected) {
        assert!(is_same(value, expected), "{name}, {how}: {value:?}");
    }
    match (vector["malformed"].as_str(), vector["partial"].as_bool()) {
        (Some(what), _) => assert!(
            matches!(&ending, Some(Ending::Malformed(said)) if said.starts_with(what)),
            "{name}, {how}: {ending:?}"
        ),
        (None, Some(true)) => assert_eq!(ending, Some(Ending::Partial), "{name}, {how}"),
        _ => assert_eq!(ending, None, "{name}, {how}"),
    }
}

/// What follows the last value.
#[derive(Debug, PartialEq)]
enum Ending {
    Malformed(&'static str),
    Partial,
}

fn read(pieces: &[&[u8]]) -> (Vec<Decoded>, Option<Ending>) {
    let mut reader = Reader::default();
    let mut values = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            match reader.read(rest) {
                Ok((consumed, value)) => {
                    assert!(value.is_some() || consumed == rest.len());
                    values.extend(value);
                    rest = &rest[consumed..];
                }
                Err(malformed) => return (values, Some(Ending::Malformed(malformed.what))),
            }
        }
    }
    let ending = (!reader.is_between_values()).then_some(Ending::Partial);
    (values, ending)
}

fn decoded(vector: &Json) -> Decoded {
    match vector["push"].as_array() {
        Some(values) => Decoded::Push(values.iter().map(value).collect()),
        None => Decoded::Reply(value(vector)),
    }
}

fn value(vector: &Json) -> Value {
    let (kind, content) = vector.as_object().unwrap().iter().next().expect("a value has a type");
    let text = || content.as_str().unwrap();
    let values = || content.as_array().unwrap().iter().map(value).collect::<Vec<Value>>();
    match kind.as_str() {
        "null" => Value::Null,
        "boolean" => Value::Boolean(content.as_bool().unwrap()),
        "integer" => Value::Integer(text().parse().unwrap()),
        "double" => Value::Double(text().parse().unwrap()),
        "status" => Value::Status(text().as_bytes().into()),
        "bytes" | "bytes_hex" => Value::Bytes(bytes(vector, "bytes").unwrap().into()),
        "big_number" => Value::BigNumber(text().as_bytes().into()),
        "array" => Value::Array(values()),
        "set" => Value::Set(values()),
        "map" => {
            let pairs = content.as_array().unwrap().iter();
            Value::Map(pairs.map(|pair| (value(&pair[0]), value(&pair[1]))).collect())
        }
        "error" => {
            let (code, message) = (content[0].as_str().unwrap(), content[1].as_str().unwrap());
            Value::Error(ServerError { code: code.into(), message: message.into() })
        }
        unknown => panic!("unknown type {unknown}"),
    }
}

/// Whether two are equal; NaN equals NaN here.
fn is_same(one: &Decoded, other: &Decoded) -> bool {
    format!("{one:?}") == format!("{other:?}")
}
