//! Values of every dialect, compared with the vectors: written, read and refused.

mod typed;

use pinyon_cache::compression::Decompressor;
use pinyon_cache::dialect::Dialect;
use serde_json::Value;

use typed::{bytes, items, plain, same, text};

fn vectors(file: &str) -> Value {
    let path = format!("{}/../vectors/{file}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).expect("the vectors")).expect("JSON")
}

fn flags(vector: &Value) -> u32 {
    vector["flags"].as_u64().expect("flags") as u32
}

#[test]
fn pinyons_own_values_are_written_to_the_byte_and_read_again() {
    for vector in items(&vectors("portable")["values"]) {
        let value = plain(&vector["value"]);
        for (serializer, written) in
            [("portable", Dialect::Pinyon.encode(&value)), ("json", Dialect::encode_json(&value))]
        {
            let (name, expected) = (text(&vector["name"]), &vector[serializer]);
            if expected.is_null() {
                assert!(written.is_err(), "{serializer} refuses {name}");
                continue;
            }
            let stored = bytes(&expected["data_hex"]);
            assert_eq!(written, Ok((stored.clone(), flags(expected))), "{name} by {serializer}");
            let read = Dialect::Pinyon.decode(flags(expected), &stored).expect("a value");
            assert!(same(&read, &value), "{name} by {serializer} is {read:?}");
            for length in 0..stored.len() {
                let _ = Dialect::Pinyon.decode(flags(expected), &stored[..length]);
            }
        }
    }
}

#[test]
fn other_forms_of_pinyons_own_values_are_read() {
    for vector in items(&vectors("portable")["read"]) {
        let read = Dialect::Pinyon.decode(flags(vector), &bytes(&vector["data_hex"])).expect("a value");
        assert!(same(&read, &plain(&vector["value"])), "{} is {read:?}", vector["name"]);
    }
}

#[test]
fn what_is_malformed_is_an_error() {
    for vector in items(&vectors("portable")["malformed"]) {
        let read = Dialect::Pinyon.decode(flags(vector), &bytes(&vector["data_hex"]));
        assert!(read.is_err(), "{} is {read:?}", vector["name"]);
    }
}

#[test]
fn values_of_other_clients_are_read() {
    let reader = Decompressor::new(1 << 20, []).expect("no dictionaries");
    let vectors = vectors("values");
    for (section, exchanged) in vectors.as_object().expect("sections by client") {
        let name = section.split(' ').next().unwrap_or_default();
        let dialect = Dialect::named(name).expect("a dialect");
        for vector in items(&exchanged["values"]) {
            let (flags, stored) = (flags(vector), bytes(&vector["data_hex"]));
            let whole = match dialect.is_compressed(flags) {
                true => dialect.decompress(flags, &stored, &reader).expect("a compressed value"),
                false => stored,
            };
            let read = dialect.decode(dialect.inside(flags), &whole);
            let (expected, name) = (plain(&vector["value"]), text(&vector["name"]));
            let is_same = read.as_ref().is_ok_and(|read| same(read, &expected));
            // Only Python has their encoding.
            assert!(is_same || name == "latin1", "{name} of {section} is {read:?}");
        }
    }
}
