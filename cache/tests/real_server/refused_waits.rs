//! A host that refuses a wait before it begins: nothing leaks, and only idle connections are reused.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use pinyon_cache::blocking::{run, Batch, Failure};
use pinyon_cache::directory::Directory;
use pinyon_cache::operations::{AsBytes, Beside, BorrowedKey, Fetch, Keys, Policy, Request, Single};
use pinyon_cache::pool::Offer;
use pinyon_cache::settings::CacheSettings;
use pinyon_cache::Data;
use pinyon_net::host::Host;
use pinyon_net::settings::ServerTexts;
use pinyon_net::Address;
use pinyon_proto::KeyRules;

use super::server::Memcached;
use super::{key, TIMEOUT};

/// Permits a number of waits, and refuses the next one.
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

fn sent() -> BorrowedKey<'static> {
    BorrowedKey { wire: key("k"), routed: b"k" }
}

fn directory(server: &str) -> Arc<Directory> {
    let settings = CacheSettings {
        servers: Some(ServerTexts(vec![server.to_owned()])),
        timeout: TIMEOUT.as_secs_f64(),
        connect_timeout: TIMEOUT.as_secs_f64(),
        max_connections: 1,
        ..CacheSettings::default()
    };
    settings.build(false).unwrap().directory.into()
}

/// Runs an operation, refusing ever later waits until it succeeds. Returns the number of refusals.
fn refuse_each_wait(
    directory: &Arc<Directory>,
    run: impl Fn(&Arc<Directory>, &Refusing) -> Result<(), Failure<RefusedWait>>,
) -> usize {
    let fleet = directory.known();
    for permitted in 0..100 {
        match run(directory, &Refusing(Cell::new(permitted))) {
            Ok(()) => return permitted,
            Err(Failure::Interrupted(RefusedWait)) => {
                assert_eq!(fleet.pool(0).open_and_idle(), (0, 0), "after {permitted} waits");
            }
            Err(Failure::Error(error)) => panic!("{error:?}"),
        }
    }
    panic!("it never ends");
}

fn get(directory: &Arc<Directory>, host: &Refusing) -> Result<(), Failure<RefusedWait>> {
    let mut single = Single::new(Request::Get(Beside::Nothing), sent(), Data::None, AsBytes, Policy::default());
    run(directory, host, &mut single).map_err(Failure::Interrupted)?;
    assert!(single.take_answer().is_ok());
    Ok(())
}

/// More keys than fit on one line.
fn get_many(directory: &Arc<Directory>, host: &Refusing) -> Result<(), Failure<RefusedWait>> {
    let mut keys = Keys::default();
    (0..500)
        .for_each(|number| keys.push_asked_about(&KeyRules::default(), b"k", format!("{number}").as_bytes()).unwrap());
    let mut fetch = Fetch::new(keys, Request::Get(Beside::Nothing), AsBytes, Policy::default());
    run(directory, host, &mut fetch).map_err(Failure::Interrupted)?;
    assert!(fetch.finish().failures.raised().is_none());
    Ok(())
}

fn batch(directory: &Arc<Directory>, host: &Refusing) -> Result<(), Failure<RefusedWait>> {
    let mut batch = Batch::new(directory.clone(), true);
    batch.submit(host, &sent(), Request::Touch { ttl: 1 }, &Data::None, ())?;
    batch.finish(host).map(drop)
}

#[test]
fn a_connection_whose_wait_is_refused_is_closed() {
    let server = Memcached::tcp();
    let Address::Tcp(address) = server.address() else { unreachable!("it listens on a port") };
    // With a name, the client waits for the resolver too.
    let directory = directory(&format!("localhost:{}", address.port()));
    let fleet = directory.known();
    for run in [get, get_many, batch] {
        assert!(refuse_each_wait(&directory, run) >= 2);
        assert_eq!(fleet.pool(0).open_and_idle(), (1, 1));
        // An established connection is closed as well.
        assert!(refuse_each_wait(&directory, run) >= 2);
        fleet.pool(0).drop_idle();
    }
}

#[test]
fn whoever_may_not_wait_for_a_turn_gives_it_up() {
    let server = Memcached::unix();
    let directory = directory(&server.address().to_string());
    let Offer::Loan(loan, _) = directory.known().pool(0).lend(Instant::now()) else { panic!("none is in use") };
    assert!(matches!(get(&directory, &Refusing(Cell::new(0))), Err(Failure::Interrupted(RefusedWait))));
    drop(loan);
    get(&directory, &Refusing(Cell::new(99))).unwrap();
}
