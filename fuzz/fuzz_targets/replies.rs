//! Any bytes, cut anywhere, for readers of any form: no panic, no invented value, and the cuts make no difference.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use pinyon_proto::{Decoded, Form, Head, ReplyReader, Verb, MAX_LINE};

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

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    /// Chosen again for every line.
    forms: [u8; 4],
    pieces: Vec<u8>,
    bytes: &'a [u8],
}

#[derive(Debug, PartialEq)]
enum Item<'a> {
    Head(Head, &'a [u8], &'a [u8]),
    Value(&'a [u8]),
}

fuzz_target!(|input: Input<'_>| {
    let (whole, whole_fails) = read(&input, &[]);
    let (cut, cut_fails) = read(&input, &input.pieces);
    assert_eq!(whole, cut);
    assert_eq!(whole_fails, cut_fails);
});

fn read<'a>(input: &Input<'a>, pieces: &[u8]) -> (Vec<Item<'a>>, bool) {
    let mut reader = ReplyReader::default();
    let mut items = Vec::new();
    let (mut start, mut end, mut lines) = (0, 0, 0);
    let mut lengths = pieces.iter().map(|length| usize::from(*length) + 1);
    while end < input.bytes.len() {
        end = input.bytes.len().min(lengths.next().map_or(usize::MAX, |length| end + length));
        loop {
            let form = FORMS[usize::from(input.forms[lines % 4]) % FORMS.len()];
            match reader.read(&input.bytes[start..end], form) {
                Ok(Decoded::Partial) => break,
                Ok(Decoded::Head { key, line, consumed }) => {
                    let head = *reader.head();
                    assert!(line.len() + 2 == consumed && consumed <= MAX_LINE && key.len() <= line.len());
                    assert_eq!(reader.awaited_value(), head.size);
                    items.push(Item::Head(head, key, line));
                    start += consumed;
                    lines += 1;
                }
                Ok(Decoded::Value { value, consumed }) => {
                    assert!(value.len() + 2 == consumed && input.bytes[start..].starts_with(value));
                    items.push(Item::Value(value));
                    start += consumed;
                }
                Err(malformed) => {
                    assert!(malformed.excerpt.len() <= 240);
                    return (items, true);
                }
            }
            assert!(start <= end);
        }
    }
    (items, false)
}
