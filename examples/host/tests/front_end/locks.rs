//! The expected behavior of locks, for every way to carry out operations.

use std::time::{Duration, Instant};

use pinyon_locks::{LockOutcome, Loss, Note, RedisValue, Renewal, StatusAnswer, StatusQuestion};
use pinyon_net::error::kinds::ErrorKind;

use pinyon_host::locks::{Locks, Operation};

/// A scenario's name, and what it does with two clients of one namespace.
pub type Scenario = (&'static str, fn(&Locks, &Locks));

pub const SCENARIOS: &[Scenario] = &[
    ("acquire, try, extend, release", held),
    ("whoever waits gets the lock", handed_over),
    ("whoever stops waiting gets nothing", given_up),
    ("park and notify", parked),
    ("a lost lock tells its listener", lost),
    ("the keeper renews", renewed),
    ("any command", commands),
];

const LONG: Duration = Duration::from_secs(20);

fn held(locks: &Locks, other: &Locks) {
    let names = ["a", "b"];
    let grant = locks.acquire(&names, Renewal::Never).unwrap();
    assert!(grant.token() > 0 && locks.of(&names).unwrap().borrow().remaining(&grant).is_some());
    assert!(other.try_acquire(&["b"]).unwrap().is_none());
    assert!(locks.extend(&names, &grant, LONG).unwrap());
    assert_eq!(other.status(&names, StatusQuestion::IsLocked).unwrap(), StatusAnswer::IsLocked(true));
    assert!(locks.release(&names, &grant).unwrap() && !locks.release(&names, &grant).unwrap());
    let later = other.try_acquire(&["b"]).unwrap().expect("it is free");
    assert!(later.token() > grant.token());
    assert!(other.release(&["b"], &later).unwrap());
    assert_eq!(locks.acquire(&[""], Renewal::Never).unwrap_err().kind, ErrorKind::InvalidName);
}

fn handed_over(locks: &Locks, other: &Locks) {
    let first = locks.acquire(&["h"], Renewal::Never).unwrap();
    let (second, acquire) = other.acquiring(&["h"], Some(LONG), Renewal::Never).unwrap();
    let waiting = other.begin(&["h"], acquire).unwrap();
    let queue = || locks.status(&["h"], StatusQuestion::Waiting).unwrap();
    until(|| queue() == StatusAnswer::Waiting(1));
    assert!(locks.release(&["h"], &first).unwrap());
    assert!(matches!(other.end(&["h"], waiting), Ok(LockOutcome::Held { notified: false })));
    assert!(other.release(&["h"], &second).unwrap());
}

fn given_up(locks: &Locks, other: &Locks) {
    let held = locks.acquire(&["g"], Renewal::Never).unwrap();
    let short = Some(Duration::from_millis(20));
    let (grant, acquire) = other.acquiring(&["g"], short, Renewal::Never).unwrap();
    let waiting = other.begin(&["g"], acquire).unwrap();
    assert_eq!(other.end(&["g"], waiting).unwrap_err().kind, ErrorKind::LockTimeout);
    other.of(&["g"]).unwrap().borrow_mut().cancel(&grant);
    assert!(locks.release(&["g"], &held).unwrap());
    assert_eq!(other.status(&["g"], StatusQuestion::FirstOwner).unwrap(), StatusAnswer::FirstOwner(None));
}

fn parked(locks: &Locks, other: &Locks) {
    let parked = locks.acquire(&["p"], Renewal::Never).unwrap();
    assert!(!locks.park(&["p"], &parked, Duration::from_millis(1)).unwrap(), "nobody notifies it");
    let park = Operation::Park { grant: parked.clone(), wait: Some(LONG), relock: LONG };
    let waiting = locks.begin(&["p"], park).unwrap();
    let holder = other.acquire(&["p"], Renewal::Never).unwrap();
    assert_eq!(other.notify(&["p"], &holder).unwrap(), 1);
    assert!(other.release(&["p"], &holder).unwrap());
    assert!(matches!(locks.end(&["p"], waiting), Ok(LockOutcome::Held { notified: true })));
    assert!(locks.release(&["p"], &parked).unwrap());
}

fn lost(locks: &Locks, other: &Locks) {
    let grant = locks.acquire(&["f"], Renewal::Never).unwrap();
    grant.listen("whoever listens").unwrap();
    assert_eq!(other.force_release(&["f"]).unwrap(), 1);
    let note = locks.of(&["f"]).unwrap().borrow_mut().note();
    assert_eq!(note, Note::Lost { listener: "whoever listens", loss: Loss::Forced });
    assert_eq!(grant.loss(), Some(Loss::Forced));
    assert!(!locks.release(&["f"], &grant).unwrap());
}

fn renewed(locks: &Locks, other: &Locks) {
    // A machine that stands still for a ttl loses it. That does not happen each time.
    assert!((0..10).any(|_| outlives_its_ttl(locks, other)), "it is lost again and again");
}

fn outlives_its_ttl(locks: &Locks, other: &Locks) -> bool {
    let grant = locks.acquire(&["r"], Renewal::Always).unwrap();
    let Some(ttl) = locks.of(&["r"]).unwrap().borrow().remaining(&grant) else { return false };
    let (mut is_held, mut is_old) = (true, false);
    // In an event loop, the loop is the keeper. This question makes it turn.
    until(|| match locks.status(&["r"], StatusQuestion::Each).unwrap() {
        StatusAnswer::Each(names) => {
            (is_held, is_old) = (names[0].holder.is_some(), names[0].age > Some(2 * ttl));
            !is_held || is_old
        }
        other => unreachable!("{other:?}"),
    });
    let is_locked = other.status(&["r"], StatusQuestion::IsLocked).unwrap() == StatusAnswer::IsLocked(true);
    is_held && is_old && is_locked && locks.release(&["r"], &grant).unwrap()
}

fn commands(locks: &Locks, _: &Locks) {
    assert!(matches!(locks.command(&["SET", "key", "value"]).unwrap(), RedisValue::Status(_)));
    assert_eq!(locks.command(&["GET", "key"]).unwrap(), RedisValue::Bytes((*b"value").into()));
    assert_eq!(locks.command(&["SUBSCRIBE", "channel"]).unwrap_err().kind, ErrorKind::UsageError, "others are there");
}

/// For clients whose lock names choose the node: each tag has a client of its own.
pub fn hash_tags(locks: &Locks) {
    let [one, two] = ["{1}:a", "{2}:a"].map(|name| locks.acquire(&[name], Renewal::Never).unwrap());
    assert_eq!(locks.branches(), 2);
    assert_eq!(locks.acquire(&["{1}:a", "{2}:b"], Renewal::Never).unwrap_err().kind, ErrorKind::InvalidName);
    assert!(locks.release(&["{1}:a"], &one).unwrap() && locks.release(&["{2}:a"], &two).unwrap());
}

/// Waits until the condition holds, for a generous time.
fn until(mut is_so: impl FnMut() -> bool) {
    let late = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < late, "it never comes");
        std::thread::sleep(Duration::from_millis(5));
    }
}
