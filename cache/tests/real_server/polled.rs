//! A host that waits for one descriptor only.

use std::net::TcpListener;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinyon_cache::directory::Directory;
use pinyon_cache::operations::{
    Answer, AsBytes, Beside, Bytes, Failed, KeyRules, Mode, OwnedKey, Policy, Request, Single,
};
use pinyon_cache::settings::CacheSettings;
use pinyon_cache::shared::{Finished, Shared, Waiter};
use pinyon_net::driven::{Polled, Wake};
use pinyon_net::settings::ServerTexts;
use pinyon_net::{Error, Kind};
use rustix::event::{poll, PollFd, PollFlags, Timespec};

use crate::server::Memcached;
use crate::TIMEOUT;

/// A set or a get.
type Op = Single<OwnedKey, Option<Vec<u8>>, AsBytes>;

/// A waiter, identified by the number of its key.
struct Patient(usize);

impl Waiter for Patient {
    fn is_gone(&self) -> bool {
        false
    }
}

type Loop = Polled<Shared<Op, Patient>>;

fn loop_of(server: &str) -> Loop {
    loop_with(server, TIMEOUT)
}

fn loop_with(server: &str, timeout: Duration) -> Loop {
    loop_in(&directory_of(server, timeout))
}

fn loop_in(directory: &Arc<Directory>) -> Loop {
    Polled::new(Shared::new(directory.clone(), 1)).unwrap()
}

fn directory_of(server: &str, timeout: Duration) -> Arc<Directory> {
    let settings = CacheSettings {
        servers: Some(ServerTexts(vec![server.to_owned()])),
        timeout: timeout.as_secs_f64(),
        connect_timeout: TIMEOUT.as_secs_f64(),
        ..CacheSettings::default()
    };
    settings.build(false).unwrap().directory.into()
}

fn begin(polled: &mut Loop, number: usize, set: Option<&[u8]>) {
    let key = format!("key:{number}");
    let key = OwnedKey::new(&KeyRules::default(), key.as_bytes()).unwrap();
    let request = match set {
        None => Request::Get(Beside::Nothing),
        Some(value) => Request::Store {
            mode: Mode::Set,
            size: value.len(),
            client_flags: 0,
            ttl: 0,
            cas: None,
            returns_cas: false,
        },
    };
    let op = Single::new(request, key, set.map(Vec::from), AsBytes, Policy::default());
    polled.begin(|machine, now| machine.start(op, Patient(number), now)).unwrap();
}

/// The number of a key, and the outcome of its operation.
type Outcome = (usize, Result<Answer<Bytes>, Error>);

fn outcome(Finished { mut operation, waiter: Patient(number) }: Finished<Op, Patient>) -> Outcome {
    let answer = operation.take_answer();
    let answer = answer.map_err(|failed| match failed {
        Failed::Error(error) => *error,
        Failed::Unreadable { error, .. } => match error {},
    });
    (number, answer)
}

/// Runs until so many operations are over.
fn finished(polled: &mut Loop, count: usize) -> Vec<Outcome> {
    let until = Instant::now() + TIMEOUT;
    let mut finished = Vec::new();
    while finished.len() < count {
        assert_ne!(polled.wait(until).unwrap(), Wake::Deadline, "nothing happens any more");
        finished.extend(std::iter::from_fn(|| polled.next_finished()).map(outcome));
    }
    finished
}

fn value(bytes: &[u8]) -> Answer<Bytes> {
    Answer::Value(Bytes { bytes: bytes.to_vec(), client_flags: 0 })
}

fn get(polled: &mut Loop) -> Answer<Bytes> {
    begin(polled, 0, None);
    finished(polled, 1).remove(0).1.unwrap()
}

fn failure(polled: &mut Loop) -> Error {
    finished(polled, 1).remove(0).1.unwrap_err()
}

#[test]
fn a_thousand_operations_in_flight_on_a_server_that_is_named() {
    let server = Memcached::tcp();
    let port = server.address().to_string().rsplit_once(':').unwrap().1.to_owned();
    let mut polled = loop_of(&format!("localhost:{port}"));
    for round in 0..3 {
        for number in 0..1000 {
            begin(&mut polled, number, Some(format!("{round}:{number}").as_bytes()));
            begin(&mut polled, number, None);
        }
        for (number, answer) in finished(&mut polled, 2000) {
            match answer.unwrap() {
                Answer::Done(done) => assert!(done),
                answer => assert_eq!(answer, value(format!("{round}:{number}").as_bytes())),
            }
        }
        assert!(polled.is_idle());
        assert_eq!(polled.open_connections(0), 1);
    }
}

#[test]
fn a_name_that_does_not_resolve_fails_what_waits_for_it() {
    let mut polled = loop_of("no-such-host.invalid:11211");
    begin(&mut polled, 0, None);
    let error = failure(&mut polled);
    assert_eq!(error.kind, Kind::Connect);
    assert!(error.to_string().contains("does not resolve"), "{error}");
}

#[test]
fn a_bell_ends_the_wait_from_another_thread() {
    let mut polled = loop_of("127.0.0.1:1");
    let bell = polled.bell().clone();
    let ringing = std::thread::spawn(move || bell.ring());
    let until = Instant::now() + TIMEOUT;
    while polled.wait(until).unwrap() != Wake::Ready {
        assert!(Instant::now() < until, "the bell was not heard");
    }
    ringing.join().unwrap();
    assert_eq!(polled.wait(Instant::now()).unwrap(), Wake::Deadline, "it is silent afterwards");
}

#[test]
fn a_deadline_ends_an_operation_and_not_the_wait() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut polled = loop_with(&silent.local_addr().unwrap().to_string(), Duration::from_millis(20));
    begin(&mut polled, 0, None);
    assert_eq!(failure(&mut polled).kind, Kind::Timeout);
}

#[test]
fn closing_fails_what_is_in_flight() {
    let server = Memcached::tcp();
    let mut polled = loop_of(&server.address().to_string());
    get(&mut polled);
    (0..10).for_each(|number| begin(&mut polled, number, None));
    polled.send().unwrap();
    polled.close().unwrap();
    assert_eq!(polled.open_connections(0), 0);
    let finished = finished(&mut polled, 10);
    assert!(finished.into_iter().all(|(_, answer)| answer.unwrap_err().kind == Kind::Closed));
    begin(&mut polled, 0, None);
    assert_eq!(failure(&mut polled).kind, Kind::Closed);
}

#[test]
fn closed_loops_say_nothing_against_a_server_that_others_use() {
    let server = Memcached::tcp();
    let directory = directory_of(&server.address().to_string(), TIMEOUT);
    let mut loops: Vec<_> = (0..4).map(|_| loop_in(&directory)).collect();
    loops.iter_mut().for_each(|polled| drop(get(polled)));
    let mut last = loops.pop().unwrap();
    loops.iter_mut().for_each(|polled| polled.close().unwrap());
    assert_eq!(get(&mut last), Answer::Missing);
}

#[test]
fn a_server_that_comes_back_is_connected_to_again() {
    let mut server = Memcached::unix();
    let mut polled = loop_of(&server.address().to_string());
    assert_eq!(get(&mut polled), Answer::Missing);
    server.restart();
    let until = Instant::now() + TIMEOUT;
    loop {
        assert!(Instant::now() < until, "it is not connected again");
        begin(&mut polled, 0, Some(b"value"));
        if finished(&mut polled, 1).remove(0).1.is_ok() {
            break;
        }
    }
    assert_eq!(get(&mut polled), value(b"value"));
}

#[test]
fn a_loop_of_the_hosts_own_waits_for_one_descriptor() {
    let server = Memcached::tcp();
    let mut polled = loop_of(&server.address().to_string());
    begin(&mut polled, 0, Some(b"value"));
    begin(&mut polled, 0, None);
    assert!(polled.is_unsent());
    polled.send().unwrap();
    assert!(!polled.is_unsent());
    let until = Instant::now() + TIMEOUT;
    let mut finished = Vec::new();
    while finished.len() < 2 {
        let due = polled.deadline().expect("the operations have one");
        assert!(due <= until, "the alarm is not later than the deadlines");
        let left = due.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let ready = poll(&mut [PollFd::from_borrowed_fd(polled.as_fd(), PollFlags::IN)], Some(&left));
        assert_eq!(ready, Ok(1));
        polled.receive().unwrap();
        polled.send().unwrap();
        finished.extend(std::iter::from_fn(|| polled.next_finished()).map(outcome));
    }
    assert_eq!(finished.remove(1).1.unwrap(), value(b"value"));
}

#[test]
#[allow(unsafe_code)]
fn a_forked_child_leaves_the_parents_connections_alone() {
    let server = Memcached::tcp();
    let mut polled = loop_of(&server.address().to_string());
    get(&mut polled);
    begin(&mut polled, 0, Some(b"of the parent"));
    // SAFETY: the child calls nothing that a mutex of another thread could block forever, and ends without unwinding.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = !polled.is_of_this_process()
            && polled.begin(|_, _| ()).is_err()
            && polled.send().is_err()
            && polled.wait(Instant::now()).is_err()
            && polled.receive().is_err()
            && polled.close().is_err();
        drop(polled);
        // SAFETY: it ends the process without running anything else.
        unsafe { libc::_exit(i32::from(!refused)) };
    }
    let mut status = -1;
    // SAFETY: the child belongs to this process, and the pointer refers to a variable.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!((waited, status), (child, 0));
    assert!(finished(&mut polled, 1)[0].1.is_ok());
    assert_eq!(get(&mut polled), value(b"of the parent"));
}
