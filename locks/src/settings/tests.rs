//! Settings of locks by name, and the errors for invalid ones.

use std::sync::Arc;
use std::time::Duration;

use pinyon_net::address::Endpoint;
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::invalid::InvalidArgument;
use pinyon_net::settings::trial::{assert_hands_out_what_it_holds, assert_hints_help, assert_refused, filled, Named};
use pinyon_net::settings::{Described, Given, NamedSettings, UrlText};
use pinyon_net::tls::{Tls, TlsSettings};

use super::{LockParts, LockSettings, LockTerms, OnFailure};
use crate::machine::Fairness;
use crate::{names, HandlerKind, Renewal, Voting};

const USAGE: ErrorKind = ErrorKind::UsageError;
const SERVERS: ErrorKind = ErrorKind::InvalidServers;

fn locks(named: Named<'_>) -> Result<LockParts, InvalidArgument> {
    filled::<LockSettings>(named)?.build()
}

fn any_tls() -> Arc<Tls> {
    let settings = TlsSettings { accept_any_certificate_which_is_dangerous: true, ..TlsSettings::default() };
    Arc::new(Tls::new(&settings).unwrap())
}

#[test]
fn the_table_hands_out_what_it_holds() {
    assert_hands_out_what_it_holds::<LockSettings>();
    let held = LockSettings { password: Some("secret".into()), ..LockSettings::default() };
    let password = held.values().into_iter().find(|(name, _)| *name == "password");
    assert!(matches!(password, Some((_, Given::Nothing))));
}

#[test]
fn what_other_clients_call_a_setting_is_answered_with_its_name_here() {
    assert_hints_help::<LockSettings>();
}

#[test]
fn the_settings_are_exported_as_json() {
    let [defaults, texts, _] = Described::joined([super::described()]);
    let [defaults, texts] = [defaults, texts].map(|json| serde_json::from_str::<serde_json::Value>(&json).unwrap());
    assert_eq!(defaults["Locks"].as_object().unwrap().len(), 25);
    assert_eq!(defaults["Locks"]["url"], "redis://127.0.0.1:6379/0");
    assert_eq!(defaults["Locks"]["namespace"], "pinyon");
    for name in LockSettings::NAMES {
        let text = texts["Locks"][name].as_str().unwrap();
        assert!(text.ends_with('.') && !text.starts_with(' '), "{name}: {text}");
    }
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
    let terms = LockTerms {
        ttl: 10.0,
        timeout: f64::INFINITY,
        renew: true,
        max_hold: None,
        reentrant: true,
        at_least: None,
        on_failure: OnFailure::Raise,
        note: None,
    };
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
