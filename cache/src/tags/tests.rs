use std::time::Duration;

use pinyon_net::fake_clock::{clock, pass};
use pinyon_proto::{Generation, KeyRules};
use proptest::prelude::*;

use super::{sorted, Header, KnownTags};

const TTL: Duration = Duration::from_secs(1);

fn known(remembered: usize) -> KnownTags {
    KnownTags::new(KeyRules::default(), TTL).with(clock, remembered)
}

fn generation(number: u64) -> Generation {
    Generation::new(1_700_000_000_000, number, None)
}

#[test]
fn a_generation_is_fresh_for_a_time_from_when_it_was_asked_for() {
    let known = known(10);
    assert_eq!((known.fresh(b"t"), known.was_there(b"t")), (None, false));
    let question = known.question();
    pass(TTL / 2);
    known.heard(b"t", &question, Some(generation(1)));
    assert_eq!(known.fresh(b"t"), Some(generation(1)));
    pass(TTL / 2);
    assert_eq!((known.fresh(b"t"), known.was_there(b"t")), (None, true));
}

#[test]
fn what_was_asked_before_an_invalidation_does_not_count() {
    let known = known(10);
    let before = known.question();
    let invalidation = known.invalidating(b"t");
    known.heard(b"t", &before, Some(generation(1)));
    assert_eq!(known.fresh(b"t"), None);
    let meanwhile = known.question();
    known.invalidated(b"t", &invalidation, Some(generation(2)));
    assert_eq!(known.fresh(b"t"), Some(generation(2)));
    known.heard(b"t", &meanwhile, Some(generation(1)));
    assert_eq!(known.fresh(b"t"), Some(generation(2)));
    known.heard(b"t", &known.question(), Some(generation(3)));
    assert_eq!(known.fresh(b"t"), Some(generation(3)));
}

#[test]
fn of_two_invalidations_at_once_none_is_known_to_be_the_last() {
    let known = known(10);
    let [first, second] = [known.invalidating(b"t"), known.invalidating(b"t")];
    known.invalidated(b"t", &second, Some(generation(2)));
    known.invalidated(b"t", &first, Some(generation(1)));
    assert_eq!(known.fresh(b"t"), None);
}

#[test]
fn memory_is_bounded_and_what_is_forgotten_is_asked_for() {
    let known = known(4);
    let early = known.question();
    known.invalidated(b"kept", &known.invalidating(b"kept"), Some(generation(1)));
    for number in 0..100 {
        known.heard(format!("t{number}").as_bytes(), &known.question(), Some(generation(number)));
        assert!(known.fresh(b"kept").is_some(), "it is used all the time");
    }
    let remembered = (0..100).filter(|number| known.was_there(format!("t{number}").as_bytes())).count();
    assert!((1..=8).contains(&remembered), "{remembered}");
    for number in 0..10 {
        known.heard(format!("u{number}").as_bytes(), &known.question(), Some(generation(number)));
    }
    assert_eq!(known.fresh(b"kept"), None);
    known.heard(b"kept", &early, Some(generation(0)));
    assert_eq!(known.fresh(b"kept"), None, "it was asked for before the invalidation");
}

#[test]
fn what_is_no_header_is_not_read() {
    let header = Header::write([(&b"user:7"[..], generation(1))].into_iter());
    for cut in 0..header.len() {
        assert_eq!(Header::read(&header[..cut]), None, "{cut}");
    }
    for other in [&b""[..], b"text", b"\xc1T\x00", b"\xc1T\x01\x01t!!!!!!!!!!!", b"\xc1\x00\x01"] {
        assert_eq!(Header::read(other), None, "{other:?}");
    }
}

proptest! {
    #[test]
    fn a_header_is_read_as_it_was_written(
        names in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..=255), 1..=64), value: Vec<u8>,
    ) {
        let names = sorted(names.iter().map(Vec::as_slice)).unwrap();
        let tags: Vec<_> = names.iter().enumerate().map(|(at, name)| (*name, generation(at as u64))).collect();
        let header = Header::write(tags.iter().copied());
        let stored = [&header[..], &value].concat();
        prop_assert_eq!(Header::read(&stored), Some(Header { tags, length: header.len() }));
    }

    #[test]
    fn any_bytes_may_be_read(mut bytes: Vec<u8>, is_marked: bool) {
        if is_marked {
            bytes.splice(0..0, *b"\xc1T");
        }
        if let Some(header) = Header::read(&bytes) {
            prop_assert_eq!(&Header::write(header.tags.into_iter())[..], &bytes[..header.length]);
        }
    }
}
