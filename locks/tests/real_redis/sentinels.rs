//! Locks on a primary that Sentinels watch.

use std::time::Duration;

use pinyon_locks::redis::SessionSettings;
use pinyon_locks::{Renewal, SentinelSetup, StatusAnswer, StatusQuestion};
use pinyon_net::{Endpoint, SentinelService};
use pinyon_proto::resp::Value;

use super::ports::free_port;
use super::program::{until, Program};
use super::server::Redis;
use super::{bytes, ok, Host};

/// For how long a lock lasts that is to outlive a failover, which takes a busy machine some seconds.
const FAILOVER: Duration = Duration::from_secs(10);

/// A primary with two replicas, and three Sentinels that watch it.
struct Watched {
    servers: Vec<(u16, Option<Redis>)>,
    sentinels: Vec<(u16, Redis)>,
}

impl Watched {
    fn start() -> Self {
        let first = free_port();
        let primary =
            format!("replicaof 127.0.0.1 {first}\nreplica-serve-stale-data yes\nrepl-diskless-sync-delay 0\n");
        let server = |port: u16, role: &str| {
            (port, Some(Redis::start(&format!("bind 127.0.0.1\nport {port}\nrepl-diskless-sync-delay 0\n{role}"))))
        };
        let mut servers = vec![server(first, "")];
        servers.extend([free_port(), free_port()].map(|port| server(port, &primary)));
        let watch = format!(
            "bind 127.0.0.1\nsentinel monitor main 127.0.0.1 {first} 2\nsentinel down-after-milliseconds main 1000\n\
             sentinel failover-timeout main 5000\n"
        );
        let sentinel = |port: u16| (port, Redis::sentinel(&format!("port {port}\n{watch}")));
        let sentinels = [free_port(), free_port(), free_port()].map(sentinel).into();
        let watched = Self { servers, sentinels };
        watched.wait_until_known();
        watched
    }

    /// A program that asks these Sentinels.
    fn program(&self) -> Program {
        let sentinels: Vec<Endpoint> = self.sentinels.iter().map(|(port, _)| tcp(*port)).collect();
        let service = SentinelService { name: "main".into(), sentinels };
        let login = SessionSettings::default();
        Program::connecting(service.sentinels[0].clone(), Some(SentinelSetup { service, login }))
    }

    /// Waits until all Sentinels know each other and the replicas, which are in step.
    fn wait_until_known(&self) {
        for (_, sentinel) in &self.sentinels {
            let mut host = Host::connected(sentinel, SessionSettings::default());
            until(|| field(&host.run("SENTINEL MASTER main"), "num-other-sentinels") == "2");
            until(|| field(&host.run("SENTINEL MASTER main"), "num-slaves") == "2");
        }
        for (_, server) in &self.servers[1..] {
            let mut host = Host::connected(server.as_ref().unwrap(), SessionSettings::default());
            until(|| matches!(host.run("ROLE"), Value::Array(role) if role[3] == bytes("connected")));
        }
    }

    /// The port of the primary that this Sentinel names.
    fn primary(&self) -> u16 {
        let mut host = Host::connected(&self.sentinels[0].1, SessionSettings::default());
        match host.run("SENTINEL GET-MASTER-ADDR-BY-NAME main") {
            Value::Array(address) => text(&address[1]).parse().unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// Waits until a replica has everything that was written.
    fn replicate(&self) {
        let primary = self.primary();
        let (_, server) = self.servers.iter().find(|(port, _)| *port == primary).unwrap();
        let mut host = Host::connected(server.as_ref().unwrap(), SessionSettings::default());
        assert_eq!(host.run("SET last 1"), ok());
        until(|| matches!(host.run("WAIT 1 1000"), Value::Integer(1..)));
    }

    /// Makes a replica the primary. A Sentinel gives up a failover for which it finds no replica ready, and refuses a
    /// second one while the first is under way.
    fn fail_over(&self) {
        let before = self.primary();
        let mut sentinel = Host::connected(&self.sentinels[0].1, SessionSettings::default());
        until(|| {
            sentinel.run("SENTINEL FAILOVER main");
            self.primary() != before
        });
    }

    fn kill_primary(&mut self) {
        let primary = self.primary();
        let (_, server) = self.servers.iter_mut().find(|(port, _)| *port == primary).unwrap();
        *server = None;
    }
}

fn tcp(port: u16) -> Endpoint {
    Endpoint::Tcp { host: "127.0.0.1".into(), port }
}

fn text(value: &Value) -> &str {
    match value {
        Value::Bytes(text) => std::str::from_utf8(text).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn field(fields: &Value, name: &str) -> String {
    match fields {
        Value::Map(pairs) => text(&pairs.iter().find(|(key, _)| text(key) == name).unwrap().1).to_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lock_is_held_on_while_its_replica_becomes_the_primary() {
    let watched = Watched::start();
    let [holder, other] = [watched.program(), watched.program()];
    let held = holder.acquire_with("a", Renewal::Always, |request| request.ttl = FAILOVER);
    watched.replicate();
    watched.fail_over();
    other.see_renewed("a", FAILOVER);
    assert!(holder.station().remaining(&held).is_some());
    let next = other.acquire("b", Renewal::Never);
    assert!(next.token() > held.token());
    assert!(other.release(&next) && holder.release(&held));
}

#[test]
fn the_next_lock_comes_from_the_new_primary_after_the_old_one_was_killed() {
    let mut watched = Watched::start();
    let [holder, other] = [watched.program(), watched.program()];
    let kept = holder.acquire("a", Renewal::Never);
    assert_eq!(other.ask("a", StatusQuestion::IsLocked), StatusAnswer::IsLocked(true));
    watched.replicate();
    watched.kill_primary();
    let next = other.acquire("b", Renewal::Never);
    assert!(next.token() > kept.token());
    assert!(holder.release(&kept), "its replica had the lock");
    assert!(other.release(&next));
}
