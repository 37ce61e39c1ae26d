use super::*;
use pinyon_net::address::parse_servers;

const SECOND: Duration = Duration::from_secs(1);

/// The servers of tests, which nobody connects to.
pub(crate) fn made(servers: &str, gutter: &[&str], slow_after: Option<Duration>, access: Access) -> Fleet {
    let options = FleetOptions {
        timeout: SECOND,
        connect_timeout: SECOND,
        max_connections: 1,
        limits: Limits::default(),
        protocol: Protocol::Auto,
        keepalive: Keepalive::default(),
        gutter_ttl: 10,
        events: true,
        slow_after,
    };
    let gutter = if gutter.is_empty() { Vec::new() } else { parse_servers(gutter.iter().copied()).unwrap() };
    Fleet::new(parse_servers([servers]).unwrap(), gutter, Rule::default(), options, access).unwrap()
}

fn fleet(gutter: &[&str]) -> Fleet {
    made("a,b,c", gutter, Some(SECOND), Access::default())
}

fn fail(fleet: &Fleet, choice: Choice) {
    fleet.failed(choice, &Error::unanswered(&fleet.servers()[choice.server].name));
}

fn kinds(fleet: &Fleet) -> Vec<EventKind> {
    fleet.take_events().iter().map(|event| event.kind).collect()
}

#[test]
fn the_keys_of_a_server_that_is_down_go_to_the_next_or_nowhere() {
    let fleet = fleet(&[]);
    let first = fleet.choose(b"key", true, Instant::now()).unwrap();
    fail(&fleet, first);
    let now = Instant::now();
    let next = fleet.choose(b"key", true, now).unwrap();
    assert_ne!(next.server, first.server);
    assert_eq!(fleet.choose(b"key", false, now).unwrap_err().kind, Kind::Down);
    fail(&fleet, next);
    let last = fleet.choose(b"key", true, Instant::now()).unwrap();
    fail(&fleet, last);
    assert_eq!(fleet.choose(b"key", true, Instant::now()).unwrap_err().server, fleet.servers()[first.server].name);
}

#[test]
fn the_gutter_takes_them_where_there_is_one_and_keeps_nothing_long() {
    let fleet = fleet(&["g", "h"]);
    let first = fleet.choose(b"key", true, Instant::now()).unwrap();
    assert_eq!(fleet.longest_ttl(first.server), None);
    fail(&fleet, first);
    let gutter = fleet.choose(b"key", true, Instant::now()).unwrap();
    assert!(["g:11211", "h:11211"].contains(&&*fleet.servers()[gutter.server].name));
    assert_eq!(fleet.longest_ttl(gutter.server), Some(10));
    fail(&fleet, gutter);
    let other = fleet.choose(b"key", true, Instant::now()).unwrap();
    assert!(fleet.is_gutter(other.server) && other != gutter);
    fail(&fleet, other);
    assert!(fleet.choose(b"key", true, Instant::now()).is_err());
}

#[test]
fn the_probe_is_answered_and_told() {
    let fleet = fleet(&[]);
    let first = fleet.choose(b"key", false, Instant::now()).unwrap();
    fail(&fleet, first);
    let later = Instant::now() + SECOND;
    let probe = fleet.choose(b"key", false, later).unwrap();
    assert_eq!(probe, Choice { probe: true, ..first });
    assert!(fleet.choose(b"key", false, later).is_err());
    fleet.succeeded(first);
    assert!(fleet.choose(b"key", false, later).is_err());
    fleet.succeeded(probe);
    assert_eq!(fleet.choose(b"key", false, later).unwrap(), first);
    assert_eq!(kinds(&fleet), [EventKind::Down, EventKind::Up]);
}

#[test]
fn an_error_of_the_servers_own_is_an_answer() {
    let fleet = fleet(&[]);
    let first = fleet.choose(b"key", false, Instant::now()).unwrap();
    fail(&fleet, first);
    let probe = fleet.choose(b"key", false, Instant::now() + SECOND).unwrap();
    fleet.failed(probe, &Error::new(Kind::Server, &"a".into(), "out of memory"));
    assert!(fleet.servers()[first.server].health.is_up());
}

#[test]
fn what_takes_long_is_told() {
    let fleet = fleet(&[]);
    fleet.took(0, "get", SECOND / 2);
    fleet.took(0, "get", SECOND);
    assert_eq!(kinds(&fleet), [EventKind::Slow]);
}

#[test]
fn events_that_nobody_takes_are_bounded() {
    let fleet = fleet(&[]);
    (0..10_000).for_each(|_| fleet.took(0, "get", SECOND));
    assert_eq!(fleet.take_events().len(), 4096);
}
