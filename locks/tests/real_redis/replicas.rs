//! Locks on a primary with a replica: what the replica must have, and which of the two grants.

use pinyon_locks::redis::SessionSettings;
use pinyon_locks::{LockOutcome, Renewal, StatusAnswer, StatusQuestion};
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::Endpoint;
use pinyon_proto::resp::Value;

use super::ports::free_port;
use super::program::{acquiring, until, Program};
use super::server::Redis;
use super::{bytes, ok, Host};

/// Two servers. The second one may replicate the first one.
struct Pair {
    ports: [u16; 2],
    servers: [Redis; 2],
}

impl Pair {
    fn start(configuration: &str) -> Self {
        let ports = [free_port(), free_port()];
        let first = format!("bind 127.0.0.1\nport {}\nrepl-diskless-sync-delay 0\n{configuration}", ports[0]);
        let second = format!("bind 127.0.0.1\nport {}\nreplicaof 127.0.0.1 {}\n{configuration}", ports[1], ports[0]);
        let pair = Self { ports, servers: [Redis::start(&first), Redis::start(&second)] };
        let mut replica = pair.host(1);
        until(|| matches!(replica.run("ROLE"), Value::Array(role) if role[3] == bytes("connected")));
        pair
    }

    fn host(&self, at: usize) -> Host {
        Host::connected(&self.servers[at], SessionSettings::default())
    }

    /// A program that is told only of this server.
    fn program(&self, at: usize, replicas: u32) -> Program {
        let endpoint = Endpoint::Tcp { host: "127.0.0.1".into(), port: self.ports[at] };
        Program::with(endpoint, |setup| setup.replicas = replicas)
    }

    /// Makes the second server the primary of the first one.
    fn swap(&self) {
        assert_eq!(self.host(1).run("REPLICAOF NO ONE"), ok());
        let mut first = self.host(0);
        assert_eq!(first.run(&format!("REPLICAOF 127.0.0.1 {}", self.ports[1])), ok());
        until(|| matches!(first.run("ROLE"), Value::Array(role) if role[3] == bytes("connected")));
    }

    fn has_lock(&self, at: usize, name: &str) -> bool {
        self.host(at).run(&format!("EXISTS {{n}}:l:{name}")) == Value::Integer(1)
    }
}

#[test]
fn a_lock_that_is_acquired_is_on_the_replica() {
    let pair = Pair::start("");
    let program = pair.program(0, 1);
    for name in ["a", "b", "c"] {
        let held = program.acquire(name, Renewal::Always);
        assert!(pair.has_lock(1, name));
        assert!(program.release(&held));
    }
}

#[test]
fn waiters_are_told_once_the_replica_has_their_locks() {
    let pair = Pair::start("");
    let [program, other] = [(); 2].map(|()| pair.program(0, 1));
    let held = program.acquire("a", Renewal::Always);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| other.acquire("a", Renewal::Always));
        until(|| program.ask("a", StatusQuestion::Waiting) == StatusAnswer::Waiting(1));
        assert!(program.release(&held));
        let next = waiting.join().unwrap();
        assert!(pair.has_lock(1, "a") && next.token() > held.token());
        assert!(other.release(&next));
    });
}

#[test]
fn a_replica_that_stands_still_fails_the_attempt_and_leaves_nothing_locked() {
    let pair = Pair::start("");
    let program = pair.program(0, 1);
    let held = program.acquire("a", Renewal::Never);
    pair.servers[1].signal("STOP");
    let LockOutcome::Failed(failure) = program.run(acquiring("b", Renewal::Never, false).1) else {
        panic!("it counts as acquired")
    };
    assert_eq!(failure.kind, ErrorKind::ServerError);
    let said = failure.message.to_string();
    assert!(said.contains("only 0 of 1 replicas acknowledged the lock in time"), "{said}");
    until(|| !pair.has_lock(0, "b"));
    assert!(program.release(&held), "what was acquired before stays");

    pair.servers[1].signal("CONT");
    let again = program.acquire("b", Renewal::Never);
    assert!(program.release(&again));
}

#[test]
fn more_replicas_than_there_are_never_suffice() {
    let pair = Pair::start("");
    let LockOutcome::Failed(failure) = pair.program(0, 2).run(acquiring("a", Renewal::Never, false).1) else {
        panic!("it counts as acquired")
    };
    let said = failure.message.to_string();
    // The count comes with the answer to WAIT, which a busy machine may see too late.
    assert!(["only 1 of 2", "only 0 of 2"].iter().any(|count| said.contains(count)), "{said}");
    assert!(said.contains(" of 2 replicas acknowledged"), "{said}");
    until(|| !pair.has_lock(0, "a"));
}

#[test]
fn a_replica_that_would_take_the_lock_itself_is_left_for_its_primary() {
    let pair = Pair::start("replica-read-only no\n");
    let program = pair.program(1, 0);
    let held = program.acquire("a", Renewal::Never);
    assert!(pair.has_lock(0, "a"), "the primary does not know of it");
    assert!(program.release(&held));
}

#[test]
fn a_primary_that_is_demoted_grants_nothing_any_more() {
    let pair = Pair::start("");
    let program = pair.program(0, 0);
    let held = program.acquire("a", Renewal::Never);
    pair.swap();
    let next = program.acquire("b", Renewal::Never);
    assert!(pair.has_lock(1, "b") && next.token() > held.token());
    assert!(program.release(&next));
}

/// What comes of a failover to a server that lost everything and whose clock is behind: its counter begins lower.
#[test]
fn a_clients_tokens_rise_over_a_server_that_knows_nothing_and_whose_clock_is_behind() {
    let port = free_port();
    let configuration = format!("bind 127.0.0.1\nport {port}\n");
    let mut server = Redis::start(&configuration);
    let endpoint = Endpoint::Tcp { host: "127.0.0.1".into(), port };
    let program = Program::with(endpoint, |_| {});
    let first = program.acquire("a", Renewal::Never);
    assert!(program.release(&first));
    let ahead = first.token() + 4096 * 1000 * 86400;
    assert_eq!(Host::connected(&server, SessionSettings::default()).run(&format!("SET {{n}}:#f {ahead}")), ok());
    let second = program.acquire("a", Renewal::Never);
    assert!(second.token() > ahead && program.release(&second));

    for restarts in [true, false] {
        match restarts {
            true => {
                server.stop();
                server = Redis::start(&configuration);
            }
            false => assert_eq!(Host::connected(&server, SessionSettings::default()).run("FLUSHALL"), ok()),
        }
        let next = program.acquire("a", Renewal::Never);
        assert!(next.token() > second.token(), "{} after {}", next.token(), second.token());
        assert!(program.release(&next));
    }
}
