//! Values in the notation of the vectors: see `vectors/README.md`.

use pinyon_cache::dialect::{DateTime, Instant, Notation, Plain};
use serde_json::Value;

/// A vector's value, from its type and content.
pub fn plain(typed: &Value) -> Plain {
    let what = &typed[1];
    match text(&typed[0]).as_str() {
        "null" => Plain::Null,
        "bool" => Plain::Bool(what.as_bool().expect("a bool")),
        "integer" => integer(&text(what)),
        "float" => Plain::Float(text(what).parse().expect("a float")),
        "text" => Plain::Text(text(what)),
        "bytes" => Plain::Bytes(text(what).into_bytes()),
        "bytes_hex" => Plain::Bytes(bytes(what)),
        "date_time" => Plain::DateTime(DateTime::parse(&text(what)).expect("a date-time")),
        "instant" => {
            let what = text(what);
            let (seconds, nanoseconds) = what.split_once('.').expect("seconds and nanoseconds");
            let number = |digits: &str| digits.parse::<i64>().expect("a number");
            Plain::Instant(Instant { seconds: number(seconds), nanoseconds: number(nanoseconds) as u32 })
        }
        "list" => Plain::List(items(what).iter().map(plain).collect()),
        "tuple" => Plain::Tuple(items(what).iter().map(plain).collect()),
        "map" => Plain::Map(items(what).iter().map(|pair| (plain(&pair[0]), plain(&pair[1]))).collect()),
        other => panic!("vectors have no values of the type {other}"),
    }
}

/// Bytes from hexadecimal.
pub fn bytes(hex: &Value) -> Vec<u8> {
    let digits: Vec<u8> = text(hex).chars().map(|digit| digit.to_digit(16).expect("hexadecimal") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

pub fn items(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

pub fn text(value: &Value) -> String {
    match value.get("repeated") {
        Some(repeated) => text(repeated).repeat(value["times"].as_u64().expect("a number") as usize),
        None => value.as_str().expect("text").to_owned(),
    }
}

/// Whether two values are the same including all inner types, and not merely equal.
pub fn same(one: &Plain, other: &Plain) -> bool {
    format!("{one:?}") == format!("{other:?}")
}

/// An integer of any size, which JSON can read.
fn integer(digits: &str) -> Plain {
    Notation::Json.read(digits.as_bytes()).expect("an integer")
}
