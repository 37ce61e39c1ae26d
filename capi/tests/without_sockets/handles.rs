//! Handles that are made, copied, used when they are missing or closed, and freed; and the replies of calls that failed.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use pinyon::batch::*;
use pinyon::client::*;
use pinyon::error_fields::{pinyon_error_kind, pinyon_error_message};
use pinyon::errors::Kind;
use pinyon::migrating::pinyon_client_migrating;
use pinyon::replies::pinyon_reply_clear;
use pinyon::requests::Verb;
use pinyon::run::{pinyon_run, pinyon_run_many};
use pinyon::status::Status;
use pinyon::structs::{
    empty, forward, Bytes, Credentials, CredentialsSource, Migration, NearFigures, Reply, Request, FOREVER,
};
use pinyon_net::error::kinds::ErrorKind;

use crate::c::{about, client, copied, message, text, with_options, Client, Owned};

const FAILED: i32 = Status::Failed as i32;

/// What a call says that must fail. Its reply is cleared.
fn refusal(client: &Client, request: *const Request) -> String {
    let mut reply: Reply = empty();
    // SAFETY: the pointers are null or live.
    unsafe {
        assert_eq!(pinyon_run(client.0, request, &mut reply, null()), FAILED);
        let said = text(pinyon_error_message(reply.error));
        pinyon_reply_clear(&mut reply);
        assert!(reply.error.is_null());
        said
    }
}

#[test]
fn a_client_lives_as_long_as_its_last_copy_or_view() {
    let first = client(&[("servers", b"127.0.0.1:1"), ("namespace", b"a:")]);
    // SAFETY: each handle lives until it is freed.
    unsafe {
        let copy = Owned(pinyon_client_clone(first.0), pinyon_client_free);
        let view = with_options(&[("namespace", b"b:"), ("on_failure", b"miss")], |options, count| {
            Owned::new(|error| pinyon_client_using(copy.0, options, count, error), pinyon_client_free).unwrap()
        });
        drop(first);
        assert_eq!((copied(pinyon_namespace(copy.0)), copied(pinyon_namespace(view.0))), (b"a:".into(), b"b:".into()));
        assert!(pinyon_passes_over(view.0, Bytes::of(b"it cannot be read")) == pinyon_passes_over(copy.0, Bytes::NONE));
        let metrics = pinyon_metrics(copy.0);
        assert!(text(metrics).contains("127.0.0.1:1"));
        pinyon_text_free(metrics);
        pinyon_text_free(null_mut());
        let mut figures = NearFigures { hits: 9, ..empty() };
        assert!(!pinyon_near_metrics(copy.0, &mut figures) && figures.hits == 0);
        assert!(!pinyon_near_metrics(copy.0, null_mut()));
        drop(copy);
        assert!(!pinyon_next_woken(view.0, 1, null_mut()));
        pinyon_client_close(view.0);
        assert!(refusal(&view, &about(Verb::Get, b"x")).contains("closed"));
    }
}

#[test]
fn what_is_missing_is_named() {
    let client = client(&[]);
    let get = about(Verb::Get, b"x");
    assert!(refusal(&Owned(null_mut(), pinyon_client_free), &get).contains("pinyon_client is missing"));
    assert!(refusal(&client, null()).contains("pinyon_request is missing"));
    // SAFETY: a missing reply is refused.
    assert_eq!(unsafe { pinyon_run(client.0, &get, null_mut(), null()) }, FAILED);
    // SAFETY: as above, with nothing to read.
    unsafe {
        assert_eq!(pinyon_run_many(client.0, null(), null_mut(), 0, null()), Status::Done as i32);
        assert_eq!(pinyon_run_many(client.0, null(), null_mut(), 1, null()), FAILED);
        let mut reply: Reply = empty();
        assert_eq!(pinyon_run_many(client.0, null(), &mut reply, 1, null()), FAILED);
        assert!(text(pinyon_error_message(reply.error)).contains("pinyon_request is missing"));
        pinyon_reply_clear(&mut reply);
        assert!(pinyon_namespace(null()).start.is_null());
        assert!(pinyon_metrics(null()).is_null() && pinyon_client_clone(null()).is_null());
        pinyon_client_close(null());
        pinyon_client_free(null_mut());
        pinyon_reply_clear(null_mut());
    }
}

#[test]
fn structs_say_their_size_and_nothing_unknown() {
    #[repr(C)]
    struct Newer {
        known: Request,
        more: u64,
    }
    let client = client(&[]);
    let get = about(Verb::Get, b"x");
    for size in [0, 1, size_of::<usize>(), size_of::<Request>() - 8, size_of::<Request>() + 1, usize::MAX - 7] {
        assert!(refusal(&client, &Request { size, ..get }).contains("set the field size"), "{size}");
    }
    let newer = Newer { known: Request { size: size_of::<Newer>(), ..get }, more: 1 };
    // It points to the whole, of which the request is the beginning.
    let whole = (&raw const newer).cast::<Request>();
    assert!(refusal(&client, whole).contains("fields that this library does not know"));
    let lost = Bytes { start: null(), size: 5 };
    for (request, says) in [
        (Request { verb: 99, ..get }, "no verb 99"),
        (Request { with: 1 << 31, ..get }, "does not know"),
        (Request { key: lost, ..get }, "key has a size of 5"),
        (Request { route: lost, ..get }, "route has a size of 5"),
        (Request { value: lost, ..about(Verb::Set, b"x") }, "value has a size of 5"),
        (about(Verb::Get, b"with a space"), "with a space"),
        (about(Verb::Get, b""), "key"),
        (about(Verb::InvalidateTags, b""), "pinyon_tags in the request"),
        (Request { value: Bytes::of(b"\xff"), ..about(Verb::Stats, b"") }, "not text"),
    ] {
        assert!(refusal(&client, &request).contains(says), "{says}");
    }
}

#[test]
fn a_reply_serves_many_calls_and_frees_what_it_has() {
    let client = client(&[]);
    let mut reply: Reply = empty();
    reply.keep_value(b"a value of an earlier call");
    reply.place(b"and another", 7, None);
    for _ in 0..3 {
        // SAFETY: the pointers live.
        unsafe {
            assert_eq!(pinyon_run(client.0, &about(Verb::Get, b"a b"), &mut reply, null()), FAILED);
            assert_eq!(pinyon_error_kind(reply.error), Kind::Core(ErrorKind::InvalidKey).number());
        }
    }
    // SAFETY: it lives.
    unsafe { pinyon_reply_clear(&mut reply) };
    assert!(reply.memory.is_null() && reply.value.start.is_null());
    // SAFETY: it lives, and is empty.
    unsafe { pinyon_reply_clear(&mut reply) };
}

#[test]
fn batches_refuse_what_they_cannot_send() {
    let first = client(&[]);
    // SAFETY: each handle lives until it is freed.
    unsafe {
        let batch = Owned::new(|error| pinyon_batch_new(first.0, error), pinyon_batch_free).unwrap();
        let get = about(Verb::Get, b"x");
        for request in [null(), &raw const get] {
            let mut error = null_mut();
            assert_eq!(pinyon_batch_add(batch.0, request, null(), &mut error), FAILED);
            assert!(!message(error).is_empty());
        }
        let mut reply: Reply = empty();
        assert!(!pinyon_batch_next_failure(batch.0, &mut reply) && !pinyon_batch_is_full(batch.0));
        assert_eq!(pinyon_batch_finish(batch.0, null(), null_mut()), Status::Done as i32);
        assert_eq!(pinyon_batch_send(null_mut(), null_mut()), FAILED);
        drop(first);
        pinyon_batch_free(null_mut());
    }
}

/// What stands behind both clients: the context counts how often it was released.
unsafe extern "C" fn release(context: *mut c_void) {
    // SAFETY: the context is such a counter, which outlives the client.
    unsafe { &*context.cast::<AtomicUsize>() }.fetch_add(1, Ordering::Relaxed);
}

unsafe extern "C" fn never(_context: *mut c_void, _question: *mut forward::CredentialsQuestion) {
    unreachable!("no client connects");
}

#[test]
fn a_source_of_credentials_is_copied_from_anywhere_and_released_once() {
    let released = AtomicUsize::new(0);
    let context = (&raw const released).cast_mut().cast();
    let source = CredentialsSource { ask: Some(never), release: Some(release), context, ..empty() };
    let mut unaligned = vec![0_u8; size_of::<CredentialsSource>() + 1];
    // SAFETY: there is room for it after the first byte, at whatever address.
    unsafe { unaligned.as_mut_ptr().add(1).cast::<CredentialsSource>().write_unaligned(source) };
    {
        let value = &unaligned[1..];
        let first = client(&[("username", b"app"), ("password.function", value)]);
        // SAFETY: it lives.
        let copy = Owned(unsafe { pinyon_client_clone(first.0) }, pinyon_client_free);
        drop(first);
        assert_eq!(released.load(Ordering::Relaxed), 0);
        drop(copy);
    }
    assert_eq!(released.load(Ordering::Relaxed), 1);
    for value in [&unaligned[1..9], &unaligned[1..2]] {
        assert!(crate::c::try_client(&[("username", b"app"), ("password.function", value)]).is_err());
    }
    let answer: Credentials = empty();
    // SAFETY: no question is there.
    unsafe {
        pinyon::credentials::pinyon_credentials_answer(null_mut(), &answer);
        pinyon::credentials::pinyon_credentials_fail(null_mut(), Bytes::of(b"why"));
    }
}

#[test]
fn a_client_of_two_pools_keeps_both() {
    let clients = [client(&[("servers", b"127.0.0.1:1")]), client(&[("servers", b"127.0.0.1:2")])];
    let asked = Migration { ttl: FOREVER, ..empty() };
    // SAFETY: each handle lives until it is freed.
    unsafe {
        let both = |[old, new]: [*mut pinyon::client::Client; 2]| {
            Owned::new(|error| pinyon_client_migrating(old, new, &asked, error), pinyon_client_free)
        };
        let [old, new] = clients.each_ref().map(|client| client.0);
        assert!(both([old, old]).is_err_and(|why| why.contains("the same")));
        assert!(both([old, null_mut()]).is_err_and(|why| why.contains("missing")));
        let migrating = both([old, new]).unwrap();
        assert!(both([migrating.0, new]).is_err_and(|why| why.contains("migrates already")));
        drop(clients);
        assert!(refusal(&migrating, &about(Verb::Get, b"a b")).contains("a b"));
        assert!(Owned::new(|error| pinyon_batch_new(migrating.0, error), pinyon_batch_free).is_err());
        pinyon_client_close(migrating.0);
    }
}
