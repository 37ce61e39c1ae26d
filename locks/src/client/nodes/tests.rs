//! A client that looks for its slot among nodes that come and go.

use super::*;
use crate::client::link::COMMANDS;
use crate::client::tests::{Host, NODE};
use crate::machine::{LockRequest, Renewal};
use crate::tests::in_memory::InMemory;
use pinyon_net::connection::peer::{Ending, Opening};

const PRIMARY: &str = "10.0.0.1";
const REPLICA: &str = "10.0.0.4";
const OTHER: &str = "10.0.0.2";
const GRANTED: &str = "*1\r\n:4999\r\n:5000\r\n";

/// The answer to `CLUSTER SLOTS`: all slots are at these nodes, of which the first is their primary.
fn slots(nodes: &[&str]) -> String {
    let node = |host: &&str| format!("*2\r\n${}\r\n{host}\r\n:6379\r\n", host.len());
    format!("*1\r\n*{}\r\n:0\r\n:16383\r\n{}", 2 + nodes.len(), nodes.iter().map(node).collect::<String>())
}

/// The node that was connected to last names all nodes, and answers the question for the slot.
fn node_says(host: &mut Host, nodes: &str, exists: &str) {
    assert_eq!(host.sent(), ["HELLO", "PING"], "{:?}", host.opened());
    host.answer(NODE);
    assert_eq!(host.sent(), ["CLUSTER", "EXISTS"]);
    host.answer(&[nodes, exists].concat());
    host.answer("");
}

fn moved_to(node: &str) -> String {
    format!("-MOVED 7 {node}:6379\r\n")
}

/// The rest of the greeting. Returns the calls.
fn is_served(host: &mut Host) -> Vec<String> {
    assert_eq!(host.sent(), ["SUBSCRIBE"]);
    host.answer(
        ">3\r\n$9\r\nsubscribe\r\n$8\r\n{n}:#c:c\r\n:1\r\n>3\r\n$9\r\nsubscribe\r\n$10\r\n{n}:#freed\r\n:2\r\n",
    );
    let mut sent = host.sent();
    assert_eq!(sent.remove(0), "INFO");
    host.answer("$0\r\n\r\n");
    sent
}

/// The places of the last connections.
fn opened(host: &Host, since: usize) -> Vec<String> {
    host.opened()[since..].iter().map(|place| place.trim_end_matches(":6379").to_owned()).collect()
}

/// A client of the primary, the only node in its settings. It knows the replica.
fn served() -> Host {
    let mut host = Host::of_cluster([PRIMARY]);
    let number = host.lock("first", false);
    node_says(&mut host, &slots(&[PRIMARY, REPLICA]), ":1\r\n");
    assert_eq!(is_served(&mut host), ["FCALL pinyon_open_8", "FCALL pinyon_lock_8"]);
    host.answer(GRANTED);
    host.release("first", number);
    assert_eq!(host.sent(), ["FCALL pinyon_unlock_8"]);
    host.answer(":1\r\n");
    assert_eq!(host.told.len(), 2);
    host.told.clear();
    host
}

#[test]
fn a_replica_that_is_promoted_is_found_although_no_one_names_it() {
    let mut host = served();
    host.refuse(1);
    host.end_on(COMMANDS, Ending::Reset);
    host.lock("second", false);
    host.answer("");
    node_says(&mut host, &slots(&[PRIMARY, REPLICA]), &moved_to(PRIMARY));
    assert_eq!(opened(&host, 1), [PRIMARY, REPLICA], "the primary is not asked twice in a round");
    assert!(host.told.is_empty(), "{:?}", host.told);

    host.await_due();
    host.answer("");
    assert_eq!(opened(&host, 3), [REPLICA], "whoever answers is asked again");
    node_says(&mut host, &slots(&[REPLICA]), ":0\r\n");
    is_served(&mut host);
    host.answer("*1\r\n:5000\r\n:0\r\n:5001\r\n");
    assert!(format!("{:?}", host.told).contains("second"), "{:?}", host.told);
}

#[test]
fn those_in_the_settings_are_the_last_resort() {
    let mut host = Host::of_cluster(["10.0.0.8", "10.0.0.9"]);
    host.lock("first", false);
    node_says(&mut host, &slots(&[PRIMARY, REPLICA]), &moved_to(PRIMARY));
    node_says(&mut host, &slots(&[PRIMARY, REPLICA]), ":1\r\n");
    is_served(&mut host);
    host.refuse(3);
    host.end_on(COMMANDS, Ending::Reset);
    host.answer("");
    assert_eq!(opened(&host, 2), [PRIMARY, REPLICA, "10.0.0.8", "10.0.0.9"]);
    node_says(&mut host, &slots(&["10.0.0.9"]), ":1\r\n");
    is_served(&mut host);
    assert_eq!(host.settings().slots.of(7), [Endpoint::Tcp { host: "10.0.0.9".into(), port: 6379 }]);
}

/// Waits for the answer of a cluster in which nobody serves the slot.
fn in_vain(host: &mut Host) -> String {
    for _ in 0..100 {
        if !host.told.is_empty() {
            return format!("{:?}", host.told);
        }
        host.answer("");
        let sent = host.sent();
        match host.opened().last().map(String::as_str) {
            _ if sent == ["EXISTS"] => host.answer("-CLUSTERDOWN Hash slot not served\r\n"),
            _ if sent != ["HELLO", "PING"] => host.await_due(),
            Some("10.0.0.1:6379") => answers(host, "-CLUSTERDOWN Hash slot not served\r\n"),
            _ => {
                host.refuse(1);
                answers(host, &moved_to("10.0.0.3"));
            }
        }
    }
    panic!("it is never told")
}

fn answers(host: &mut Host, exists: &str) {
    host.answer(NODE);
    host.sent();
    host.answer(&["-NOPERM no permissions\r\n", exists].concat());
    host.answer("");
}

#[test]
fn a_slot_that_nobody_serves_is_waited_for_and_then_named_with_what_each_node_says() {
    let mut host = Host::of_cluster([PRIMARY, "10.0.0.2"]);
    let slot = host.settings().keys.slot();
    let said = format!(
        "slot {slot} of the cluster is not served: 10.0.0.1:6379 says CLUSTERDOWN Hash slot not served; 10.0.0.2:6379 \
         says that it is on 10.0.0.3:6379; 10.0.0.3:6379 cannot be asked"
    );
    host.lock("lock", false);
    let told = in_vain(&mut host);
    assert!(told.contains(&said), "{told}");
    assert!(host.opened().len() > 6, "{:?}", host.opened());

    host.told.clear();
    host.inspect("ask");
    let told = in_vain(&mut host);
    assert!(told.contains(&said), "{told}");
}

#[test]
fn a_primary_that_is_cut_off_from_the_others_is_left_for_the_one_they_have_chosen() {
    let mut host = served();
    host.lock("second", false);
    let calls = host.sent();
    host.answer("-CLUSTERDOWN The cluster is down\r\n");
    host.answer("");
    node_says(&mut host, &slots(&[REPLICA]), ":0\r\n");
    assert_eq!(opened(&host, 1), [REPLICA]);
    assert_eq!(is_served(&mut host)[2..], calls);
}

#[test]
fn a_slot_that_is_about_to_move_is_where_it_was() {
    for moving in ["-ASK 7 10.0.0.2:6379\r\n", "-TRYAGAIN a slot moves\r\n"] {
        let mut host = Host::of_cluster([PRIMARY]);
        host.lock("lock", false);
        node_says(&mut host, &slots(&[PRIMARY]), moving);
        is_served(&mut host);
    }
}

#[test]
fn a_new_client_waits_for_a_slot_that_each_of_two_nodes_says_the_other_has() {
    let mut host = Host::of_cluster([PRIMARY]);
    host.lock("lock", false);
    let nodes = slots(&[PRIMARY, OTHER]);
    node_says(&mut host, &nodes, &moved_to(OTHER));
    node_says(&mut host, &nodes, &moved_to(PRIMARY));
    assert!(host.told.is_empty(), "{:?}", host.told);

    host.await_due();
    host.answer("");
    node_says(&mut host, &nodes, ":0\r\n");
    assert_eq!(is_served(&mut host), ["FCALL pinyon_open_8", "FCALL pinyon_lock_8"]);
}

#[test]
fn a_slot_whose_node_cannot_be_asked_is_waited_for_and_then_told_of() {
    let mut host = Host::of_cluster([PRIMARY]);
    host.lock("lock", false);
    host.refuse(100);
    node_says(&mut host, &slots(&[PRIMARY]), &moved_to(OTHER));
    assert!(host.told.is_empty(), "{:?}", host.told);
    let told = format!("{:?}", host.events);
    assert!(told.contains("10.0.0.2:6379 cannot be asked"), "{told}");
}

#[test]
fn nodes_that_always_send_one_on_do_so_for_one_round() {
    let mut host = Host::of_cluster([PRIMARY]);
    host.lock("lock", false);
    for number in 0..MOST_ASKED {
        node_says(&mut host, "*0\r\n", &moved_to(&format!("10.0.1.{number}")));
    }
    assert_eq!(host.opened().len(), MOST_ASKED);
    assert!(format!("{:?}", host.events).contains("and 56 more"), "{:?}", host.events);
}

#[test]
fn the_nodes_are_asked_for_again_from_time_to_time() {
    let mut host = served();
    host.let_pass(REFRESH);
    host.lock("second", false);
    host.sent();
    host.answer(":5001\r\n");
    host.await_due();
    assert_eq!(host.sent()[0], "CLUSTER");
    host.answer(&slots(&["10.0.0.7"]));
    assert_eq!(host.settings().slots.of(7).len(), 1);
}

#[test]
fn clients_of_other_hash_tags_begin_where_their_slot_is() {
    let host = served();
    let mut tagged = Host::with(InMemory::default(), host.settings().tagged(b"tag"));
    tagged.settings().slots.learn(
        &Value::Array(vec![Value::Array(vec![
            Value::Integer(0),
            Value::Integer(16383),
            Value::Array(vec![Value::Bytes(b"10.0.0.7"[..].into()), Value::Integer(6379)]),
        ])]),
        &Endpoint::Unix("/".into()),
    );
    tagged.lock("lock", false);
    assert_eq!(opened(&tagged, 0), ["10.0.0.7"]);
}

#[test]
fn a_single_server_is_asked_once_in_a_round() {
    let mut host = Host::of_cluster([PRIMARY]);
    host.refuse(100);
    host.lock("lock", false);
    assert_eq!(opened(&host, 0), [PRIMARY]);
    host.pass(Duration::from_secs(4), "");
    let told = format!("{:?}", host.told);
    assert!(told.contains("Connect") && !told.contains("cluster"), "{told}");
}

/// A cluster whose primary has gone. Its nodes answer the question for the slot.
struct Leaderless {
    host: Host,
    heartbeat: Duration,
    /// How often they were asked.
    questions: usize,
}

impl Leaderless {
    /// Somebody waits for a lock, and the primary is gone like this.
    fn with(heartbeat: Duration, gone: Opening) -> Self {
        let mut host = Host::of_cluster([PRIMARY, OTHER, REPLICA]).beating(heartbeat);
        let number = host.lock("first", false);
        node_says(&mut host, &slots(&[PRIMARY, REPLICA]), ":1\r\n");
        is_served(&mut host);
        host.answer(GRANTED);
        host.release("first", number);
        host.sent();
        host.answer(":1\r\n");
        host.open_at(PRIMARY, gone);
        host.end_on(COMMANDS, Ending::Reset);
        host.request("wait", waiting());
        Self { host, heartbeat, questions: 0 }
    }

    /// Lets so much time pass, in which the nodes say this of the slot. Returns whether one of them serves it.
    fn pass(&mut self, time: Duration, says: impl Fn(&str) -> String) -> bool {
        let end = self.host.elapsed() + time;
        loop {
            self.host.answer("");
            let (sent, opened) = (self.host.sent(), self.host.opened());
            let asked = opened.last().expect("a connection").trim_end_matches(":6379").to_owned();
            let nodes = slots(&[PRIMARY, REPLICA]);
            match &sent.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["HELLO", "PING"] => self.host.answer(NODE),
                ["CLUSTER", "EXISTS"] => self.host.answer(&[nodes, says(&asked)].concat()),
                ["EXISTS"] => self.host.answer(&says(&asked)),
                ["SUBSCRIBE"] => return true,
                [] if self.host.elapsed() >= end => return false,
                [] => drop(self.host.await_due_until(end)),
                other => panic!("{other:?}"),
            }
            self.questions += usize::from(sent.last().is_some_and(|last| last == "EXISTS"));
        }
    }

    /// The time from now until one of them serves the slot.
    fn until_served(&mut self, says: impl Fn(&str) -> String) -> Duration {
        let before = self.host.elapsed();
        assert!(self.pass(60 * self.heartbeat, says), "it never finds the slot");
        self.host.elapsed() - before
    }
}

fn waiting() -> LockRequest {
    let (ttl, wait) = (Duration::from_secs(10), Some(Duration::from_secs(3600)));
    let names = crate::keys::names(["a"]).unwrap();
    LockRequest { names, owner: 1, ttl, wait, renewal: Renewal::Never, reentrant: false, rare: None }
}

/// What all say once the replica has taken over.
fn promoted(asked: &str) -> String {
    if asked == REPLICA {
        return ":0\r\n".into();
    }
    moved_to(REPLICA)
}

const HEARTBEAT: Duration = Duration::from_millis(800);
/// How long a client tries to connect.
const CONNECTING: Duration = Duration::from_secs(1);

#[test]
fn the_next_primary_is_found_within_a_quarter_of_a_heartbeat() {
    for down in [moved_to(PRIMARY), "-CLUSTERDOWN The cluster is down\r\n".into()] {
        for moment in 0..60 {
            let mut cluster = Leaderless::with(HEARTBEAT, Opening::Refused);
            assert!(!cluster.pass(Duration::from_millis(5000 + 37 * moment), |_| down.clone()));
            let late = cluster.until_served(promoted);
            assert!(late <= HEARTBEAT / 4, "{late:?}, after {down:?} and {moment}");
        }
    }
}

#[test]
fn a_node_that_does_not_hear_of_the_next_primary_misleads_for_less_than_a_heartbeat() {
    for moment in 0..60 {
        let mut cluster = Leaderless::with(HEARTBEAT, Opening::Refused);
        assert!(!cluster.pass(Duration::from_millis(5000 + 37 * moment), |_| moved_to(PRIMARY)));
        let late = cluster.until_served(|asked| match asked {
            REPLICA => moved_to(PRIMARY),
            "10.0.0.7" => ":0\r\n".into(),
            _ => moved_to("10.0.0.7"),
        });
        assert!(late <= HEARTBEAT, "{late:?} after {moment}");
    }
}

#[test]
fn a_primary_that_takes_no_connection_keeps_the_others_from_being_asked_for_a_short_time() {
    let mut late = Vec::new();
    for moment in 0..100 {
        let mut cluster = Leaderless::with(HEARTBEAT, Opening::After(usize::MAX));
        assert!(!cluster.pass(Duration::from_millis(5000 + 83 * moment), |_| moved_to(PRIMARY)));
        late.push(cluster.until_served(promoted));
    }
    late.sort();
    assert!(late[80] <= HEARTBEAT * 3 / 4 && late[99] <= CONNECTING + HEARTBEAT / 4, "{late:?}");
}

#[test]
fn a_cluster_without_the_slot_is_asked_little() {
    for heartbeat in [1, 5, 60] {
        let mut cluster = Leaderless::with(Duration::from_secs(heartbeat), Opening::Refused);
        assert!(!cluster.pass(Duration::from_secs(100), |_| moved_to(PRIMARY)));
        let opened = cluster.host.opened().len();
        assert!((300..1500).contains(&cluster.questions), "{}", cluster.questions);
        assert!(opened < 800, "{opened}");
        assert!(!format!("{:?}", cluster.host.told).contains("Failed"), "{:?}", cluster.host.told);
    }
}
