//! A caller that waits for a lease is interrupted before the reply has come: what the server grants is given back.

use std::any::Any;
use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;
use std::time::Duration;

use pinyon_cache::blocking::{give_back_late, run};
use pinyon_cache::directory::Directory;
use pinyon_cache::operations::{AsBytes, BorrowedKey, Policy, Request, SentKey, Several, Single, Values, Win};
use pinyon_cache::session::{Destination, Value};
use pinyon_cache::settings::CacheSettings;
use pinyon_cache::Data;
use pinyon_net::host::Host;
use pinyon_net::settings::ServerTexts;
use pinyon_proto::Head;

use super::{key, TIMEOUT};

const LEASE: Request = Request::Lease { lease: 600, recache: 0 };

/// Interrupts whoever waits, once it is told to.
#[derive(Default)]
struct Interrupting(AtomicBool);

#[derive(Debug, PartialEq)]
struct Interrupt;

impl Host for Interrupting {
    type Interrupt = Interrupt;

    fn unlocked<T: Send>(&self, wait: impl FnOnce() -> T + Send) -> Result<T, Interrupt> {
        self.interrupted()?;
        Ok(wait())
    }

    fn interrupted(&self) -> Result<(), Interrupt> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(Interrupt),
            false => Ok(()),
        }
    }
}

/// A connection as its server sees it. The test says what it answers, and when.
struct Connection(BufReader<TcpStream>);

impl Connection {
    fn accept(listener: &TcpListener) -> Self {
        let stream = listener.accept().unwrap().0;
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self(BufReader::new(stream))
    }

    /// The next command that is no part of a greeting, without its opaque, and the opaque.
    fn command(&mut self) -> (String, String) {
        loop {
            let line = self.line();
            match line.as_str() {
                "version" => self.send("VERSION 1.6.40\r\n"),
                "mn" => self.send("MN\r\n"),
                _ => {
                    let (command, opaque) = line.rsplit_once(" O").expect("an opaque at its end");
                    return (command.to_owned(), format!("O{opaque}"));
                }
            }
        }
    }

    /// The opaque of the next lease that is given back, until the client closes the connection.
    fn next_give_back(&mut self) -> Option<String> {
        if self.0.fill_buf().unwrap().is_empty() {
            return None;
        }
        let (command, opaque) = self.command();
        assert_eq!(command, "md k C9");
        Some(opaque)
    }

    fn send(&mut self, reply: &str) {
        self.0.get_mut().write_all(reply.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Expects this command, answers it, and expects that nothing follows.
    #[track_caller]
    fn answers_last(mut self, expected: &str, reply: &str) {
        let (command, opaque) = self.command();
        assert_eq!(command, expected);
        self.send(&format!("{reply} {opaque}\r\n"));
        assert_eq!(self.rest(), "");
    }

    /// Waits until the client has closed it. Returns what it sent before.
    fn rest(mut self) -> String {
        let mut rest = String::new();
        self.0.read_to_string(&mut rest).unwrap();
        rest
    }
}

fn directory(listener: &TcpListener) -> Directory {
    connecting_within(TIMEOUT, listener)
}

fn connecting_within(time: Duration, listener: &TcpListener) -> Directory {
    let settings = CacheSettings {
        servers: Some(ServerTexts(vec![listener.local_addr().unwrap().to_string()])),
        timeout: TIMEOUT.as_secs_f64(),
        connect_timeout: time.as_secs_f64(),
        ..CacheSettings::default()
    };
    settings.build(false).unwrap().directory
}

fn ask<V: Values>(directory: &Directory, host: &Interrupting, request: Request, values: V) -> Result<(), Interrupt> {
    let sent = BorrowedKey { wire: key("k"), routed: b"k" };
    run(directory, host, &mut Single::new(request, sent, Data::None, values, Policy::default()))
}

/// Leaves a lease to be given back, as the end of an object does whose caller was interrupted.
fn leave(directory: &Directory) {
    let sent = BorrowedKey { wire: key("k"), routed: b"k" };
    give_back_late(directory, sent.owned(), Win { cas: 9, keep: false }, Policy::default());
}

/// Has a caller interrupted after the server has received its request for a lease, and has sent this. Returns the
/// connection once the caller is gone, and the opaque of the request.
fn interrupted(listener: &TcpListener, directory: &Directory, sent: &str) -> (Connection, String) {
    let host = Interrupting::default();
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| ask(directory, &host, LEASE, Gone(&host)));
        let mut connection = Connection::accept(listener);
        let (command, opaque) = connection.command();
        assert_eq!(command, "mg k f c v N600");
        match sent.is_empty() {
            true => host.0.store(true, Ordering::Relaxed),
            false => connection.send(&sent.replace("O*", &opaque)),
        }
        assert_eq!(caller.join().unwrap(), Err(Interrupt));
        (connection, opaque)
    })
}

/// Has its caller interrupted when a large value begins to arrive, into memory that is the caller's.
struct Gone<'h>(&'h Interrupting);

impl Values for Gone<'_> {
    type Value = ();
    type Error = Infallible;

    fn read(&self, _: &Head, _: Value<'_>, _: &str) -> Result<(), Infallible> {
        panic!("the caller is gone");
    }

    fn destination(&self, head: &Head) -> Box<dyn Destination> {
        self.0 .0.store(true, Ordering::Relaxed);
        Box::new(OfCaller { caller: std::thread::current().id(), bytes: vec![0; head.size.unwrap()] })
    }
}

/// Memory that only the caller may use.
#[derive(Debug)]
struct OfCaller {
    caller: ThreadId,
    bytes: Vec<u8>,
}

impl Destination for OfCaller {
    fn bytes(&self) -> &[u8] {
        assert_eq!(std::thread::current().id(), self.caller);
        &self.bytes
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        assert_eq!(std::thread::current().id(), self.caller);
        &mut self.bytes
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        panic!("nobody takes it");
    }
}

fn listen() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

#[test]
fn a_lease_that_is_granted_later_is_given_back() {
    let listener = listen();
    let directory = directory(&listener);
    for (granted, given_back) in [("VA 0 c9 f0 W", "md k C9"), ("VA 1 c9 f0 W", "md k I C9")] {
        let (mut connection, opaque) = interrupted(&listener, &directory, "");
        assert_eq!(directory.known().pool(0).open_and_idle(), (0, 0), "others may connect instead");
        let value = if granted.starts_with("VA 0") { "" } else { "v" };
        connection.send(&format!("{granted} {opaque}\r\n{value}\r\n"));
        connection.answers_last(given_back, "HD");
    }
}

#[test]
fn leases_that_are_granted_later_are_all_given_back() {
    let (listener, host) = (listen(), Interrupting::default());
    let directory = directory(&listener);
    let several = || {
        let single = |_| {
            let sent = BorrowedKey { wire: key("k"), routed: b"k" };
            Single::new(LEASE, sent, Data::None, AsBytes, Policy::default())
        };
        run(&directory, &host, &mut Several::new((0..3).map(single).collect()))
    };
    let mut connection = std::thread::scope(|scope| {
        let caller = scope.spawn(several);
        let mut connection = Connection::accept(&listener);
        let opaques = [(); 3].map(|()| connection.command().1);
        host.0.store(true, Ordering::Relaxed);
        assert_eq!(caller.join().unwrap(), Err(Interrupt));
        let [first, second, third] = opaques;
        connection.send(&format!("VA 0 c9 f0 W {first}\r\n\r\nVA 0 c9 f0 Z {second}\r\n\r\n"));
        connection.send(&format!("VA 0 c9 f0 W {third}\r\n\r\n"));
        connection
    });
    let opaque = connection.next_give_back().unwrap();
    connection.send(&format!("HD {opaque}\r\n"));
    connection.answers_last("md k C9", "HD");
}

#[test]
fn what_another_caller_makes_is_left_alone() {
    let listener = listen();
    let directory = directory(&listener);
    for reply in
        ["VA 0 c9 f0 Z O*\r\n\r\n", "VA 1 c9 f0 O*\r\nv\r\n", "VA 0 c9 f0 W Oother\r\n\r\n", "SERVER_ERROR\r\n"]
    {
        let (mut connection, opaque) = interrupted(&listener, &directory, "");
        connection.send(&reply.replace("O*", &opaque));
        assert_eq!(connection.rest(), "", "{reply}");
    }
}

#[test]
fn the_rest_of_a_large_value_is_not_received_into_the_callers_memory() {
    let listener = listen();
    let directory = directory(&listener);
    let (mut connection, _) = interrupted(&listener, &directory, "VA 100000 c9 f0 W O*\r\nthe beginning");
    connection.send(&format!("{}\r\n", "v".repeat(100_000 - "the beginning".len())));
    connection.answers_last("md k I C9", "HD");
}

#[test]
fn a_lease_is_given_back_although_its_caller_may_not_wait_for_a_connection() {
    let listener = listen();
    let (directory, host) = (directory(&listener), Interrupting(AtomicBool::new(true)));
    let give_back = Request::GiveBack(Win { cas: 9, keep: false });
    assert_eq!(ask(&directory, &host, give_back, AsBytes), Err(Interrupt));
    assert_eq!(Connection::accept(&listener).rest(), "", "the interrupted caller's own");
    Connection::accept(&listener).answers_last("md k C9", "HD");
}

#[test]
fn a_lease_that_was_not_asked_for_is_not_asked_for_any_more() {
    let listener = listen();
    let (directory, host) = (directory(&listener), Interrupting(AtomicBool::new(true)));
    assert_eq!(ask(&directory, &host, LEASE, AsBytes), Err(Interrupt));
    assert_eq!(Connection::accept(&listener).rest(), "");
}

#[test]
fn a_lease_is_given_back_to_a_server_that_is_slow() {
    let listener = listen();
    leave(&directory(&listener));
    let connection = Connection::accept(&listener);
    std::thread::sleep(Duration::from_millis(250));
    connection.answers_last("md k C9", "HD");
}

#[test]
fn a_lease_is_given_back_although_connections_fail() {
    let listener = listen();
    leave(&directory(&listener));
    assert_eq!(Connection::accept(&listener).line(), "version");
    let mut closing = Connection::accept(&listener);
    assert_eq!(closing.command().0, "md k C9");
    drop(closing);
    Connection::accept(&listener).answers_last("md k C9", "NF");
}

#[test]
fn a_lease_is_given_back_although_a_connection_is_not_answered() {
    let listener = listen();
    leave(&connecting_within(Duration::from_secs(1), &listener));
    let _unanswered = Connection::accept(&listener);
    Connection::accept(&listener).answers_last("md k C9", "HD");
}

#[test]
fn a_lease_whose_connection_fails_after_the_grant_is_given_back_by_another_one() {
    let listener = listen();
    let directory = directory(&listener);
    let (mut connection, opaque) = interrupted(&listener, &directory, "");
    connection.send(&format!("VA 0 c9 f0 W {opaque}\r\n\r\n"));
    assert_eq!(connection.command().0, "md k C9");
    drop(connection);
    Connection::accept(&listener).answers_last("md k C9", "HD");
}

#[test]
fn many_leases_are_given_back_by_few_connections() {
    let listener = listen();
    let directory = directory(&listener);
    (0..2000).for_each(|_| leave(&directory));
    let (mut given_back, mut connections) = (0, 0);
    while given_back < 2000 {
        let mut connection = Connection::accept(&listener);
        connections += 1;
        while let Some(opaque) = connection.next_give_back() {
            connection.send(&format!("HD {opaque}\r\n"));
            given_back += 1;
        }
    }
    assert!(connections < 10, "{connections} connections");
}
