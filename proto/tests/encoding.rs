//! Any command becomes a single line, which none of its arguments can end early.

use pinyon_proto::{
    encode, Arithmetic, Capabilities, Command, Direction, Expect, Flag, Key, KeyError, KeyRules, Lease, MarkStale,
    MetaCommand, Mode, Opaque, ServerVersion, StatsKind, Store, Unsupported, Verb, MAX_KEY,
};
use proptest::prelude::*;

/// The longest line that a server reads before it considers a client broken.
const LONGEST_LINE: usize = 2048;

const VERSIONS: [Option<ServerVersion>; 5] = [
    None,
    Some(ServerVersion::new(1, 4, 25)),
    Some(ServerVersion::new(1, 6, 10)),
    Some(ServerVersion::new(1, 6, 18)),
    Some(ServerVersion::new(1, 6, 45)),
];

/// Every kind of command on one key.
fn commands<'a>(key: Key<'a>, number: u64, ttl: i32, flags: &'a [Flag]) -> Vec<Command<'a>> {
    let (size, client_flags) = (number as usize, number as u32);
    let store = Store { mode: Mode::Set, key, size, client_flags, ttl, cas: None, returns_cas: false };
    let arithmetic = Arithmetic { key, direction: Direction::Increment, delta: number };
    let mut commands = vec![
        Command::Get { key, cas: false },
        Command::Get { key, cas: true },
        Command::GetAndTouch { key, ttl, cas: false },
        Command::GetAndTouch { key, ttl, cas: true },
        Command::Touch { key, ttl },
        Command::Delete { key },
        Command::DeleteIf { key, cas: number },
        Command::MarkStale(MarkStale { key, ttl: Some(ttl), cas: Some(number) }),
        Command::Lease(Lease { key, lease: ttl, recache: ttl }),
        Command::Store(Store { cas: Some(number), returns_cas: true, ..store }),
        Command::Arithmetic(arithmetic),
        Command::Arithmetic(Arithmetic { direction: Direction::Decrement, ..arithmetic }),
        Command::NoOp,
        Command::Version,
        Command::FlushAll { delay: number as u32 },
    ];
    let modes = [Mode::Set, Mode::Add, Mode::Replace, Mode::Append, Mode::Prepend];
    commands.extend(modes.map(|mode| Command::Store(Store { mode, ..store })));
    for verb in [Verb::Get, Verb::Store, Verb::Delete, Verb::Arithmetic] {
        let size = (verb == Verb::Store).then_some(number as usize);
        commands.push(Command::Meta(MetaCommand { verb, key, size, flags: &[] }));
        commands.push(Command::Meta(MetaCommand { verb, key, size, flags }));
    }
    if !key.is_base64() {
        commands.push(Command::GetMany { keys: key.wire(), cas: false, ttl: None });
    }
    commands
}

fn written(
    command: &Command<'_>,
    version: Option<ServerVersion>,
    opaque: u16,
    quiet: bool,
) -> (Vec<u8>, Result<Expect, Unsupported>) {
    let mut out = Vec::new();
    let expect = encode(command, &Capabilities::of(version), Opaque(opaque), quiet, &mut out);
    (out, expect)
}

fn is_one_line(request: &[u8]) -> bool {
    let Some(line) = request.strip_suffix(b"\r\n") else { return false };
    let words_are_whole =
        !line.windows(2).any(|pair| pair == b"  ") && !line.starts_with(b" ") && !line.ends_with(b" ");
    words_are_whole && !line.iter().any(|byte| *byte < b' ' || *byte == 0x7f) && request.len() <= LONGEST_LINE
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    let hostile =
        proptest::sample::select(vec!["a\r\nflush_all", "a b", "\0", "sha256:x", "\u{7f}", "ключ", " ", "\n"]);
    prop_oneof![
        3 => proptest::collection::vec(any::<u8>(), 0..300),
        3 => proptest::collection::vec(0x21u8..0x7f, 1..260),
        1 => hostile.prop_map(|text| text.as_bytes().to_vec()),
    ]
}

proptest! {
    #[test]
    fn a_request_is_one_line_whatever_the_key(
        raw in key(), namespace in "[a-z:]{0,30}", encoded: bool, number: u64, ttl: i32, opaque: u16, quiet: bool,
    ) {
        let rules = KeyRules::new(namespace.as_bytes(), encoded).unwrap();
        let mut wire = Vec::new();
        let Ok(base64) = rules.push(&raw, &mut wire) else {
            prop_assert!(wire.is_empty());
            return Ok(());
        };
        let key = Key::new(&wire, base64).unwrap();
        let flags = [Flag::Ttl(ttl), Flag::CompareCas(number)];
        for command in commands(key, number, ttl, &flags) {
            for version in VERSIONS {
                let (request, expect) = written(&command, version, opaque, quiet);
                match expect {
                    Ok(expect) => {
                        prop_assert!(is_one_line(&request), "{:?}: {}", command, request.escape_ascii());
                        prop_assert!(!expect.quiet || quiet && command.can_be_quiet(), "{:?}", command);
                        prop_assert_eq!(expect.quiet, request.ends_with(b" q\r\n"));
                    }
                    Err(_) => prop_assert!(request.is_empty(), "{:?}", command),
                }
            }
        }
    }

    #[test]
    fn a_key_is_sendable_exactly_when_it_is_one_word(wire in key()) {
        let is_word = !wire.is_empty() && wire.len() <= MAX_KEY && wire.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
        prop_assert_eq!(Key::new(&wire, false).is_ok(), is_word);
    }

    #[test]
    fn a_kind_of_statistics_is_refused_or_stays_on_its_line(kind in any::<String>()) {
        if let Some(kind) = StatsKind::new(&kind) {
            let (request, _) = written(&Command::Stats(kind), None, 0, false);
            prop_assert!(request.starts_with(b"stats") && request.ends_with(b"\r\n"));
            prop_assert_eq!(request.iter().filter(|byte| **byte == b'\n' || **byte == b'\r').count(), 2);
        }
    }

    #[test]
    fn different_keys_never_share_what_is_sent(first in key(), second in key(), encoded: bool) {
        let rules = KeyRules::new(b"app:", encoded).unwrap();
        let (mut one, mut other) = (Vec::new(), Vec::new());
        if let (Ok(one_base64), Ok(other_base64)) = (rules.push(&first, &mut one), rules.push(&second, &mut other)) {
            prop_assert_eq!((one, one_base64) == (other, other_base64), first == second);
        }
    }
}

#[test]
fn a_kind_of_statistics_is_no_longer_than_a_key() {
    assert!(StatsKind::new(&"k".repeat(MAX_KEY)).is_some());
    assert!(StatsKind::new(&"k".repeat(MAX_KEY + 1)).is_none());
}

#[test]
fn keys_that_cannot_be_sent_say_why() {
    assert_eq!(Key::new(b"", false), Err(KeyError::Empty));
    assert_eq!(Key::new(&[b'k'; 251], false), Err(KeyError::TooLong { length: 251, namespace: 0, generation: 0 }));
    assert_eq!(Key::new(b"a b", false), Err(KeyError::Forbidden { byte: b' ', position: 1 }));
}

#[test]
fn what_is_to_expire_soon_is_not_made_anew_all_the_time() {
    let key = Key::new(b"k", false).unwrap();
    let within = |command: Command<'_>| {
        let (line, _) = written(&command.expiring_within(10), VERSIONS[3], 0, false);
        String::from_utf8(line).unwrap()
    };
    assert_eq!(within(Command::Lease(Lease { key, lease: 60, recache: 90 })), "mg k f c v N10 O0\r\n");
    assert_eq!(within(Command::Lease(Lease { key, lease: 5, recache: 0 })), "mg k f c v N5 O0\r\n");
    assert_eq!(within(Command::MarkStale(MarkStale { key, ttl: Some(60), cas: None })), "md k I T10 O0\r\n");
    assert_eq!(within(Command::MarkStale(MarkStale { key, ttl: None, cas: Some(1) })), "md k I C1 O0\r\n");
}
