//! Any bytes, cut anywhere, for a reader of RESP: no panic, no value beyond the limits, and the cuts make no
//! difference.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use pinyon_proto::resp::{Decoded, Limits, Reader, Value};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    /// The limits, from generous to almost none.
    bulk: u16,
    elements: u8,
    depth: u8,
    boundless: bool,
    pieces: Vec<u8>,
    bytes: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    let limits = match input.boundless {
        true => Limits { bulk: usize::MAX, elements: usize::MAX, depth: usize::MAX },
        false => Limits { bulk: input.bulk.into(), elements: input.elements.into(), depth: input.depth.into() },
    };
    let (whole, whole_fails) = read(&input, limits, &[]);
    let (cut, cut_fails) = read(&input, limits, &input.pieces);
    // Compared as text, since NaN differs from itself.
    assert_eq!(format!("{whole:?}"), format!("{cut:?}"));
    assert_eq!(whole_fails, cut_fails);
    for value in &whole {
        let mut used = Used::default();
        match value {
            Decoded::Reply(value) => used.add(value, 0),
            Decoded::Push(values) => {
                assert!(!values.is_empty());
                used.add_all(values.iter(), 0);
            }
        }
        assert!(used.bytes <= limits.bulk && used.elements <= limits.elements);
        assert!(used.depth <= limits.depth.min(Limits::MOST_DEPTH));
    }
});

fn read(input: &Input<'_>, limits: Limits, pieces: &[u8]) -> (Vec<Decoded>, Option<&'static str>) {
    let mut reader = Reader::new(limits);
    let mut values = Vec::new();
    let (mut start, mut end) = (0, 0);
    let mut lengths = pieces.iter().map(|length| usize::from(*length) + 1);
    while end < input.bytes.len() {
        end = input.bytes.len().min(lengths.next().map_or(usize::MAX, |length| end + length));
        while start < end {
            match reader.read(&input.bytes[start..end]) {
                Ok((consumed, value)) => {
                    assert!(consumed <= end - start && (value.is_some() || consumed == end - start));
                    assert!(value.is_none() || reader.is_between_values());
                    start += consumed;
                    values.extend(value);
                }
                Err(malformed) => {
                    assert!(malformed.excerpt.len() <= 240);
                    return (values, Some(malformed.what));
                }
            }
        }
    }
    (values, None)
}

/// How much of its limits a value has used.
#[derive(Default)]
struct Used {
    bytes: usize,
    elements: usize,
    depth: usize,
}

impl Used {
    fn add(&mut self, value: &Value, depth: usize) {
        self.depth = self.depth.max(depth);
        match value {
            Value::Null | Value::Boolean(_) | Value::Integer(_) | Value::Double(_) => {}
            Value::Status(text) | Value::Bytes(text) | Value::BigNumber(text) => self.bytes += text.len(),
            // Invalid UTF-8 grows when it is converted.
            Value::Error(_) => {}
            Value::Array(values) | Value::Set(values) => self.add_all(values.iter(), depth),
            Value::Map(pairs) => self.add_all(pairs.iter().flat_map(|(key, value)| [key, value]), depth),
        }
    }

    fn add_all<'v>(&mut self, values: impl Iterator<Item = &'v Value>, depth: usize) {
        for value in values {
            self.elements += 1;
            self.add(value, depth + 1);
        }
    }
}
