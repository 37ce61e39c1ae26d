//! Values part by part, without a server.

use std::ptr::{null, null_mut};

use pinyon::status::Status;
use pinyon::structs::{empty, Bytes, Part};
use pinyon::values::parts::PartKind;
use pinyon::values::reader::{
    pinyon_read, pinyon_read_answers, pinyon_read_value, pinyon_reader_free, pinyon_reader_new,
};
use pinyon::values::writer::{pinyon_write, pinyon_writer_free, pinyon_writer_new, pinyon_written};
use pinyon::values::{pinyon_flags_of, pinyon_kind_of};
use pinyon_cache::dialect::Plain;

use crate::c::{client, message, Owned};
use crate::through_c::Client;

/// A value with a value of every kind that all dialects of plain data have.
fn nested() -> Plain {
    let text = |text: &str| Plain::Text(text.into());
    let list = Plain::List(vec![Plain::Null, Plain::Bool(true), Plain::Integer(-7), Plain::Float(1.5), text("é")]);
    Plain::Map(vec![(text("list"), list), (text("empty"), Plain::List(Vec::new())), (text(""), Plain::Map(Vec::new()))])
}

#[test]
fn values_are_read_as_they_were_written() {
    for options in
        [[("serializer", "portable")], [("serializer", "json")], [("dialect", "dalli")], [("dialect", "pymemcache")]]
    {
        let client = Client::new(&options);
        let texts = Plain::Text("a text".into());
        for value in [texts, Plain::Bytes(b"\0\xff".to_vec()), Plain::Integer(i64::MIN), nested()] {
            let Ok((stored, client_flags)) = client.write(&value) else {
                continue; // not each dialect has each value
            };
            let read = client.read(&stored, client_flags);
            assert_eq!(format!("{:?}", read.unwrap()), format!("{value:?}"), "{options:?}");
            for length in 0..stored.len() {
                let _ = client.read(&stored[..length], client_flags);
            }
        }
    }
}

#[test]
fn what_is_no_value_is_refused_and_the_writer_begins_anew() {
    let client = client(&[]);
    // SAFETY: each handle lives until it is freed, and the parts live during the calls.
    unsafe {
        let writer = Owned(pinyon_writer_new(client.0), pinyon_writer_free);
        let refused = |part: &Part| {
            let mut error = null_mut();
            assert!(pinyon_write(writer.0, part, &mut error) < 0);
            message(error)
        };
        let part = |kind: PartKind, bytes: Bytes| Part { kind: kind as u32, bytes, ..empty() };
        assert!(refused(&Part { kind: 99, ..empty() }).contains("99"));
        assert!(refused(&part(PartKind::Text, Bytes::of(b"\xff"))).contains("UTF-8"));
        assert!(refused(&part(PartKind::Bytes, Bytes { start: null(), size: 3 })).contains("size of 3"));
        assert!(refused(&Part { size: 3, ..empty() }).contains("set the field size"));
        let mut error = null_mut();
        assert!(pinyon_written(writer.0, null_mut(), null_mut(), &mut error) < 0);
        assert!(message(error).contains("nothing was written"));
        assert_eq!(pinyon_write(writer.0, &part(PartKind::Text, Bytes::of(b"abc")), null_mut()), 0);
        let (mut value, mut flags) = (Bytes::NONE, 0);
        assert_eq!(pinyon_written(writer.0, &mut value, &mut flags, null_mut()), Status::Done as i32);
        assert_eq!(value.slice(), b"abc");
        pinyon_writer_free(null_mut());
        assert!(pinyon_writer_new(null()).is_null());
    }
}

#[test]
fn a_reader_needs_a_value_and_no_client() {
    // SAFETY: each handle lives until it is freed.
    unsafe {
        let reader = Owned(pinyon_reader_new(null()), pinyon_reader_free);
        let mut error = null_mut();
        assert!(pinyon_read_answers(reader.0, null(), &mut error) < 0);
        assert!(message(error).contains("PINYON_COMMAND"));
        assert!(pinyon_read(reader.0, null_mut(), null_mut()) < 0);
        let mut part: Part = empty();
        assert!(pinyon_read(null_mut(), &mut part, null_mut()) < 0);
        assert!(pinyon_read_value(null_mut(), Bytes::of(b"x"), 0, null_mut()) < 0);
        pinyon_reader_free(null_mut());
    }
}

#[test]
fn kinds_and_flags_are_told_apart() {
    let client = client(&[]);
    // SAFETY: the client lives, and the places can be written to or are null.
    unsafe {
        for kind in PartKind::ALL {
            let (mut flags, mut read) = (0, u32::MAX);
            if pinyon_flags_of(client.0, kind as u32, &mut flags) {
                assert!(pinyon_kind_of(client.0, flags, &mut read) && read != u32::MAX);
                assert!(pinyon_flags_of(client.0, kind as u32, null_mut()));
                assert!(pinyon_kind_of(client.0, flags, null_mut()));
            }
        }
        assert!(!pinyon_flags_of(client.0, 99, null_mut()) && !pinyon_flags_of(null(), 0, null_mut()));
    }
}
