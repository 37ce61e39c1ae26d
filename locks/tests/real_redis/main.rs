//! The RESP session on real sockets, with the installed redis-server.

mod clusters;
mod locks;
#[path = "../../../net/tests/ports/mod.rs"]
mod ports;
mod program;
mod quorum;
mod replicas;
mod sentinels;
mod server;
mod sharing;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pinyon_locks::redis::{Protocol, RespEvent, RespSession, SessionSettings};
use pinyon_net::connection::Ticket;
use pinyon_net::network::System;
use pinyon_net::{Error, Kind, Sent};
use pinyon_proto::resp::Value;
use rustix::event::{poll, PollFd, PollFlags, Timespec};

use server::Redis;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Makes a server speak only RESP2.
const RESP2: &str = "rename-command HELLO \"\"\n";

/// A session, and the events that it handed out.
struct Host {
    session: RespSession,
    events: VecDeque<RespEvent>,
}

impl Host {
    fn connecting(server: &Redis, settings: SessionSettings) -> Self {
        let mut session = RespSession::new("redis".into(), System::default(), settings);
        session.connect(vec![server.address()], Instant::now(), TIMEOUT);
        Self { session, events: VecDeque::new() }
    }

    fn connected(server: &Redis, settings: SessionSettings) -> Self {
        let mut host = Self::connecting(server, settings);
        assert!(matches!(host.event(), RespEvent::Ready));
        host
    }

    /// Why connecting fails, and will go on failing.
    fn refusal(server: &Redis, settings: SessionSettings) -> String {
        let error = Self::failure(server, settings);
        assert_eq!((error.kind, error.sent), (Kind::Refused, Sent::No));
        error.to_string()
    }

    fn failure(server: &Redis, settings: SessionSettings) -> Error {
        let mut host = Self::connecting(server, settings);
        let deadline = Instant::now() + TIMEOUT;
        while host.session.failure().is_none() {
            assert!(Instant::now() < deadline && !host.session.is_ready(), "it is let in");
            host.turn();
        }
        host.session.take_failure().unwrap()
    }

    fn turn(&mut self) {
        let wants = self.session.wants();
        if let Some(stream) = self.session.stream() {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, wants.read);
            flags.set(PollFlags::OUT, wants.write);
            let soon = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            poll(&mut [PollFd::new(stream, flags)], Some(&soon)).unwrap();
        }
        self.session.poll(Instant::now());
        self.events.extend(std::iter::from_fn(|| self.session.next()));
    }

    /// The next event.
    fn event(&mut self) -> RespEvent {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(event) = self.events.pop_front() {
                return event;
            }
            assert!(Instant::now() < deadline, "nothing happens any more");
            assert!(self.session.failure().is_none(), "{:?}", self.session.failure());
            self.turn();
        }
    }

    fn submit(&mut self, parts: &[&[u8]]) -> Ticket {
        self.session.submit(parts, Instant::now() + TIMEOUT).unwrap()
    }

    fn reply(&mut self) -> (Ticket, Value) {
        match self.event() {
            RespEvent::Reply(ticket, value) => (ticket, value),
            other => panic!("not a reply: {other:?}"),
        }
    }

    /// Runs a command, given as words, to its end.
    fn run(&mut self, command: &str) -> Value {
        let ticket = self.submit(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        let (answered, value) = self.reply();
        assert_eq!(answered, ticket);
        value
    }
}

fn bytes(text: &str) -> Value {
    Value::Bytes(text.as_bytes().into())
}

fn ok() -> Value {
    Value::Status(b"OK"[..].into())
}

fn with_password(user: Option<&str>, password: &str) -> SessionSettings {
    SessionSettings { user: user.map(str::to_owned), password: Some(password.into()), ..SessionSettings::default() }
}

#[test]
fn commands_and_every_kind_of_reply_by_both_protocols() {
    for (configuration, protocol) in [("", Protocol::Resp3), (RESP2, Protocol::Resp2)] {
        let server = Redis::start(configuration);
        let mut host = Host::connected(&server, SessionSettings::default());
        let info = host.session.server().clone();
        assert_eq!(info.protocol, protocol);
        assert!(info.version.is_some_and(|version| version.major >= 5), "{info:?}");
        assert_eq!((&*info.mode, &*info.role), ("standalone", "master"));

        assert_eq!(host.run("SET k v"), ok());
        assert_eq!(host.run("GET k"), bytes("v"));
        assert_eq!(host.run("GET none"), Value::Null);
        assert_eq!(host.run("INCR n"), Value::Integer(1));
        assert_eq!(host.run("ZADD z 1.5 a"), Value::Integer(1));
        assert_eq!(host.run("BLPOP nothing 0.01"), Value::Null);
        assert_eq!(host.run("MGET k none"), Value::Array(vec![bytes("v"), Value::Null]));
        assert_eq!(host.run("EVAL return{1,{'a',{}}} 0"), {
            let inner = vec![bytes("a"), Value::Array(vec![])];
            Value::Array(vec![Value::Integer(1), Value::Array(inner)])
        });
        let Value::Error(error) = host.run("LPUSH k x") else { panic!("no error") };
        assert_eq!(&*error.code, "WRONGTYPE");
        let Value::Error(error) = host.run("EVALSHA 0123456789012345678901234567890123456789 0") else {
            panic!("no error")
        };
        assert_eq!(&*error.code, "NOSCRIPT");

        host.run("HSET h f v");
        let (map, score, set) = (host.run("HGETALL h"), host.run("ZSCORE z a"), host.run("SMEMBERS none"));
        match protocol {
            Protocol::Resp3 => {
                assert_eq!(map, Value::Map(vec![(bytes("f"), bytes("v"))]));
                assert_eq!((score, set), (Value::Double(1.5), Value::Set(vec![])));
            }
            Protocol::Resp2 => {
                assert_eq!(map, Value::Array(vec![bytes("f"), bytes("v")]));
                assert_eq!((score, set), (bytes("1.5"), Value::Array(vec![])));
            }
        }
    }
}

#[test]
fn resp3_has_types_of_its_own() {
    let server = Redis::start("enable-debug-command yes\n");
    let mut host = Host::connected(&server, SessionSettings::default());
    assert_eq!(host.run("DEBUG PROTOCOL true"), Value::Boolean(true));
    assert_eq!(host.run("DEBUG PROTOCOL null"), Value::Null);
    assert!(matches!(host.run("DEBUG PROTOCOL double"), Value::Double(number) if (number * 1000.0) as i64 == 3141));
    assert_eq!(host.run("DEBUG PROTOCOL bignum"), {
        Value::BigNumber(b"1234567999999999999999999999999999999"[..].into())
    });
    assert_eq!(host.run("DEBUG PROTOCOL verbatim"), bytes("This is a verbatim\nstring"));
    assert!(matches!(host.run("DEBUG PROTOCOL attrib"), Value::Bytes(_)));
    assert!(matches!(host.run("DEBUG PROTOCOL set"), Value::Set(values) if values.len() == 3));
    let ticket = host.submit(&[b"DEBUG", b"PROTOCOL", b"push"]);
    assert!(matches!(host.event(), RespEvent::Pushed(values) if values[0] == bytes("server-cpu-usage")));
    host.session.abandon(ticket);
}

#[test]
fn users_passwords_and_databases_by_both_protocols() {
    let users = "requirepass secret\nuser worker on >other ~* &* +@all\n";
    for configuration in [users.to_owned(), format!("{users}{RESP2}")] {
        let server = Redis::start(&configuration);
        for (settings, user) in [
            (with_password(None, "secret"), "default"),
            (with_password(Some("default"), "secret"), "default"),
            (with_password(Some("worker"), "other"), "worker"),
        ] {
            let mut host = Host::connected(&server, SessionSettings { database: 3, ..settings });
            assert_eq!(host.run("ACL WHOAMI"), bytes(user));
            host.run("SET k 3");
            host.run("SELECT 0");
            assert_eq!(host.run("GET k"), Value::Null);
        }

        for settings in [
            with_password(None, "wrong-one"),
            with_password(Some("worker"), "wrong-one"),
            with_password(Some("nobody"), "wrong-one"),
        ] {
            let message = Host::refusal(&server, settings);
            assert!(message.contains("refused the password of user"), "{message}");
            assert!(message.contains("WRONGPASS") && !message.contains("wrong-one"), "{message}");
        }
        let message = Host::refusal(&server, SessionSettings::default());
        assert!(message.contains("the server requires a password"), "{message}");
        let settings = SessionSettings { database: 99, ..with_password(None, "secret") };
        let message = Host::refusal(&server, settings);
        assert!(message.contains("the server has no database 99"), "{message}");
    }
}

#[test]
fn servers_that_cannot_be_used_say_why() {
    let server = Redis::start(RESP2);
    let message = Host::refusal(&server, with_password(None, "unwanted"));
    assert!(message.contains("the server has no password: leave out \"password\""), "{message}");

    let server = Redis::start("replicaof 127.0.0.1 1\nreplica-serve-stale-data no\n");
    let error = Host::failure(&server, SessionSettings::default());
    assert_eq!((error.kind, error.sent), (Kind::Connect, Sent::No), "it may find its master");
    assert!(error.message.contains("a replica without a link to its master"), "{error}");

    let server = Redis::start("maxclients 3\n");
    let mut hosts = Vec::new();
    let error = loop {
        assert!(hosts.len() < 4, "they are all let in");
        let mut host = Host::connecting(&server, SessionSettings::default());
        while !host.session.is_ready() && host.session.failure().is_none() {
            host.turn();
        }
        match host.session.take_failure() {
            Some(error) => break error,
            None => hosts.push(host),
        }
    };
    assert!(error.kind == Kind::Connect && error.message.contains("raise its \"maxclients\""), "{error}");
}

#[test]
fn messages_come_between_pipelined_replies() {
    let server = Redis::start("");
    let mut publisher = Host::connected(&server, SessionSettings::default());
    let mut host = Host::connected(&server, SessionSettings::default());
    let subscribed = host.submit(&[b"SUBSCRIBE", b"a", b"b"]);
    let first = host.submit(&[b"INCR", b"n"]);
    assert_eq!(host.reply(), (subscribed, Value::Array(vec![bytes("subscribe"), bytes("b"), Value::Integer(2)])));
    assert_eq!(host.reply(), (first, Value::Integer(1)));

    let (mut messages, mut replies) = (0, 1);
    for round in 0..50 {
        let tickets = [(); 20].map(|()| host.submit(&[b"INCR", b"n"]));
        host.session.flush();
        for _ in 0..5 {
            assert_eq!(publisher.run(&format!("PUBLISH a m{round}")), Value::Integer(1));
        }
        let mut awaited = tickets.into_iter();
        while replies < 1 + (round + 1) * 20 || messages < (round + 1) * 5 {
            match host.event() {
                RespEvent::Pushed(values) => {
                    assert_eq!(values, [bytes("message"), bytes("a"), bytes(&format!("m{round}"))]);
                    messages += 1;
                }
                RespEvent::Reply(ticket, value) => {
                    replies += 1;
                    assert_eq!((Some(ticket), value), (awaited.next(), Value::Integer(replies)));
                }
                other => panic!("{other:?}"),
            }
        }
    }
    let tickets = [host.submit(&[b"PUBLISH", b"b", b"to itself"]), host.submit(&[b"UNSUBSCRIBE", b"a"])];
    let mut events = [host.event(), host.event(), host.event()].map(|event| format!("{event:?}")).to_vec();
    events.sort();
    assert!(events[0].starts_with("Pushed"), "{events:?}");
    assert_eq!(events[1..].len(), tickets.len());
}

#[test]
fn with_resp2_a_second_connection_carries_the_messages() {
    let server = Redis::start(RESP2);
    let mut publisher = Host::connected(&server, SessionSettings::default());
    let mut subscriber = Host::connected(&server, SessionSettings::default());
    let subscribed = subscriber.submit(&[b"SUBSCRIBE", b"a"]);
    let confirmation = vec![bytes("subscribe"), bytes("a"), Value::Integer(1)];
    assert_eq!(subscriber.reply(), (subscribed, Value::Array(confirmation)));
    assert!(subscriber.session.is_subscriber_only());
    let ping = subscriber.submit(&[b"PING"]);
    assert_eq!(subscriber.reply(), (ping, Value::Array(vec![bytes("pong"), bytes("")])));
    for number in 0..100 {
        assert_eq!(publisher.run(&format!("PUBLISH a {number}")), Value::Integer(1));
        let RespEvent::Pushed(values) = subscriber.event() else { panic!("no message") };
        assert_eq!(values, [bytes("message"), bytes("a"), bytes(&number.to_string())]);
    }
}

#[test]
fn large_values_go_both_ways() {
    for configuration in ["", RESP2] {
        let server = Redis::start(configuration);
        let mut host = Host::connected(&server, SessionSettings::default());
        let large: Vec<u8> = (0..10 << 20).map(|at: u32| (at.wrapping_mul(31) >> 7) as u8).collect();
        let set = host.submit(&[b"SET", b"k", &large]);
        assert_eq!(host.reply(), (set, ok()));
        let (get, next) = (host.submit(&[b"GET", b"k"]), host.submit(&[b"STRLEN", b"k"]));
        let (ticket, value) = host.reply();
        assert!(ticket == get && value == Value::Bytes(large.into()), "another value");
        assert_eq!(host.reply(), (next, Value::Integer(10 << 20)));
    }
}

#[test]
fn the_reply_to_an_abandoned_exchange_disturbs_no_neighbour() {
    let server = Redis::start("");
    let mut host = Host::connected(&server, SessionSettings::default());
    host.run("SET k v");
    let blocked = host.submit(&[b"BLPOP", b"nothing", b"0.05"]);
    let large = host.submit(&[b"GETRANGE", b"k", b"0", b"-1"]);
    let last = host.submit(&[b"GET", b"k"]);
    host.session.flush();
    host.session.abandon(blocked);
    host.session.abandon(large);
    assert_eq!(host.reply(), (last, bytes("v")));
    assert!(!host.session.is_busy());
}

#[test]
fn a_server_that_dies_fails_what_is_in_flight() {
    let mut server = Redis::start("");
    let mut host = Host::connected(&server, SessionSettings::default());
    let blocked = host.submit(&[b"BLPOP", b"nothing", b"0"]);
    host.session.flush();
    server.stop();
    while host.session.failure().is_none() {
        host.turn();
    }
    let Some(RespEvent::Failed(ticket, error)) = host.events.pop_front() else { panic!("{:?}", host.events) };
    assert_eq!((ticket, error.kind, error.sent), (blocked, Kind::Closed, Sent::Maybe));
}
