//! Settings by name, and the errors for invalid ones.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pinyon_proto::{KeyRule, KeyRules};

use super::{
    CacheParts, CacheSettings, CompressionSettings, Given, LockParts, LockSettings, LockTerms, NamedSettings,
    TlsChoice, ViewSettings,
};
use crate::address::Endpoint;
use crate::compression::Algorithm;
use crate::dialect::Dialect;
use crate::error::kinds::ErrorKind;
use crate::invalid::InvalidArgument;
use crate::locks::machine::Fairness;
use crate::locks::{names, HandlerKind, Renewal, Voting};
use crate::operations::OwnedKey;
use crate::settings::UrlText;
use crate::tls::{Tls, TlsSettings};
use crate::ttl::Ttl;

const USAGE: ErrorKind = ErrorKind::UsageError;
const SERVERS: ErrorKind = ErrorKind::InvalidServers;
const TYPE: ErrorKind = ErrorKind::UnsupportedType;

type Named<'a> = &'a [(&'a str, Given<'a>)];

fn filled<S: NamedSettings>(named: Named<'_>) -> Result<S, InvalidArgument> {
    let mut settings = S::default();
    named.iter().try_for_each(|(name, given)| settings.set(name, given.clone()))?;
    Ok(settings)
}

fn cache(named: Named<'_>) -> Result<CacheParts, InvalidArgument> {
    let usual = [("servers", Given::Text("cache1"))];
    filled::<CacheSettings>(&[&usual, named].concat())?.build(false)
}

fn locks(named: Named<'_>) -> Result<LockParts, InvalidArgument> {
    filled::<LockSettings>(named)?.build()
}

/// Each row: the settings, the kind of error, and the beginning of its message.
fn assert_refused<T>(build: impl Fn(Named<'_>) -> Result<T, InvalidArgument>, rows: &[(Named<'_>, ErrorKind, &str)]) {
    for (named, kind, message) in rows {
        let refused = build(named).err().unwrap_or_else(|| panic!("taken, but should be: {message}"));
        assert_eq!(refused.kind, *kind, "{}", refused.message);
        assert!(refused.message.starts_with(message), "{}\nshould be: {message}", refused.message);
    }
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
    fn all<S: NamedSettings>() -> usize {
        let mut settings = S::default();
        let defaults = S::default();
        for (name, value) in defaults.values() {
            settings.set(name, value).unwrap();
        }
        let names: Vec<_> = settings.values().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, S::NAMES);
        names.len()
    }
    let tables = [
        all::<CacheSettings>(),
        all::<LockSettings>(),
        all::<ViewSettings>(),
        all::<TlsSettings>(),
        all::<CompressionSettings>(),
    ];
    assert!(tables.iter().all(|settings| *settings > 1));
    let held = LockSettings { password: Some("secret".into()), ..LockSettings::default() };
    let password = held.values().into_iter().find(|(name, _)| *name == "password");
    assert!(matches!(password, Some((_, Given::Nothing))));
    let settings: TlsSettings = filled(&[("ca", Given::Bytes(b"/ca\xff")), ("key", Given::Text("key"))]).unwrap();
    assert_eq!(settings.to_string(), "ca=/ca\u{fffd}, key=key");
    assert_eq!(TlsSettings::default().to_string(), "trusting what the system trusts");
}

#[test]
fn the_defaults_of_all_settings_are_exported_as_json() {
    let all: serde_json::Value = serde_json::from_str(&super::defaults()).unwrap();
    let names = |table| all[table].as_object().unwrap().len();
    assert_eq!(["Client", "Locks", "View", "Tls", "Compression"].map(names), [31, 24, 3, 5, 5]);
    assert_eq!(all["Client"]["timeout"], 1.0);
    assert_eq!(all["Client"]["max_connections"], 64);
    assert_eq!(all["Client"]["failover"], true);
    assert!(all["Client"]["servers"].is_null());
    assert_eq!(all["Locks"]["url"], "redis://127.0.0.1:6379/0");
    assert_eq!(all["Locks"]["namespace"], "pinyon");
}

#[test]
fn the_texts_of_all_settings_are_exported_as_json() {
    let all: serde_json::Value = serde_json::from_str(&super::texts()).unwrap();
    let names =
        |table: &str| all[table].as_object().unwrap().keys().cloned().collect::<std::collections::BTreeSet<_>>();
    let of_table = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(names("Client"), of_table(CacheSettings::NAMES));
    assert_eq!(names("Locks"), of_table(LockSettings::NAMES));
    assert_eq!(names("View"), of_table(ViewSettings::NAMES));
    assert!(all.as_object().unwrap().values().flat_map(|table| table.as_object().unwrap().values()).all(|text| {
        let text = text.as_str().unwrap();
        text.ends_with('.') && !text.starts_with(' ')
    }));
    assert_eq!(all["Client"]["connections"], "The number of connections from each event loop to each server.");
}

#[test]
fn the_choices_are_exported_as_json() {
    let all: serde_json::Value = serde_json::from_str(&super::choices()).unwrap();
    for (setting, names) in all.as_object().unwrap() {
        for name in names.as_array().unwrap() {
            let settings: CacheSettings = filled(&[(setting, Given::Text(name.as_str().unwrap()))]).unwrap();
            assert_eq!(settings.build(false).err(), None, "{setting} {name}");
        }
    }
    assert_eq!(all["protocol"], serde_json::json!(["auto", "meta", "classic"]));
}

#[test]
fn locks_have_the_documented_defaults() {
    let LockParts { setup, usual, names_have_tags } = locks(&[]).unwrap();
    assert_eq!(setup.endpoint, Endpoint::Tcp { host: "127.0.0.1".into(), port: 6379 });
    assert_eq!((&*setup.server, setup.keys.prefix()), ("127.0.0.1:6379", &b"{pinyon}:"[..]));
    assert_eq!((setup.handler, setup.options.fairness), (HandlerKind::Auto, Fairness::Fifo));
    assert_eq!((setup.connect_timeout, setup.options.heartbeat), (Duration::from_secs(1), Duration::from_secs(5)));
    assert_eq!(setup.options.patience, Duration::from_secs(2));
    assert_eq!((usual.ttl, usual.timeout, usual.reentrant, names_have_tags), (10.0, 10.0, false, false));
    assert_eq!((setup.login.user, setup.login.password, setup.login.database), (None, None, 0));
    assert!(setup.login.tls.is_none());
}

#[test]
fn every_setting_of_locks_reaches_its_part() {
    let settings: LockSettings = filled(&[
        ("url", Given::Text("rediss://user:secret@host:7/2")),
        ("namespace", Given::Text("app")),
        ("hash_tags", Given::Text("names")),
        ("ttl", Given::Number(0.001)),
        ("timeout", Given::Number(f64::INFINITY)),
        ("reentrant", Given::Flag(true)),
        ("handler", Given::Text("pure")),
        ("fairness", Given::Text("throughput")),
        ("replicas", Given::Whole(2)),
        ("heartbeat", Given::Whole(7)),
        ("command_timeout", Given::Whole(8)),
        ("connect_timeout", Given::Whole(9)),
        ("tls", Given::Tls(any_tls())),
    ])
    .unwrap();
    let LockParts { setup, usual, names_have_tags } = settings.build().unwrap();
    assert_eq!((&*setup.server, setup.keys.prefix()), ("host:7", &b"{app}:"[..]));
    assert_eq!((setup.handler, setup.options.fairness), (HandlerKind::Pure, Fairness::Throughput));
    assert_eq!((setup.connect_timeout, setup.options.heartbeat), (Duration::from_secs(9), Duration::from_secs(7)));
    assert_eq!((setup.options.patience, setup.replicas), (Duration::from_secs(8), 2));
    assert_eq!((usual.ttl, usual.timeout, usual.reentrant, names_have_tags), (0.001, f64::INFINITY, true, true));
    let login = setup.login;
    assert_eq!((login.user.as_deref(), login.password, login.database), (Some("user"), Some("secret".into()), 2));
    assert!(login.tls.is_some());
    let own = LockSettings { username: Some("own".into()), password: Some("own".into()), ..settings };
    let login = own.build().unwrap().setup.login;
    assert_eq!((login.user.as_deref(), login.password), (Some("own"), Some("own".into())));
}

#[test]
fn servers_may_vote_at_once_in_tests() {
    let settings: LockSettings =
        filled(&[("url", Given::Text("redis://a redis://b redis://c")), ("longest_ttl", Given::Whole(0))]).unwrap();
    let Voting::Quorum(quorum) = settings.build().unwrap().setup.voting else { panic!("one server") };
    assert_eq!(quorum.longest_ttl, Duration::ZERO);
}

#[test]
fn several_urls_are_a_quorum() {
    let urls = ["redis://a/1", "rediss://:secret@b:7", "/run/c"].map(Given::Text);
    let settings: LockSettings = filled(&[
        ("url", Given::List(urls.into())),
        ("ttl", Given::Whole(3)),
        ("longest_ttl", Given::Whole(30)),
        ("username", Given::Text("user")),
        ("tls", Given::Tls(any_tls())),
    ])
    .unwrap();
    assert_eq!(settings.url.0, "redis://a/1 rediss://:secret@b:7 /run/c");
    let refused = settings.build().unwrap_err();
    assert!(refused.message.contains("/run/c is a path"), "{refused}");
    let settings =
        LockSettings { url: UrlText("redis://a/1 redis://:secret@b:7 /run/c".into()), tls: None, ..settings };
    let setup = settings.build().unwrap().setup;
    assert_eq!((&*setup.server, setup.handler), ("a:6379, b:7, /run/c", HandlerKind::Script));
    let Voting::Quorum(quorum) = setup.voting else { panic!("one server") };
    assert_eq!(quorum.longest_ttl, Duration::from_secs(30));
    let members: Vec<_> = quorum.members.iter().map(|member| (&*member.server, member.login.database)).collect();
    assert_eq!(members, [("a:6379", 1), ("b:7", 0), ("/run/c", 0)]);
    assert_eq!(quorum.members[1].login.password, Some("secret".into()));
    for member in &quorum.members {
        assert_eq!((member.login.user.as_deref(), member.options.fairness), (Some("user"), Fairness::Throughput));
        assert!(matches!(member.voting, Voting::Member { longest_ttl } if longest_ttl == Duration::from_secs(30)));
    }
}

#[test]
fn terms_of_a_lock_become_a_request() {
    let terms = LockTerms { ttl: 10.0, timeout: f64::INFINITY, renew: true, max_hold: None, reentrant: true };
    let asked = |terms: LockTerms| terms.request(names(["a"]).unwrap());
    let request = asked(terms).unwrap();
    assert_eq!((request.renewal, request.ttl, request.reentrant), (Renewal::Always, Duration::from_secs(10), true));
    assert!(request.wait > Some(Duration::from_secs(1 << 24)));
    let held_for = LockTerms { max_hold: Some(3.0), timeout: 0.0, ..terms };
    let request = asked(held_for).unwrap();
    assert_eq!((request.renewal, request.wait), (Renewal::For(Duration::from_secs(3)), Some(Duration::ZERO)));
    assert_eq!(asked(LockTerms { renew: false, ..held_for }).unwrap().renewal, Renewal::Never);
    for (terms, name) in [
        (LockTerms { ttl: 0.0, ..terms }, "ttl"),
        (LockTerms { timeout: -1.0, ..terms }, "timeout"),
        (LockTerms { max_hold: Some(0.0), ..terms }, "max_hold"),
    ] {
        assert!(asked(terms).unwrap_err().message.starts_with(name));
    }
}

/// If the system trusts no authorities, TLS without a `ca` is refused.
#[test]
fn a_url_turns_tls_on() {
    match locks(&[("url", Given::Text("rediss://host"))]) {
        Ok(parts) => assert!(parts.setup.login.tls.is_some()),
        Err(refused) => assert!(refused.message.contains("the system trusts no certificates"), "{refused}"),
    }
    let parts = locks(&[("url", Given::Text("redis://host")), ("tls", Given::Tls(any_tls()))]).unwrap();
    assert!(parts.setup.login.tls.is_some());
}

#[test]
fn settings_of_locks_that_make_no_sense() {
    let text = Given::Text;
    let three = || text("redis://a redis://b redis://c");
    assert_refused(
        locks,
        &[
            (&[("url", text("http://host"))], SERVERS, "the server's URL begins with http://, not with"),
            (
                &[("url", Given::Bytes(b"redis://"))],
                SERVERS,
                "url must be text such as \"redis://host:port\", or a list of these, not bytes",
            ),
            (
                &[("url", Given::List(vec![text("redis://a"), text("redis://b c")]))],
                SERVERS,
                "a URL in url contains a space: write %20",
            ),
            (
                &[("url", Given::List(vec![text("redis://a"), Given::Whole(1)]))],
                SERVERS,
                "a URL must be text such as \"redis://host:port\", not a whole number",
            ),
            (&[("namespace", text(""))], USAGE, "the namespace is empty"),
            (&[("url", text("redis://a redis://b"))], SERVERS, "url names 2 servers"),
            (&[("url", three()), ("handler", text("pure"))], USAGE, "handler \"pure\" is not possible"),
            (&[("url", three()), ("fairness", text("fifo"))], USAGE, "fairness \"fifo\" is not possible"),
            (&[("url", three()), ("hash_tags", text("names"))], USAGE, "hash_tags \"names\" is not possible"),
            (
                &[("url", three()), ("longest_ttl", Given::Whole(5))],
                USAGE,
                "longest_ttl must be at least ttl, 10.0 seconds, not 5.0",
            ),
            (&[("url", three()), ("longest_ttl", Given::Whole(-1))], USAGE, "longest_ttl must be a positive number"),
            (&[("longest_ttl", Given::Whole(50))], USAGE, "longest_ttl is for several servers, but url names one"),
            (&[("handler", text("lua"))], USAGE, "handler must be \"auto\", \"script\" or \"pure\", not \"lua\""),
            (&[("fairness", text("lifo"))], USAGE, "fairness must be \"fifo\" or \"throughput\", not \"lifo\""),
            (&[("replicas", Given::Whole(-1))], USAGE, "replicas must be a whole number from 0 to 1000, not -1"),
            (&[("replicas", Given::Whole(1001))], USAGE, "replicas must be a whole number from 0 to 1000, not 1001"),
            (&[("hash_tags", text("slots"))], USAGE, "hash_tags must be \"namespace\" or \"names\", not \"slots\""),
            (&[("ttl", Given::Whole(0))], USAGE, "ttl must be a positive number of seconds, not 0.0"),
            (&[("ttl", Given::Number(1e-4))], USAGE, "ttl must be at least a millisecond, not 0.0001 seconds"),
            (&[("timeout", Given::Whole(-1))], USAGE, "timeout must be a number of seconds, 0 or more, not -1.0"),
            (&[("timeout", Given::Number(f64::NAN))], USAGE, "timeout must be a number of seconds, 0 or more, not NaN"),
            (&[("heartbeat", Given::Whole(0))], USAGE, "heartbeat must be a positive number of seconds"),
            (&[("heartbeat", Given::Number(1e-9))], USAGE, "heartbeat must be at least 0.01 seconds, not 1e-9"),
            (&[("ttl", Given::Whole(1 << 31))], USAGE, "ttl must be at most 2147483647 seconds, not 2147483648.0"),
            (&[("command_timeout", Given::Whole(0))], USAGE, "command_timeout must be a positive number of seconds"),
            (&[("connect_timeout", Given::Whole(0))], USAGE, "connect_timeout must be a positive number of seconds"),
            (
                &[("url", text("rediss://host")), ("tls", Given::Flag(false))],
                USAGE,
                "rediss:// is Redis with TLS, but tls is false: write redis://, or leave out tls",
            ),
            (
                &[("url", text("/run/redis")), ("tls", Given::Tls(any_tls()))],
                USAGE,
                "TLS cannot be used: /run/redis is a path, for which no certificate is issued: set server_name",
            ),
            (&[("time", Given::Whole(0))], ErrorKind::UsageError, "there is no setting \"time\""),
        ],
    );
}

#[test]
fn whatever_a_setting_has_is_valid_json() {
    let odd = "a NUL \0, a tab\t, an escape \u{1b}, a joiner \u{200d}, é, 名, \" and \\";
    let settings = CacheSettings { ring: odd.to_owned(), ..CacheSettings::default() };
    for (exported, name) in
        [(super::table::json_values(&settings), "ring"), (super::table::json_texts(&[(odd, odd)]), odd)]
    {
        let all: serde_json::Value = serde_json::from_str(&exported).unwrap();
        assert_eq!(all[name], odd);
    }
}
