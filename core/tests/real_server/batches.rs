//! Quiet batches whose commands leave although nobody waits for replies.

use std::time::Instant;

use pinyon_core::blocking::{run, Batch, NoHost};
use pinyon_core::directory::Directory;
use pinyon_core::operations::{Answer, BorrowedKey, Bytes, Mode, Plain, Policy, Request, Single};
use pinyon_core::settings::{CacheSettings, ServerTexts};
use pinyon_core::Data;

use super::server::Memcached;
use super::{key, TIMEOUT};

fn directory(server: &Memcached) -> Directory {
    let servers = Some(ServerTexts(vec![server.address().to_string()]));
    let settings = CacheSettings { servers, timeout: TIMEOUT.as_secs_f64(), ..CacheSettings::default() };
    settings.build(false).unwrap().directory
}

fn sent() -> BorrowedKey<'static> {
    BorrowedKey { wire: key("k"), routed: b"k" }
}

fn store(batch: &mut Batch<&'static str>, mode: Mode, value: &'static str) {
    let request = Request::Store { mode, size: value.len(), client_flags: 0, ttl: 0, cas: None };
    batch.submit(&NoHost, &sent(), request, &Data::Copied(value.as_bytes()), value).unwrap();
}

/// The value that another connection finds.
fn found(directory: &Directory) -> Vec<u8> {
    let mut get = Single::new(Request::Get { cas: false }, sent(), Data::None, Plain, Policy::default());
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
    let mut batch = Batch::new(directory.known(), true);
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
    assert_eq!(unsuccessful.iter().map(|one| one.tag).collect::<Vec<_>>(), ["refused"]);
    assert_eq!(found(&directory), b"123");
}

#[test]
fn what_cannot_be_sent_is_told_in_the_end() {
    let mut server = Memcached::tcp();
    let directory = directory(&server);
    let mut batch = Batch::new(directory.known(), true);
    store(&mut batch, Mode::Set, "sent");
    batch.send().unwrap();
    server.stop();
    store(&mut batch, Mode::Set, "lost");
    batch.send().unwrap();
    let tags: Vec<_> = batch.finish(&NoHost).unwrap().into_iter().map(|one| one.tag).collect();
    assert!(tags.contains(&"lost"), "{tags:?}");
}
