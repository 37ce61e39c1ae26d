//! Errors that C gets, asks, copies and frees; and what has no error.

use std::ptr::{null, null_mut};

use pinyon::client::{pinyon_client_new, pinyon_client_using};
use pinyon::error_fields::*;
use pinyon::errors::{Error, Kind};
use pinyon::options::pinyon_settings;
use pinyon::structs::{Bytes, NamedText};
use pinyon_net::error::kinds::ErrorKind;

use crate::c::{client, message, text, try_client, with_options};

/// An error of a client that could not be made.
fn refused(name: &str, value: &str) -> *mut Error {
    let mut error = null_mut();
    with_options(&[(name, value.as_bytes())], |options, count| {
        // SAFETY: there are so many options.
        assert!(unsafe { pinyon_client_new(options, count, &mut error) }.is_null());
    });
    error
}

#[test]
fn a_refused_setting_leaves_an_error_that_says_which() {
    for (name, value, says) in [
        ("time_out", "1", "did you mean \"timeout\"?"),
        ("timeout", "soon", "timeout must be a number"),
        ("servers", "a:b:c:d", "a:b:c:d"),
        ("serializer", "pickle", "\"portable\" or \"json\""),
        ("dialect", "latin", "there is no dialect"),
        ("events", "perhaps", "true or false"),
        ("near.fresh", "0", "positive"),
        ("compression.threshold", "-5", "0 or more"),
    ] {
        assert!(message(refused(name, value)).contains(says), "{name}={value}");
    }
}

#[test]
fn a_caller_that_does_not_want_the_error_leaves_no_place_for_it() {
    with_options(&[("time_out", b"1")], |options, count| {
        // SAFETY: there are so many options, and the place may be null.
        assert!(unsafe { pinyon_client_new(options, count, null_mut()) }.is_null());
    });
}

#[test]
fn options_that_are_not_there_are_refused() {
    let unnamed = NamedText { name: null(), value: Bytes::of(b"1") };
    let lost = NamedText { name: c"timeout".as_ptr(), value: Bytes { start: null(), size: 5 } };
    for (options, count) in [(null(), 1), (&raw const unnamed, 1)] {
        let mut error = null_mut();
        // SAFETY: NULL and missing names are refused.
        assert!(unsafe { pinyon_client_new(options, count, &mut error) }.is_null());
        assert!(message(error).contains("is missing"));
    }
    // SAFETY: a value that is not there is that of an option that is not given.
    let unset = unsafe { pinyon_client_new(&lost, 1, null_mut()) };
    // SAFETY: it is null, or a client.
    unsafe { pinyon::client::pinyon_client_free(unset) };
    let of_none = try_client(&[]).unwrap();
    // SAFETY: no options are read.
    let view = unsafe { pinyon_client_using(of_none.0, null(), 0, null_mut()) };
    assert!(!view.is_null());
    // SAFETY: it is this test's.
    unsafe { pinyon::client::pinyon_client_free(view) };
}

#[test]
fn a_copy_of_an_error_outlives_it() {
    let error = refused("servers", "a:b:c:d");
    // SAFETY: each lives until it is freed.
    unsafe {
        let copy = pinyon_error_clone(error);
        let of_copy = pinyon_error_clone(copy);
        pinyon_error_free(error);
        pinyon_error_free(of_copy);
        assert_eq!(pinyon_error_kind(copy), Kind::Core(ErrorKind::InvalidServers).number());
        assert_eq!((pinyon_error_sent(copy), pinyon_error_is_outage(copy)), (0, false));
        assert_eq!((text(pinyon_error_server(copy)), text(pinyon_error_command(copy))), (String::new(), String::new()));
        assert!(pinyon_error_holder(copy, 0).is_null() && pinyon_error_holder(copy, usize::MAX).is_null());
        pinyon_error_free(copy);
    }
}

#[test]
fn no_error_says_nothing() {
    // SAFETY: none is there.
    unsafe {
        assert_eq!((pinyon_error_kind(null()), pinyon_error_sent(null())), (0, 0));
        for field in [pinyon_error_message, pinyon_error_server, pinyon_error_command] {
            assert_eq!(text(field(null())), "");
        }
        assert!(pinyon_error_holder(null(), 0).is_null() && pinyon_error_clone(null()).is_null());
        pinyon_error_free(null_mut());
    }
}

#[test]
fn kinds_have_names_and_parents() {
    // SAFETY: numbers are all that they take.
    unsafe {
        for kind in Kind::all() {
            let number = kind.number();
            assert_eq!(text(pinyon_kind_name(number)), kind.name());
            assert!(pinyon_kind_is_a(number, number));
            let mut index = 0;
            while let parent @ 1.. = pinyon_kind_parent(number, index) {
                assert!(pinyon_kind_is_a(number, parent));
                index += 1;
            }
            assert_eq!(index, kind.parents().len());
        }
        assert!(pinyon_kind_name(99).is_null() && !pinyon_kind_is_a(99, 99));
    }
}

#[test]
#[cfg_attr(miri, ignore = "the text of all settings takes miri several minutes")]
fn settings_are_described_once_for_all() {
    // SAFETY: it lives as long as the library.
    let settings = unsafe { text(pinyon_settings()) };
    assert!(settings.contains("\"timeout\": 1") && settings.contains("\"choices\""));
    // SAFETY: as above.
    assert_eq!(unsafe { pinyon_settings() }, unsafe { pinyon_settings() });
    drop(client(&[("timeout", b"0.5"), ("namespace", b"a:"), ("max_value_size", b"1000")]));
}
