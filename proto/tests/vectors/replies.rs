//! Decoding replies into heads and values, however their bytes are cut.

use pinyon_proto::{Decoded, Form, Head, Item, Opaque, ReplyReader, Status, Verb};
use serde_json::Value;

use crate::{bytes, load, text};

#[test]
fn every_reply_is_read_as_its_vector_says() {
    for vector in load("memcached-replies.json") {
        check(&vector, &read(&vector, &[usize::MAX]), "whole");
    }
}

#[test]
fn every_reply_cut_at_every_byte_is_read_alike() {
    for vector in load("memcached-replies.json") {
        for cut in 0..=bytes(&vector, "bytes").unwrap().len() {
            check(&vector, &read(&vector, &[cut, usize::MAX]), &format!("cut at {cut}"));
        }
    }
}

#[test]
fn every_reply_that_comes_byte_by_byte_is_read_alike() {
    for vector in load("memcached-replies.json") {
        let single = vec![1; bytes(&vector, "bytes").unwrap().len()];
        check(&vector, &read(&vector, &single), "byte by byte");
    }
}

#[test]
fn a_reply_that_ends_too_soon_is_waited_for() {
    for vector in load("memcached-replies.json") {
        if vector["malformed"].is_string() {
            continue;
        }
        let whole = read(&vector, &[usize::MAX]).replies;
        for end in 0..bytes(&vector, "bytes").unwrap().len() {
            let name = text(&vector, "name");
            let truncated = read(&vector, &[end]);
            assert_eq!(truncated.malformed, None, "{name}: the first {end} bytes");
            let is_complete = |reply: &Reply| reply.head.size.is_none() || reply.value.is_some();
            let complete = truncated.replies.iter().take_while(|reply| is_complete(reply)).count();
            assert_eq!(truncated.replies[..complete], whole[..complete], "{name}: the first {end} bytes");
            assert!(truncated.replies.len() <= complete + 1, "{name}: the first {end} bytes");
        }
    }
}

/// The result of reading some bytes.
struct Outcome {
    replies: Vec<Reply>,
    malformed: Option<&'static str>,
    partial: bool,
}

#[derive(Debug, PartialEq)]
struct Reply {
    head: Head,
    key: Vec<u8>,
    line: Vec<u8>,
    value: Option<Vec<u8>>,
}

/// Reads the vector's bytes in pieces of these lengths.
fn read(vector: &Value, pieces: &[usize]) -> Outcome {
    let form = form_named(text(vector, "form"));
    let all = bytes(vector, "bytes").unwrap();
    let mut reader = ReplyReader::default();
    let mut outcome = Outcome { replies: Vec::new(), malformed: None, partial: false };
    let (mut start, mut end) = (0, 0usize);
    for piece in pieces {
        end = all.len().min(end.saturating_add(*piece));
        loop {
            let expects_value = reader.awaited_value().is_some();
            match reader.read(&all[start..end], form) {
                Ok(Decoded::Partial) => {
                    outcome.partial = start < end || expects_value;
                    break;
                }
                Ok(Decoded::Head { key, line, consumed }) => {
                    start += consumed;
                    let (key, line) = (key.to_vec(), line.to_vec());
                    outcome.replies.push(Reply { head: *reader.head(), key, line, value: None });
                }
                Ok(Decoded::Value { value, consumed }) => {
                    start += consumed;
                    outcome.replies.last_mut().expect("a head comes before a value").value = Some(value.to_vec());
                }
                Err(malformed) => {
                    outcome.partial = false;
                    outcome.malformed = Some(malformed.what);
                    return outcome;
                }
            }
        }
    }
    outcome
}

fn check(vector: &Value, outcome: &Outcome, how: &str) {
    let name = text(vector, "name");
    let expected = vector["replies"].as_array().unwrap();
    assert_eq!(outcome.replies.len(), expected.len(), "{name}, {how}: {:?}", outcome.malformed);
    for (reply, expected) in outcome.replies.iter().zip(expected) {
        let value = bytes(expected, "value");
        if let Some(value) = &value {
            assert_eq!(reply.head.size, Some(value.len()), "{name}, {how}");
        }
        assert_eq!(reply.value, value, "{name}, {how}");
        assert_eq!(reply.key, bytes(expected, "key").unwrap_or_default(), "{name}, {how}");
        assert_eq!(Head { size: None, ..reply.head }, head(expected), "{name}, {how}");
        if let Some(line) = bytes(expected, "line") {
            assert_eq!(reply.line, line, "{name}, {how}");
        }
    }
    match vector["malformed"].as_str() {
        Some(what) => {
            let malformed = outcome.malformed.unwrap_or_else(|| panic!("{name}, {how}: it was taken"));
            assert!(malformed.starts_with(what), "{name}, {how}: {malformed}");
        }
        None => assert_eq!(outcome.malformed, None, "{name}, {how}"),
    }
    assert_eq!(outcome.partial, vector["partial"].as_bool().unwrap_or(false), "{name}, {how}");
}

fn head(expected: &Value) -> Head {
    let counter = |field: &str| expected[field].as_str().map(|digits| digits.parse().unwrap());
    let flag = |field: &str| expected[field].as_bool().unwrap_or(false);
    Head {
        status: status_named(text(expected, "status")),
        size: None,
        opaque: expected["opaque"].as_u64().map(|opaque| Opaque(opaque.try_into().unwrap())),
        number: counter("number"),
        item: Item {
            client_flags: expected["client_flags"].as_u64().unwrap_or(0).try_into().unwrap(),
            cas: counter("cas"),
            ttl: expected["ttl"].as_i64(),
            last_access: expected["last_access"].as_u64(),
            hit_before: expected["hit_before"].as_bool(),
            size: expected["item_size"].as_u64(),
            won: flag("won"),
            stale: flag("stale"),
            already_won: flag("already_won"),
        },
    }
}

fn status_named(name: &str) -> Status {
    match name {
        "done" => Status::Done,
        "hit" => Status::Hit,
        "miss" => Status::Miss,
        "not_stored" => Status::NotStored,
        "exists" => Status::Exists,
        "not_found" => Status::NotFound,
        "no_op" => Status::NoOp,
        "version" => Status::Version,
        "stat" => Status::Stat,
        "end" => Status::End,
        "unknown_command" => Status::UnknownCommand,
        "client_error" => Status::ClientError,
        "server_error" => Status::ServerError,
        unknown => panic!("unknown status {unknown}"),
    }
}

pub fn form_named(name: &str) -> Form {
    match name {
        "mg" => Form::Meta(Verb::Get),
        "ms" => Form::Meta(Verb::Store),
        "md" => Form::Meta(Verb::Delete),
        "ma" => Form::Meta(Verb::Arithmetic),
        "quiet" => Form::Quiet,
        "mn" => Form::NoOp,
        "get" => Form::ClassicGet,
        "store" => Form::ClassicStore,
        "delete" => Form::ClassicDelete,
        "touch" => Form::ClassicTouch,
        "number" => Form::ClassicNumber,
        "flush_all" => Form::FlushAll,
        "stats" => Form::Stats,
        "version" => Form::Version,
        "config" => Form::ClusterConfig,
        unknown => panic!("unknown form {unknown}"),
    }
}
