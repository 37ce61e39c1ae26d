//! Event loops before anything is connected: what they refuse, and how they end.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use pinyon::batch::{pinyon_batch_begin, pinyon_batch_begin_finish, pinyon_batch_free, pinyon_batch_of_loop};
use pinyon::client::pinyon_client_clone;
use pinyon::loops::structs::{Action, Reading};
use pinyon::loops::*;
use pinyon::replies::pinyon_reply_clear;
use pinyon::requests::Verb;
use pinyon::status::Status;
use pinyon::structs::{empty, Bytes, Found, Reply, Request};

use crate::c::{about, client, message, Client, Owned};

const FAILED: i32 = Status::Failed as i32;

fn loop_of(client: &Client) -> Owned<Loop> {
    // SAFETY: the client lives.
    Owned::new(|error| unsafe { pinyon_loop_of_client(client.0, None, error) }, pinyon_loop_free).unwrap()
}

fn begin(event_loop: &Owned<Loop>, request: *const Request) -> Result<u64, String> {
    let (mut ticket, mut error) = (0, null_mut());
    // SAFETY: the pointers are null or live.
    match unsafe { pinyon_begin(event_loop.0, request, &mut ticket, &mut error) } {
        0 => Ok(ticket),
        _ => Err(message(error)),
    }
}

unsafe extern "C" fn place(_context: *mut c_void, _size: usize, _flags: u32) -> *mut c_void {
    unreachable!("no value arrives")
}

#[test]
fn requests_that_cannot_be_sent_are_refused_at_once() {
    let (client, other) = (client(&[]), client(&[]));
    let event_loop = loop_of(&client);
    assert!(begin(&event_loop, null()).unwrap_err().contains("pinyon_request is missing"));
    assert!(begin(&event_loop, &about(Verb::Get, b"a b")).unwrap_err().contains("a b"));
    assert!(begin(&event_loop, &Request { verb: 99, ..about(Verb::Get, b"x") }).unwrap_err().contains("99"));
    assert!(begin(&Owned(null_mut(), pinyon_loop_free), &about(Verb::Get, b"x")).unwrap_err().contains("missing"));
    let (get, mut error) = (about(Verb::Get, b"x"), null_mut());
    // SAFETY: each handle lives.
    unsafe {
        assert_eq!(pinyon_begin_using(event_loop.0, other.0, &get, null_mut(), &mut error), FAILED);
        assert!(message(error).contains("another client"));
        let mut reading = Reading { count: 1, place: Some(place), ..empty() };
        assert_eq!(pinyon_begin_reading(event_loop.0, null(), &reading, null_mut(), null_mut()), FAILED);
        let mut found = Found { key: Bytes::of(b"x"), ..empty() };
        (reading.keys, reading.place) = (&mut found, None);
        assert_eq!(pinyon_begin_reading(event_loop.0, null(), &reading, null_mut(), &mut error), FAILED);
        assert!(message(error).contains("`place`"));
        assert_eq!(pinyon_lock_begin(event_loop.0, null(), null_mut(), null_mut()), FAILED);
        assert!(pinyon_loop_is_idle(event_loop.0));
    }
}

#[test]
#[cfg_attr(miri, ignore = "its client begins to connect, with options of sockets that miri lacks")]
fn a_request_whose_caller_leaves_before_the_turn_is_over_has_no_reply() {
    let client = client(&[]);
    let event_loop = loop_of(&client);
    let key = b"x".to_vec();
    let ticket = begin(&event_loop, &about(Verb::Get, &key)).unwrap();
    drop(key);
    // SAFETY: it lives, and the places can be written to or are null.
    unsafe {
        assert!(!pinyon_loop_is_idle(event_loop.0));
        pinyon_abandon(event_loop.0, ticket);
        pinyon_abandon(event_loop.0, ticket);
        pinyon_abandon(event_loop.0, 99);
        let mut reply: Reply = empty();
        assert!(!pinyon_next_reply(event_loop.0, &mut reply) && !pinyon_next_reply(event_loop.0, null_mut()));
        assert!(!pinyon_next_action(null_mut(), null_mut()) && pinyon_loop_is_idle(null()));
        assert!(pinyon_due_in(null()) < 0.0);
    }
}

#[test]
#[cfg_attr(miri, ignore = "its client begins to connect, with options of sockets that miri lacks")]
fn closing_a_loop_answers_whoever_waits() {
    let client = client(&[]);
    let event_loop = loop_of(&client);
    let mut contexts = [1_u32, 2];
    for context in &mut contexts {
        begin(&event_loop, &Request { context: (&raw mut *context).cast(), ..about(Verb::Get, b"x") }).unwrap();
    }
    drop(client);
    let (mut reply, mut answered) = (empty::<Reply>(), 0);
    // SAFETY: it lives, and so do the contexts.
    unsafe {
        pinyon_loop_close(event_loop.0);
        while pinyon_next_reply(event_loop.0, &mut reply) {
            assert_eq!(reply.status, FAILED);
            answered += *reply.context.cast::<u32>();
        }
        pinyon_reply_clear(&mut reply);
        let mut action: Action = empty();
        while pinyon_next_action(event_loop.0, &mut action) {}
    }
    assert_eq!(answered, 3);
    assert!(begin(&event_loop, &about(Verb::Get, b"x")).unwrap_err().contains("closed"));
}

#[test]
fn a_batch_is_of_its_loop_and_may_outlive_it() {
    let client = client(&[]);
    let (event_loop, other) = (loop_of(&client), loop_of(&client));
    // SAFETY: each handle lives until it is freed.
    unsafe {
        let view = Owned(pinyon_client_clone(client.0), pinyon::client::pinyon_client_free);
        let batch = Owned::new(|error| pinyon_batch_of_loop(event_loop.0, view.0, error), pinyon_batch_free).unwrap();
        let mut error = null_mut();
        let set = Request { value: Bytes::of(b"v"), ..about(Verb::Set, b"x") };
        assert_eq!(pinyon_batch_begin(other.0, batch.0, &set, &mut error), FAILED);
        assert!(!message(error).is_empty());
        assert_eq!(pinyon_batch_begin(event_loop.0, null_mut(), &set, null_mut()), FAILED);
        assert_eq!(pinyon_batch_begin(event_loop.0, batch.0, &about(Verb::Get, b"x"), null_mut()), FAILED);
        let mut ticket = 0;
        assert_eq!(pinyon_batch_begin_finish(event_loop.0, batch.0, null_mut(), &mut ticket, null_mut()), 0);
        let mut reply: Reply = empty();
        pinyon_loop_close(event_loop.0);
        assert!(pinyon_next_reply(event_loop.0, &mut reply));
        assert_eq!(reply.ticket, ticket);
        pinyon_reply_clear(&mut reply);
        drop(event_loop);
        drop(batch);
    }
}
