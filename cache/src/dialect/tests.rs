use proptest::prelude::*;

use super::*;

const NOTATIONS: [Notation; 4] = [Notation::Ruby, Notation::Perl, Notation::Php, Notation::Python];

/// Values that every language can express and reads back unchanged.
fn plain() -> impl Strategy<Value = Plain> {
    let leaf = prop_oneof![
        Just(Plain::Null),
        any::<i32>().prop_map(|number| Plain::Integer(number.into())),
        "[a-z\u{e4}\u{1f332}]{0,300}".prop_map(Plain::Text),
    ];
    leaf.prop_recursive(6, 60, 6, |inner| {
        let pair = ("[a-z\u{e4}]{1,9}".prop_map(Plain::Text), inner.clone());
        prop_oneof![
            proptest::collection::vec(inner, 0..6).prop_map(Plain::List),
            proptest::collection::vec(pair, 1..6).prop_map(Plain::Map),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn what_is_written_is_read_as_it_was(value in plain()) {
        for notation in NOTATIONS {
            let value = Plain::List(vec![value.clone()]);
            let written = notation.write(&value).expect("plain data");
            prop_assert_eq!(notation.read(&written), Ok(value));
        }
    }

    #[test]
    fn no_rubbish_is_fatal(rubbish in proptest::collection::vec(any::<u8>(), 0..300), value in plain(), at in 0_usize..300) {
        for (notation, head) in NOTATIONS.into_iter().zip([&b"\x04\x08"[..], b"\x05\x07", b"", b""]) {
            let _ = notation.read(&[head, &rubbish].concat());
            let mut changed = notation.write(&Plain::List(vec![value.clone()])).expect("plain data");
            let at = at % changed.len();
            changed[at] = rubbish.first().copied().unwrap_or_default();
            let _ = notation.read(&changed);
            let _ = notation.read(&changed[..at]);
        }
    }
}

#[test]
fn what_is_nested_as_deep_as_is_written_comes_back() {
    let deep = (0..190).fold(Plain::List(Vec::new()), |inner, _| Plain::List(vec![inner]));
    for notation in NOTATIONS {
        let written = notation.write(&deep).expect("plain data");
        assert_eq!(notation.read(&written).as_ref(), Ok(&deep), "{notation:?}");
    }
}

#[test]
fn symbols_that_are_not_ascii_are_text() {
    let symbols = b"\x04\x08[\x07I:\x08\xc3\xb6k\x06:\x06ETI:\x08\xc3\xb6l\x06;\x06T";
    let read = ["\u{f6}k", "\u{f6}l"].map(|text| Plain::Text(text.to_owned()));
    assert_eq!(Notation::Ruby.read(symbols), Ok(Plain::List(read.to_vec())));
}

#[test]
fn numbers_of_any_size_come_back() {
    for notation in [Notation::Ruby, Notation::Python] {
        for shift in 0..64 {
            for near in [-1, 0, 1] {
                for number in [(1_i64 << shift).wrapping_add(near), (1_i64 << shift).wrapping_neg().wrapping_add(near)]
                {
                    let written = notation.write(&Plain::Integer(number)).expect("an integer");
                    assert_eq!(notation.read(&written), Ok(Plain::Integer(number)), "{notation:?}");
                }
            }
        }
        let big = Plain::Big { negative: true, magnitude: (1..=20).collect() };
        assert_eq!(notation.read(&notation.write(&big).expect("an integer")), Ok(big));
    }
}

#[test]
fn floats_come_back() {
    for notation in [Notation::Ruby, Notation::Php, Notation::Python] {
        for number in [0.0, -0.0, 0.1, 1.0, 1e100, -1e-100, 1e16, f64::MAX, f64::MIN_POSITIVE, f64::INFINITY] {
            let Ok(Plain::Float(read)) = notation.read(&notation.write(&Plain::Float(number)).expect("a float")) else {
                panic!("{number} of {notation:?} is a float")
            };
            assert_eq!(read.to_bits(), number.to_bits(), "{notation:?}");
        }
    }
}

#[test]
fn objects_are_refused_by_the_name_of_their_class() {
    let refused = |notation: Notation, bytes: &[u8], class: &str| {
        let why = notation.read(bytes).expect_err("an object");
        assert!(why.contains(class), "{why}");
    };
    refused(Notation::Ruby, b"\x04\x08[\x06o:\x08Foo\x00", "class Foo");
    refused(Notation::Ruby, b"\x04\x08U:\x09Time[\x00", "class Time");
    refused(Notation::Ruby, b"\x04\x08c\x0bString", "class String");
    refused(Notation::Php, b"a:1:{i:0;O:3:\"Foo\":0:{}}", "class Foo");
    refused(Notation::Php, b"C:11:\"ArrayObject\":0:{}", "class ArrayObject");
    refused(Notation::Perl, b"\x05\x0b\x11\x03Foo\x03\x00\x00\x00\x00", "class Foo");
    refused(Notation::Perl, b"\x05\x0b\x1a", "Perl code");
    refused(Notation::Python, b"c\x00\x00\x00\x00", "Python code");
}

#[test]
fn what_contains_itself_is_nested_too_deeply_or_written_to_explode_is_refused() {
    let refused = |notation: Notation, bytes: &[u8]| {
        let why = notation.read(bytes).expect_err("refused");
        assert!(["levels deep", "parts", "again and again"].iter().any(|reason| why.contains(reason)), "{why}");
    };
    refused(Notation::Ruby, b"\x04\x08[\x06@\x00");
    refused(Notation::Php, b"a:1:{i:0;R:1;}");
    refused(Notation::Perl, b"\x05\x07\x02\x00\x00\x00\x01\x00\x00\x00\x00\x00");
    refused(Notation::Ruby, &[&b"\x04\x08"[..], &b"[\x06".repeat(100_000)].concat());
    refused(Notation::Ruby, &[&b"\x04\x08"[..], &b"I".repeat(100_000)].concat());
    let symbols = [&b"\x04\x08o"[..], &b"I".repeat(100_000)].concat();
    assert_eq!(Notation::Ruby.read(&symbols), Err("it is malformed".to_owned()));
    refused(Notation::Php, &b"a:1:{i:0;".repeat(100_000));
    refused(Notation::Perl, &[&b"\x05\x07"[..], &b"\x04".repeat(100_000)].concat());
    refused(Notation::Python, &b"[\x01\x00\x00\x00".repeat(100_000));
    // Each array contains the one before it twice.
    let doubling: Vec<u8> =
        (0..60).flat_map(|number| [b'[', 8 + 5 - 6, b'@', if number == 0 { 0 } else { number + 5 }, b'@', 0]).collect();
    assert!(Notation::Ruby.read(&[b"\x04\x08[\x41", &doubling[..]].concat()).is_err());
    let long =
        [&b"\x04\x08[\x02\x10\x27\"\x03\x00\x00\x08"[..], &vec![b'x'; 1 << 19], &b"@\x06".repeat(9_999)].concat();
    refused(Notation::Ruby, &long);
}

#[test]
fn every_name_is_found_and_no_two_marks_of_a_dialect_collide() {
    for dialect in Dialect::ALL {
        assert_eq!(Dialect::named(dialect.name()), Ok(dialect));
        let kinds = [
            HostType::Bytes,
            HostType::Text,
            HostType::Integer,
            HostType::Bool,
            HostType::Float,
            HostType::Plain,
            HostType::Object,
        ];
        for (_, flags) in kinds.into_iter().filter_map(|kind| dialect.write(kind)) {
            assert!(dialect.read(flags).is_ok());
            assert!(!dialect.is_compressed(flags));
            for algorithm in dialect.algorithms() {
                let (_, marked) = dialect.mark_compressed(*algorithm, 9, vec![0; 9], flags);
                assert!(dialect.is_compressed(marked));
                assert_eq!(dialect.read(marked), dialect.read(flags));
            }
        }
    }
    assert!(Dialect::named("memcached").is_err());
}

#[test]
fn a_key_of_perls_that_was_text_is_text() {
    let frozen = b"\x05\x0b\x19\x00\x00\x00\x00\x01\x0a\x01x\x02\x00\x00\x00\x02\xf6k";
    let pair = (Plain::Text("\u{f6}k".to_owned()), Plain::Text("x".to_owned()));
    assert_eq!(Notation::Perl.read(frozen), Ok(Plain::Map(vec![pair])));
}

fn packing(dialect: Dialect, threshold: Option<i64>) -> Packing {
    let wanted = CompressionSettings { threshold, ..CompressionSettings::default() };
    Packing::new(dialect, Some(&wanted), 1000).expect("settings that make sense")
}

#[test]
fn what_is_worth_it_is_compressed_and_comes_back() {
    let text = [b'a'; 500];
    for dialect in Dialect::ALL {
        let (flags, packing) =
            (dialect.write(HostType::Text).map_or(0, |(_, flags)| flags), packing(dialect, Some(100)));
        let (stored, marked) = packing.pack(&text, flags).expect("compressed").expect("worth it");
        assert!(stored.len() < 100 && dialect.is_compressed(marked));
        assert_eq!(packing.unpack(marked, &stored).as_deref(), Ok(&text[..]));
        assert_eq!(packing.pack(&text[..99], flags), Ok(None));
        assert!(packing.check_append().is_err());
    }
    assert_eq!(packing(Dialect::Pinyon, Some(0)).pack(&text, INTEGER), Ok(None));
    let reads_alone = packing(Dialect::Pinyon, None);
    assert_eq!(reads_alone.pack(&text, TEXT), Ok(None));
    assert_eq!(reads_alone.check_append(), Ok(()));
}

#[test]
fn what_could_not_be_read_again_is_not_stored() {
    let packing = packing(Dialect::Pinyon, Some(100));
    let kind = |refused: Result<_, ValueError>| refused.expect_err("refused").kind;
    assert_eq!(kind(packing.pack(&[0; 1001], TEXT)), ErrorKind::ValueTooLarge);
    assert_eq!(kind(packing.pack(&[0; 1000], COMPRESSED)), ErrorKind::UnsupportedType);
    for (algorithm, why) in [("zstd", "knows zlib alone, not zstd"), ("lz4", "there is no \"lz4\"")] {
        let wanted = CompressionSettings { algorithm: Some(algorithm.into()), threshold: None, ..Default::default() };
        let refused = Packing::new(Dialect::Pylibmc, Some(&wanted), 1).expect_err("not offered");
        assert!(refused.kind == ErrorKind::UsageError && refused.message.contains(why), "{refused}");
    }
}

#[test]
fn numbers_alone_are_written_as_their_clients_write_them() {
    let big = Plain::Big { negative: true, magnitude: vec![0, 0, 0, 0, 0, 0, 0, 0, 1] };
    for (dialect, value, stored) in [
        (Dialect::PhpMemcached, Plain::Bool(false), Ok((&b""[..], 3))),
        (Dialect::PhpMemcached, Plain::Float(f64::NEG_INFINITY), Ok((b"-Infinity", 2))),
        (Dialect::PhpMemcached, Plain::Float(1e16), Ok((b"1e+16", 2))),
        (Dialect::PhpMemcached, big.clone(), Err("integers of up to 64 bits")),
        (Dialect::CacheMemcached, Plain::Float(f64::INFINITY), Ok((b"inf", 0))),
        (Dialect::CacheMemcached, Plain::Bool(true), Err("does not take a boolean")),
        (Dialect::Libmc, Plain::Bool(false), Ok((b"0", 8))),
        (Dialect::Pylibmc, Plain::Null, Err("it takes text, bytes and numbers alone")),
        (Dialect::Pinyon, big, Ok((b"-18446744073709551616", INTEGER))),
    ] {
        match (dialect.encode(&value), stored) {
            (Ok((bytes, flags)), Ok(expected)) => assert_eq!((&bytes[..], flags), expected),
            (Err(refused), Err(why)) => assert!(refused.message.contains(why), "{refused}"),
            (written, _) => panic!("{dialect:?} makes {written:?} of {value:?}"),
        }
    }
}

#[test]
fn flags_that_a_serializer_does_not_know_say_who_does() {
    for (flags, hint) in [(PICKLE, "pickle"), (MESSAGEPACK, "portable"), (JSON, "json"), (8, "another client")] {
        let error = unknown_flags("raw", flags);
        assert!(error.kind == ErrorKind::UnknownFlags && error.message.contains(hint), "{error}");
    }
    assert_eq!(Dialect::Dalli.decode(8, b"").map_err(|error| error.kind), Err(ErrorKind::UnknownFlags));
    assert_eq!(Dialect::Pinyon.decode(PICKLE, b"").map_err(|error| error.kind), Err(ErrorKind::UnknownFlags));
    assert_eq!(Dialect::Pinyon.decode(TEXT, b"\xff").map_err(|error| error.kind), Err(ErrorKind::UndecodableValue));
}
