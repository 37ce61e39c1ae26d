//! Threads that share a client's locks.

use std::cell::Cell;

use pinyon_core::locks::call::{Answer, Call};
use pinyon_core::locks::client::{self, Client, Outcome, Wish};
use pinyon_core::locks::keys::{self, Keys};
use pinyon_core::locks::machine::{Options, Renewal, Request};
use pinyon_core::locks::station::Station;
use pinyon_core::locks::{new_client, HandlerKind};
use pinyon_core::{blocking, redis, Address, Endpoint};

use super::server::Redis;
use super::TIMEOUT;

/// Permits so many waits, and refuses the next.
struct Refusing(Cell<usize>);

#[derive(Debug)]
struct RefusedWait;

impl blocking::Host for Refusing {
    type Interrupt = RefusedWait;

    fn unlocked<T: Send>(&self, wait: impl FnOnce() -> T + Send) -> Result<T, RefusedWait> {
        self.0.set(self.0.get().checked_sub(1).ok_or(RefusedWait)?);
        Ok(wait())
    }

    fn interrupted(&self) -> Result<(), RefusedWait> {
        Ok(())
    }
}

fn permitting(waits: usize) -> Refusing {
    Refusing(Cell::new(waits))
}

fn station(server: &Redis) -> Station {
    let Address::Unix(path) = server.address() else { unreachable!("it listens on a socket") };
    let settings = client::Settings {
        endpoint: Endpoint::Unix(path),
        server: "redis".into(),
        login: redis::Settings::default(),
        keys: Keys::new("n").unwrap(),
        handler: HandlerKind::Auto,
        connect_timeout: TIMEOUT,
        options: Options::default(),
    };
    Station::new(Client::new(settings, new_client())).unwrap()
}

fn lock() -> Wish {
    let (names, wait) = (keys::names(["a"]).unwrap(), Some(TIMEOUT));
    Wish::Lock(Request { names, owner: 1, ttl: TIMEOUT, wait, renewal: Renewal::Never, reentrant: false })
}

fn waiting(station: &Station) -> usize {
    let ask = Wish::Ask(Call::Inspect { names: keys::names(["a"]).unwrap() });
    match station.run(&permitting(usize::MAX), ask) {
        Ok(Outcome::Answered(Answer::Inspected(names))) => names[0].waiting.len(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_attempt_whose_wait_is_refused_is_given_up() {
    let server = Redis::start("");
    let [holder, other] = [(); 2].map(|()| station(&server));
    let Ok(Outcome::Granted { number, .. }) = holder.run(&permitting(99), lock()) else { panic!("it is free") };
    for permitted in 0..4 {
        assert!(matches!(other.run(&permitting(permitted), lock()), Err(RefusedWait)));
        // Asked on the same connection: what was given up before has been carried out.
        assert_eq!(waiting(&other), 0, "after {permitted} waits");
    }
    assert!(matches!(holder.run(&permitting(99), Wish::Release { number }), Ok(Outcome::Released { held: true })));
    assert!(matches!(other.run(&permitting(99), lock()), Ok(Outcome::Granted { .. })));
}
