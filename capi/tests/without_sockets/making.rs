//! Callers' ways to values, step by step: the test answers the requests in the server's place.

use std::ptr::{null, null_mut};

use pinyon::error_fields::pinyon_error_message;
use pinyon::making::many::*;
use pinyon::making::many_step::*;
use pinyon::making::step::{pinyon_making_replied, pinyon_making_step, StepKind};
use pinyon::making::*;
use pinyon::replies::pinyon_reply_clear;
use pinyon::requests::Verb;
use pinyon::status::{marks, Status};
use pinyon::structs::{empty, forward, Bytes, HowMade, Reply, Request, Step, Terms};
use pinyon::tags::{pinyon_tags_free, pinyon_tags_new};

use crate::c::{client, copied, message, text, Client, Owned};

fn terms_of(key: &[u8], scope: u64, caller: u64) -> Terms {
    Terms { key: Bytes::of(key), ttl: 60.0, scope, caller, ..empty() }
}

struct Caller {
    making: Owned<Making>,
    reply: Reply,
}

impl Caller {
    fn new(client: &Client, terms: &Terms) -> Result<Self, String> {
        // SAFETY: the client and the terms live.
        let making = Owned::new(|error| unsafe { pinyon_making_new(client.0, terms, error) }, pinyon_making_free)?;
        Ok(Self { making, reply: empty() })
    }

    /// The next step.
    fn step(&mut self) -> Result<(StepKind, Request), String> {
        let mut step: Step = empty();
        // SAFETY: the places can be written to, and the error is there until the reply is cleared.
        unsafe {
            match pinyon_making_step(self.making.0, &mut step, &mut self.reply) {
                0 => Ok((StepKind::ALL[step.kind as usize], step.request)),
                _ => Err(text(pinyon_error_message(self.reply.error))),
            }
        }
    }

    /// The next step, which is a request about this key.
    fn asks(&mut self, verb: Verb, key: &[u8]) -> Request {
        let (kind, request) = self.step().unwrap();
        assert_eq!((kind, request.verb), (StepKind::Ask, verb as u32));
        // SAFETY: what the request points to is there until the next step.
        assert_eq!(unsafe { copied(request.key) }, key);
        request
    }

    fn replied(&mut self, reply: &Reply) {
        // SAFETY: both live.
        unsafe { pinyon_making_replied(self.making.0, reply) }
    }

    fn made(&mut self, value: &[u8], client_flags: u32) {
        // SAFETY: both live.
        unsafe { pinyon_making_made(self.making.0, Bytes::of(value), client_flags) }
    }

    fn value(&self) -> Vec<u8> {
        // SAFETY: a reply has its value until it is cleared.
        unsafe { copied(self.reply.value) }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // SAFETY: it lives.
        unsafe { pinyon_reply_clear(&mut self.reply) }
    }
}

fn won(cas: u64) -> Reply {
    Reply { status: Status::Won as i32, marks: marks::HAS_CAS, cas, ..empty() }
}

fn done() -> Reply {
    Reply { status: Status::Done as i32, ..empty() }
}

#[test]
fn the_winner_of_a_lease_makes_the_value_and_stores_it() {
    let client = client(&[("namespace", b"a:")]);
    let mut caller = Caller::new(&client, &terms_of(b"k", 1, 1)).unwrap();
    drop(client);
    caller.asks(Verb::Lease, b"k");
    assert!(caller.step().unwrap_err().contains("pinyon_making_replied"));
    caller.replied(&won(7));
    assert_eq!(caller.step().unwrap().0, StepKind::Make);
    assert!(caller.step().unwrap_err().contains("pinyon_making_made"));
    caller.made(b"the value", 16);
    let store = caller.asks(Verb::Set, b"k");
    // SAFETY: what the request points to is there until the next step.
    assert_eq!((unsafe { copied(store.value) }, store.cas, store.client_flags), (b"the value".to_vec(), 7, 16));
    caller.replied(&done());
    assert_eq!(caller.step().unwrap().0, StepKind::Over);
    assert_eq!((caller.value(), caller.reply.client_flags), (b"the value".to_vec(), 16));
    assert!(caller.step().unwrap_err().contains("over"));
}

#[test]
fn a_follower_is_woken_and_gets_the_leaders_value() {
    let client = client(&[]);
    let mut leader = Caller::new(&client, &terms_of(b"k", 3, 1)).unwrap();
    let mut context = 5_u32;
    let terms = Terms { context: (&raw mut context).cast(), ..terms_of(b"k", 3, 2) };
    let mut follower = Caller::new(&client, &terms).unwrap();
    leader.asks(Verb::Lease, b"k");
    assert_eq!(follower.step().unwrap().0, StepKind::Follow);
    leader.replied(&won(7));
    assert_eq!(leader.step().unwrap().0, StepKind::Make);
    leader.made(b"v", 0);
    leader.asks(Verb::Set, b"k");
    leader.replied(&done());
    assert_eq!(leader.step().unwrap().0, StepKind::Over);
    let mut woken = null_mut();
    // SAFETY: the place can be written to, and the context lives.
    unsafe {
        assert!(pinyon::client::pinyon_next_woken(client.0, 3, &mut woken));
        assert_eq!(*woken.cast::<u32>(), 5);
        assert!(!pinyon::client::pinyon_next_woken(client.0, 3, null_mut()));
    }
    assert_eq!(follower.step().unwrap().0, StepKind::Over);
    drop(leader);
    assert_eq!(follower.value(), b"v");
}

#[test]
fn a_caller_that_leaves_gives_back_its_lease() {
    let client = client(&[]);
    let mut caller = Caller::new(&client, &terms_of(b"k", 1, 1)).unwrap();
    caller.asks(Verb::Lease, b"k");
    caller.replied(&won(7));
    assert_eq!(caller.step().unwrap().0, StepKind::Make);
    let mut back: Request = empty();
    // SAFETY: the place can be written to, and what it points to is there as long as the caller.
    unsafe {
        assert!(pinyon_making_leave(caller.making.0, &mut back));
        assert_eq!((back.verb, back.cas, copied(back.key)), (Verb::GiveBack as u32, 7, b"k".to_vec()));
        assert!(!pinyon_making_leave(caller.making.0, null_mut()));
        assert!(!pinyon_making_leave(null_mut(), &mut back));
    }
}

#[test]
fn a_maker_that_fails_tells_why() {
    let client = client(&[]);
    let mut caller = Caller::new(&client, &terms_of(b"k", 1, 1)).unwrap();
    caller.asks(Verb::Lease, b"k");
    caller.replied(&won(7));
    assert_eq!(caller.step().unwrap().0, StepKind::Make);
    // SAFETY: it lives.
    unsafe { pinyon_making_failed(caller.making.0, Bytes::of(b"no paper")) };
    caller.asks(Verb::GiveBack, b"k");
    caller.replied(&done());
    assert_eq!(caller.step().unwrap().0, StepKind::Over);
    // SAFETY: it is there until the reply is cleared.
    assert_eq!(unsafe { text(pinyon_error_message(caller.reply.error)) }, "no paper");
}

#[test]
fn a_value_that_cannot_be_read_is_made_anew() {
    let client = client(&[]);
    let mut caller = Caller::new(&client, &terms_of(b"k", 1, 1)).unwrap();
    caller.asks(Verb::Lease, b"k");
    let mut hit = Reply { cas: 3, marks: marks::HAS_CAS | marks::HAS_VALUE, ..done() };
    hit.keep_value(b"old");
    caller.replied(&hit);
    // SAFETY: it lives.
    unsafe { pinyon_reply_clear(&mut hit) };
    assert_eq!((caller.step().unwrap().0, caller.value()), (StepKind::Over, b"old".to_vec()));
    // SAFETY: it lives.
    assert!(unsafe { pinyon_making_unreadable(caller.making.0, Bytes::of(b"no class Old")) });
    caller.asks(Verb::Lease, b"k");
    caller.replied(&won(4));
    assert_eq!(caller.step().unwrap().0, StepKind::Make);
    // SAFETY: all live.
    unsafe {
        let how = HowMade { with: u32::MAX, ..empty() };
        assert_eq!(pinyon_making_made_with(caller.making.0, Bytes::of(b"new"), 0, &how, null_mut()), -1);
        assert_eq!(pinyon_making_made_with(caller.making.0, Bytes::of(b"new"), 0, null(), null_mut()), -1);
        let how = HowMade { with: made::NOT_STORED, ..empty() };
        assert_eq!(pinyon_making_made_with(caller.making.0, Bytes::of(b"new"), 0, &how, null_mut()), 0);
    }
    while let (StepKind::Ask, _) = caller.step().unwrap() {
        caller.replied(&done());
    }
    assert_eq!(caller.value(), b"new");
}

#[test]
fn terms_that_make_no_sense_are_refused() {
    let client = client(&[]);
    let terms = terms_of(b"k", 1, 1);
    let lost = Bytes { start: null(), size: 4 };
    for wrong in [
        Terms { size: 1, ..terms },
        Terms { key: lost, ..terms },
        Terms { route: lost, ..terms },
        Terms { with: 1 << 31, ..terms },
        Terms { early: 100.0, ..terms },
        Terms { lease: -1.0, ..terms },
    ] {
        assert!(Caller::new(&client, &wrong).is_err(), "{wrong:?}");
    }
    let missing = Owned(null_mut(), pinyon::client::pinyon_client_free);
    assert!(Caller::new(&missing, &terms).is_err());
}

#[test]
fn tags_of_terms_outlive_the_handle_that_they_came_from() {
    let client = client(&[]);
    let names = [Bytes::of(b"users")];
    // SAFETY: there are so many names, and the handle lives until it is freed.
    let tags =
        Owned::new(|error| unsafe { pinyon_tags_new(client.0, names.as_ptr(), 1, error) }, pinyon_tags_free).unwrap();
    let lent: *const forward::Tags = tags.0.cast_const().cast();
    let mut caller = Caller::new(&client, &Terms { tags: lent, ..terms_of(b"k", 1, 1) }).unwrap();
    drop(tags);
    let lease = caller.asks(Verb::Lease, b"k");
    assert!(!lease.tags.is_null() && lease.tags != lent);
    caller.replied(&won(7));
    drop(client);
    // The tags were not read: they are asked for before the value is made.
    let (kind, _) = caller.step().unwrap();
    assert!(matches!(kind, StepKind::Ask | StepKind::Make));
}

#[test]
fn many_keys_go_step_by_step_and_each_has_its_answer() {
    let client = client(&[]);
    let keys = [b"a", b"b", b"c"].map(|key| Bytes::of(key));
    let terms = Terms { key: Bytes::NONE, ..terms_of(b"", 1, 1) };
    // SAFETY: what the pointers point to lives during each call.
    unsafe {
        let new = |keys, count| {
            Owned::new(|error| pinyon_making_many_new(client.0, &terms, keys, count, error), pinyon_making_many_free)
        };
        assert!(new(null(), 2).is_err_and(|why| why.contains("list of")));
        let owned = new(keys.as_ptr(), keys.len()).unwrap();
        let making = owned.0;
        let (mut step, mut reply, mut request) = (empty::<Step>(), empty::<Reply>(), empty::<Request>());
        let mut next = || {
            assert_eq!(pinyon_making_many_step(making, &mut step, &mut reply), 0);
            StepKind::ALL[step.kind as usize]
        };
        assert_eq!(next(), StepKind::Ask);
        let mut asked = Vec::new();
        while pinyon_making_many_request(making, asked.len(), &mut request) {
            asked.push(copied(request.key));
        }
        assert_eq!(asked, [b"a", b"b", b"c"]);
        for (index, cas) in [(0, 1), (1, 2), (2, 3)] {
            pinyon_making_many_replied(making, index, &won(cas));
        }
        pinyon_making_many_replied(making, 99, &won(9));
        assert_eq!(next(), StepKind::Make);
        let (mut key, mut index) = (usize::MAX, 0);
        while pinyon_making_many_wanted(making, index, &mut key) {
            let value = [b'0' + key as u8];
            assert_eq!(pinyon_making_many_made(making, key, Bytes::of(&value), 0, null(), null_mut()), 0);
            index += 1;
        }
        assert_eq!(index, 3);
        let mut error = null_mut();
        assert_eq!(pinyon_making_many_made(making, 99, Bytes::of(b"x"), 0, null(), &mut error), -1);
        assert!(message(error).contains("there is no key 99"));
        assert_eq!(pinyon_making_many_made(making, 0, Bytes::of(b"0"), 0, null(), null_mut()), 0);
        while next() == StepKind::Ask {
            let mut index = 0;
            while pinyon_making_many_request(making, index, &mut request) {
                assert_eq!(copied(request.value), [copied(request.key)[0] - b'a' + b'0']);
                pinyon_making_many_replied(making, index, &done());
                index += 1;
            }
        }
        for key in 0..3 {
            assert_eq!(pinyon_making_many_answer(making, key, &mut reply), 0);
            assert_eq!(copied(reply.value), [b'0' + key as u8]);
        }
        assert_eq!(pinyon_making_many_answer(making, 99, &mut reply), -1);
        assert!(!pinyon_making_many_leave(making, null_mut()));
        pinyon_reply_clear(&mut reply);
    }
}
