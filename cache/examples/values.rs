//! Reads the values of `vectors/portable.json` as stored by a client in another language, and stores its own.
//!
//! Usage: `values SERVER portable|json`, after a client has stored each value under `python:` and its name.

#[path = "../tests/values/typed.rs"]
mod typed;

use pinyon_cache::blocking::run;
use pinyon_cache::dialect::{Dialect, Plain, ValueError};
use pinyon_cache::directory::Directory;
use pinyon_cache::operations::{self, Answer, Beside, BorrowedKey, Bytes, Policy, Request, Single};
use pinyon_cache::settings::CacheSettings;
use pinyon_cache::Data;
use pinyon_net::host::NoHost;
use pinyon_net::settings::ServerTexts;
use pinyon_proto::{Key, Mode};

use typed::{items, plain, same, text};

type Encode = fn(&Plain) -> Result<(Vec<u8>, u32), ValueError>;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let server = arguments.next().expect("the server's address");
    let serializer = arguments.next().expect("a serializer");
    let encode: Encode = match serializer.as_str() {
        "json" => Dialect::encode_json,
        _ => |value| Dialect::Pinyon.encode(value),
    };
    let settings = CacheSettings { servers: Some(ServerTexts(vec![server])), ..CacheSettings::default() };
    let client = settings.build(false).expect("settings that make sense").directory;
    let vectors = include_str!("../../vectors/portable.json");
    let vectors: serde_json::Value = serde_json::from_str(vectors).expect("JSON");
    for vector in items(&vectors["values"]).iter().filter(|vector| !vector[&serializer].is_null()) {
        let (name, value) = (text(&vector["name"]), plain(&vector["value"]));
        let read = get(&client, &format!("python:{name}"));
        assert!(same(&read, &value), "{name} is {read:?}");
        set(&client, &format!("rust:{name}"), encode(&value).expect("a portable value"));
    }
}

fn get(client: &Directory, key: &str) -> Plain {
    match ask(client, key, Request::Get(Beside::Nothing), Data::None) {
        Answer::Value(Bytes { bytes, client_flags }) => {
            Dialect::Pinyon.decode(client_flags, &bytes).expect("a value that can be read")
        }
        other => panic!("{key}: {other:?}"),
    }
}

fn set(client: &Directory, key: &str, (bytes, client_flags): (Vec<u8>, u32)) {
    let request =
        Request::Store { mode: Mode::Set, size: bytes.len(), client_flags, ttl: 0, cas: None, returns_cas: false };
    assert_eq!(ask(client, key, request, Data::Copied(&bytes)), Answer::Done(true), "{key}");
}

fn ask(client: &Directory, key: &str, request: Request, data: Data<'_>) -> Answer<Bytes> {
    let sent = BorrowedKey { wire: Key::new(key.as_bytes(), false).expect("a key"), routed: key.as_bytes() };
    let mut single = Single::new(request, sent, data, operations::AsBytes, Policy::default());
    let Ok(()) = run(client, &NoHost, &mut single);
    single.take_answer().expect("an answer")
}
