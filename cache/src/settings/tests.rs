//! Settings by name, and the errors for invalid ones.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::invalid::InvalidArgument;
use pinyon_net::settings::trial::{assert_hands_out_what_it_holds, assert_hints_help, assert_refused, filled, Named};
use pinyon_net::settings::{json_texts, json_values, Described, Given, NamedSettings, TlsChoice};
use pinyon_net::tls::{Tls, TlsSettings};
use pinyon_proto::{KeyRule, KeyRules};

use super::{CacheParts, CacheSettings, CompressionSettings, NearSettings, ViewSettings};
use crate::compression::Algorithm;
use crate::dialect::Dialect;
use crate::operations::OwnedKey;
use crate::ttl::Ttl;

const USAGE: ErrorKind = ErrorKind::UsageError;
const SERVERS: ErrorKind = ErrorKind::InvalidServers;
const TYPE: ErrorKind = ErrorKind::UnsupportedType;

fn cache(named: Named<'_>) -> Result<CacheParts, InvalidArgument> {
    let usual = [("servers", Given::Text("cache1"))];
    filled::<CacheSettings>(&[&usual, named].concat())?.build(false)
}

fn any_tls() -> Arc<Tls> {
    let settings = TlsSettings { accept_any_certificate_which_is_dangerous: true, ..TlsSettings::default() };
    Arc::new(Tls::new(&settings).unwrap())
}

#[test]
fn a_client_has_the_documented_defaults() {
    let parts = cache(&[]).unwrap();
    let fleet = parts.directory.known();
    let options = fleet.options();
    assert_eq!((options.timeout, options.connect_timeout), (Duration::from_secs(1), Duration::from_millis(500)));
    assert_eq!((options.max_connections, options.gutter_ttl, options.slow_after), (64, 10, None));
    let limits = options.limits;
    assert_eq!((limits.exchanges, limits.unsent, limits.value), (4096, 64 * 1024, 1024 * 1024));
    assert_eq!((parts.policy.failover, parts.policy.miss), (true, false));
    assert_eq!((parts.connections, parts.packing.dialect(), parts.packing.limit()), (1, Dialect::Pinyon, 16 << 20));
    assert!(!parts.packing.is_set());
    assert_eq!(parts.default_ttl.now(), Ttl::NONE);
    assert_eq!((parts.keys.namespace(), parts.quotes_bytes), (&[][..], false));
    assert!(parts.directory.as_fixed().is_some());
    assert_eq!(fleet.members().count(), 1);
}

#[test]
fn every_setting_of_a_client_reaches_its_part() {
    let servers = Given::List(vec![Given::Text("cache1"), Given::Text("cache2,cache3:1:2")]);
    let parts = filled::<CacheSettings>(&[
        ("servers", servers),
        ("namespace", Given::Bytes(b"app:\xff")),
        ("ring", Given::Text("dalli")),
        ("timeout", Given::Whole(3)),
        ("connect_timeout", Given::Number(0.25)),
        ("default_ttl", Given::Number(59.5)),
        ("failover", Given::Flag(false)),
        ("on_failure", Given::Text("miss")),
        ("gutter", Given::Text("spare1")),
        ("gutter_ttl", Given::Number(1.5)),
        ("slow_after", Given::Number(0.1)),
        ("max_connections", Given::Whole(2)),
        ("connections", Given::Whole(3)),
        ("max_value_size", Given::Whole(100)),
        ("max_in_flight", Given::Whole(32_768)),
        ("max_unsent", Given::Whole(10)),
        ("dialect", Given::Text("dalli")),
        ("username", Given::Text("app")),
        ("password", Given::Bytes(b"secret")),
    ])
    .unwrap()
    .build(true)
    .map_err(|error| error.message);
    let parts = parts.unwrap();
    let fleet = parts.directory.known();
    let options = fleet.options();
    assert_eq!((options.timeout, options.connect_timeout), (Duration::from_secs(3), Duration::from_millis(250)));
    assert_eq!(options.slow_after, Some(Duration::from_millis(100)));
    assert_eq!((options.max_connections, options.gutter_ttl, options.events), (2, 2, true));
    assert_eq!((options.limits.exchanges, options.limits.unsent, options.limits.value), (32_768, 10, 100));
    assert_eq!((parts.policy.failover, parts.policy.miss), (false, true));
    assert_eq!((parts.connections, parts.packing.dialect(), parts.packing.limit()), (3, Dialect::Dalli, 1600));
    assert_eq!(parts.default_ttl.now(), Ttl(60));
    assert_eq!(parts.keys.namespace(), b"app:\xff");
    let names: Vec<_> = fleet.members().map(|index| fleet.servers()[index].name.to_string()).collect();
    assert_eq!(names, ["cache1:11211", "cache2:11211", "cache3:1", "spare1:11211"]);
    assert!(fleet.access().login.is_some());
    let parts = cache(&[("max_decompressed_size", Given::Whole(7)), ("ring", Given::Text("pymemcache"))]).unwrap();
    assert_eq!((parts.packing.limit(), parts.quotes_bytes), (7, true));
    let parts = cache(&[("discovery", Given::Text("dns")), ("tls", Given::Tls(any_tls()))]).unwrap();
    assert!(parts.directory.as_fixed().is_none());
    assert!(parts.directory.known().access().tls.is_some());
}

#[test]
fn settings_of_a_client_that_make_no_sense() {
    let text = Given::Text;
    assert_refused(
        cache,
        &[
            (&[("servers", Given::List(vec![]))], SERVERS, "the server list is empty"),
            (&[("servers", text("a:0"))], SERVERS, "the server \"a:0\" is malformed: the port is not 1 to 65535"),
            (&[("gutter", Given::List(vec![]))], SERVERS, "the server list is empty"),
            (
                &[("gutter", text("cache1:11211"))],
                SERVERS,
                "\"cache1:11211\" is listed both as a server and in the gutter",
            ),
            (&[("namespace", text("a b"))], ErrorKind::InvalidKey, "the namespace has a space at position 1"),
            (&[("ring", text("x"))], USAGE, "ring must be one of \"ketama\", "),
            (
                &[("servers", text("a:1:2")), ("ring", text("libmc"))],
                USAGE,
                "the ring \"libmc\" has no weights: leave out the 2 of \"a:1\"",
            ),
            (&[("timeout", Given::Whole(0))], USAGE, "timeout must be a positive number of seconds, not 0.0"),
            (&[("timeout", Given::Number(f64::NAN))], USAGE, "timeout must be a positive number of seconds, not NaN"),
            (&[("connect_timeout", Given::Number(1e300))], USAGE, "connect_timeout must be at most 2147483647 sec"),
            (&[("timeout", Given::Whole(1 << 31))], USAGE, "timeout must be at most 2147483647 sec"),
            (&[("slow_after", Given::Whole(-1))], USAGE, "slow_after must be a positive number of seconds, not -1.0"),
            (&[("discovery_interval", Given::Whole(0))], USAGE, "discovery_interval must be a positive number of sec"),
            (&[("max_connections", Given::Whole(0))], USAGE, "max_connections must be at least 1, not 0"),
            (&[("connections", Given::Whole(-5))], USAGE, "connections must be at least 1, not -5"),
            (&[("max_value_size", Given::Whole(0))], USAGE, "max_value_size must be at least 1, not 0"),
            (&[("max_decompressed_size", Given::Whole(0))], USAGE, "max_decompressed_size must be at least 1, not 0"),
            (&[("max_unsent", Given::Whole(0))], USAGE, "max_unsent must be at least 1, not 0"),
            (&[("max_in_flight", Given::Whole(32_769))], USAGE, "max_in_flight must be at most 32768, not 32769"),
            (&[("gutter_ttl", Given::Whole(0))], USAGE, "gutter_ttl must be positive, and at most 30 days"),
            (&[("gutter_ttl", Given::Number(f64::NAN))], USAGE, "a ttl cannot be NaN"),
            (&[("on_failure", text("next"))], USAGE, "on_failure must be \"raise\" or \"miss\", not \"next\""),
            (&[("dialect", text("x"))], USAGE, "there is no dialect \"x\"; there are \"pinyon\", \"pylibmc\", "),
            (&[("discovery", text("aws"))], USAGE, "discovery must be \"config\" or \"dns\", not \"aws\""),
            (
                &[("discovery", text("dns")), ("servers", text("/run/memcached"))],
                USAGE,
                "/run/memcached is a path, and no servers can be discovered there: give hosts",
            ),
            (
                &[("discovery", text("config")), ("servers", text("a:1:2"))],
                USAGE,
                "the configuration endpoint a:1 has a weight, but holds no keys: leave out the :2",
            ),
            (&[("username", text("app"))], USAGE, "username and password go together: give both"),
            (&[("password", text("secret"))], USAGE, "username and password go together: give both"),
            (
                &[("username", text("a b")), ("password", text("secret"))],
                USAGE,
                "username must be 1 to 250 bytes without spaces",
            ),
            (
                &[("tls", Given::Tls(any_tls())), ("servers", text("/run/memcached"))],
                USAGE,
                "TLS cannot be used: /run/memcached is a path",
            ),
        ],
    );
}

#[test]
fn a_key_rule_stores_where_its_client_does() {
    let vectors: Vec<serde_json::Value> = serde_json::from_str(include_str!("../../../vectors/keys.json")).unwrap();
    let mut rules = BTreeSet::new();
    for vector in &vectors {
        let bytes = |name: &str| vector[name].as_str().map(unhex);
        let (rule, namespace) = (vector["rule"].as_str().unwrap(), bytes("namespace_hex").unwrap());
        let parts = cache(&[("key_rule", Given::Text(rule)), ("namespace", Given::Bytes(&namespace))]).unwrap();
        // The vectors test these rules in proto.
        let rules_of_its_client = KeyRules::new(&namespace, KeyRule::named(rule).unwrap()).unwrap();
        let key = bytes("key_hex").unwrap();
        let [sent, expected] = [&parts.keys, &rules_of_its_client].map(|rules| {
            let mut sent = Vec::new();
            rules.push(&key, &mut sent).map(|base64| (sent, base64))
        });
        assert_eq!(sent, expected, "{vector}");
        if let Ok((sent, false)) = sent {
            assert_eq!(Some(sent), bytes("stored_hex"), "{vector}");
        }
        rules.insert(rule);
    }
    assert!(KeyRule::names().all(|name| rules.contains(name)));
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn encode_keys_is_one_of_the_key_rules() {
    let sends_spaces = |named| OwnedKey::new(&cache(named).unwrap().keys, b"a b").is_ok();
    assert!(!sends_spaces(&[]));
    assert!(sends_spaces(&[("encode_keys", Given::Flag(true))]));
    assert!(sends_spaces(&[("encode_keys", Given::Flag(true)), ("key_rule", Given::Untyped("encoded"))]));
    assert!(!sends_spaces(&[("key_rule", Given::Text("cache-memcached"))]));
    assert_refused(
        cache,
        &[
            (
                &[("encode_keys", Given::Flag(true)), ("key_rule", Given::Text("dalli"))],
                USAGE,
                "encode_keys and key_rule \"dalli\" are two rules for keys: leave out one",
            ),
            (&[("key_rule", Given::Text("x"))], USAGE, "key_rule must be \"refused\", \"encoded\", \"dalli\", "),
        ],
    );
}

#[test]
fn compression_is_named_in_words_of_every_host() {
    let stored = |given: Given<'_>| {
        let packing = cache(&[("compression", given)]).unwrap().packing;
        let stored = packing.pack(&[b'a'; 2000], 0).unwrap();
        (packing.is_set(), stored.map(|(stored, _)| Algorithm::of(&stored).unwrap()))
    };
    for off in [Given::Nothing, Given::Flag(false), Given::Untyped("off")] {
        assert_eq!(stored(off), (false, None));
    }
    for usual in [Given::Flag(true), Given::Untyped("on"), Given::Text("zstd")] {
        assert_eq!(stored(usual), (true, Some(Algorithm::Zstd)));
    }
    assert_eq!(stored(Given::Untyped("gzip")), (true, Some(Algorithm::Gzip)));
    let own = |named| Given::Compression(Arc::new(filled::<CompressionSettings>(named).unwrap()));
    assert_eq!(stored(own(&[("algorithm", Given::Untyped("zlib"))])), (true, Some(Algorithm::Zlib)));
    assert_eq!(stored(own(&[("threshold", Given::Untyped("2001"))])), (true, None));
    assert_eq!(stored(own(&[("threshold", Given::Nothing)])), (true, None));
    let zlib = ("algorithm", Given::Text("zlib"));
    let no_dictionary = Given::List(vec![Given::Bytes(b"no dictionary")]);
    let rows = [
        (own(&[zlib.clone(), ("level", Given::Untyped("10"))]), "compression: zlib has levels 1 to 9, not 10"),
        (own(&[("level", Given::Whole(1 << 40))]), "compression: zstd has levels 1 to 19, not 1099511627776"),
        (own(&[("threshold", Given::Whole(-1))]), "compression: threshold is 0 or more, not -1"),
        (
            own(&[("minimum_gain", Given::Whole(1))]),
            "compression: minimum_gain must be at least 0 and less than 1, not 1",
        ),
        (own(&[("dictionaries", no_dictionary)]), "compression: the dictionary given as 0 is not one that"),
        (Given::Text("lz4"), "compression: there is no \"lz4\"; there are \"zstd\", \"zlib\", \"gzip\""),
        (Given::Whole(5), "compression must be true, false, an algorithm's name or a Compression, not a whole number"),
    ];
    for (given, message) in rows {
        assert_refused(cache, &[(&[("compression", given)], USAGE, message)]);
    }
}

#[test]
fn hot_keys_are_kept_if_the_settings_say_so_and_as_they_say() {
    let keeps = |given| cache(&[("near", given)]).unwrap().directory.near().is_some();
    let own = |named| Given::Near(Arc::new(filled::<NearSettings>(named).unwrap()));
    assert!(cache(&[]).unwrap().directory.near().is_none());
    for off in [Given::Nothing, Given::Flag(false), Given::Untyped("off")] {
        assert!(!keeps(off));
    }
    for on in [Given::Flag(true), Given::Untyped("on"), own(&[("fresh", Given::Number(0.5))])] {
        assert!(keeps(on));
    }
    let rows = [
        (own(&[("fresh", Given::Number(0.0))]), "fresh must be "),
        (own(&[("max_bytes", Given::Whole(0))]), "max_bytes must be "),
        (Given::Whole(5), "near must be true, false or a Near, not a whole number"),
        (Given::Text("hot"), "near must be true, false or a Near, not text"),
    ];
    for (given, message) in rows {
        assert_refused(cache, &[(&[("near", given)], USAGE, message)]);
    }
}

#[test]
fn dictionaries_are_given_with_their_ids_or_alone() {
    let read =
        |given| filled::<CompressionSettings>(&[("dictionaries", given)]).map(|settings| settings.dictionaries.0);
    let trained = b"\x37\xa4\x30\xec\x07\x00\x00\x00";
    let pair = Given::List(vec![Given::Whole(8), Given::Bytes(b"x")]);
    let both = read(Given::List(vec![pair, Given::Bytes(trained)])).unwrap();
    assert_eq!(both, [(8, b"x".to_vec()), (7, trained.to_vec())]);
    assert_eq!(read(Given::Bytes(trained)).unwrap(), [(7, trained.to_vec())]);
    for wrong in [Given::Text("x"), Given::List(vec![Given::Whole(1)]), Given::List(vec![Given::List(vec![])])] {
        assert_eq!(read(wrong).unwrap_err().kind, TYPE);
    }
}

#[test]
fn a_namespace_is_clearable_if_it_has_a_name_and_rules_of_its_own() {
    let (clearable, named) = (("clearable", Given::Flag(true)), ("namespace", Given::Text("shop:")));
    let parts = cache(&[clearable.clone(), named.clone(), ("generation_ttl", Given::Whole(0))]).unwrap();
    assert!(parts.keys.is_clearable());
    assert!(parts.directory.known().servers().iter().all(|server| server.generations().is_some()));
    let plain = cache(std::slice::from_ref(&named)).unwrap();
    assert!(!plain.keys.is_clearable());
    assert!(plain.directory.known().servers().iter().all(|server| server.generations().is_none()));
    let rows: &[(Named<'_>, ErrorKind, &str)] = &[
        (&[("clearable", Given::Flag(true))], USAGE, "clearable needs a namespace"),
        (
            &[clearable.clone(), named.clone(), ("key_rule", Given::Text("dalli"))],
            USAGE,
            "clearable and key_rule do not go together",
        ),
        (&[clearable.clone(), named.clone(), ("generation_ttl", Given::Number(-1.0))], USAGE, "generation_ttl"),
        (
            &[clearable, ("namespace", Given::Text(&"n".repeat(239)))],
            ErrorKind::InvalidKey,
            "the namespace has 239 bytes and leaves no room",
        ),
    ];
    assert_refused(cache, rows);
}

#[test]
fn values_of_the_wrong_type_are_refused_and_not_shown() {
    let secret = Given::Text("secret");
    let rows: &[(Named<'_>, ErrorKind, &str)] = &[
        (&[("timeout", secret.clone())], TYPE, "timeout must be a number, not text"),
        (&[("timeout", Given::Nothing)], TYPE, "timeout must be a number, not null"),
        (&[("timeout", Given::Flag(true))], TYPE, "timeout must be a number, not a boolean"),
        (&[("timeout", Given::Untyped("secret"))], TYPE, "timeout must be a number, not text"),
        (&[("max_connections", Given::Number(1.5))], TYPE, "max_connections must be a whole number, not a floating-"),
        (&[("max_connections", Given::Untyped("1.5"))], TYPE, "max_connections must be a whole number, not text"),
        (&[("failover", secret.clone())], TYPE, "failover must be true or false, not text"),
        (&[("failover", Given::Whole(1))], TYPE, "failover must be true or false, not a whole number"),
        (&[("ring", Given::Bytes(b"ketama"))], TYPE, "ring must be text, not bytes"),
        (&[("namespace", Given::Other("object".into()))], TYPE, "namespace must be text or bytes, not object"),
        (&[("password", Given::List(vec![secret.clone()]))], TYPE, "password must be text or bytes, not a list"),
        (
            &[("servers", Given::Whole(5))],
            TYPE,
            "servers must be text such as \"host:port\", or a list of these, not a whole number",
        ),
        (&[("tls", secret.clone())], USAGE, "tls must be true, false or a Tls, not text"),
        (&[("servers", Given::List(vec![Given::Bytes(b"a")]))], SERVERS, "a server must be text such as \"host:port\""),
    ];
    assert_refused(cache, rows);
    for (named, ..) in rows {
        assert!(!cache(named).err().unwrap().message.contains("secret"));
    }
}

#[test]
fn untyped_text_is_read_as_what_the_setting_is() {
    let untyped = Given::Untyped;
    let settings: CacheSettings = filled(&[
        ("servers", untyped("cache1,cache2")),
        ("timeout", untyped("0.25")),
        ("max_connections", untyped("3")),
        ("failover", untyped("0")),
        ("encode_keys", untyped("true")),
        ("ring", untyped("dalli")),
        ("password", untyped("secret")),
        ("tls", untyped("no")),
    ])
    .unwrap();
    assert_eq!((settings.timeout, settings.max_connections), (0.25, 3));
    assert_eq!((settings.failover, settings.encode_keys), (false, true));
    assert_eq!((settings.ring.as_str(), settings.password), ("dalli", Some("secret".into())));
    assert_eq!(settings.servers, Some("cache1,cache2".into()));
    assert!(matches!(settings.tls, Some(TlsChoice::Off)));
}

#[test]
fn a_name_that_no_setting_has_is_refused_with_the_closest() {
    let unknown = |name, hint: &str| {
        let refused = CacheSettings::default().set(name, Given::Nothing).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::UsageError);
        assert_eq!(refused.message, format!("there is no setting {name:?}{hint}"));
    };
    unknown("time_out", "; did you mean \"timeout\"?");
    unknown("Failover", "; did you mean \"failover\"?");
    unknown("max_connection", "; did you mean \"max_connections\"?");
    unknown("serialiser", "; did you mean \"serializer\"?");
    unknown("expire_after", "");
    unknown("", "");
}

#[test]
fn the_tables_hand_out_what_they_hold() {
    assert_hands_out_what_it_holds::<CacheSettings>();
    assert_hands_out_what_it_holds::<ViewSettings>();
    assert_hands_out_what_it_holds::<CompressionSettings>();
    assert_hands_out_what_it_holds::<NearSettings>();
}

#[test]
fn what_other_clients_call_a_setting_is_answered_with_its_name_here() {
    assert_hints_help::<CacheSettings>();
}

/// The defaults, texts or choices, as front ends read them.
fn described(part: usize) -> serde_json::Value {
    serde_json::from_str(&Described::joined([super::described()])[part]).unwrap()
}

#[test]
fn the_defaults_of_all_settings_are_exported_as_json() {
    let all = described(0);
    let names = |table| all[table].as_object().unwrap().len();
    assert_eq!(["Client", "View", "Compression", "Near"].map(names), [34, 4, 5, 2]);
    assert_eq!(all["Client"]["timeout"], 1.0);
    assert_eq!(all["Client"]["max_connections"], 64);
    assert_eq!(all["Client"]["failover"], true);
    assert!(all["Client"]["servers"].is_null());
}

#[test]
fn the_texts_of_all_settings_are_exported_as_json() {
    let all = described(1);
    let names =
        |table: &str| all[table].as_object().unwrap().keys().cloned().collect::<std::collections::BTreeSet<_>>();
    let of_table = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(names("Client"), of_table(CacheSettings::NAMES));
    assert_eq!(names("View"), of_table(ViewSettings::NAMES));
    assert!(all.as_object().unwrap().values().flat_map(|table| table.as_object().unwrap().values()).all(|text| {
        let text = text.as_str().unwrap();
        text.ends_with('.') && !text.starts_with(' ')
    }));
    assert_eq!(all["Client"]["connections"], "The number of connections from each event loop to each server.");
}

#[test]
fn the_choices_are_exported_as_json() {
    let all = described(2);
    for (setting, names) in all.as_object().unwrap() {
        for name in names.as_array().unwrap() {
            let settings: CacheSettings = filled(&[(setting, Given::Text(name.as_str().unwrap()))]).unwrap();
            assert_eq!(settings.build(false).err(), None, "{setting} {name}");
        }
    }
    assert_eq!(all["protocol"], serde_json::json!(["auto", "meta", "classic"]));
}

#[test]
fn whatever_a_setting_has_is_valid_json() {
    let odd = "a NUL \0, a tab\t, an escape \u{1b}, a joiner \u{200d}, é, 名, \" and \\";
    let settings = CacheSettings { ring: odd.to_owned(), ..CacheSettings::default() };
    for (exported, name) in [(json_values(&settings), "ring"), (json_texts(&[(odd, odd)]), odd)] {
        let all: serde_json::Value = serde_json::from_str(&exported).unwrap();
        assert_eq!(all[name], odd);
    }
}
