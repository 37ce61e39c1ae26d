//! A host that refuses a wait before it began: nothing leaks, and no connection is used again that is not at rest.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use pinyon_core::blocking::{execute, scatter, Batch, Failure, Host, Outcomes, Timer, Work};
use pinyon_core::fleet::{Access, Choice, Fleet, Options};
use pinyon_core::pool::Offer;
use pinyon_core::ring::Rule;
use pinyon_core::{parse_servers, Address, Data, Error, Limits, Refused, Reply, Session, Ticket};
use pinyon_proto::Command;

use super::server::Memcached;
use super::{key, TIMEOUT};

const OPTIONS: Options = Options {
    timeout: TIMEOUT,
    connect_timeout: TIMEOUT,
    max_connections: 1,
    limits: Limits { exchanges: 4096, unsent: 64 * 1024, value: 1024 * 1024 },
    gutter_ttl: 10,
    events: false,
    slow_after: None,
};

/// Permits so many waits, and refuses the next.
struct Refusing(Cell<usize>);

#[derive(Debug)]
struct RefusedWait;

impl Host for Refusing {
    type Interrupt = RefusedWait;

    fn unlocked<T: Send>(&self, wait: impl FnOnce() -> T + Send) -> Result<T, RefusedWait> {
        self.0.set(self.0.get().checked_sub(1).ok_or(RefusedWait)?);
        Ok(wait())
    }

    fn interrupted(&self) -> Result<(), RefusedWait> {
        Ok(())
    }
}

struct Get;

impl Work for Get {
    fn submit(&mut self, _: usize, session: &mut Session, deadline: Instant) -> Result<(), Refused> {
        session.submit(&Command::Get { key: key("k"), cas: false }, Data::None, deadline).map(drop)
    }

    fn reply(&mut self, _: usize, _: Ticket, _: Reply<'_>) {}

    fn failed(&mut self, _: usize, _: Ticket, error: Error) {
        panic!("{error:?}");
    }
}

impl Outcomes for Get {
    fn reply(&mut self, _: usize, _: Ticket, _: Reply<'_>) {}

    fn failed(&mut self, _: usize, _: Ticket, error: Error) {
        panic!("{error:?}");
    }
}

fn fleet(server: &str) -> Arc<Fleet> {
    let specs = parse_servers([server]).unwrap();
    Arc::new(Fleet::new(specs, Vec::new(), Rule::default(), OPTIONS, Access::default()).unwrap())
}

/// Runs an operation of which ever later waits are refused, until it comes to its end. Returns how many were refused.
fn refuse_each_wait(
    fleet: &Arc<Fleet>,
    run: impl Fn(&Arc<Fleet>, &Refusing) -> Result<(), Failure<RefusedWait>>,
) -> usize {
    for permitted in 0..100 {
        match run(fleet, &Refusing(Cell::new(permitted))) {
            Ok(()) => return permitted,
            Err(Failure::Interrupted(RefusedWait)) => {
                assert_eq!(fleet.pool(0).open_and_idle(), (0, 0), "after {permitted} waits");
            }
            Err(Failure::Error(error)) => panic!("{error:?}"),
        }
    }
    panic!("it never ends");
}

fn get(fleet: &Arc<Fleet>, host: &Refusing) -> Result<(), Failure<RefusedWait>> {
    let command = Command::Get { key: key("k"), cas: false };
    execute(fleet, host, b"k", true, &command, &Data::None, &mut |_: Reply<'_>| {})
}

fn scattered(fleet: &Arc<Fleet>, host: &Refusing) -> Result<(), Failure<RefusedWait>> {
    let mut timer = Timer::start(Instant::now(), TIMEOUT);
    let failures = scatter(fleet, host, &[Choice::regardless(0)], "get", &mut timer, &mut Get)?;
    assert!(failures.is_empty(), "{failures:?}");
    Ok(())
}

fn batch(fleet: &Arc<Fleet>, host: &Refusing) -> Result<(), Failure<RefusedWait>> {
    let mut batch = Batch::new(fleet.clone(), true);
    batch.submit(host, b"k", &Command::Delete { key: key("k") }, &Data::None, &mut Get)?;
    batch.finish(host, &mut Get)
}

#[test]
fn a_connection_whose_wait_is_refused_is_closed() {
    let server = Memcached::tcp();
    let Address::Tcp(address) = server.address() else { unreachable!("it listens on a port") };
    // By its name, it is waited for the resolver, too.
    let fleet = fleet(&format!("localhost:{}", address.port()));
    for run in [get, scattered, batch] {
        assert!(refuse_each_wait(&fleet, run) >= 2);
        assert_eq!(fleet.pool(0).open_and_idle(), (1, 1));
        // One that stands already is closed as well.
        assert!(refuse_each_wait(&fleet, run) >= 2);
        fleet.pool(0).drop_idle();
    }
}

#[test]
fn whoever_may_not_wait_for_a_turn_gives_it_up() {
    let server = Memcached::unix();
    let fleet = fleet(&server.address().to_string());
    let Ok(Offer::Lease(lease)) = fleet.pool(0).lease(Instant::now()) else { panic!("none is in use") };
    assert!(matches!(get(&fleet, &Refusing(Cell::new(0))), Err(Failure::Interrupted(RefusedWait))));
    drop(lease);
    get(&fleet, &Refusing(Cell::new(99))).unwrap();
}
