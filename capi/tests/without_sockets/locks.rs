//! Clients of locks before anything is connected: settings, notes, and wishes that are refused.

use std::ptr::{null, null_mut};

use pinyon::client::pinyon_text_free;
use pinyon::error_fields::pinyon_error_message;
use pinyon::locks::client::*;
use pinyon::locks::lock::*;
use pinyon::locks::notes::{pinyon_next_note, pinyon_note_free, pinyon_wait_note};
use pinyon::loops::{pinyon_lock_begin, pinyon_loop_free, pinyon_loop_of_locks};
use pinyon::replies::pinyon_reply_clear;
use pinyon::status::Status;
use pinyon::structs::{empty, Bytes, Reply};
use pinyon::wishes::permits::{pinyon_locks_tell_permits, Permits};
use pinyon::wishes::pinyon_lock_run;
use pinyon::wishes::wanted::{GivenRate, Wish, WishKind};

use crate::c::{copied, message, text, with_options, Owned};

const FAILED: i32 = Status::Failed as i32;

fn locks(options: &[(&str, &[u8])]) -> Result<Owned<Locks>, String> {
    with_options(options, |options, count| {
        // SAFETY: there are so many options.
        Owned::new(|error| unsafe { pinyon_locks_new(options, count, error) }, pinyon_locks_free)
    })
}

fn wish(kind: WishKind) -> Wish {
    Wish { kind: kind as u32, ..empty() }
}

/// What a wish says that must be refused before anything is asked.
fn refusal(locks: &Owned<Locks>, wish: *const Wish) -> String {
    let mut reply: Reply = empty();
    // SAFETY: the pointers are null or live.
    unsafe {
        assert_eq!(pinyon_lock_run(locks.0, wish, &mut reply, null()), FAILED);
        let said = text(pinyon_error_message(reply.error));
        pinyon_reply_clear(&mut reply);
        let event_loop = Owned::new(|error| pinyon_loop_of_locks(locks.0, error), pinyon_loop_free);
        if let Ok(event_loop) = event_loop {
            let mut error = null_mut();
            assert_eq!(pinyon_lock_begin(event_loop.0, wish, null_mut(), &mut error), FAILED);
            assert_eq!(message(error), said, "a loop and a thread say the same");
        }
        said
    }
}

#[test]
fn a_client_of_locks_lives_as_long_as_its_last_copy() {
    let first = locks(&[("url", b"redis://127.0.0.1:1"), ("namespace", b"a"), ("events", b"yes")]).unwrap();
    // SAFETY: each handle lives until it is freed.
    unsafe {
        let copy = Owned(pinyon_locks_clone(first.0), pinyon_locks_free);
        drop(first);
        assert!(text(pinyon_locks_server(copy.0)).contains("127.0.0.1:1"));
        assert!(!copied(pinyon_locks_prefix(copy.0)).is_empty());
        let metrics = pinyon_locks_metrics(copy.0);
        assert!(text(metrics).starts_with('{'));
        pinyon_text_free(metrics);
        assert!(pinyon_next_note(copy.0).is_null() && pinyon_wait_note(copy.0, 0.001, null()).is_null());
        pinyon_note_free(null_mut());
        assert_ne!(pinyon_new_owner(), pinyon_new_owner());
        assert_eq!(pinyon_this_thread(), pinyon_this_thread());
        pinyon_locks_close(copy.0);
        assert!(pinyon_wait_note(copy.0, -1.0, null()).is_null());
    }
    assert!(locks(&[("ur", b"x")]).is_err_and(|why| why.contains("url")));
}

#[test]
fn wishes_that_make_no_sense_are_refused() {
    let locks = locks(&[("url", b"redis://127.0.0.1:1")]).unwrap();
    assert!(refusal(&locks, null()).contains("pinyon_wish is missing"));
    let lost = Bytes { start: null(), size: 3 };
    let name = Bytes::of(b"a");
    let names = [name, name];
    let lock = Wish { names: &name, count: 1, ..wish(WishKind::Lock) };
    let rate = GivenRate { limit: 0, per: 1.0, ..empty() };
    let permits = [Permits { pool: lost, count: 1, limit: 1 }];
    for (wrong, says) in [
        (Wish { kind: 99, ..lock }, "number 99"),
        (Wish { size: 8, ..lock }, "set the field size"),
        (Wish { with: 1 << 31, ..lock }, "does not know"),
        (Wish { names: null(), ..lock }, "list of names"),
        (Wish { names: &lost, ..lock }, "size of 3"),
        (Wish { count: 0, ..lock }, "name"),
        (Wish { tag: lost, ..lock }, "tag has a size of 3"),
        (Wish { note: lost, ..lock }, "note has a size of 3"),
        (Wish { note: Bytes::of(b"\xff"), ..lock }, "UTF-8"),
        (Wish { ticket: lost, ..lock }, "ticket has a size of 3"),
        (Wish { ticket: Bytes::of(b"no ticket"), ..lock }, "ticket"),
        (Wish { ttl: -1.0, ..lock }, "ttl"),
        (Wish { read: null(), read_count: 1, ..lock }, "list of names"),
        (Wish { permits: null(), permits_count: 1, ..lock }, "list of permits"),
        (Wish { permits: permits.as_ptr(), permits_count: 1, ..lock }, "size of 3"),
        (wish(WishKind::Release), "pinyon_lock in the wish"),
        (wish(WishKind::HandOver), "pinyon_lock in the wish"),
        (wish(WishKind::Command), "names are empty"),
        (wish(WishKind::Available), "one pinyon_permits"),
        (Wish { names: names.as_ptr(), count: 2, ..wish(WishKind::Rate) }, "one name"),
        (Wish { kind: WishKind::Rate as u32, ..lock }, "pinyon_rate is missing"),
        (Wish { kind: WishKind::Rate as u32, rate: &rate, ..lock }, "limit"),
    ] {
        let said = refusal(&locks, &wrong);
        assert!(said.contains(says), "{says:?} is not in {said:?}");
    }
}

#[test]
fn the_limit_of_a_pool_is_told_before_its_permits_are_asked_for() {
    let locks = locks(&[("url", b"redis://127.0.0.1:1")]).unwrap();
    let tell = |permits: *const Permits| {
        let mut error = null_mut();
        // SAFETY: the pointer is null or lives.
        match unsafe { pinyon_locks_tell_permits(locks.0, permits, &mut error) } {
            0 => Ok(()),
            _ => Err(message(error)),
        }
    };
    let permits = Permits { pool: Bytes::of(b"pool"), count: 1, limit: 5 };
    assert_eq!(tell(&permits), Ok(()));
    assert_eq!(tell(&permits), Ok(()));
    assert_eq!(tell(&Permits { limit: 0, ..permits }), Ok(()));
    assert!(tell(&Permits { pool: Bytes::of(b"other"), limit: 0, ..permits }).is_err());
    assert!(tell(null()).is_err());
}

#[test]
fn no_lock_has_nothing() {
    // SAFETY: none is there.
    unsafe {
        assert_eq!((pinyon_lock_token(null()), pinyon_lock_remaining(null()), pinyon_lock_loss(null())), (0, 0.0, 0));
        assert!(!pinyon_lock_is_certain(null()) && !pinyon_lock_listen(null(), null_mut()));
        assert_eq!(pinyon_lock_check(null(), null_mut()), FAILED);
        assert!(message(pinyon_lock_lost_early(null())).contains("pinyon_lock is missing"));
        assert!(pinyon_lock_note(null()).start.is_null());
        assert_eq!(text(pinyon_loss_text(0)), "");
        assert_ne!(text(pinyon_loss_text(1)), "");
        pinyon_lock_free(null_mut());
    }
}
