use proptest::prelude::*;

use super::decimal::{digits, float, integer};
use super::*;
use crate::dialect::{DateTime, Instant, Notation, Part, Plain, Reader, TreeReader, Unwritable, Writer};

const NOTATIONS: [Notation; 2] = [Notation::MessagePack, Notation::Json];

/// Values that both notations can write.
fn plain() -> impl Strategy<Value = Plain> {
    let leaf = prop_oneof![
        Just(Plain::Null),
        any::<bool>().prop_map(Plain::Bool),
        any::<i64>().prop_map(Plain::Integer),
        any::<u64>().prop_map(|number| Plain::integer(false, &number.to_le_bytes())),
        any::<f64>().prop_filter("NaN equals nothing", |number| !number.is_nan()).prop_map(Plain::Float),
        ".{0,40}".prop_map(Plain::Text),
        "[\\x00-\\x7f]{0,300}".prop_map(Plain::Text),
    ];
    leaf.prop_recursive(6, 60, 20, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..20).prop_map(Plain::List),
            proptest::collection::vec((".{0,9}".prop_map(Plain::Text), inner), 0..20).prop_map(Plain::Map),
        ]
    })
}

/// Values that only MessagePack can write.
fn point() -> impl Strategy<Value = Plain> {
    prop_oneof![
        (any::<i64>(), 0..1_000_000_000_u32)
            .prop_map(|(seconds, nanoseconds)| Plain::Instant(Instant { seconds, nanoseconds })),
        (0..10_000_u16, 1..=12_u8, 1..=28_u8, 0..24_u8, 0..60_u8, 0..60_u8, 0..1_000_000_000_u32).prop_map(
            |(year, month, day, hour, minute, second, nanosecond)| {
                Plain::DateTime(DateTime { year, month, day, hour, minute, second, nanosecond })
            }
        ),
        proptest::collection::vec(any::<u8>(), 0..300).prop_map(Plain::Bytes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_written_is_read_as_it_was(value in plain()) {
        for notation in NOTATIONS {
            let written = notation.write(&value).expect("plain data");
            prop_assert_eq!(notation.read(&written), Ok(value.clone()));
        }
    }

    #[test]
    fn bytes_and_date_times_come_back_and_may_be_keys(point in point()) {
        let value = Plain::Map(vec![(point.clone(), point)]);
        let written = Notation::MessagePack.write(&value).expect("plain data");
        prop_assert_eq!(Notation::MessagePack.read(&written), Ok(value.clone()));
        prop_assert!(Notation::Json.write(&value).is_err());
    }

    #[test]
    fn no_rubbish_is_fatal(rubbish in proptest::collection::vec(any::<u8>(), 1..300), value in plain(), at in 0_usize..300) {
        for notation in NOTATIONS {
            let _ = notation.read(&rubbish);
            let mut changed = notation.write(&value).expect("plain data");
            let at = at % changed.len();
            changed[at] = rubbish[0];
            let _ = notation.read(&changed);
            let _ = notation.read(&changed[..at]);
        }
    }

    #[test]
    fn numbers_in_digits_come_back(number in any::<u128>(), any_float in any::<f64>()) {
        let written = digits(true, &number.to_le_bytes());
        prop_assert_eq!(&written, &format!("-{number}"));
        let mut read = integer(&written.as_bytes()[1..]).expect("digits");
        read.resize(16, 0);
        prop_assert_eq!(read, number.to_le_bytes().to_vec());
        prop_assert!(any_float.is_nan() || float(any_float).parse() == Ok(any_float));
    }
}

/// As Python 3.11 writes them.
#[test]
fn a_float_between_two_notations_has_the_even_one() {
    let known = [
        (2.0_f64.powi(49) + 0.25, "562949953421312.2"),
        (2.0_f64.powi(49) + 0.75, "562949953421312.8"),
        (-2.0_f64.powi(47) - 0.125, "-140737488355328.12"),
        (209.0 / f64::from(1 << 21), "9.965896606445312e-05"),
        (0.25, "0.25"),
        (1e22, "1e+22"),
        (2.0_f64.powi(-20), "9.5367431640625e-07"),
    ];
    for (number, written) in known {
        assert_eq!(float(number), written);
    }
}

#[test]
fn integers_have_a_bound() {
    assert!(integer(&b"9".repeat(4300)).is_some());
    assert_eq!(integer(&b"9".repeat(4301)), None);
    assert_eq!(integer(b""), None);
    assert_eq!(integer(b"1x"), None);
}

fn nested(levels: usize) -> Plain {
    (1..levels).fold(Plain::List(Vec::new()), |inner, _| Plain::List(vec![inner]))
}

#[test]
fn what_is_nested_as_deep_as_may_be_comes_back_and_deeper_is_refused() {
    for notation in NOTATIONS {
        let written = notation.write(&nested(WRITTEN_DEPTH)).expect("plain data");
        assert_eq!(notation.read(&written), Ok(nested(WRITTEN_DEPTH)));
        let why = notation.write(&nested(WRITTEN_DEPTH + 1)).expect_err("too deep");
        assert!(why.contains("200 levels"), "{why}");
    }
}

#[test]
fn what_others_have_nested_is_read_to_a_bound() {
    let lists = |levels: usize| (b"\x91".repeat(levels - 1), [b"[".repeat(levels), b"]".repeat(levels)].concat());
    let (messagepack, json) = lists(READ_DEPTH);
    assert!(Notation::MessagePack.read(&[&messagepack[..], b"\x90"].concat()).is_ok());
    assert!(Notation::Json.read(&json).is_ok());
    let (messagepack, json) = lists(READ_DEPTH + 1);
    assert!(Notation::MessagePack.read(&[&messagepack[..], b"\x90"].concat()).is_err());
    assert!(Notation::Json.read(&json).is_err());
    assert!(Notation::MessagePack.read(&b"\xdd\x00\x00\xff\xff".repeat(100_000)).is_err());
}

#[test]
fn a_length_is_believed_no_further_than_the_bytes_reach() {
    for announced in [&b"\xdd\xff\xff\xff\xff\x01"[..], b"\xdf\xff\xff\xff\xff\x01\x01", b"\x92\x01", b"\x81\x01"] {
        assert!(MessagePackReader::new(announced).next().is_err());
    }
}

#[test]
fn a_list_of_other_than_its_length_is_refused() {
    for (announced, items) in [(1, 0), (1, 2), (0, 1)] {
        let write = |writer: &mut dyn FnMut(Part<'_>) -> Result<(), Unwritable>| {
            writer(Part::List(announced))?;
            (0..items).try_for_each(|_| writer(Part::Null))?;
            writer(Part::End)
        };
        let (mut messagepack, mut json) = (MessagePackWriter::default(), JsonWriter::default());
        assert_eq!(write(&mut |part| messagepack.write(part)), Err(Unwritable::Count));
        assert_eq!(write(&mut |part| json.write(part)), Err(Unwritable::Count));
    }
    let mut twice = JsonWriter::default();
    twice.write(Part::Null).expect("a value");
    assert_eq!(twice.write(Part::Null), Err(Unwritable::Count));
    assert_eq!(JsonWriter::default().finish(), Err(Unwritable::Count));
}

#[test]
fn json_has_keys_of_text_alone() {
    let map = |key| Plain::Map(vec![(key, Plain::Null)]);
    assert!(Notation::Json.write(&map(Plain::Text("key".to_owned()))).is_ok());
    for key in [Plain::Null, Plain::Integer(1), Plain::Bool(true), Plain::List(Vec::new())] {
        let why = Notation::Json.write(&map(key)).expect_err("no text");
        assert!(why.contains("as a key"), "{why}");
    }
}

#[test]
fn half_a_surrogate_pair_is_text_of_its_own_encoding() {
    for (json, bytes) in [
        (&br#""a\ud83c""#[..], &b"a\xed\xa0\xbc"[..]),
        (br#""\udf32a""#, b"\xed\xbc\xb2a"),
        (br#""\ud83c\ud83c\udf32""#, b"\xed\xa0\xbc\xf0\x9f\x8c\xb2"),
        (br#""\ud83c\u0041""#, b"\xed\xa0\xbcA"),
    ] {
        assert_eq!(Notation::Json.read(json), Ok(Plain::Encoded(bytes.to_vec(), "WTF-8".to_owned())));
    }
}

#[test]
fn fractions_of_a_second_have_six_digits_or_nine() {
    let at = |nanosecond| DateTime { year: 2024, month: 2, day: 29, hour: 1, minute: 2, second: 3, nanosecond };
    for (text, nanosecond) in
        [("2024-02-29T01:02:03", 0), ("2024-02-29T01:02:03.000007", 7_000), ("2024-02-29T01:02:03.000000007", 7)]
    {
        assert_eq!(at(nanosecond).to_string(), text);
        assert_eq!(DateTime::parse(text), Some(at(nanosecond)));
    }
    assert_eq!(DateTime::parse("2024-02-29 01:02:03.5"), Some(at(500_000_000)));
    for wrong in ["2023-02-29T01:02:03", "2024-13-01T00:00:00", "2024-02-29T24:00:00", "2024-02-29T01:02:03Z", ""] {
        assert_eq!(DateTime::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn a_tree_is_read_part_by_part() {
    let tree = Plain::Map(vec![(Plain::Integer(1), Plain::List(vec![Plain::Null]))]);
    let mut reader = TreeReader::new(&tree);
    for part in [Part::Map(1), Part::Integer(1), Part::List(1), Part::Null, Part::End, Part::End] {
        assert_eq!(reader.next(), Ok(part));
    }
}
