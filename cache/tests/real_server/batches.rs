//! Quiet batches, whose commands leave although nothing waits for replies.

use std::sync::Arc;
use std::time::Instant;

use pinyon_cache::blocking::{run, Batch};
use pinyon_cache::directory::Directory;
use pinyon_cache::operations::{
    Answer, AnyOperation, AsBytes, Beside, BorrowedKey, Bytes, KeyRules, Mode, OwnedKey, Policy, Request, Single,
};
use pinyon_cache::settings::CacheSettings;
use pinyon_cache::shared::{Batch as LoopBatch, Finished, Left, Shared, Waiter};
use pinyon_cache::Data;
use pinyon_net::driven::{Polled, Wake};
use pinyon_net::host::NoHost;
use pinyon_net::settings::ServerTexts;
use pinyon_net::{Error, Kind, Sent};

use super::server::Memcached;
use super::{key, TIMEOUT};

fn directory(server: &Memcached) -> Arc<Directory> {
    let servers = Some(ServerTexts(vec![server.address().to_string()]));
    let settings = CacheSettings { servers, timeout: TIMEOUT.as_secs_f64(), ..CacheSettings::default() };
    settings.build(false).unwrap().directory.into()
}

fn sent() -> BorrowedKey<'static> {
    BorrowedKey { wire: key("k"), routed: b"k" }
}

fn store(batch: &mut Batch<&'static str>, mode: Mode, value: &'static str) {
    let request = Request::Store { mode, size: value.len(), client_flags: 0, ttl: 0, cas: None, returns_cas: false };
    batch.submit(&NoHost, &sent(), request, &Data::Copied(value.as_bytes()), value).unwrap();
}

/// The value as another connection sees it.
fn found(directory: &Directory) -> Vec<u8> {
    let mut get = Single::new(Request::Get(Beside::Nothing), sent(), Data::None, AsBytes, Policy::default());
    let Ok(()) = run(directory, &NoHost, &mut get);
    match get.finish().unwrap() {
        Answer::Value(Bytes { bytes, .. }) => bytes,
        _ => Vec::new(),
    }
}

#[test]
fn what_is_sent_arrives_although_nobody_waits_and_stands_before_what_comes_later() {
    let server = Memcached::tcp();
    let directory = directory(&server);
    let mut batch = Batch::new(directory.clone(), true);
    batch.send().unwrap();
    store(&mut batch, Mode::Set, "1");
    store(&mut batch, Mode::Append, "2");
    assert_eq!(found(&directory), b"", "nothing has left yet");
    batch.send().unwrap();
    let late = Instant::now() + TIMEOUT;
    while found(&directory) != b"12" {
        assert!(Instant::now() < late, "it was not sent");
    }
    store(&mut batch, Mode::Add, "refused");
    batch.send().unwrap();
    store(&mut batch, Mode::Append, "3");
    let unsuccessful = batch.finish(&NoHost).unwrap();
    assert_eq!(unsuccessful.iter().map(|one| (one.number, one.key)).collect::<Vec<_>>(), [(2, "refused")]);
    assert_eq!(found(&directory), b"123");
}

#[test]
fn what_cannot_be_sent_is_told_in_the_end() {
    let mut server = Memcached::tcp();
    let directory = directory(&server);
    let mut batch = Batch::new(directory.clone(), true);
    store(&mut batch, Mode::Set, "sent");
    batch.send().unwrap();
    server.stop();
    store(&mut batch, Mode::Set, "lost");
    batch.send().unwrap();
    let keys: Vec<_> = batch.finish(&NoHost).unwrap().into_iter().map(|one| one.key).collect();
    assert!(keys.contains(&"lost"), "{keys:?}");
}

type Op = AnyOperation<OwnedKey, Option<Vec<u8>>, AsBytes>;

/// An event loop whose only coroutine has a quiet batch.
struct Loop {
    polled: Polled<Shared<Op, Coroutine>>,
    batch: LoopBatch<OwnedKey, &'static str>,
}

struct Coroutine;

impl Waiter for Coroutine {
    fn is_gone(&self) -> bool {
        false
    }
}

impl Loop {
    fn new(directory: &Arc<Directory>) -> Self {
        let polled = Polled::new(Shared::new(directory.clone(), 1)).unwrap();
        Self { polled, batch: LoopBatch::new(true) }
    }

    fn submit(&mut self, key: &str, mode: Mode, value: Vec<u8>) -> Result<(), Error> {
        let request =
            Request::Store { mode, size: value.len(), client_flags: 0, ttl: 0, cas: None, returns_cas: false };
        let command = (OwnedKey::new(&KeyRules::default(), key.as_bytes()).unwrap(), request, Some(value));
        let batch = &mut self.batch;
        self.polled.begin(|machine, now| machine.submit_quietly(batch, command, || Coroutine, now)).unwrap()
    }

    /// Waits until a run is over. Returns the coroutines to resume.
    fn next_run(&mut self) -> (Vec<&'static str>, Option<Left<OwnedKey, &'static str>>) {
        let until = Instant::now() + TIMEOUT;
        loop {
            if let Some(Finished { operation, .. }) = self.polled.next_finished() {
                let AnyOperation::Quiet(run) = operation else { unreachable!("it is all there is") };
                return self.batch.over(*run);
            }
            assert_ne!(self.polled.wait(until).unwrap(), Wake::Deadline, "nothing happens any more");
        }
    }

    /// The numbers of the commands that were not carried out.
    fn leave(&mut self) -> Vec<usize> {
        let mut left = self.batch.leave("leaving");
        while left.is_none() {
            left = self.next_run().1.map(|(who, unsuccessful)| {
                assert_eq!(who, "leaving");
                unsuccessful
            });
        }
        left.unwrap().into_iter().map(|one| one.number).collect()
    }
}

#[test]
fn in_a_loop_commands_leave_at_the_end_of_the_turn_and_a_run_grows_while_it_is_under_way() {
    let server = Memcached::tcp();
    let directory = directory(&server);
    let mut in_loop = Loop::new(&directory);
    for value in ["1", "2"] {
        let mode = if value == "1" { Mode::Set } else { Mode::Append };
        in_loop.submit("k", mode, value.into()).unwrap();
    }
    let late = Instant::now() + TIMEOUT;
    while found(&directory) != b"12" {
        assert!(Instant::now() < late, "it was not sent");
        in_loop.polled.wait(Instant::now() + TIMEOUT / 1000).unwrap();
    }
    in_loop.submit("k", Mode::Add, "refused".into()).unwrap();
    in_loop.submit("k", Mode::Append, "3".into()).unwrap();
    assert_eq!(in_loop.leave(), [2]);
    assert_eq!(found(&directory), b"123");
    assert_eq!(in_loop.leave(), [0; 0], "it is told once");
}

#[test]
fn in_a_loop_a_batch_of_many_commands_has_its_coroutine_wait_for_room() {
    let server = Memcached::tcp();
    let directory = directory(&server);
    let mut in_loop = Loop::new(&directory);
    in_loop.submit("k", Mode::Set, "value".into()).unwrap();
    let mut waited = 0;
    for _ in 1..5000 {
        in_loop.submit("k", Mode::Add, "refused".into()).unwrap();
        if in_loop.batch.is_full() {
            in_loop.batch.wait_for_room("waiting");
            assert_eq!(in_loop.next_run().0, ["waiting"]);
            waited += 1;
        }
    }
    assert!((5..20).contains(&waited), "{waited}");
    assert_eq!(in_loop.leave(), (1..5000).collect::<Vec<_>>(), "in the order they were submitted");
}

#[test]
fn in_a_loop_a_few_large_values_fill_a_batch_and_one_that_is_too_large_is_refused_at_once() {
    let server = Memcached::tcp();
    let mut in_loop = Loop::new(&directory(&server));
    let half_a_megabyte = 512 * 1024;
    for _ in 0..4 {
        in_loop.submit("k", Mode::Set, vec![b'v'; half_a_megabyte]).unwrap();
        assert!(!in_loop.batch.is_full());
    }
    let refused = in_loop.submit("k", Mode::Set, vec![b'v'; 4 * half_a_megabyte]).unwrap_err();
    assert_eq!((refused.kind, refused.sent, refused.command), (Kind::TooLarge, Sent::No, "set"));
    in_loop.submit("k", Mode::Set, vec![b'v'; half_a_megabyte]).unwrap();
    assert!(in_loop.batch.is_full());
    assert!(in_loop.leave().is_empty());
}
