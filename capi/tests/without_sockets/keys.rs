//! Vectors of keys and of names: where keys are, what is refused of many, and tags.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use pinyon::answers::{pinyon_answers_free, pinyon_next_answer};
use pinyon::client::pinyon_servers_of;
use pinyon::commands::{pinyon_command_at, pinyon_command_named};
use pinyon::error_fields::{pinyon_error_free, pinyon_error_message};
use pinyon::many::keys::pinyon_get_many;
use pinyon::replies::pinyon_reply_clear;
use pinyon::requests::Verb;
use pinyon::run::{pinyon_run, pinyon_run_many};
use pinyon::status::Status;
use pinyon::structs::{empty, Answer, Bytes, Command, Found, Host, Reply, Request};
use pinyon::tags::{pinyon_tags_free, pinyon_tags_new};
use pinyon::wishes::pinyon_common_tag;

use crate::c::{about, client, message, text, Client, Owned};

const FAILED: i32 = Status::Failed as i32;

/// The servers that have a key, the best first, or all of them.
fn servers(client: &Client, key: Option<&[u8]>) -> Vec<String> {
    let key = key.map_or(Bytes::NONE, Bytes::of);
    // SAFETY: each handle lives until it is freed, and a row until the next one is asked for.
    unsafe {
        let answers = Owned::new(|error| pinyon_servers_of(client.0, key, null(), error), pinyon_answers_free).unwrap();
        let (mut all, mut answer) = (Vec::new(), empty::<Answer>());
        while pinyon_next_answer(answers.0, &mut answer) {
            all.push(text(answer.server));
        }
        assert!(!pinyon_next_answer(answers.0, &mut answer) && !pinyon_next_answer(null_mut(), &mut answer));
        all
    }
}

#[test]
fn a_key_has_the_same_server_in_every_client_with_the_same_ring() {
    // Miri has this ring in no other test, and few keys.
    let options: [(&str, &[u8]); 2] = [("servers", b"127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"), ("ring", b"ketama")];
    let (one, other) = (client(&options), client(&options));
    assert_eq!(servers(&one, None).len(), 3);
    let mut used = Vec::new();
    for number in 0..if cfg!(miri) { 4 } else { 20 } {
        let key = format!("key:{number}");
        let of_key = servers(&one, Some(key.as_bytes()));
        assert_eq!(of_key, servers(&other, Some(key.as_bytes())));
        used.extend(of_key.first().cloned());
    }
    used.sort();
    used.dedup();
    assert_eq!(used, servers(&one, None));
}

/// Places values nowhere: none arrives.
unsafe extern "C" fn place(_context: *mut c_void, _size: usize, _flags: u32) -> *mut c_void {
    unreachable!("no server is asked")
}

#[test]
fn each_key_that_is_refused_has_its_error() {
    let client = client(&[]);
    let host = Host { place: Some(place), ..empty() };
    let keys: [&[u8]; 3] = [b"a b", b"", &[b'k'; 251]];
    let mut found = keys.map(|key| Found { key: Bytes::of(key), ..empty() });
    // SAFETY: there are so many, and each error is freed once.
    unsafe {
        for _ in 0..2 {
            assert_eq!(pinyon_get_many(client.0, found.as_mut_ptr(), found.len(), 0, &host), FAILED);
            for one in &mut found {
                assert_eq!(one.status, FAILED);
                assert!(!text(pinyon_error_message(one.error)).is_empty());
                pinyon_error_free(std::mem::replace(&mut one.error, null_mut()));
            }
        }
        // Without a place, each fails for that.
        assert_eq!(pinyon_get_many(client.0, found.as_mut_ptr(), found.len(), 0, null()), FAILED);
        for one in &mut found {
            assert!(message(std::mem::replace(&mut one.error, null_mut())).contains("`place`"));
        }
        assert_eq!(pinyon_get_many(client.0, null_mut(), 1, 0, &host), FAILED);
        assert_eq!(pinyon_get_many(client.0, null_mut(), 0, 0, &host), Status::Done as i32);
    }
}

#[test]
fn each_request_that_is_refused_has_its_error() {
    let client = client(&[]);
    for verb in [Verb::Get, Verb::Delete] {
        let requests = [about(verb, b"a b"), about(verb, b""), Request { verb: 99, ..about(verb, b" ") }];
        let mut replies = [empty::<Reply>(); 3];
        // SAFETY: there are so many of both.
        unsafe {
            for _ in 0..2 {
                assert_eq!(pinyon_run_many(client.0, requests.as_ptr(), replies.as_mut_ptr(), 3, null()), FAILED);
                assert!(replies.iter().all(|reply| reply.status == FAILED && !reply.error.is_null()));
            }
            replies.iter_mut().for_each(|reply| pinyon_reply_clear(reply));
        }
    }
}

#[test]
fn tags_are_of_one_client_and_live_until_they_are_freed() {
    let (one, other) = (client(&[]), client(&[]));
    let names = [Bytes::of(b"users"), Bytes::of(b"pages"), Bytes::of(b"users")];
    let mut reply: Reply = empty();
    // SAFETY: each handle lives until it is freed, and there are so many names.
    unsafe {
        let new = |names, count| Owned::new(|error| pinyon_tags_new(one.0, names, count, error), pinyon_tags_free);
        let tags = new(names.as_ptr(), names.len()).unwrap();
        for (client, verb) in
            [(&other, Verb::Set), (&one, Verb::Delete), (&one, Verb::Lease), (&other, Verb::InvalidateTags)]
        {
            let request = Request { tags: tags.0.cast_const().cast(), ..about(verb, b"k") };
            assert_eq!(pinyon_run(client.0, &request, &mut reply, null()), FAILED);
            assert!(text(pinyon_error_message(reply.error)).contains("tags"));
        }
        pinyon_reply_clear(&mut reply);
        assert!(new(null(), 1).is_err_and(|why| why.contains("list of names")));
        let lost = Bytes { start: null(), size: 2 };
        assert!(new(&lost, 1).is_err_and(|why| why.contains("size of 2")));
        drop(one);
        drop(tags);
    }
}

#[test]
fn names_with_a_hash_tag_have_it_in_common() {
    let common = |names: &[&[u8]]| {
        let names: Vec<Bytes> = names.iter().map(|name| Bytes::of(name)).collect();
        let (mut tag, mut error) = (Bytes::of(b"before"), null_mut());
        // SAFETY: there are so many names, and the tag is in one of them.
        unsafe {
            match pinyon_common_tag(names.as_ptr(), names.len(), &mut tag, &mut error) {
                0 => Ok(tag.is_given().then(|| tag.slice().to_vec())),
                _ => Err(message(error)),
            }
        }
    };
    assert_eq!(common(&[b"{a}1", b"{a}2"]), Ok(Some(b"a".to_vec())));
    assert_eq!(common(&[]), Ok(None));
    assert!(common(&[b"{a}1", b"{b}2"]).is_err());
    // SAFETY: a missing place is refused.
    assert_eq!(unsafe { pinyon_common_tag(null(), 0, null_mut(), null_mut()) }, FAILED);
}

#[test]
fn commands_are_found_by_name_and_by_number() {
    let (mut command, mut named) = (empty::<Command>(), empty::<Command>());
    let mut index = 0;
    // SAFETY: the places can be written to, and the texts live as long as the library.
    unsafe {
        while pinyon_command_at(index, &mut command) {
            assert!(pinyon_command_named(command.name, &mut named));
            assert_eq!((named.verb, named.with, text(named.name)), (command.verb, command.with, text(command.name)));
            index += 1;
        }
        assert!(index > 10 && !pinyon_command_at(usize::MAX, &mut command));
        assert!(!pinyon_command_named(c"fetch".as_ptr(), &mut command) && !pinyon_command_named(null(), &mut command));
        assert!(!pinyon_command_at(0, null_mut()));
    }
}
