//! Any command with any key, for any server: it becomes one line with exactly the intended meaning, or none. Also any
//! command of RESP, which must read back unchanged.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use pinyon_cache::operations::BorrowedKey;
use pinyon_locks::keys::LockKeys;
use pinyon_locks::{call, keys, script};
use pinyon_proto::resp::{Decoded, Limits, Reader, Value};
use pinyon_proto::{
    encode, resp, Arithmetic, Capabilities, Command, Direction, Expect, Flag, Form, Key, KeyError, KeyRule, KeyRules,
    Lease, MarkStale, MetaCommand, Mode, Opaque, ServerVersion, StatsKind, Store, Verb, MAX_KEY,
};

/// The longest line that is not a `get`, and the most words: servers refuse others.
const LONGEST_LINE: usize = 2048;
const MOST_WORDS: usize = 24;

const MODES: [Mode; 5] = [Mode::Set, Mode::Add, Mode::Replace, Mode::Append, Mode::Prepend];
const VERBS: [Verb; 4] = [Verb::Get, Verb::Store, Verb::Delete, Verb::Arithmetic];
const PLAIN_FLAGS: [Flag; 9] = [
    Flag::ReturnCas,
    Flag::ReturnClientFlags,
    Flag::HitBefore,
    Flag::LastAccess,
    Flag::RemainingTtl,
    Flag::Size,
    Flag::Invalidate,
    Flag::NoBump,
    Flag::Value,
];

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    version: Option<Version>,
    ask: Ask<'a>,
    opaque: u16,
    quiet: bool,
    expires_within: Option<i32>,
    key_rule: u8,
    key: &'a [u8],
    other_key: &'a [u8],
    namespace: &'a [u8],
    piece: u8,
    parts: Vec<&'a [u8]>,
    names: Vec<&'a [u8]>,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Version {
    OfMeta(u8),
    Any(u16, u16, u16),
}

#[derive(Arbitrary, Debug)]
enum Ask<'a> {
    Get { cas: bool },
    GetMany { cas: bool, ttl: Option<i32> },
    GetAndTouch { ttl: i32, cas: bool },
    Touch { ttl: i32 },
    Store { mode: u8, size: usize, client_flags: u32, ttl: i32, cas: Option<u64>, returns_cas: bool },
    Delete,
    DeleteIf { cas: u64 },
    MarkStale { ttl: Option<i32>, cas: Option<u64> },
    Lease { lease: i32, recache: i32 },
    Arithmetic { down: bool, delta: u64 },
    Meta { verb: u8, size: Option<usize>, flags: Vec<AnyFlag> },
    NoOp,
    FlushAll(u32),
    Stats(&'a str),
    Version,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum AnyFlag {
    Plain(u8),
    Number(u8, u64),
    Ttl(u8, i32),
    Mode(u8),
    Down(bool),
}

fuzz_target!(|input: Input<'_>| {
    let names: Vec<_> = KeyRule::names().collect();
    let rule = KeyRule::named(names[usize::from(input.key_rule) % names.len()]).expect("a rule");
    let rules = KeyRules::new(input.namespace, rule).unwrap_or_default();
    let mut scratch = Vec::new();
    let key = key_of(&rules, input.key, &mut scratch);
    if let Some(key) = key {
        check_key(&rules, rule, &input, key);
    }
    check_request(&input, key.unwrap_or(Key::new(b"k", false).expect("a key")));
    check_resp(&input.parts, input.piece.into());
    check_names(&input.names);
});

/// The key as it is sent, if it is valid, by every way to make one.
fn key_of<'a>(rules: &KeyRules, key: &'a [u8], scratch: &'a mut Vec<u8>) -> Option<Key<'a>> {
    let mut pushed = b"before".to_vec();
    let written = rules.push(key, &mut pushed);
    let wire = BorrowedKey::new(rules, key, scratch).map(|key| key.wire);
    match (&written, &wire) {
        (Ok(base64), Ok(wire)) => assert_eq!((wire.wire(), wire.is_base64()), (&pushed[6..], *base64)),
        (Err(error), Err(same)) => {
            assert!(error == same && pushed == b"before" && error.to_string().len() < 1000);
            assert!(*error != KeyError::Empty || key.is_empty());
        }
        _ => panic!("{written:?} is not {wire:?}"),
    }
    wire.ok()
}

fn check_key(rules: &KeyRules, rule: KeyRule, input: &Input<'_>, key: Key<'_>) {
    assert!((1..=MAX_KEY).contains(&key.wire().len()) && key.wire().iter().all(|byte| is_of_word(*byte)));
    assert!(key.is_base64() || key.wire().starts_with(rules.namespace()));
    assert_eq!(Key::new(key.wire(), key.is_base64()), Ok(key));
    let mut scratch = Vec::new();
    if let Some(other) = key_of(rules, input.other_key, &mut scratch) {
        // In Dalli's form, a key may equal the shortened form of another.
        assert!(rule == KeyRule::Dalli || (other == key) == (input.other_key == input.key), "two keys meet");
    }
}

fn is_of_word(byte: u8) -> bool {
    byte > b' ' && byte != 0x7f
}

fn check_request(input: &Input<'_>, key: Key<'_>) {
    let flags: Vec<Flag> = match &input.ask {
        Ask::Meta { flags, .. } => flags.iter().map(flag).collect(),
        _ => Vec::new(),
    };
    let many = [key.wire(), b" ", key.wire()].concat();
    let Some(mut command) = command(&input.ask, key, &flags, &many) else { return };
    if let Some(most) = input.expires_within {
        command = command.expiring_within(most);
    }
    let capabilities = Capabilities::of(input.version.map(version));
    let mut out = b"before".to_vec();
    let encoded = encode(&command, &capabilities, Opaque(input.opaque), input.quiet, &mut out);
    let request = out.strip_prefix(b"before").expect("what stood there stands there");
    match encoded {
        Ok(expect) => check_line(input, &command, &capabilities, key, expect, request),
        Err(unsupported) => assert!(request.is_empty() && !unsupported.to_string().is_empty()),
    }
}

fn check_line(
    input: &Input<'_>,
    command: &Command<'_>,
    capabilities: &Capabilities,
    key: Key<'_>,
    expect: Expect,
    request: &[u8],
) {
    let line = request.strip_suffix(b"\r\n").expect("a line");
    assert!(line.iter().all(|byte| *byte == b' ' || is_of_word(*byte)), "more than a line");
    let may_be_long = matches!(command, Command::GetMany { .. });
    assert!(may_be_long || request.len() <= LONGEST_LINE, "{} bytes", request.len());
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    if matches!(command, Command::Stats(_)) {
        return assert_eq!((words[0], expect), (&b"stats"[..], Expect::classic(Form::Stats)));
    }
    assert!(words.len() <= MOST_WORDS, "{} words", words.len());
    assert!(words.iter().all(|word| !word.is_empty()), "an empty word");
    let Form::Meta(verb) = expect.form else {
        assert_eq!(expect, Expect::classic(expect.form));
        return check_classic(command, capabilities, key, &words);
    };
    assert!(capabilities.meta() && words[0].len() == 2 && words[1] == key.wire());
    let flags = &words[if verb == Verb::Store { 3 } else { 2 }..];
    let with = |letter: u8| flags.iter().filter(move |flag| flag[0] == letter);
    assert!(flags.iter().all(|flag| with(flag[0]).count() == 1), "a flag twice");
    let opaque = format!("O{:x}", input.opaque);
    let opaques: Vec<&[u8]> = with(b'O').copied().collect();
    assert!(opaques == [opaque.as_bytes()] && expect.opaque == Some(Opaque(input.opaque)));
    assert_eq!(expect.quiet, input.quiet && command.can_be_quiet());
    assert_eq!(expect.quiet, flags.last() == Some(&&b"q"[..]));
    assert_eq!(key.is_base64(), with(b'b').count() == 1);
}

fn check_classic(command: &Command<'_>, capabilities: &Capabilities, key: Key<'_>, words: &[&[u8]]) {
    let keys = words.iter().filter(|word| **word == key.wire()).count();
    match command {
        Command::NoOp | Command::Version | Command::FlushAll { .. } | Command::Stats(_) => {
            assert!(words.len() <= 2);
        }
        Command::GetMany { ttl, .. } => assert!(keys >= 2 && words.len() == 3 + usize::from(ttl.is_some())),
        Command::Store(store) if capabilities.meta() => {
            assert!(keys >= 1 && store.spares_item());
        }
        _ => assert!(keys >= 1 && !key.is_base64() && !capabilities.meta()),
    }
}

fn command<'a>(ask: &'a Ask<'_>, key: Key<'a>, flags: &'a [Flag], many: &'a [u8]) -> Option<Command<'a>> {
    Some(match *ask {
        Ask::Get { cas } => Command::Get { key, cas },
        Ask::GetMany { .. } if key.is_base64() => return None,
        Ask::GetMany { cas, ttl } => Command::GetMany { keys: many, cas, ttl },
        Ask::GetAndTouch { ttl, cas } => Command::GetAndTouch { key, ttl, cas },
        Ask::Touch { ttl } => Command::Touch { key, ttl },
        Ask::Store { mode, size, client_flags, ttl, cas, returns_cas } => {
            Command::Store(Store { mode: one_of(&MODES, mode), key, size, client_flags, ttl, cas, returns_cas })
        }
        Ask::Delete => Command::Delete { key },
        Ask::DeleteIf { cas } => Command::DeleteIf { key, cas },
        Ask::MarkStale { ttl, cas } => Command::MarkStale(MarkStale { key, ttl, cas }),
        Ask::Lease { lease, recache } => Command::Lease(Lease { key, lease, recache }),
        Ask::Arithmetic { down, delta } => Command::Arithmetic(Arithmetic { key, direction: direction(down), delta }),
        Ask::Meta { verb, size, .. } => Command::Meta(MetaCommand { verb: one_of(&VERBS, verb), key, size, flags }),
        Ask::NoOp => Command::NoOp,
        Ask::FlushAll(delay) => Command::FlushAll { delay },
        Ask::Stats(kind) => Command::Stats(StatsKind::new(kind)?),
        Ask::Version => Command::Version,
    })
}

fn flag(any: &AnyFlag) -> Flag {
    match *any {
        AnyFlag::Plain(which) => one_of(&PLAIN_FLAGS, which),
        AnyFlag::Number(which, number) => {
            one_of(&[Flag::CompareCas(number), Flag::Delta(number), Flag::ClientFlags(number as u32)], which)
        }
        AnyFlag::Ttl(which, ttl) => one_of(&[Flag::Vivify(ttl), Flag::Recache(ttl), Flag::Ttl(ttl)], which),
        AnyFlag::Mode(which) => Flag::StoreMode(one_of(&MODES, which)),
        AnyFlag::Down(down) => Flag::Direction(direction(down)),
    }
}

fn one_of<T: Copy>(all: &[T], which: u8) -> T {
    all[usize::from(which) % all.len()]
}

fn version(version: Version) -> ServerVersion {
    match version {
        Version::OfMeta(patch) => ServerVersion::new(1, 6, patch.into()),
        Version::Any(major, minor, patch) => ServerVersion::new(major, minor, patch),
    }
}

fn direction(down: bool) -> Direction {
    match down {
        true => Direction::Decrement,
        false => Direction::Increment,
    }
}

/// Checks that two commands, read in pieces, are two arrays of exactly these parts.
fn check_resp(parts: &[&[u8]], piece: usize) {
    if parts.is_empty() {
        return;
    }
    let mut out = b"before".to_vec();
    resp::encode(parts, &mut out);
    resp::encode(parts, &mut out);
    let mut unread = out.strip_prefix(b"before").expect("what stood there stands there");
    let mut reader = Reader::new(Limits { bulk: usize::MAX, elements: usize::MAX, depth: 1 });
    let expected = Decoded::Reply(Value::Array(parts.iter().map(|part| Value::Bytes((*part).into())).collect()));
    let mut commands = 0;
    while !unread.is_empty() {
        let arrived = &unread[..unread.len().min(piece + 1)];
        let (consumed, command) = reader.read(arrived).expect("it is RESP");
        unread = &unread[consumed..];
        if let Some(command) = command {
            assert!(command == expected, "{command:?}");
            commands += 1;
        }
    }
    assert!(commands == 2 && reader.is_between_values());
}

/// Checks that the names of any lock stay in their namespace and in its slot.
fn check_names(given: &[&[u8]]) {
    let Ok(names) = keys::names(given) else { return };
    assert!(given.iter().all(|name| names.iter().any(|known| **known == **name)));
    let keys = LockKeys::new("n").expect("a namespace");
    let (call, mut command) = (call::Call::Inspect { names: names.clone(), remarks: false }, resp::Command::default());
    script::encode(&call, &keys, Default::default(), false, &script::Via::functions(), &mut command);
    let parts = command.slices();
    assert_eq!((parts.len(), parts[2]), (names.len() + 4, (names.len() + 1).to_string().as_bytes()));
    for key in &parts[3..] {
        assert!(key.starts_with(keys.prefix()) && keys::slot(key) == keys.slot());
    }
    check_resp(&parts, usize::MAX - 1);
}
