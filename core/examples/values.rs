//! Reads what a client in another language has stored of each value of `vectors/portable.json`, and stores its own.
//!
//! Usage: `values SERVER portable|json`, behind a client that has stored each value under `python:` and its name.

#[path = "../tests/values/typed.rs"]
mod typed;

use std::convert::Infallible;
use std::time::Duration;

use pinyon_core::blocking::{execute, Host};
use pinyon_core::dialect::{Dialect, Plain, ValueError};
use pinyon_core::fleet::{Access, Fleet, Options};
use pinyon_core::ring::Rule;
use pinyon_core::{parse_servers, Data, Limits, Reply};
use pinyon_proto::{Command, Key, Mode, Status, Store};

use typed::{items, plain, same, text};

const TIMEOUT: Duration = Duration::from_secs(10);
const OPTIONS: Options = Options {
    timeout: TIMEOUT,
    connect_timeout: TIMEOUT,
    max_connections: 1,
    limits: Limits { exchanges: 64, unsent: 64 * 1024, value: 1024 * 1024 },
    gutter_ttl: 10,
    events: false,
    slow_after: None,
};

type Encode = fn(&Plain) -> Result<(Vec<u8>, u32), ValueError>;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let server = arguments.next().expect("the server's address");
    let serializer = arguments.next().expect("a serializer");
    let encode: Encode = match serializer.as_str() {
        "json" => Dialect::encode_json,
        _ => |value| Dialect::Pinyon.encode(value),
    };
    let servers = parse_servers([server.as_str()]).expect("a server");
    let fleet = Fleet::new(servers, Vec::new(), Rule::default(), OPTIONS, Access::default()).expect("no TLS");
    let vectors = include_str!("../../vectors/portable.json");
    let vectors: serde_json::Value = serde_json::from_str(vectors).expect("JSON");
    for vector in items(&vectors["values"]).iter().filter(|vector| !vector[&serializer].is_null()) {
        let (name, value) = (text(&vector["name"]), plain(&vector["value"]));
        let read = get(&fleet, &format!("python:{name}"));
        assert!(same(&read, &value), "{name} is {read:?}");
        set(&fleet, &format!("rust:{name}"), encode(&value).expect("a portable value"));
    }
}

fn get(fleet: &Fleet, key: &str) -> Plain {
    let mut read = None;
    let command = Command::Get { key: key_of(key), cas: false };
    let mut take = |reply: Reply<'_>| {
        assert_eq!(reply.head.status, Status::Hit, "{key}");
        let value = Dialect::Pinyon.decode(reply.head.item.client_flags, reply.value.bytes());
        read = Some(value.expect("a value that can be read"));
    };
    execute(fleet, &NoLanguage, key.as_bytes(), true, &command, &Data::None, &mut take).expect("a reply");
    read.expect("one reply")
}

fn set(fleet: &Fleet, key: &str, (bytes, client_flags): (Vec<u8>, u32)) {
    let store = Store { mode: Mode::Set, key: key_of(key), size: bytes.len(), client_flags, ttl: 0, cas: None };
    let mut check = |reply: Reply<'_>| assert_eq!(reply.head.status, Status::Done, "{key}");
    let data = Data::Copied(&bytes);
    execute(fleet, &NoLanguage, key.as_bytes(), true, &Command::Store(store), &data, &mut check).expect("stored");
}

fn key_of(text: &str) -> Key<'_> {
    Key::new(text.as_bytes(), false).expect("a key")
}

/// No lock to give up, no signals.
struct NoLanguage;

impl Host for NoLanguage {
    type Interrupt = Infallible;

    fn unlocked<T: Send>(&self, wait: impl FnOnce() -> T + Send) -> T {
        wait()
    }

    fn interrupted(&self) -> Result<(), Infallible> {
        Ok(())
    }
}
