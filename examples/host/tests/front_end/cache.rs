//! The expected behavior of a cache, for every way to carry out operations.

use std::sync::Arc;

use pinyon_cache::dialect::{Dialect, Plain};
use pinyon_cache::events::EventKind;
use pinyon_cache::metrics::Counted;
use pinyon_cache::operations::{statistics, version, Compared, Direction, Mode, ServerCommand};
use pinyon_net::error::kinds::ErrorKind;

use pinyon_host::cache::{Cache, Calls};

/// A scenario's name, and what it does with a cache of its own.
pub type Scenario = (&'static str, fn(&mut Cache));

pub const SCENARIOS: &[Scenario] = &[
    ("values are read as they were stored", values),
    ("an item's time to live", times_to_live),
    ("stores that depend on what is there", stores),
    ("compare and set", compare_and_set),
    ("numbers", numbers),
    ("leases", leases),
    ("many keys", many_keys),
    ("a quiet batch", quietly),
    ("every server", everywhere),
    ("metrics, servers of keys, and refused keys", seen_from_outside),
];

pub fn text(text: &str) -> Plain {
    Plain::Text(text.to_owned())
}

fn values(cache: &mut Cache) {
    let list = Plain::List(vec![Plain::Null, Plain::Bool(true), Plain::Float(0.5), text("ü"), Plain::Integer(-1)]);
    for value in [text("text"), Plain::Bytes(vec![0, 255]), Plain::Integer(7), list] {
        assert!(cache.set("value", &value, 0).unwrap());
        assert_eq!(cache.get("value").unwrap(), Some(value));
    }
    // The size decides whether the value is received into memory of its own.
    for size in [1000, 500_000] {
        let bytes: Vec<u8> = (0..size).map(|number: u32| (number % 251) as u8).collect();
        assert!(cache.set_pinned("bytes", Arc::new(bytes.clone())).unwrap());
        assert_eq!(cache.get("bytes").unwrap(), Some(Plain::Bytes(bytes)));
    }
    assert_eq!(cache.get("nothing").unwrap(), None);
}

fn times_to_live(cache: &mut Cache) {
    let value = text("value");
    assert!(cache.set("t", &value, 0).unwrap());
    assert_eq!(cache.get_with_ttl("t").unwrap(), Some((value.clone(), None)));
    assert!(cache.touch("t", 1000).unwrap() && !cache.touch("nothing", 1000).unwrap());
    let (_, left) = cache.get_with_ttl("t").unwrap().unwrap();
    assert!((900..=1000).contains(&left.unwrap()));
    assert_eq!(cache.get_and_touch("t", 5000).unwrap(), Some(value.clone()));
    let (touched, cas) = cache.gets_and_touch("t", 9000).unwrap().unwrap();
    assert_eq!(touched, value);
    let metadata = cache.metadata("t").unwrap().unwrap();
    assert_eq!((metadata.size, metadata.cas), (Some(5), Some(cas)));
    assert!(metadata.ttl > Some(8000));
    assert!(cache.metadata("nothing").unwrap().is_none());
    assert!(cache.set("t", &value, -1).unwrap());
    assert_eq!(cache.get("t").unwrap(), None, "it has expired at once");
}

fn stores(cache: &mut Cache) {
    let [one, two] = [text("one"), text("two")];
    assert!(!cache.store(Mode::Replace, "s", &one, 0).unwrap() && !cache.store(Mode::Append, "s", &one, 0).unwrap());
    assert!(cache.store(Mode::Add, "s", &one, 0).unwrap() && !cache.store(Mode::Add, "s", &two, 0).unwrap());
    assert!(cache.store(Mode::Append, "s", &two, 0).unwrap() && cache.store(Mode::Prepend, "s", &two, 0).unwrap());
    assert_eq!(cache.get("s").unwrap(), Some(text("twoonetwo")));
    assert!(cache.store(Mode::Replace, "s", &two, 0).unwrap());
    assert!(cache.delete("s").unwrap() && !cache.delete("s").unwrap());
}

fn compare_and_set(cache: &mut Cache) {
    cache.set("c", &text("first"), 0).unwrap();
    let (_, cas) = cache.gets("c").unwrap().unwrap();
    assert_eq!(cache.compare_and_set("c", &text("second"), cas, 0).unwrap(), Compared::Stored);
    assert_eq!(cache.compare_and_set("c", &text("third"), cas, 0).unwrap(), Compared::Changed);
    assert_eq!(cache.compare_and_set("nothing", &text("third"), cas, 0).unwrap(), Compared::Gone);
    assert_eq!(cache.get("c").unwrap(), Some(text("second")));
}

fn numbers(cache: &mut Cache) {
    assert_eq!(cache.calculate(Direction::Increment, "n", 1, None).unwrap(), None);
    assert_eq!(cache.calculate(Direction::Increment, "n", 1, Some(10)).unwrap(), Some(10));
    assert_eq!(cache.calculate(Direction::Increment, "n", 5, None).unwrap(), Some(15));
    assert_eq!(cache.calculate(Direction::Decrement, "n", 20, None).unwrap(), Some(0));
    cache.set("n", &text("none"), 0).unwrap();
    assert_eq!(cache.calculate(Direction::Increment, "n", 1, None).unwrap_err().kind, ErrorKind::ServerError);
}

fn leases(cache: &mut Cache) {
    let (none, win) = cache.lease("l", 30).unwrap();
    let win = win.expect("nobody else makes it");
    assert_eq!((none, cache.get("l").unwrap()), (None, None), "a placeholder is no value");
    assert_eq!(cache.lease("l", 30).unwrap(), (None, None), "somebody makes it");
    assert!(cache.give_back("l", win).unwrap());
    let win = cache.lease("l", 30).unwrap().1.expect("it was given back");
    assert_eq!(cache.compare_and_set("l", &text("made"), win.cas, 0).unwrap(), Compared::Stored);
    assert_eq!(cache.lease("l", 30).unwrap(), (Some(text("made")), None));
    assert!(cache.mark_stale("l", 30).unwrap());
    let (stale, win) = cache.lease("l", 30).unwrap();
    assert_eq!((stale, win.is_some_and(|win| win.keep)), (Some(text("made")), true));
}

fn many_keys(cache: &mut Cache) {
    let names: Vec<String> = (0..500).map(|number| format!("many:{number}")).collect();
    let items: Vec<_> = names.iter().map(|name| (name.as_str(), text(name))).collect();
    assert_eq!(cache.set_many(&items, 1000).unwrap(), [true; 500]);
    let mut keys: Vec<&str> = names.iter().map(String::as_str).collect();
    keys.push("nothing");
    let (found, mut failures) = cache.get_many(&keys, false).unwrap();
    assert!(failures.raised().is_none());
    assert_eq!(found.len(), 500);
    assert!(found.iter().all(|one| one.value == text(keys[one.index]) && one.cas.is_none()));
    let (found, _) = cache.get_many(&keys[498..], true).unwrap();
    assert!(found.len() == 2 && found.iter().all(|one| one.cas.is_some()));
    assert_eq!(cache.delete_many(&keys[499..]).unwrap(), [true, false]);
}

fn quietly(cache: &mut Cache) {
    let names: Vec<String> = (0..3000).map(|number| format!("quiet:{number}")).collect();
    let items: Vec<_> = names.iter().map(|name| (name.as_str(), text(name))).collect();
    assert_eq!(cache.set_quietly(Mode::Set, &items).unwrap(), []);
    assert_eq!(cache.get(&names[2999]).unwrap(), Some(text(&names[2999])));
    let again = [items[3].clone(), ("quiet:new", text("new"))];
    assert_eq!(cache.set_quietly(Mode::Add, &again).unwrap(), [(0, "not stored".to_owned())]);
    let not_stored = cache.set_quietly(Mode::Add, &items).unwrap();
    assert!(not_stored.iter().map(|(number, _)| *number).eq(0..3000), "in the order they were submitted");
    let too_large = ("quiet:large", Plain::Bytes(vec![b'x'; 2_000_000]));
    assert_eq!(cache.set_quietly(Mode::Set, &[too_large]).unwrap_err().kind, ErrorKind::ValueTooLarge);
}

fn everywhere(cache: &mut Cache) {
    let versions = cache.everywhere(ServerCommand::Version).unwrap();
    assert!(!versions.is_empty() && versions.iter().all(|(_, lines)| version(lines).starts_with("1.")));
    let known = cache.everywhere(ServerCommand::stats("").unwrap()).unwrap();
    assert!(known.iter().all(|(_, lines)| statistics(lines).any(|(name, _)| name == "curr_items")));
    assert!(ServerCommand::stats("no\r\nname").is_err());
    cache.set("f", &text("value"), 0).unwrap();
    cache.everywhere(ServerCommand::FlushAll { delay: 0 }).unwrap();
    assert_eq!(cache.get("f").unwrap(), None);
}

fn seen_from_outside(cache: &mut Cache) {
    cache.set("seen", &text("value"), 0).unwrap();
    let metrics = cache.metrics();
    let sets = metrics.iter().flat_map(|server| &server.traffic.commands).filter(|one| one.command == Counted::Set);
    assert!(sets.map(|one| one.stored).sum::<u64>() > 0);
    assert_eq!(cache.servers_of("seen").len(), metrics.len(), "with failover every server may take it");
    for key in ["", "a b", &"k".repeat(251)] {
        assert_eq!(cache.get(key).unwrap_err().kind, ErrorKind::InvalidKey);
    }
}

/// For a cache with compression, in its own dialect and in another one.
pub fn compressed_and_foreign(own: &mut Cache, other: &mut Cache) {
    let long = text(&"long ".repeat(2000));
    assert!(own.set("long", &long, 0).unwrap());
    assert!(own.metadata("long").unwrap().unwrap().size < Some(1000));
    assert_eq!(own.get("long").unwrap(), Some(long));
    assert_eq!(own.store(Mode::Append, "long", &text("er"), 0).unwrap_err().kind, ErrorKind::UsageError);
    let hash = Plain::Map(vec![(text("a"), Plain::Integer(1))]);
    assert!(other.set("foreign", &hash, 0).unwrap());
    assert_eq!(other.get("foreign").unwrap(), Some(hash));
    assert_eq!(own.get("foreign").unwrap_err().kind, ErrorKind::UnknownFlags, "dialects are not guessed");
    assert!(Dialect::named("dialect").is_err());
}

/// For a cache whose only server is down.
pub fn server_down(cache: &mut Cache) {
    while cache.get("k").unwrap_err().kind != ErrorKind::ServerDown {}
    let down = |event: &pinyon_cache::events::Event| event.kind == EventKind::Down;
    assert!(cache.events().iter().any(down));
    let forgiven = cache.using(&[("on_failure", "miss")], |view| {
        assert!(!view.set("k", &text("value"), 0).unwrap());
        view.get("k").unwrap()
    });
    assert_eq!(forgiven, Ok(None));
    assert_eq!(cache.get("k").unwrap_err().kind, ErrorKind::ServerDown);
    assert_eq!(cache.using(&[("on_failure", "return")], |_| ()).unwrap_err().kind, ErrorKind::UsageError);
}
