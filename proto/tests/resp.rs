//! Replies in RESP: of any shape, cut anywhere, and malicious ones.

use pinyon_proto::resp::{encode, Decoded, Limits, Malformed, Reader, ServerError, Value, MAX_LINE};
use proptest::prelude::*;

const BOUNDLESS: Limits = Limits { bulk: usize::MAX, elements: usize::MAX, depth: usize::MAX };

/// Writes a value like a server that speaks RESP3.
fn write(value: &Value, out: &mut Vec<u8>) {
    let mut head = |kind: &str, text: &[u8]| {
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(text);
        out.extend_from_slice(b"\r\n");
    };
    match value {
        Value::Null => head("_", b""),
        Value::Boolean(truth) => head("#", if *truth { b"t" } else { b"f" }),
        Value::Integer(number) => head(":", number.to_string().as_bytes()),
        Value::Double(number) => head(",", number.to_string().as_bytes()),
        Value::Status(text) => head("+", text),
        Value::BigNumber(digits) => head("(", digits),
        Value::Error(error) => head("-", error.to_string().as_bytes()),
        Value::Bytes(bytes) => {
            head("$", bytes.len().to_string().as_bytes());
            head("", bytes);
        }
        Value::Array(values) | Value::Set(values) => {
            head(if matches!(value, Value::Set(_)) { "~" } else { "*" }, values.len().to_string().as_bytes());
            values.iter().for_each(|value| write(value, out));
        }
        Value::Map(pairs) => {
            head("%", pairs.len().to_string().as_bytes());
            for (key, value) in pairs {
                write(key, out);
                write(value, out);
            }
        }
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let line = proptest::collection::vec(any::<u8>().prop_filter("not in a line", |b| !b"\r\n".contains(b)), 0..20);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Boolean),
        (any::<i64>(), 0..19u32).prop_map(|(number, digits)| Value::Integer(number / 10i64.pow(digits))),
        any::<f64>().prop_filter("equal to itself", |number| !number.is_nan()).prop_map(Value::Double),
        line.prop_map(|line| Value::Status(line.into())),
        proptest::collection::vec(any::<u8>(), 0..200).prop_map(|bytes| Value::Bytes(bytes.into())),
        any::<i128>().prop_map(|number| Value::BigNumber(number.to_string().into_bytes().into())),
        proptest::collection::vec(97u8..123, 0..20).prop_map(|text| {
            let message = String::from_utf8(text).unwrap().into();
            Value::Error(ServerError { code: "ERR".into(), message })
        }),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::Set),
            proptest::collection::vec((inner.clone(), inner), 0..4).prop_map(Value::Map),
        ]
    })
}

fn read(bytes: &[u8], cuts: &[usize], limits: Limits) -> Result<Vec<Decoded>, Malformed> {
    let mut reader = Reader::new(limits);
    let mut values = Vec::new();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).chain([bytes.len()]).collect();
    cuts.sort_unstable();
    let mut start = 0;
    for end in cuts {
        while start < end {
            let (consumed, value) = reader.read(&bytes[start..end])?;
            assert!(consumed > 0 && (value.is_some() || start + consumed == end));
            start += consumed;
            values.extend(value);
        }
    }
    Ok(values)
}

proptest! {
    #[test]
    fn values_survive_being_written_and_read_however_they_are_cut(
        values in proptest::collection::vec(any_value(), 1..6),
        cuts in proptest::collection::vec(any::<usize>(), 0..12),
    ) {
        let mut bytes = Vec::new();
        values.iter().for_each(|value| write(value, &mut bytes));
        let expected: Vec<Decoded> = values.into_iter().map(Decoded::Reply).collect();
        prop_assert_eq!(read(&bytes, &cuts, Limits::default()).unwrap(), expected);
    }

    #[test]
    fn any_bytes_are_read_alike_however_they_are_cut(
        bytes in proptest::collection::vec(
            prop_oneof![Just(b"\r\n".to_vec()), "[$*%~>|!=:+_#,(-]?[0-9]{0,2}".prop_map(String::into_bytes)], 0..60),
        cuts in proptest::collection::vec(any::<usize>(), 0..12),
    ) {
        let bytes = bytes.concat();
        let limits = Limits { bulk: 40, elements: 30, depth: 3 };
        let whole = read(&bytes, &[], limits).map_err(|malformed| malformed.what);
        let cut = read(&bytes, &cuts, limits).map_err(|malformed| malformed.what);
        prop_assert_eq!(format!("{:?}", whole), format!("{:?}", cut));
    }

    #[test]
    fn a_command_is_an_array_of_its_parts(
        parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..30), 1..10),
    ) {
        let mut request = Vec::new();
        encode(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>(), &mut request);
        let bytes = parts.into_iter().map(|part| Value::Bytes(part.into())).collect();
        prop_assert_eq!(read(&request, &[], Limits::default()).unwrap(), [Decoded::Reply(Value::Array(bytes))]);
    }
}

fn refusal(bytes: &[u8], limits: Limits) -> String {
    read(bytes, &[], limits).expect_err("it is refused").to_string()
}

#[test]
fn no_room_is_made_for_what_a_length_only_promises() {
    for head in ["$9223372036854775807", "*9223372036854775807", "~9223372036854775807", "!9223372036854775807"] {
        assert_eq!(read(format!("{head}\r\n:1\r\n").as_bytes(), &[], BOUNDLESS), Ok(vec![]), "{head}");
    }
    let nested = "*1000000000\r\n".repeat(Limits::MOST_DEPTH);
    assert_eq!(read(nested.as_bytes(), &[], BOUNDLESS), Ok(vec![]));
}

#[test]
fn nesting_has_an_end_even_where_no_limit_is_set() {
    let nested = "*1\r\n".repeat(1_000_000);
    assert_eq!(refusal(nested.as_bytes(), BOUNDLESS), "a reply is nested too deeply: received \"129 levels\"");
    let attributes = "|1\r\n".repeat(1_000_000);
    assert!(refusal(attributes.as_bytes(), BOUNDLESS).starts_with("a reply is nested too deeply"));
}

#[test]
fn a_line_has_an_end() {
    for kind in ["+", "-", ":", "$", "*", "(", ","] {
        let endless = format!("{kind}{}", "1".repeat(MAX_LINE));
        for cuts in [&[][..], &[1, 1000, MAX_LINE]] {
            let refused = read(endless.as_bytes(), cuts, BOUNDLESS).unwrap_err();
            assert_eq!(refused.what, "a line has no end");
            assert!(refused.excerpt.starts_with(&format!("{kind}1111")));
        }
    }
    let longest = format!("+{}\r\n", "x".repeat(MAX_LINE - 1));
    for cuts in [&[][..], &[MAX_LINE - 1], &[MAX_LINE], &[MAX_LINE + 1]] {
        assert_eq!(read(longest.as_bytes(), cuts, Limits::default()).unwrap().len(), 1);
    }
}

#[test]
fn attributes_without_end_count_towards_the_limits() {
    let limits = Limits { bulk: 100, elements: 100, depth: 8 };
    assert!(refusal("|0\r\n".repeat(101).as_bytes(), limits).starts_with("a reply has too many values"));
    assert!(refusal(b"|1\r\n$40\r\n", Limits { bulk: 39, ..limits }).starts_with("a reply is too large"));
    let statuses = format!("*90\r\n{}", "+abcdefghij\r\n".repeat(11));
    assert!(refusal(statuses.as_bytes(), limits).starts_with("a reply is too large"));
}

#[test]
fn the_limits_are_those_of_one_reply() {
    let limits = Limits { bulk: 3, elements: 2, depth: 1 };
    let replies = b"*2\r\n$1\r\na\r\n$2\r\nbc\r\n".repeat(5);
    assert_eq!(read(&replies, &[], limits).unwrap().len(), 5);
    assert!(refusal(b"*3\r\n", limits).contains("3 values, the limit is 2"));
    assert!(refusal(b"$4\r\n", limits).contains("4 bytes, the limit is 3"));
    assert!(refusal(b"*1\r\n*1\r\n", limits).contains("2 levels"));
}

#[test]
fn what_was_wrong_is_quoted() {
    assert_eq!(refusal(b":1x\r\n", BOUNDLESS), "expected an integer: received \":1x\"");
    assert_eq!(refusal(b"HTTP/1.1 400\r\n", BOUNDLESS), "unexpected reply: received \"HTTP/1.1 400\\r\\n\"");
    assert_eq!(refusal(b"$?\r\n", BOUNDLESS), "a streamed value, which is not taken: received \"$?\"");
    assert_eq!(refusal(b"$1\r\nabc\r\n", BOUNDLESS), "a string is longer than its length says: received \"bc\\r\\n\"");
}
