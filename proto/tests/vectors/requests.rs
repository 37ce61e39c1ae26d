//! Encoding commands as requests.

use pinyon_proto::{
    encode, Arithmetic, Capabilities, Command, Direction, Flag, Form, Key, Lease, MarkStale, MetaCommand, Mode, Opaque,
    ServerVersion, StatsKind, Store, Verb,
};
use serde_json::Value;

use crate::replies::form_named;
use crate::{load, text};

#[test]
fn every_command_is_written_as_its_vector_says() {
    for vector in load("memcached-requests.json") {
        let name = text(&vector, "name");
        let capabilities = Capabilities::of(vector["version"].as_str().and_then(version));
        let opaque = Opaque(vector["opaque"].as_u64().unwrap_or(0).try_into().unwrap());
        let quiet = vector["quiet"].as_bool().unwrap_or(false);
        let mut out = b"before".to_vec();
        let written =
            with_command(&vector["command"], |command| encode(command, &capabilities, opaque, quiet, &mut out));
        let Some(request) = vector["request"].as_str() else {
            let unsupported = written.expect_err(name);
            assert!(unsupported.what.starts_with(text(&vector, "unsupported")), "{name}: {unsupported:?}");
            assert_eq!(unsupported.since, vector["since"].as_str().and_then(version), "{name}");
            assert_eq!(unsupported.capabilities, capabilities, "{name}");
            assert_eq!(out, b"before", "{name}: nothing is written of what is refused");
            continue;
        };
        let expect = written.unwrap_or_else(|unsupported| panic!("{name}: {unsupported}"));
        assert_eq!(String::from_utf8_lossy(&out[6..]), request, "{name}");
        assert_eq!(expect.form, form_named(text(&vector, "form")), "{name}");
        assert_eq!(expect.quiet, request.ends_with(" q\r\n"), "{name}");
        let echoed = matches!(expect.form, Form::Meta(_));
        assert_eq!(expect.opaque, echoed.then_some(opaque), "{name}");
    }
}

#[test]
fn a_miss_is_expected_to_echo_the_opaque_from_1_6_18_on() {
    let command = Command::Get { key: Key::new(b"k", false).unwrap(), cas: false };
    for (version, echoes) in [("1.6.10", false), ("1.6.17", false), ("1.6.18", true), ("1.6.45", true)] {
        let capabilities = Capabilities::of(ServerVersion::parse(version.as_bytes()));
        let expect = encode(&command, &capabilities, Opaque(0), false, &mut Vec::new()).unwrap();
        assert_eq!(expect.opaque_on_miss, echoes, "{version}");
    }
}

#[test]
fn what_is_unsupported_says_which_version_it_needs() {
    let command = Command::Meta(MetaCommand {
        verb: Verb::Get,
        key: Key::new(b"k", false).unwrap(),
        size: None,
        flags: &[Flag::CompareCas(1)],
    });
    let refusal = |version: Option<&str>| {
        let capabilities = Capabilities::of(version.and_then(self::version));
        encode(&command, &capabilities, Opaque(0), false, &mut Vec::new()).unwrap_err().to_string()
    };
    assert_eq!(
        refusal(Some("1.6.18")),
        "a flag of this meta command needs memcached 1.6.40 or newer; the server reports 1.6.18"
    );
    assert_eq!(
        refusal(None),
        "a meta command needs memcached 1.6.10 or newer; the server reports a version that could not be read: if it takes \
         meta commands, set \"protocol\" to \"meta\""
    );
}

fn version(text: &str) -> Option<ServerVersion> {
    Some(ServerVersion::parse(text.as_bytes()).expect("a version"))
}

fn with_command<T>(vector: &Value, run: impl FnOnce(&Command<'_>) -> T) -> T {
    let key = || Key::new(text(vector, "key").as_bytes(), flag(vector, "base64")).expect("a sendable key");
    let name = text(vector, "command");
    let command = match name {
        "get" => Command::Get { key: key(), cas: flag(vector, "cas") },
        "get_many" | "gat_many" => {
            let keys: Vec<&str> = vector["keys"].as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect();
            let (keys, ttl) = (keys.join(" "), vector.get("ttl").map(ttl));
            return run(&Command::GetMany { keys: keys.as_bytes(), cas: flag(vector, "cas"), ttl });
        }
        "gat" => Command::GetAndTouch { key: key(), ttl: ttl(&vector["ttl"]), cas: flag(vector, "cas") },
        "touch" => Command::Touch { key: key(), ttl: ttl(&vector["ttl"]) },
        "delete" => Command::Delete { key: key() },
        "delete_if" => Command::DeleteIf { key: key(), cas: vector["cas"].as_u64().unwrap() },
        "mark_stale" => {
            let ttl = vector.get("ttl").map(ttl);
            Command::MarkStale(MarkStale { key: key(), ttl, cas: vector["cas"].as_u64() })
        }
        "lease" => Command::Lease(Lease { key: key(), lease: ttl(&vector["lease"]), recache: ttl(&vector["recache"]) }),
        "incr" | "decr" => Command::Arithmetic(Arithmetic {
            key: key(),
            direction: direction(name),
            delta: vector["delta"].as_u64().unwrap(),
        }),
        "meta" => {
            let flags: Vec<Flag> = vector["flags"].as_array().unwrap().iter().map(meta_flag).collect();
            let size = vector["size"].as_u64().map(|size| size as usize);
            let verb = verb(text(vector, "verb"));
            return run(&Command::Meta(MetaCommand { verb, key: key(), size, flags: &flags }));
        }
        "no_op" => Command::NoOp,
        "flush_all" => Command::FlushAll { delay: vector["delay"].as_u64().unwrap().try_into().unwrap() },
        "stats" => Command::Stats(StatsKind::new(text(vector, "kind")).unwrap()),
        "version" => Command::Version,
        "config get cluster" => Command::ClusterConfig,
        _ => Command::Store(Store {
            mode: mode(name),
            key: key(),
            size: vector["size"].as_u64().unwrap() as usize,
            client_flags: vector["client_flags"].as_u64().unwrap().try_into().unwrap(),
            ttl: ttl(&vector["ttl"]),
            cas: vector["cas"].as_u64(),
            returns_cas: vector["returns_cas"].as_bool().unwrap_or_default(),
        }),
    };
    run(&command)
}

fn meta_flag(vector: &Value) -> Flag {
    let argument = &vector[1];
    let number = || argument.as_u64().expect("a number");
    match vector[0].as_str().unwrap() {
        "return_cas" => Flag::ReturnCas,
        "compare_cas" => Flag::CompareCas(number()),
        "return_client_flags" => Flag::ReturnClientFlags,
        "client_flags" => Flag::ClientFlags(number().try_into().unwrap()),
        "hit_before" => Flag::HitBefore,
        "last_access" => Flag::LastAccess,
        "remaining_ttl" => Flag::RemainingTtl,
        "size" => Flag::Size,
        "invalidate" => Flag::Invalidate,
        "no_bump" => Flag::NoBump,
        "value" => Flag::Value,
        "store_mode" => Flag::StoreMode(mode(argument.as_str().unwrap())),
        "direction" => Flag::Direction(direction(argument.as_str().unwrap())),
        "vivify" => Flag::Vivify(ttl(argument)),
        "recache" => Flag::Recache(ttl(argument)),
        "ttl" => Flag::Ttl(ttl(argument)),
        "delta" => Flag::Delta(number()),
        unknown => panic!("unknown flag {unknown}"),
    }
}

fn flag(vector: &Value, field: &str) -> bool {
    vector[field].as_bool().unwrap_or(false)
}

fn ttl(vector: &Value) -> i32 {
    vector.as_i64().expect("a ttl").try_into().unwrap()
}

fn direction(name: &str) -> Direction {
    match name {
        "incr" => Direction::Increment,
        "decr" => Direction::Decrement,
        unknown => panic!("unknown direction {unknown}"),
    }
}

fn mode(name: &str) -> Mode {
    [Mode::Set, Mode::Add, Mode::Replace, Mode::Append, Mode::Prepend]
        .into_iter()
        .find(|mode| mode.name() == name)
        .unwrap_or_else(|| panic!("unknown command {name}"))
}

fn verb(name: &str) -> Verb {
    match form_named(name) {
        Form::Meta(verb) => verb,
        _ => panic!("unknown verb {name}"),
    }
}
