//! The rules against the vectors, which the clients themselves produced.

use std::collections::HashMap;

use serde_json::Value;

use super::Rule;
use pinyon_net::address::{parse_servers, ServerSpec};

#[test]
fn keys_are_where_the_reference_vectors_have_them() {
    let vectors = vectors();
    let keys: Vec<Vec<u8>> = texts(&vectors["keys_hex"]).iter().map(|text| unhex(text)).collect();
    let rules = [
        ("ketama", "libmemcached_1_1_4", "ketama_weighted"),
        ("libmemcached-ketama", "libmemcached_1_1_4", "ketama"),
        ("libmemcached-ketama-md5", "libmemcached_1_1_4", "hash_md5_then_ketama"),
        ("dalli", "dalli_ring", "map"),
    ];
    for (rule, client, places) in rules {
        for (name, fleet) in vectors[client].as_object().unwrap() {
            let server = |server: &Value| format!("{}:{}:{}", server[0].as_str().unwrap(), server[1], server[2]);
            let servers: Vec<String> = fleet["servers"].as_array().unwrap().iter().map(server).collect();
            let ring = Rule::named(rule, b"").unwrap().ring(&parsed(&servers));
            let found: Vec<usize> = keys.iter().map(|key| ring.server(key)).collect();
            assert_eq!(found, serde_json::from_value::<Vec<usize>>(fleet[places].clone()).unwrap(), "{rule}: {name}");
        }
    }
}

#[test]
fn keys_are_where_the_clients_put_them() {
    let vectors = &vectors()["by_name"];
    let keys = texts(&vectors["keys"]);
    let mut seen = HashMap::new();
    for vector in vectors["rings"].as_array().unwrap() {
        let (rule, namespace) = (vector["ring"].as_str().unwrap(), vector["namespace"].as_str().unwrap());
        let ring = Rule::named(rule, namespace.as_bytes()).unwrap().ring(&parsed(&texts(&vector["servers"])));
        let down: Vec<usize> = serde_json::from_value(vector["down"].clone()).unwrap();
        let place = |key: &String| ring.servers_from(key.as_bytes()).find(|server| !down.contains(server));
        let found: Vec<Option<usize>> = keys.iter().map(place).collect();
        let expected: Vec<Option<usize>> = serde_json::from_value(vector["places"].clone()).unwrap();
        assert_eq!(found, expected, "{vector}");
        *seen.entry(rule.to_owned()).or_insert(0) += 1;
    }
    assert!(Rule::names().all(|name| seen[name] > 5));
}

#[test]
fn a_key_has_its_own_server_first_and_none_that_is_not_there() {
    let servers = parse_servers(["a,b,c,d:1"]).unwrap();
    for name in Rule::names() {
        let ring = Rule::named(name, b"").unwrap().ring(&servers);
        for key in (0..100).map(|number| format!("key{number}")) {
            let order: Vec<usize> = ring.servers_from(key.as_bytes()).collect();
            assert_eq!(order[0], ring.server(key.as_bytes()), "{name}");
            assert!(order.iter().all(|server| *server < 4), "{name}");
        }
    }
}

#[test]
fn a_key_has_every_server_to_fall_back_on_once() {
    let ring = Rule::default().ring(&parse_servers(["a,b,c,d:1:3"]).unwrap());
    for key in (0..100).map(|number| format!("key{number}")) {
        let mut order: Vec<usize> = ring.servers_from(key.as_bytes()).collect();
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2, 3]);
    }
}

#[test]
fn weights_are_refused_where_the_rule_does_not_know_them() {
    let why = |name: &str, server: &str| {
        Rule::named(name, b"").unwrap().check(&parse_servers(["a", server]).unwrap()).map_err(|error| error.to_string())
    };
    for name in Rule::names() {
        assert_eq!(why(name, "b:1"), Ok(()), "{name}");
        let (whole, fraction) = (why(name, "b:1:2"), why(name, "b:1:1.5"));
        match name {
            "libmc" | "pymemcache" | "meta-memcache" | "emcache" => {
                let expected = format!("the ring {name:?} has no weights: leave out the 1.5 of \"b:1\"");
                assert_eq!((whole.is_err(), fraction), (true, Err(expected)));
            }
            "cache-memcached-fast" | "cache-memcached-fast-ketama" => assert_eq!((whole, fraction), (Ok(()), Ok(()))),
            _ => {
                let expected =
                    format!("the ring {name:?} has whole weights: round the 1.5 of \"b:1\", or multiply all weights");
                assert_eq!((whole, fraction), (Ok(()), Err(expected)));
            }
        }
    }
    let none = why("cache-memcached-fast-ketama:7", "b:1:0.05").unwrap_err();
    assert!(none.contains("gives \"b:1\" no point for its weight of 0.05"), "{none}");
}

#[test]
fn one_ring_has_a_number_of_points() {
    let why = |name: &str| Rule::named(name, b"").map(drop).map_err(|error| error.to_string());
    assert_eq!(why("cache-memcached-fast-ketama:1"), Ok(()));
    for points in ["", "0", "-1", "65536", "x", "1:2"] {
        let expected =
            format!("the points of the ring \"cache-memcached-fast-ketama\" must be from 1 to 65535, not {points:?}");
        assert_eq!(why(&format!("cache-memcached-fast-ketama:{points}")), Err(expected));
    }
    let expected = "the ring \"dalli\" has no number of points: leave out \":150\"";
    assert_eq!(why("dalli:150"), Err(expected.to_owned()));
    assert!(why("no-such-ring:150").unwrap_err().contains("not \"no-such-ring:150\""));
    let servers = parse_servers(["a,b,c"]).unwrap();
    let [default, same, other] = ["", ":150", ":151"].map(|points| {
        let ring = Rule::named(&format!("cache-memcached-fast-ketama{points}"), b"").unwrap().ring(&servers);
        (0..1000).map(|number| ring.server(number.to_string().as_bytes())).collect::<Vec<_>>()
    });
    assert!(default == same && default != other);
}

#[test]
fn every_rule_can_be_applied_to_one_server_and_to_none_yet() {
    for name in Rule::names() {
        let rule = Rule::named(name, b"namespace").unwrap();
        let _ = rule.ring(&[]);
        assert_eq!(rule.ring(&parse_servers(["a"]).unwrap()).server(b"key"), 0, "{name}");
    }
}

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../vectors/rings.json")).unwrap()
}

fn texts(list: &Value) -> Vec<String> {
    serde_json::from_value(list.clone()).unwrap()
}

fn parsed(texts: &[String]) -> Vec<ServerSpec> {
    parse_servers(texts.iter().map(String::as_str)).unwrap()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
