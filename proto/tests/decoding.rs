//! Decoding anything that a server may send, cut anywhere.

use pinyon_proto::{Decoded, Form, Head, Malformed, ReplyReader, Verb, MAX_LINE};
use proptest::prelude::*;

const FORMS: [Form; 15] = [
    Form::Meta(Verb::Get),
    Form::Meta(Verb::Store),
    Form::Meta(Verb::Delete),
    Form::Meta(Verb::Arithmetic),
    Form::Quiet,
    Form::NoOp,
    Form::ClassicGet,
    Form::ClassicStore,
    Form::ClassicDelete,
    Form::ClassicTouch,
    Form::ClassicNumber,
    Form::FlushAll,
    Form::Stats,
    Form::Version,
    Form::ClusterConfig,
];

#[derive(Debug, PartialEq)]
enum Item {
    Head(Head, Vec<u8>, Vec<u8>),
    Value(Vec<u8>),
}

/// Reads `bytes` in pieces of these lengths, which are repeated as often as needed.
fn read(bytes: &[u8], form: Form, pieces: &[usize]) -> (Vec<Item>, Option<Malformed>) {
    let mut reader = ReplyReader::default();
    let mut items = Vec::new();
    let (mut start, mut end) = (0, 0);
    for piece in pieces.iter().cycle() {
        end = bytes.len().min(end + piece);
        loop {
            match reader.read(&bytes[start..end], form) {
                Ok(Decoded::Partial) => break,
                Ok(Decoded::Head { key, line, consumed }) => {
                    assert!(line.len() < MAX_LINE && key.len() <= line.len() && consumed == line.len() + 2);
                    items.push(Item::Head(*reader.head(), key.to_vec(), line.to_vec()));
                    start += consumed;
                }
                Ok(Decoded::Value { value, consumed }) => {
                    assert_eq!(consumed, value.len() + 2);
                    items.push(Item::Value(value.to_vec()));
                    start += consumed;
                }
                Err(malformed) => return (items, Some(malformed)),
            }
        }
        if end == bytes.len() {
            break;
        }
    }
    (items, None)
}

/// Bytes that resemble replies more than random ones do.
fn replies() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        proptest::sample::select(vec![
            "VA ",
            "HD",
            "EN",
            "NF",
            "NS",
            "EX",
            "ME k",
            "MN",
            "VALUE k 0 ",
            "END",
            "STAT a b"
        ]),
        proptest::sample::select(vec![
            "STORED",
            "DELETED",
            "TOUCHED",
            "OK",
            "VERSION 1.6.18",
            "ERROR",
            "SERVER_ERROR x"
        ]),
        proptest::sample::select(vec![
            "\r\n", "\r\n", "\r\n", "\n", "\r", " ", "0", "1", "3", "20", "abc", " O1", " f0", " k"
        ]),
    ];
    let noise = proptest::collection::vec(any::<u8>(), 0..20);
    let part = prop_oneof![4 => token.prop_map(|text| text.as_bytes().to_vec()), 1 => noise];
    proptest::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

fn form() -> impl Strategy<Value = Form> {
    proptest::sample::select(FORMS.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_are_read_or_refused_and_no_value_is_longer_than_they(bytes in replies(), form in form()) {
        let (items, malformed) = read(&bytes, form, &[usize::MAX]);
        let read: usize = items.iter().map(|item| match item {
            Item::Head(_, _, line) => line.len() + 2,
            Item::Value(value) => value.len() + 2,
        }).sum();
        prop_assert!(read <= bytes.len());
        if let Some(malformed) = malformed {
            prop_assert!(malformed.excerpt.len() <= 240 && malformed.excerpt.bytes().all(|byte| (b' '..0x7f).contains(&byte)));
        }
    }

    #[test]
    fn any_cuts_give_what_the_whole_gives(
        bytes in replies(), form in form(), pieces in proptest::collection::vec(1usize..30, 1..20),
    ) {
        let (whole, whole_malformed) = read(&bytes, form, &[usize::MAX]);
        let (cut, cut_malformed) = read(&bytes, form, &pieces);
        prop_assert_eq!(whole, cut);
        prop_assert_eq!(whole_malformed.map(|malformed| malformed.what), cut_malformed.map(|malformed| malformed.what));
    }

    #[test]
    fn a_value_of_any_content_is_read_exactly_and_so_is_what_follows_it(
        value in proptest::collection::vec(any::<u8>(), 0..3000), pieces in proptest::collection::vec(1usize..300, 1..9),
    ) {
        let meta = [format!("VA {} O7\r\n", value.len()).as_bytes(), &value, b"\r\nEN O8\r\n"].concat();
        let (items, malformed) = read(&meta, Form::Meta(Verb::Get), &pieces);
        prop_assert_eq!(malformed, None);
        prop_assert_eq!(items.len(), 3);
        prop_assert_eq!(&items[1], &Item::Value(value.clone()));

        let classic = [format!("VALUE key 0 {}\r\n", value.len()).as_bytes(), &value, b"\r\nEND\r\n"].concat();
        let (items, malformed) = read(&classic, Form::ClassicGet, &pieces);
        prop_assert_eq!(malformed, None);
        prop_assert_eq!(items.len(), 3);
        prop_assert_eq!(&items[1], &Item::Value(value));
    }

    #[test]
    fn a_value_with_a_wrong_length_is_refused_or_waited_for(
        value in proptest::collection::vec(any::<u8>(), 0..100), declared in 0usize..200,
    ) {
        prop_assume!(declared != value.len());
        let bytes = [format!("VA {declared} O7\r\n").as_bytes(), &value, b"\r\n"].concat();
        let (items, malformed) = read(&bytes, Form::Meta(Verb::Get), &[usize::MAX]);
        let looks_right = value.get(declared..).is_some_and(|rest| [rest, b"\r\n"].concat().starts_with(b"\r\n"));
        prop_assert_eq!(items.len(), if looks_right { 2 } else { 1 });
        if declared > value.len() + 2 {
            prop_assert_eq!(malformed, None);
        }
    }
}

#[test]
fn a_line_without_end_is_refused_at_its_limit_however_it_comes() {
    let endless = vec![b'x'; MAX_LINE];
    for form in FORMS {
        for step in [1, 7, 2000, MAX_LINE] {
            let (items, malformed) = read(&endless, form, &[step]);
            assert_eq!((items.len(), malformed.map(|malformed| malformed.what)), (0, Some("a reply line has no end")));
        }
        assert_eq!(read(&endless[1..], form, &[1]), (Vec::new(), None), "one byte less may yet end");
    }
}

#[test]
fn a_value_taken_elsewhere_leaves_its_line_end_to_be_checked() {
    let mut reader = ReplyReader::default();
    assert!(matches!(reader.read(b"VA 5\r\n", Form::Meta(Verb::Get)), Ok(Decoded::Head { .. })));
    assert_eq!(reader.awaited_value(), Some(5));
    reader.take_value();
    assert_eq!(reader.read(b"\r", Form::Meta(Verb::Get)), Ok(Decoded::Partial));
    assert_eq!(reader.read(b"\r\nEN", Form::Meta(Verb::Get)), Ok(Decoded::Value { value: b"", consumed: 2 }));

    let mut reader = ReplyReader::default();
    assert!(matches!(reader.read(b"VA 5\r\n", Form::Meta(Verb::Get)), Ok(Decoded::Head { .. })));
    reader.take_value();
    assert!(reader.read(b"x\r\n", Form::Meta(Verb::Get)).is_err());
}
