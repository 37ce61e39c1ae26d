//! Values of every dialect through the C interface, compared with the vectors: written and read part by part.

#[path = "../../../cache/tests/real_server/server.rs"]
#[allow(dead_code)]
mod server;
mod through_c;
#[path = "../../../cache/tests/values/typed.rs"]
mod typed;

use serde_json::Value;

use server::Memcached;
use through_c::Client;
use typed::{bytes, items, plain, same, text};

fn vectors(file: &str) -> Value {
    let path = format!("{}/../vectors/{file}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn flags(vector: &Value) -> u32 {
    vector["flags"].as_u64().unwrap() as u32
}

#[test]
fn pinyons_own_values_are_written_to_the_byte_and_read_again() {
    let vectors = vectors("portable");
    for serializer in ["portable", "json"] {
        let client = Client::new(&[("serializer", serializer)]);
        for vector in items(&vectors["values"]) {
            let (value, name, expected) = (plain(&vector["value"]), text(&vector["name"]), &vector[serializer]);
            let written = client.write(&value);
            if expected.is_null() {
                assert!(written.is_err(), "{serializer} refuses {name}");
                continue;
            }
            let (stored, client_flags) = written.unwrap_or_else(|why| panic!("{name}: {why}"));
            assert_eq!((&stored, client_flags), (&bytes(&expected["data_hex"]), flags(expected)), "{name}");
            let read = client.read(&stored, client_flags).unwrap_or_else(|why| panic!("{name}: {why}"));
            assert!(same(&read, &value), "{name} by {serializer} is {read:?}");
            for length in 0..stored.len().min(64) {
                let _ = client.read(&stored[..length], client_flags);
            }
        }
        for vector in items(&vectors["read"]) {
            let read = client.read(&bytes(&vector["data_hex"]), flags(vector)).unwrap();
            assert!(same(&read, &plain(&vector["value"])), "{} is {read:?}", vector["name"]);
        }
        for vector in items(&vectors["malformed"]) {
            let read = client.read(&bytes(&vector["data_hex"]), flags(vector));
            assert!(read.is_err(), "{} is {read:?}", vector["name"]);
        }
    }
}

#[test]
fn values_of_other_clients_are_read_from_the_cache() {
    let server = Memcached::tcp();
    for (section, exchanged) in vectors("values").as_object().unwrap() {
        let dialect = section.split(' ').next().unwrap();
        let (address, timeout) = (server.address().to_string(), "60");
        let times = [("timeout", timeout), ("connect_timeout", timeout)];
        let client = Client::new(&[&[("servers", &*address), ("dialect", dialect)][..], &times].concat());
        for vector in items(&exchanged["values"]) {
            client.store_raw("value", &bytes(&vector["data_hex"]), flags(vector));
            let (stored, client_flags) = client.get("value");
            let (read, expected) = (client.read(&stored, client_flags), plain(&vector["value"]));
            let name = text(&vector["name"]);
            let is_same = read.as_ref().is_ok_and(|read| same(read, &expected));
            // Only Python has their encoding.
            assert!(is_same || name == "latin1", "{name} of {section} is {read:?}");
        }
    }
}
