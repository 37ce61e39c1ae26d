//! The expected behavior of `get_or_set`, for every way to carry out operations.

use std::time::Duration;

use pinyon_cache::dialect::Plain;
use pinyon_cache::lease::Terms;
use pinyon_net::error::kinds::ErrorKind;

use crate::cache::text;
use pinyon_host::cache::{Cache, Calls};
use pinyon_host::making::{get_or_set, Caller, Course, Makings};
use pinyon_host::raised::Raised;

/// A scenario's name, and what it does with a cache of its own.
pub type Scenario = (&'static str, fn(&mut Cache, &Makings));

pub const SCENARIOS: &[Scenario] = &[
    ("the first caller makes the value", leading),
    ("callers of one process follow the first", following),
    ("a maker that fails lets the next one make the value", failing),
    ("a caller that goes away lets the next one make the value", leaving),
    ("a stale value is served while one caller makes the next", stale),
    ("whoever waits for another process asks again, until it is too late", waiting),
];

fn terms(wait: f64) -> Terms {
    Terms::new(1000, 500, 0, 10, Some(wait)).expect("they make sense")
}

fn never() -> Result<Plain, Raised> {
    panic!("there is a value")
}

fn broken() -> Raised {
    Raised { kind: ErrorKind::Error, message: "it cannot be made".into() }
}

fn over(text: &str) -> Course {
    Course::Over(Ok(Plain::Text(text.into())))
}

fn leading(cache: &mut Cache, makings: &Makings) {
    assert_eq!(get_or_set(makings, cache, "lead", terms(20.0), 1, || Ok(text("made"))), Ok(text("made")));
    assert_eq!(get_or_set(makings, cache, "lead", terms(20.0), 2, never), Ok(text("made")));
    let (_, ttl) = cache.get_with_ttl("lead").unwrap().unwrap();
    assert!(ttl > Some(1400), "it is fresh for a while, and stale for another");
}

fn following(cache: &mut Cache, makings: &Makings) {
    let [mut leader, mut follower, mut late] =
        [1, 2, 3].map(|number| Caller::new(makings, cache, "follow", terms(20.0), number));
    assert_eq!(leader.go_on(cache), Course::Makes);
    assert_eq!((follower.go_on(cache), follower.go_on(cache)), (Course::Follows, Course::Follows));
    leader.made(Ok(text("made")));
    assert_eq!(leader.go_on(cache), over("made"));
    cache.delete("follow").unwrap();
    assert_eq!(follower.go_on(cache), over("made"), "it asks no server");
    assert_eq!(late.go_on(cache), Course::Makes);
    late.leave(cache).unwrap();
}

fn failing(cache: &mut Cache, makings: &Makings) {
    let [mut leader, mut follower] = [1, 2].map(|number| Caller::new(makings, cache, "fail", terms(20.0), number));
    assert_eq!((leader.go_on(cache), follower.go_on(cache)), (Course::Makes, Course::Follows));
    leader.made(Err(broken()));
    assert_eq!(leader.go_on(cache), Course::Over(Err(broken())));
    assert_eq!(follower.go_on(cache), Course::Over(Err(broken())));
    assert_eq!(get_or_set(makings, cache, "fail", terms(0.0), 3, || Ok(text("made"))), Ok(text("made")), "at once");
}

fn leaving(cache: &mut Cache, makings: &Makings) {
    let [mut leader, mut follower] = [1, 2].map(|number| Caller::new(makings, cache, "leave", terms(20.0), number));
    assert_eq!((leader.go_on(cache), follower.go_on(cache)), (Course::Makes, Course::Follows));
    leader.leave(cache).unwrap();
    assert_eq!(follower.go_on(cache), Course::Makes);
    follower.made(Ok(text("made")));
    assert_eq!(follower.go_on(cache), over("made"));
}

fn stale(cache: &mut Cache, makings: &Makings) {
    cache.set("stale", &text("old"), 1000).unwrap();
    cache.mark_stale("stale", 1000).unwrap();
    let [mut leader, mut follower] = [1, 2].map(|number| Caller::new(makings, cache, "stale", terms(20.0), number));
    assert_eq!(leader.go_on(cache), Course::Makes);
    assert_eq!(follower.go_on(cache), over("old"));
    leader.made(Ok(text("new")));
    assert_eq!(leader.go_on(cache), over("new"));
    assert_eq!(cache.get("stale").unwrap(), Some(text("new")));
}

fn waiting(cache: &mut Cache, makings: &Makings) {
    let (_, win) = cache.lease("wait", 30).unwrap();
    let refused = get_or_set(makings, cache, "wait", terms(0.05), 1, never).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::LeaseTimeout);
    assert!(refused.message.contains("wait is still being made by another caller"), "{}", refused.message);
    let win = win.expect("nobody else makes it");
    cache.compare_and_set("wait", &text("theirs"), win.cas, 0).unwrap();
    cache.rest(Duration::from_millis(1));
    assert_eq!(get_or_set(makings, cache, "wait", terms(20.0), 1, never), Ok(text("theirs")));
}
