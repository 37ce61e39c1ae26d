//! Locks on a cluster whose nodes come and go.

use pinyon_locks::keys::LockKeys;
use pinyon_locks::redis::SessionSettings;
use pinyon_locks::{Renewal, StatusAnswer, StatusQuestion};
use pinyon_net::Endpoint;
use pinyon_proto::resp::Value;

use super::ports::free_port;
use super::program::{until, Program, TTL};
use super::server::Redis;
use super::{bytes, ok, Host};

/// Three primaries, each with a third of the slots, and their replicas.
struct Cluster {
    primaries: Vec<Node>,
    replicas: Vec<Node>,
}

struct Node {
    port: u16,
    bus: u16,
    server: Redis,
    host: Host,
    id: String,
}

impl Node {
    fn start() -> Self {
        let (port, bus) = (free_port(), free_port());
        let server = Redis::start(&format!(
            "bind 127.0.0.1\nport {port}\ncluster-enabled yes\ncluster-port {bus}\ncluster-node-timeout 2000\n\
             cluster-require-full-coverage no\nrepl-diskless-sync-delay 0\n"
        ));
        let mut host = Host::connected(&server, SessionSettings::default());
        let id = text(&host.run("CLUSTER MYID"));
        Self { port, bus, server, host, id }
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::Tcp { host: "127.0.0.1".into(), port: self.port }
    }

    fn meet(&mut self, other: &Self) {
        assert_eq!(self.host.run(&format!("CLUSTER MEET 127.0.0.1 {} {}", other.port, other.bus)), ok());
    }

    /// Waits until this node knows so many others, and counts so many slots as served.
    fn wait_until_it_knows(&mut self, nodes: usize) {
        until(|| {
            let known = text(&self.host.run("CLUSTER NODES"));
            let is_ready = |line: &&str| line.split(' ').nth(7) == Some("connected") && !line.contains("handshake");
            known.lines().filter(is_ready).count() == nodes
        });
        until(|| text(&self.host.run("CLUSTER INFO")).contains("cluster_state:ok"));
    }

    fn replicate(&mut self, primary: &Node) {
        until(|| self.host.run(&format!("CLUSTER REPLICATE {}", primary.id)) == ok());
        until(|| matches!(self.host.run("ROLE"), Value::Array(role) if role[3] == bytes("connected")));
    }

    /// Waits until its replica has everything that was written.
    fn wait_for_replica(&mut self) {
        assert_eq!(self.host.run(&format!("SET {} 1", key("last"))), ok());
        until(|| matches!(self.host.run("WAIT 1 1000"), Value::Integer(1)));
    }
}

impl Cluster {
    fn start() -> Self {
        let [mut primaries, mut replicas] = [(); 2].map(|()| [(); 3].map(|()| Node::start()));
        for (primary, slots) in primaries.iter_mut().zip(["0 5460", "5461 10922", "10923 16383"]) {
            assert_eq!(primary.host.run(&format!("CLUSTER ADDSLOTSRANGE {slots}")), ok());
        }
        let [first, others @ ..] = &mut primaries;
        others.iter().chain(&replicas).for_each(|other| first.meet(other));
        primaries.iter_mut().chain(&mut replicas).for_each(|node| node.wait_until_it_knows(6));
        for (replica, primary) in replicas.iter_mut().zip(&primaries) {
            replica.replicate(primary);
        }
        Self { primaries: primaries.into(), replicas: replicas.into() }
    }

    /// Takes out the primary of the locks' slot, and its replica.
    fn take_pair(&mut self) -> (Node, Node) {
        let at = usize::from(slot() / 5461).min(2);
        (self.primaries.remove(at), self.replicas.remove(at))
    }
}

fn slot() -> u16 {
    LockKeys::new("n").unwrap().slot()
}

/// A key in the locks' slot.
fn key(name: &str) -> String {
    format!("{{n}}:{name}")
}

fn text(value: &Value) -> String {
    match value {
        Value::Bytes(text) => String::from_utf8(text.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_promoted_replica_is_found_though_only_the_dead_primary_was_named() {
    let mut cluster = Cluster::start();
    let (mut primary, _replica) = cluster.take_pair();
    let [holder, other] = [(); 2].map(|()| Program::connecting(primary.endpoint(), None));
    let held = holder.acquire("a", Renewal::Never);
    assert_eq!(other.ask("a", StatusQuestion::IsLocked), StatusAnswer::IsLocked(true));
    primary.wait_for_replica();
    primary.server.stop();
    let next = other.acquire("b", Renewal::Never);
    assert!(next.token() > held.token());
    assert!(holder.release(&held), "the replica had it");
    assert!(other.release(&next));
}

#[test]
fn nodes_that_are_added_are_learned_before_those_that_are_removed_are_gone() {
    let mut cluster = Cluster::start();
    let (mut old, old_replica) = cluster.take_pair();
    let [holder, other] = [(); 2].map(|()| Program::connecting(old.endpoint(), None));
    let held = holder.acquire("a", Renewal::Always);
    assert_eq!(other.ask("a", StatusQuestion::IsLocked), StatusAnswer::IsLocked(true));

    let [mut new, mut replica] = [(); 2].map(|()| Node::start());
    [&new, &replica].into_iter().for_each(|node| old.meet(node));
    let rest = cluster.primaries.iter_mut().chain(&mut cluster.replicas);
    rest.chain([&mut new, &mut replica, &mut old]).for_each(|node| node.wait_until_it_knows(8));
    replica.replicate(&new);
    move_slot(&mut old, &mut new, cluster.primaries.iter_mut());
    holder.see_renewed("a", TTL);
    assert_eq!(other.ask("a", StatusQuestion::IsLocked), StatusAnswer::IsLocked(true), "asked at the new node");

    let rest = cluster.primaries.iter_mut().chain(&mut cluster.replicas).chain([&mut new, &mut replica]);
    for node in rest {
        for gone in [&old, &old_replica] {
            node.host.run(&format!("CLUSTER FORGET {}", gone.id));
        }
    }
    drop((old, old_replica));
    assert!(holder.release(&held));
    new.wait_for_replica();
    new.server.stop();
    let next = other.acquire("b", Renewal::Never);
    assert!(next.token() > held.token());
    assert!(other.release(&next));
}

/// Moves the locks' slot with its keys, as resharding does.
fn move_slot<'n>(from: &'n mut Node, to: &'n mut Node, others: impl Iterator<Item = &'n mut Node>) {
    let slot = slot();
    assert_eq!(to.host.run(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", from.id)), ok());
    assert_eq!(from.host.run(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", to.id)), ok());
    while let Value::Array(keys) = from.host.run(&format!("CLUSTER GETKEYSINSLOT {slot} 100")) {
        if keys.is_empty() {
            break;
        }
        let (port, keys) = (to.port.to_string(), keys.iter().map(text).collect::<Vec<_>>());
        let mut command: Vec<&[u8]> = vec![b"MIGRATE", b"127.0.0.1", port.as_bytes(), b"", b"0", b"5000", b"KEYS"];
        command.extend(keys.iter().map(String::as_bytes));
        from.host.submit(&command);
        from.host.reply();
    }
    let id = to.id.clone();
    for node in [to, from].into_iter().chain(others) {
        assert_eq!(node.host.run(&format!("CLUSTER SETSLOT {slot} NODE {id}")), ok());
    }
}
