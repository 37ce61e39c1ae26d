//! A client against a server whose answers the test writes, and how long its callers then wait.

use std::time::Duration;

use super::*;
use crate::call::Call;
use crate::keys;
use crate::machine::{LockRequest, Renewal};
use crate::observed::LockEventKind;
use crate::tests::in_memory::{name_of, settings, InMemory, GREETING, PATIENCE};
use pinyon_net::address::{Address, SentinelService};
use pinyon_net::connection::peer::{Ending, Opening};
use pinyon_net::driven::Driven;
use pinyon_proto::resp::Command;

const TTL: Duration = Duration::from_secs(10);
const GRANTED: &str = ":5000\r\n";

pub(super) struct Host {
    client: Client<&'static str, InMemory>,
    platform: InMemory,
    /// The outcomes that the waiters received.
    pub(super) told: Vec<(&'static str, Outcome)>,
    pub(super) warnings: Vec<String>,
    /// What happened to the servers.
    pub(super) events: Vec<LockEvent>,
}

impl Host {
    /// Greeted by RESP3 and subscribed. Nothing about locks has been asked yet.
    fn connected(handler: HandlerKind) -> Self {
        Self::connected_with(handler, redis::SessionSettings::default())
    }

    fn connected_with(handler: HandlerKind, login: redis::SessionSettings) -> Self {
        let platform = InMemory::default();
        let settings = Setup { login, ..settings(handler) };
        let client = Client::on(platform.clone(), settings, "c".into());
        let mut host = Self { client, platform, told: Vec::new(), warnings: Vec::new(), events: Vec::new() };
        host.inspect("ask");
        host.greet();
        let inspected = match handler {
            HandlerKind::Pure => "*1\r\n$-1\r\n:-2\r\n*2\r\n$1\r\n1\r\n$1\r\n1\r\n*0\r\n",
            _ => "*1\r\n*3\r\n$-1\r\n:-2\r\n:-1\r\n",
        };
        host.answer(inspected);
        assert!(matches!(host.told.pop(), Some(("ask", Outcome::Answered(_)))), "{:?}", host.told);
        host
    }

    /// Nothing is asked yet of these Sentinels.
    pub(super) fn watched_by<const COUNT: usize>(sentinels: [&str; COUNT]) -> Self {
        let platform = InMemory::default();
        let endpoint = |host: &str| Endpoint::Tcp { host: host.into(), port: 26379 };
        let sentinels: Vec<Endpoint> = sentinels.into_iter().map(endpoint).collect();
        let service = SentinelService { name: "main".into(), sentinels };
        let settings = Setup {
            endpoint: service.sentinels[0].clone(),
            server: service.to_string().into(),
            sentinels: Some(SentinelSetup { service, login: redis::SessionSettings::default() }),
            ..settings(HandlerKind::Script)
        };
        Self::with(platform, settings)
    }

    /// Nothing is asked yet of these nodes of a cluster.
    pub(super) fn of_cluster<const COUNT: usize>(nodes: [&str; COUNT]) -> Self {
        let platform = InMemory::default();
        let mut nodes = nodes.into_iter().map(|host| Endpoint::Tcp { host: host.into(), port: 6379 });
        let endpoint = nodes.next().expect("a node");
        let settings = Setup { endpoint, other_nodes: nodes.collect(), ..settings(HandlerKind::Script) };
        Self::with(platform, settings)
    }

    /// Its client says so often that it is alive.
    pub(super) fn beating(mut self, heartbeat: Duration) -> Self {
        let mut settings = self.client.settings().clone();
        settings.options.heartbeat = heartbeat;
        self.client = Client::on(self.platform.clone(), settings, "c".into());
        self
    }

    pub(super) fn with(platform: InMemory, settings: Setup) -> Self {
        Self {
            client: Client::on(platform.clone(), settings, "c".into()),
            platform,
            told: Vec::new(),
            warnings: Vec::new(),
            events: Vec::new(),
        }
    }

    /// The next connections are refused.
    pub(super) fn refuse(&self, connections: usize) {
        self.platform.peer.expect_openings(vec![Opening::Unreachable; connections]);
    }

    /// Connections to this node turn out like this from now on.
    pub(super) fn open_at(&self, host: &str, opening: Opening) {
        let address = format!("{host}:6379").parse().expect("an address");
        self.platform.peer.open_at(&Address::Tcp(address), opening);
    }

    /// The time since the client began.
    pub(super) fn elapsed(&self) -> Duration {
        self.platform.elapsed.get()
    }

    pub(super) fn settings(&self) -> &Setup {
        self.client.settings()
    }

    /// The server accepts the client. Returns what the client asked together with the last question.
    pub(super) fn greet(&mut self) -> Vec<String> {
        let mut sent = Vec::new();
        for (asked, answer) in GREETING {
            sent = self.sent();
            assert_eq!(sent.remove(0), asked);
            self.answer(answer);
        }
        sent
    }

    /// Lets the client begin something.
    pub(super) fn begin<T>(&mut self, begin: impl FnOnce(&mut Client<&'static str, InMemory>, Now) -> T) -> T {
        let now = self.client.now();
        let begun = begin(&mut self.client, now);
        self.settle();
        begun
    }

    pub(super) fn request(&mut self, waiter: &'static str, request: LockRequest) -> Option<u64> {
        self.begin(|client, now| client.lock(request, None, waiter, now))
    }

    pub(super) fn release(&mut self, waiter: &'static str, number: u64) {
        self.begin(|client, now| client.release(number, waiter, now));
    }

    pub(super) fn extend(&mut self, waiter: &'static str, number: u64) {
        self.begin(|client, now| client.extend(number, TTL, waiter, now));
    }

    pub(super) fn inspect(&mut self, waiter: &'static str) {
        let call = Call::Inspect { names: keys::names(["a"]).unwrap(), remarks: false };
        self.begin(|client, now| client.ask(call, waiter, now));
    }

    fn ping(&mut self, waiter: &'static str, patience: Duration) {
        let command = Command::of(["PING"]);
        self.begin(|client, now| client.execute(command, now.instant + patience, waiter, now.instant));
    }

    pub(super) fn lock(&mut self, waiter: &'static str, reentrant: bool) -> u64 {
        self.lock_of(1, "a", waiter, reentrant)
    }

    pub(super) fn lock_of(&mut self, owner: u64, name: &str, waiter: &'static str, reentrant: bool) -> u64 {
        self.request(waiter, wanting(owner, name, reentrant)).expect("it has a number")
    }

    pub(super) fn cannot_lock(&mut self, owner: u64, name: &str, waiter: &'static str) {
        assert_eq!(self.request(waiter, wanting(owner, name, true)), None);
    }

    pub(super) fn cancel(&mut self, number: u64) {
        self.client.cancel(number, self.client.now());
        self.settle();
    }

    pub(super) fn close(&mut self) {
        self.client.close(self.platform.now());
        self.settle();
    }

    pub(super) fn expire(&mut self) {
        self.client.expire(self.platform.now());
        self.settle();
    }

    /// A held lock.
    fn held(&mut self) -> u64 {
        let number = self.lock("lock", false);
        assert_eq!(self.sent(), ["FCALL pinyon_open_8", "FCALL pinyon_lock_8"]);
        self.answer(&["*1\r\n:4999\r\n", GRANTED].concat());
        assert!(matches!(self.told.pop(), Some(("lock", Outcome::Granted { .. }))), "{:?}", self.told);
        number
    }

    /// The names of the commands that the server received since the last call, with the names of functions.
    pub(super) fn sent(&mut self) -> Vec<String> {
        self.commands().iter().map(|command| name_of(command)).collect()
    }

    pub(super) fn commands(&mut self) -> Vec<Vec<String>> {
        self.settle();
        self.platform.commands()
    }

    pub(super) fn answer(&mut self, reply: &str) {
        self.answer_on(link::COMMANDS, reply);
    }

    pub(super) fn answer_on(&mut self, lane: usize, reply: &str) {
        self.platform.peer.reply(reply.as_bytes());
        self.client.ready(lane, self.platform.now());
        self.settle();
    }

    /// The connection of a lane ends.
    pub(super) fn end_on(&mut self, lane: usize, ending: Ending) {
        self.platform.peer.end(ending);
        self.client.ready(lane, self.platform.now());
        self.settle();
    }

    /// The kinds of the events since the last call.
    pub(super) fn kinds(&mut self) -> Vec<LockEventKind> {
        self.events.drain(..).map(|event| event.kind).collect()
    }

    /// Lets time pass until the client acts again.
    pub(super) fn pass_to_next_try(&mut self) {
        let left = self.client.deadline().expect("it tries again").saturating_duration_since(self.platform.now());
        self.platform.elapsed.set(self.platform.elapsed.get() + left);
        self.client.expire(self.platform.now());
        self.settle();
    }

    /// The addresses of all connections so far.
    pub(super) fn opened(&self) -> Vec<String> {
        self.platform.peer.opened().iter().map(Address::to_string).collect()
    }

    /// Lets time pass. Whenever something is due, the server answers it with `reply`.
    pub(super) fn pass(&mut self, time: Duration, reply: &str) {
        let end = self.platform.now() + time;
        while let Some(due) = self.client.deadline().filter(|due| *due <= end) {
            let left = due.saturating_duration_since(self.platform.now());
            self.platform.elapsed.set(self.platform.elapsed.get() + left);
            self.client.expire(self.platform.now());
            self.settle();
            let asked = self.sent().len();
            self.answer(&reply.repeat(asked));
        }
        let left = end - self.platform.now();
        self.platform.elapsed.set(self.platform.elapsed.get() + left);
    }

    /// Lets time pass. Whatever is due meanwhile is not done yet.
    pub(super) fn let_pass(&self, time: Duration) {
        self.platform.elapsed.set(self.platform.elapsed.get() + time);
    }

    /// Lets time pass until something is due, or until this time. Returns whether something was due.
    pub(super) fn await_due_until(&mut self, end: Duration) -> bool {
        let left = end.saturating_sub(self.elapsed());
        let is_due = self.client.deadline().is_some_and(|due| due <= self.platform.now() + left);
        match is_due {
            true => self.await_due(),
            false => self.let_pass(left),
        }
        is_due
    }

    /// Lets time pass until something is due.
    pub(super) fn await_due(&mut self) {
        let due = self.client.deadline().expect("something is due");
        let left = due.saturating_duration_since(self.platform.now());
        self.platform.elapsed.set(self.platform.elapsed.get() + left);
        self.client.expire(self.platform.now());
        self.settle();
    }

    fn settle(&mut self) {
        loop {
            let (actions, finished) = (self.client.take_actions(), self.client.take_finished());
            if actions.is_none() && finished.is_empty() {
                return;
            }
            for action in actions.into_iter().flatten() {
                match action {
                    Action::Forget { lane, .. } => self.client.forgotten(lane, self.platform.now()),
                    Action::EndTurn => self.client.turn(self.platform.now()),
                    Action::Watch { .. } | Action::Resolve { .. } => {}
                    Action::Ask(question) => question.put(|| ()),
                }
            }
            for report in finished {
                match report {
                    Report::Done { waiter, outcome } => self.told.push((waiter, outcome)),
                    Report::Warning(warning) => self.warnings.push(warning),
                    Report::Event(event) => self.events.push(*event),
                    Report::Lost { .. } => {}
                }
            }
        }
    }
}

fn wanting(owner: u64, name: &str, reentrant: bool) -> LockRequest {
    let names = keys::names([name]).unwrap();
    let (wait, renewal) = (Some(Duration::from_secs(3)), Renewal::Never);
    LockRequest { names, owner, ttl: TTL, wait, renewal, reentrant, rare: None }
}

#[test]
fn events_say_when_the_server_is_lost_and_found() {
    let mut host = Host::connected(HandlerKind::Script);
    host.held();
    assert_eq!(host.kinds(), [LockEventKind::Connected]);
    host.platform.peer.expect_openings([Opening::Unreachable; 3]);
    host.end_on(link::COMMANDS, Ending::Closed);
    for _ in 0..2 {
        host.pass_to_next_try();
    }
    assert_eq!(host.kinds(), [LockEventKind::Disconnected, LockEventKind::Down], "told once");
    host.pass_to_next_try();
    host.answer("");
    host.greet();
    assert_eq!(host.kinds(), [LockEventKind::Up]);
    let metrics = host.client.settings.options.observed.metrics();
    assert_eq!((metrics.connects, metrics.disconnects, metrics.switches), (2, 1, 0));
    host.client.close(host.platform.now());
    host.settle();
    assert_eq!(host.kinds(), [], "whoever closes it knows");
}

#[test]
fn an_extension_is_answered_in_time_whatever_the_server_says() {
    for reply in ["-TRYAGAIN a slot moves\r\n", "-ASK 7 127.0.0.1:7001\r\n", "-MOVED 7 nowhere\r\n"] {
        let mut host = Host::connected(HandlerKind::Script);
        let number = host.held();
        host.extend("extend", number);
        assert_eq!(host.sent(), ["FCALL pinyon_extend_8"]);
        host.answer(reply);
        host.pass(PATIENCE, reply);
        assert!(matches!(host.told[..], [("extend", Outcome::Failed(_))]), "{reply}: {:?}", host.told);
    }
}

#[test]
fn nodes_that_send_each_others_clients_on_are_not_asked_without_end() {
    let mut host = Host::connected(HandlerKind::Script);
    host.platform.peer.end(Ending::Closed);
    host.client.ready(link::COMMANDS, host.platform.now());
    host.lock("lock", false);
    let (mut redirected, end) = (0, host.platform.now() + Duration::from_secs(2));
    while host.platform.now() < end && redirected < 100 {
        match host.sent().first().map(String::as_str) {
            Some("HELLO") => {
                host.answer(NODE);
                assert_eq!(host.sent(), ["CLUSTER", "EXISTS"]);
                redirected += 1;
                host.answer(&format!("*0\r\n-MOVED 7 127.0.0.{}:6379\r\n", 1 + redirected % 2));
                host.client.ready(link::COMMANDS, host.platform.now());
            }
            _ => {
                let due = host.client.deadline().expect("it tries again").min(end);
                let left = due.saturating_duration_since(host.platform.now());
                host.platform.elapsed.set(host.platform.elapsed.get() + left);
                host.client.expire(host.platform.now());
                host.settle();
                host.client.ready(link::COMMANDS, host.platform.now());
            }
        }
    }
    assert!((3..20).contains(&redirected), "{redirected}");
}

#[test]
fn the_nodes_of_a_cluster_are_asked_in_turn_before_any_failure_is_told() {
    let mut host = Host::of_cluster(["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    host.refuse(3);
    host.lock("first", false);
    assert!(host.told.is_empty(), "{:?}", host.told);
    assert_eq!(host.opened(), ["10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"]);
    assert_eq!(host.kinds(), [LockEventKind::Down; 4], "each node, and then all of them");

    host.told.clear();
    host.lock("second", false);
    host.platform.peer.expect_openings([Opening::Unreachable]);
    host.pass(Duration::from_secs(1), "");
    assert_eq!(host.opened()[3..], ["10.0.0.1:6379", "10.0.0.2:6379"], "after a pause, from the first");
    host.answer("%2\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n+PONG\r\n");
    assert_eq!(host.opened()[5..], ["10.0.0.3:6379"], "what is no node of a cluster keeps no locks");
    assert_eq!(host.kinds(), [], "they are down still");
}

#[test]
fn a_node_of_a_cluster_that_is_away_is_told_once_and_when_it_is_back() {
    let mut host = Host::of_cluster(["10.0.0.1", "10.0.0.2"]);
    host.refuse(1);
    let greet = |host: &mut Host| {
        host.answer("");
        let hello = GREETING[0].1.replacen("%2", "%3", 1);
        host.answer(&hello.replacen("+PONG", "$4\r\nmode\r\n$7\r\ncluster\r\n+PONG", 1));
        // It names no nodes, and has the slot.
        host.answer("*0\r\n:0\r\n");
        host.answer(GREETING[1].1);
    };
    host.lock("first", false);
    greet(&mut host);
    let told: Vec<_> = host.events.drain(..).map(|event| (event.kind, event.server.to_string())).collect();
    let [first, second] = ["10.0.0.1:6379", "10.0.0.2:6379"].map(str::to_owned);
    assert_eq!(told, [(LockEventKind::Down, first.clone()), (LockEventKind::Connected, second.clone())]);
    host.platform.peer.expect_openings([Opening::Unreachable]);
    host.end_on(link::COMMANDS, Ending::Closed);
    greet(&mut host);
    let told: Vec<_> = host.events.drain(..).map(|event| (event.kind, event.server.to_string())).collect();
    let [disconnected, down, switched, up] = &told[..] else { panic!("{told:?}") };
    assert_eq!([disconnected, down], [&(LockEventKind::Disconnected, second.clone()), &(LockEventKind::Down, second)]);
    assert_eq!([switched, up], [&(LockEventKind::Switched, first.clone()), &(LockEventKind::Up, first)]);
}

pub(super) const NODE: &str = "%2\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$4\r\nmode\r\n$7\r\ncluster\r\n+PONG\r\n";
pub(super) const REPLICA: &str = "%2\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$4\r\nrole\r\n$7\r\nreplica\r\n+PONG\r\n";
const ITS_PRIMARY: &str = "*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.2\r\n:6380\r\n$9\r\nconnected\r\n:9\r\n";

#[test]
fn a_replica_is_followed_to_its_primary() {
    let mut host = Host::connected(HandlerKind::Script);
    host.platform.peer.end(Ending::Closed);
    host.client.ready(link::COMMANDS, host.platform.now());
    host.lock("lock", false);
    assert_eq!(host.sent()[0], "HELLO");
    host.answer(REPLICA);
    assert_eq!(host.sent(), ["ROLE"]);
    host.answer(ITS_PRIMARY);
    assert_eq!(host.client.endpoint.to_string(), "127.0.0.2:6380");
    host.client.ready(link::COMMANDS, host.platform.now());
    assert_eq!(host.greet(), ["FCALL pinyon_open_8", "FCALL pinyon_lock_8"]);
    host.answer(&["*1\r\n:4999\r\n", GRANTED].concat());
    assert!(matches!(host.told[..], [("lock", Outcome::Granted { .. })]), "{:?}", host.told);
}

#[test]
fn what_was_down_is_up_or_gone_at_last() {
    let mut host = Host::connected(HandlerKind::Script);
    host.platform.peer.end(Ending::Closed);
    host.client.ready(link::COMMANDS, host.platform.now());
    host.lock("lock", false);
    host.sent();
    host.answer(REPLICA);
    host.refuse(1);
    host.answer(ITS_PRIMARY);
    let named = |host: &mut Host| -> Vec<_> {
        host.events.drain(..).map(|event| (event.kind, event.server.to_string())).collect()
    };
    let [primary, server] = ["127.0.0.2:6380", "redis1"].map(str::to_owned);
    let told = named(&mut host);
    let down = [primary.clone(), server.clone()].map(|name| (LockEventKind::Down, name));
    assert!(told.ends_with(&down), "{told:?}");
    host.pass_to_next_try();
    host.client.ready(link::COMMANDS, host.platform.now());
    host.greet();
    assert_eq!(named(&mut host), [(LockEventKind::Up, server), (LockEventKind::Gone, primary)]);
}

#[test]
fn a_server_that_becomes_a_replica_is_left_for_its_primary_which_gets_the_refused_calls() {
    let mut host = Host::connected(HandlerKind::Script);
    host.held();
    for waiter in ["first", "second"] {
        host.inspect(waiter);
    }
    let asked = ["FCALL pinyon_inspect_8", "FCALL pinyon_inspect_8"];
    assert_eq!(host.sent(), asked);
    host.answer(&"-READONLY You can't write against a read only replica.\r\n".repeat(2));
    assert_eq!(host.sent(), ["ROLE"]);
    host.answer(ITS_PRIMARY);
    host.client.ready(link::COMMANDS, host.platform.now());
    assert_eq!(host.greet(), asked);
    assert!(host.told.is_empty(), "{:?}", host.told);
}

#[test]
fn a_server_that_only_reads_and_is_no_replica_fails_the_call() {
    let mut host = Host::connected(HandlerKind::Script);
    for role in ["*3\r\n$6\r\nmaster\r\n:9\r\n*0\r\n", "-NOPERM no permissions\r\n"] {
        host.inspect("ask");
        host.sent();
        host.answer("-READONLY it only reads\r\n");
        assert_eq!(host.sent(), ["ROLE"]);
        host.answer(role);
        let told = host.told.pop().expect("it was refused");
        assert!(format!("{told:?}").contains("it only reads"), "{told:?}");
    }
}

#[test]
fn a_replica_that_names_no_primary_is_refused() {
    for (role, why) in [
        ("*5\r\n$5\r\nslave\r\n$0\r\n\r\n:0\r\n$4\r\nsync\r\n:-1\r\n", "names no primary"),
        ("-NOPERM no permissions\r\n", "permit ROLE"),
        ("+OK\r\n", "does not say of which primary"),
    ] {
        let platform = InMemory::default();
        let client = Client::on(platform.clone(), settings(HandlerKind::Script), "c".into());
        let mut host = Host { client, platform, told: Vec::new(), warnings: Vec::new(), events: Vec::new() };
        host.lock("lock", false);
        host.answer(REPLICA);
        host.answer(role);
        let told = format!("{:?}", host.told);
        assert!(told.contains(why) && told.contains("Refused"), "{told}");
    }
}

#[test]
fn a_lock_whose_time_is_over_is_not_taken_again() {
    let mut host = Host::connected(HandlerKind::Script);
    let number = host.held();
    host.platform.elapsed.set(host.platform.elapsed.get() + TTL);
    assert_ne!(host.lock("again", true), number);
    assert!(host.told.is_empty(), "{:?}", host.told);
    assert_eq!(host.sent(), ["FCALL pinyon_unlock_8", "FCALL pinyon_lock_8"]);
}

#[test]
fn whoever_waits_for_a_connection_is_told_when_the_client_is_closed() {
    let mut host = Host::connected(HandlerKind::Script);
    host.platform.peer.expect_openings([Opening::Unreachable; 9]);
    host.platform.peer.end(Ending::Closed);
    host.client.ready(link::COMMANDS, host.platform.now());
    host.ping("command", TTL);
    host.client.close(host.platform.now());
    host.settle();
    assert!(matches!(host.told[..], [("command", Outcome::Failed(_))]), "{:?}", host.told);
}

#[test]
fn a_command_waits_no_longer_than_it_may_for_room_behind_others() {
    let limits = redis::RespLimits { exchanges: 2, ..redis::RespLimits::default() };
    let mut host = Host::connected_with(
        HandlerKind::Script,
        redis::SessionSettings { limits, ..redis::SessionSettings::default() },
    );
    for (waiter, patience) in [("first", TTL), ("second", TTL), ("third", PATIENCE)] {
        host.ping(waiter, patience);
    }
    assert_eq!(host.sent(), ["PING", "PING"]);
    host.pass(PATIENCE, "");
    assert!(matches!(host.told[..], [("third", Outcome::Failed(_))]), "{:?}", host.told);
}

#[test]
fn odd_answers_to_plain_commands_are_errors() {
    let huge = "*2\r\n$20\r\n18446744073709551615\r\n$20\r\n18446744073709551615\r\n";
    let commands = take_plainly(usize::MAX, "");
    assert!(commands > 12, "{commands}");
    for odd in ["*0\r\n", "*1\r\n:1\r\n", "+OK\r\n", ":-1\r\n", "$-1\r\n", huge] {
        for at in 0..commands {
            take_plainly(at, odd);
        }
    }
}

/// Takes a lock while the server answers the command at this position oddly. Returns the number of commands.
fn take_plainly(at: usize, odd: &str) -> usize {
    let mut host = Host::connected(HandlerKind::Pure);
    host.lock("lock", false);
    let (mut asked, mut results) = (0, Vec::new());
    for _ in 0..12 {
        for command in host.commands() {
            let reply = plainly(&command, &mut results);
            host.answer(if asked == at { odd } else { &reply });
            asked += 1;
        }
    }
    asked
}

/// The answer of a server according to the lock's holder. `results`: those of a transaction's commands.
fn plainly(command: &[String], results: &mut Vec<String>) -> String {
    let time = "*2\r\n$10\r\n1704067201\r\n$1\r\n0\r\n";
    let values = |count: usize| format!("*{count}\r\n{}", "$9\r\nother:1:1\r\n".repeat(count));
    let reply = match &*command[0] {
        "MULTI" => {
            results.clear();
            return "+OK\r\n".into();
        }
        "EXEC" => return format!("*{}\r\n{}", results.len(), results.concat()),
        "WATCH" | "UNWATCH" => return "+OK\r\n".into(),
        "TIME" => return time.into(),
        "ZRANGE" => return "*0\r\n".into(),
        "MGET" => values(command.len() - 1),
        "INCR" | "PTTL" => ":9999\r\n".into(),
        _ => "$-1\r\n".into(),
    };
    results.push(reply.clone());
    reply
}
