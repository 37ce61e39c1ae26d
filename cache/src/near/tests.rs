//! Races of reads and writes, admission and bounds. What may be stale for how long, `scenarios/near.json` says.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use pinyon_net::fork::pretended;

const FRESH: Duration = Duration::from_secs(1);
const GRACE: Duration = Duration::from_millis(500);
const KEY: &str = "user:1";

fn key(text: &str) -> Key<'_> {
    Key::new(text.as_bytes(), false).unwrap()
}

fn sent(bytes: &[u8], check: impl FnOnce(Read<'_>)) {
    check(Read { bytes, client_flags: 3, server: &"a:1".into(), token: None });
}

/// A store and a clock that moves only when it is told to.
struct Watched {
    near: Arc<Near>,
    now: Instant,
}

impl Watched {
    fn new(bytes: usize) -> Self {
        let now = Instant::now();
        Self { near: Near::new(Limits { bytes, fresh: FRESH, grace: GRACE }).into(), now }
    }

    /// With a value that was asked for at this moment.
    fn holding(value: &[u8]) -> Self {
        let watched = Self::new(1 << 20);
        let ticket = watched.ask();
        watched.fill(ticket, value);
        watched
    }

    fn after(&mut self, milliseconds: u64) {
        self.now += Duration::from_millis(milliseconds);
    }

    fn fill(&self, ticket: Ticket, value: &[u8]) {
        sent(value, |value| self.near.fill(key(KEY), ticket, value));
    }

    fn ask(&self) -> Ticket {
        match self.near.look(key(KEY), self.now) {
            Look::Ask(ticket) => ticket,
            Look::Hit(held) => panic!("a hit: {held:?}"),
        }
    }

    fn hit(&self) -> Option<Vec<u8>> {
        match self.near.look(key(KEY), self.now) {
            Look::Hit(held) => Some(held.bytes.to_vec()),
            Look::Ask(_) => None,
        }
    }

    /// A reader of many keys, each asked for once.
    fn read(&self, name: &str, value: &[u8]) -> bool {
        match self.near.look(key(name), self.now) {
            Look::Hit(_) => true,
            Look::Ask(ticket) => {
                sent(value, |value| self.near.fill(key(name), ticket, value));
                false
            }
        }
    }
}

#[test]
fn a_value_is_returned_as_it_was_read_until_it_is_no_longer_fresh() {
    let mut watched = Watched::holding(b"old");
    watched.after(999);
    let Look::Hit(held) = watched.near.look(key(KEY), watched.now) else { panic!("it is fresh") };
    assert_eq!((&*held.bytes, held.client_flags, &*held.server), (&b"old"[..], 3, "a:1"));
    watched.after(1);
    assert!(watched.hit().is_none());
}

#[test]
fn a_value_that_was_read_again_counts_as_a_revalidation() {
    let mut watched = Watched::holding(b"old");
    watched.after(1200);
    watched.fill(watched.ask(), b"new");
    watched.after(999);
    assert!(watched.hit().is_some());
    watched.after(1);
    assert!(watched.hit().is_none());
    let Figures { fills, revalidations, hits, .. } = watched.near.figures();
    assert_eq!((fills, revalidations, hits), (2, 1, 1));
}

#[test]
fn base64_of_a_key_is_not_the_key_with_this_text() {
    let (watched, in_base64) = (Watched::holding(b"plain"), Key::new(KEY.as_bytes(), true).unwrap());
    let Look::Ask(ticket) = watched.near.look(in_base64, watched.now) else { panic!("it is another key") };
    sent(b"other", |value| watched.near.fill(in_base64, ticket, value));
    watched.near.forget(in_base64);
    assert_eq!(watched.hit().as_deref(), Some(&b"plain"[..]));
}

#[test]
fn a_reader_that_fails_lets_the_next_one_ask() {
    let mut watched = Watched::holding(b"old");
    watched.after(1000);
    drop(watched.ask());
    drop(watched.ask());
    watched.after(500);
    drop(watched.ask());
}

#[test]
fn a_missing_key_is_forgotten() {
    let mut watched = Watched::holding(b"old");
    watched.after(1000);
    let ticket = watched.ask();
    watched.near.missing(key(KEY), ticket);
    assert_eq!(watched.near.figures().bytes, 0);
}

#[test]
fn a_read_that_began_before_the_end_of_a_write_does_not_fill() {
    let mut watched = Watched::holding(b"old");
    watched.after(1000);
    let before = watched.ask();
    let write = watched.near.write(key(KEY));
    assert!(watched.hit().is_none(), "it is forgotten at once");
    let meanwhile = watched.ask();
    watched.fill(watched.ask(), b"old");
    watched.fill(before, b"old");
    assert!(watched.hit().is_none());
    let another = watched.near.write(key(KEY));
    drop(write);
    watched.fill(watched.ask(), b"old");
    drop(another);
    watched.fill(meanwhile, b"old");
    assert!(watched.hit().is_none());
    watched.fill(watched.ask(), b"new");
    assert_eq!(watched.hit().as_deref(), Some(&b"new"[..]));
}

#[test]
fn a_read_that_began_before_its_key_was_forgotten_does_not_fill() {
    for forget in [|near: &Near| near.forget(key(KEY)), |near: &Near| near.forget_all()] {
        let mut watched = Watched::holding(b"old");
        watched.after(1000);
        let ticket = watched.ask();
        forget(&watched.near);
        watched.fill(ticket, b"old");
        assert!(watched.hit().is_none());
        assert_eq!(watched.near.figures().bytes, 0);
    }
}

/// Readers fill with what they have read of a number that a writer increases, and nobody who looks after a write is
/// given what was there before it.
#[test]
fn nobody_is_given_what_was_there_before_a_write_of_this_process() {
    let Watched { near, now } = Watched::new(1 << 20);
    let server = AtomicU64::new(0);
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                while server.load(Ordering::SeqCst) < 20_000 {
                    if let Look::Ask(ticket) = near.look(key(KEY), now) {
                        let read = server.load(Ordering::SeqCst).to_le_bytes();
                        sent(&read, |value| near.fill(key(KEY), ticket, value));
                    }
                }
            });
        }
        for number in 1..=20_000_u64 {
            let write = near.write(key(KEY));
            server.store(number, Ordering::SeqCst);
            drop(write);
            if let Look::Hit(held) = near.look(key(KEY), now) {
                assert_eq!(*held.bytes, number.to_le_bytes());
            }
        }
    });
}

#[test]
fn a_slow_reader_does_not_replace_what_a_later_one_has_read() {
    let mut watched = Watched::holding(b"old");
    watched.after(1500);
    let slow = watched.ask();
    watched.after(1);
    let later = watched.ask();
    watched.fill(later, b"new");
    watched.fill(slow, b"old");
    assert_eq!(watched.hit().as_deref(), Some(&b"new"[..]));
    watched.after(999);
    assert_eq!(watched.hit().as_deref(), Some(&b"new"[..]));
}

#[test]
fn a_forked_child_begins_without_keys_and_takes_no_ticket_of_its_parent() {
    let watched = Watched::holding(b"old");
    let Look::Ask(ticket) = watched.near.look(key("user:2"), watched.now) else { panic!("it is not there") };
    let write = watched.near.write(key("user:2"));
    pretended::fork();
    assert!(watched.hit().is_none());
    sent(b"parent's", |value| watched.near.fill(key("user:2"), ticket, value));
    assert!(matches!(watched.near.look(key("user:2"), watched.now), Look::Ask(_)));
    assert_eq!(watched.near.figures(), Figures::default());
    drop(write);
    assert!(!watched.read("user:2", b"child's"));
    assert!(watched.read("user:2", b"child's"));
}

#[test]
fn a_scan_does_not_flush_keys_that_are_asked_for_again() {
    let watched = Watched::new(1 << 20);
    let hot: Vec<_> = (0..500).map(|number| format!("hot:{number}")).collect();
    for _ in 0..3 {
        for key in &hot {
            watched.read(key, &[0; 100]);
        }
    }
    for number in 0..100_000 {
        watched.read(&format!("scanned:{number}"), &[0; 100]);
    }
    let kept = hot.iter().filter(|key| watched.read(key, &[0; 100])).count();
    assert!(kept >= 490, "{kept} of 500");
}

#[test]
fn a_value_may_take_a_large_share_of_a_small_store_and_a_part_of_a_large_one() {
    for (bytes, size, is_kept) in
        [(300_000, 290_000, true), (300_000, 300_000, false), (32 << 20, 2_000_000, true), (32 << 20, 2 << 20, false)]
    {
        let watched = Watched::new(bytes);
        watched.fill(watched.ask(), &vec![0; size]);
        assert_eq!(watched.hit().is_some(), is_kept, "{size} of {bytes}");
        assert!(watched.near.figures().bytes <= bytes as u64);
    }
}

#[test]
fn its_bytes_are_bounded_and_what_is_too_large_is_not_kept() {
    const BYTES: usize = 1 << 20;
    let watched = Watched::new(BYTES);
    for number in 0..20_000 {
        watched.read(&format!("key:{number}"), &vec![0; number % 1000]);
        let bytes = watched.near.figures().bytes;
        assert!(bytes <= BYTES as u64, "{bytes}");
    }
    let figures = watched.near.figures();
    assert!(figures.evictions > 10_000 && figures.fills == 20_000, "{figures:?}");
    watched.fill(watched.ask(), b"small");
    let mut later = watched;
    later.after(1000);
    later.fill(later.ask(), &vec![0; 2 * BYTES]);
    assert!(later.hit().is_none());
}

#[test]
fn users_keys_are_found_as_they_are_sent_and_no_other() {
    let watched = Watched::new(1 << 20);
    let rules = |namespace: &[u8]| KeyRules::new(namespace, true).unwrap();
    let fill = |rules: &KeyRules, given: &[u8], value: &[u8]| {
        let mut wire = Vec::new();
        let is_base64 = rules.push(given, &mut wire).unwrap();
        let key = Key::new(&wire, is_base64).unwrap();
        let Look::Ask(ticket) = watched.near.look(key, watched.now) else { panic!("it is not there") };
        sent(value, |value| watched.near.fill(key, ticket, value));
        wire
    };
    let found = |rules: &KeyRules, given: &[u8]| {
        let held = watched.near.fresh(rules, given, watched.now);
        held.map(|held| held.bytes.to_vec())
    };
    let (plain, shop, long) = (rules(b""), rules(b"shop:"), [b'x'; 300]);
    fill(&plain, b"k", b"1");
    fill(&shop, b"k", b"2");
    let digest = fill(&plain, &long, b"3");
    let base64 = fill(&plain, b"a b", b"4");
    assert_eq!(found(&plain, b"k").as_deref(), Some(&b"1"[..]));
    assert_eq!(found(&shop, b"k").as_deref(), Some(&b"2"[..]));
    assert_eq!(found(&plain, b"shop:k").as_deref(), Some(&b"2"[..]), "it is the same item");
    assert_eq!(found(&plain, &digest), None, "as a key of the user's, a digest is sent as another one");
    assert_eq!(found(&plain, &base64), None);
    assert_eq!(found(&plain, b""), None);
}
