//! Two servers, one of which fails, with both drivers: which server is asked, and what is reported, noted and counted.

mod peer;

use std::time::{Duration, Instant};

use pinyon_cache::directory::Directory;
use pinyon_cache::events::EventKind;
use pinyon_cache::metrics::Counted;
use pinyon_cache::operations::{self, Broken, KeyRules, OwnedKey, Request};
use pinyon_net::{Kind, Sent};
use serde_json::{json, Value};

use crate::playing::{Client, Outcome};
use crate::scenarios::{Blocking, CacheClient, Loop};
use crate::TIMEOUT;
use peer::{Act, Peer, LATE};

const HIT: Act = Act::Say("VA 5 f16 O*\r\nvalue\r\n");
const MISS: Act = Act::Say("EN O*\r\n");
const STORED: Act = Act::Say("HD O*\r\n");

/// The timeout, in seconds, in tests with a silent server. The others answer within it, on slow machines too.
const SHORT: f64 = 10.0;

/// A client of two servers, and keys for each.
struct Two<C> {
    client: C,
    first: Peer,
    second: Peer,
    of_first: String,
    of_second: String,
}

impl<C: CacheClient> Two<C> {
    fn new(timeout: f64, first: &[Act], second: &[Act]) -> Self {
        Self::with(&json!({"timeout": timeout}), first, second)
    }

    fn with(settings: &Value, first: &[Act], second: &[Act]) -> Self {
        let (first, second) = (Peer::new(first), Peer::new(second));
        let address = format!("{},{}", first.address, second.address);
        let client = C::connected(&json!({"address": address, "client": settings}));
        let of = |server: &Peer| {
            (0..).map(|n| format!("key{n}")).find(|key| own_server(client.directory(), key).1 == server.address)
        };
        let (of_first, of_second) = (of(&first).unwrap(), of(&second).unwrap());
        Self { client, first, second, of_first, of_second }
    }

    fn call(&mut self, call: Value) -> Outcome {
        self.client.carry_out(&[call.as_array().unwrap()]).remove(0)
    }

    fn get(&mut self) -> Outcome {
        self.call(json!(["get", self.of_first]))
    }

    /// The events since the last call; `1` and `2` are the servers.
    fn events(&self) -> Vec<String> {
        let name = |server: &str| if server == self.first.address { 1 } else { 2 };
        let events = self.client.directory().take_events().into_iter();
        let events = events.map(|event| match event.kind {
            kind @ (EventKind::Retry | EventKind::Slow) => {
                format!("{} {} on {}", kind.as_str(), event.command, name(&event.server))
            }
            kind => format!("{} {}", kind.as_str(), name(&event.server)),
        });
        events.collect()
    }

    /// The counts for a command on the first server: hits, misses, stored, failed, retries.
    fn counted(&self, command: Counted) -> [u64; 5] {
        let fleet = self.client.directory().known();
        let metrics = fleet.metrics().find(|metrics| *metrics.server == *self.first.address).unwrap();
        let of = metrics.traffic.commands.iter().find(|of| of.command == command);
        of.map_or([0; 5], |of| [of.hits, of.misses, of.stored, of.failed(), of.retries])
    }
}

/// Makes a call that the first server does not answer. A loop that looks late does not blame the server, and its error
/// says so; on a busy machine it may. Then there are two other servers.
fn unanswered<C: CacheClient>(settings: &Value, second: Act, call: impl Fn(&Two<C>) -> Value) -> (Two<C>, Outcome) {
    for _ in 0..10 {
        let mut two = Two::with(settings, &[Act::Silent], &[second]);
        let call = call(&two);
        let outcome = two.call(call);
        let raised = outcome.raised.as_ref().expect("no answer");
        assert_eq!((raised.kind.as_str(), &*raised.server), ("Timeout", &*two.first.address));
        if !raised.text.contains("the event loop was blocked") {
            return (two, outcome);
        }
    }
    panic!("the loop looks late every time");
}

/// The server of a key, and its name.
fn own_server(directory: &Directory, key: &str) -> (usize, String) {
    let fleet = directory.known();
    let server = fleet.candidates(key.as_bytes(), false)[0];
    (server, fleet.servers()[server].name.to_string())
}

/// Runs each of these tests in threads and in an event loop.
macro_rules! through_both {
    ($($name:ident),* $(,)?) => {
        mod by_waiting { $(#[test] fn $name() { super::$name::<super::Blocking>(); })* }
        mod in_a_loop { $(#[test] fn $name() { super::$name::<super::Loop>(); })* }
    };
}

through_both!(
    a_server_that_closes_is_tried_once_more_and_then_another,
    what_was_sent_and_changes_something_is_told_and_not_repeated,
    a_silent_server_is_marked_down_and_the_next_call_goes_elsewhere,
    a_server_that_comes_back_is_probed_and_used_again,
    many_keys_go_on_elsewhere_with_one_event_for_the_server,
    what_one_server_answered_stays_where_the_other_is_silent,
    after_its_time_many_keys_are_not_asked_for_again,
    a_connection_that_broke_amid_a_reply_is_tried_again,
    answers_are_counted_by_what_they_were,
    every_server_is_asked_and_the_failing_one_told,
    a_slow_command_is_told_with_its_server_and_a_quick_one_is_not,
    a_command_that_fails_is_not_told_as_a_slow_one,
    each_command_of_a_batch_on_a_broken_connection_is_told_and_the_others_are_done,
    a_batch_goes_on_elsewhere_where_nothing_of_it_was_sent,
);

fn a_server_that_closes_is_tried_once_more_and_then_another<C: CacheClient>() {
    let mut two = Two::<C>::new(10.0, &[Act::Close], &[HIT]);
    assert_eq!(two.get().value, "value");
    assert_eq!(two.events(), ["retry get on 1", "down 1", "retry get on 1"]);
    let request = format!("mg {}", two.of_first);
    assert_eq!((two.first.requests(), two.second.requests()), (vec![request.clone(); 2], vec![request]));
    assert_eq!(two.counted(Counted::Get), [0, 0, 0, 2, 2]);
}

fn what_was_sent_and_changes_something_is_told_and_not_repeated<C: CacheClient>() {
    let mut two = Two::<C>::new(10.0, &[Act::Close], &[STORED]);
    let raised = two.call(json!(["add", two.of_first, "value"])).raised.unwrap();
    assert_eq!((raised.sent, raised.command, &*raised.server), (Sent::Maybe, "add", &*two.first.address));
    assert_eq!(two.first.requests().len(), 1);
    assert!(two.second.requests().is_empty() && two.events().is_empty());
    assert_eq!(two.counted(Counted::Add), [0, 0, 0, 1, 0]);
}

fn a_silent_server_is_marked_down_and_the_next_call_goes_elsewhere<C: CacheClient>() {
    let (mut two, _) = unanswered::<C>(&json!({"timeout": SHORT}), HIT, |two| json!(["get", two.of_first]));
    assert_eq!(two.events(), ["down 1"]);
    // On a busy machine it may come so late that it is a probe, which the server does not answer either.
    let calls: Vec<_> = (0..10).map(|_| two.get()).collect();
    let elsewhere = calls.iter().filter(|call| call.value == "value").count();
    assert!(elsewhere >= 5, "{elsewhere} of 10 calls go elsewhere");
    assert_eq!((two.first.requests().len(), two.second.requests().len()), (1 + 10 - elsewhere, elsewhere));
}

fn a_server_that_comes_back_is_probed_and_used_again<C: CacheClient>() {
    let mut two = Two::<C>::new(10.0, &[Act::Close], &[MISS]);
    assert_eq!(two.get().value, Value::Null);
    two.events();
    two.first.act(HIT);
    let deadline = Instant::now() + TIMEOUT;
    while two.get().value != "value" {
        assert!(Instant::now() < deadline, "it is never tried again");
        two.client.rest(Duration::from_millis(20));
    }
    assert_eq!(two.events(), ["up 1"]);
    assert_eq!(two.get().value, "value");
}

fn many_keys_go_on_elsewhere_with_one_event_for_the_server<C: CacheClient>() {
    let mut two = Two::<C>::new(10.0, &[Act::Close], &[Act::Say("END\r\n")]);
    let call = json!(["get_many", [two.of_first, two.of_second]]);
    let outcome = two.call(call);
    assert!(outcome.raised.is_none() && outcome.value == json!({}));
    assert_eq!(two.events(), ["retry get_many on 1", "down 1", "retry get_many on 1"]);
    assert_eq!(two.first.requests(), vec![format!("get {}", two.of_first); 2]);
    assert_eq!(two.second.requests().len(), 2);
}

fn what_one_server_answered_stays_where_the_other_is_silent<C: CacheClient>() {
    let call = |two: &Two<C>| json!(["delete_many", [two.of_first, two.of_second]]);
    let (two, outcome) = unanswered(&json!({"timeout": SHORT}), STORED, call);
    let raised = outcome.raised.unwrap();
    assert_eq!(outcome.value, 1);
    assert_eq!((raised.sent, raised.command), (Sent::Maybe, "delete_many"));
    assert_eq!(two.events(), ["down 1"]);
}

fn after_its_time_many_keys_are_not_asked_for_again<C: CacheClient>() {
    let call = |two: &Two<C>| json!(["get_many", [two.of_first, two.of_second]]);
    let (two, _) = unanswered(&json!({"timeout": SHORT}), Act::Say("END\r\n"), call);
    assert_eq!(two.events(), ["down 1"]);
    assert_eq!(two.second.requests().len(), 1);
}

fn a_connection_that_broke_amid_a_reply_is_tried_again<C: CacheClient>() {
    let mut two = Two::<C>::new(10.0, &[Act::Break("VA 5 f16 O*\r\nva"), HIT], &[MISS]);
    assert_eq!(two.get().value, "value");
    assert_eq!(two.events(), ["retry get on 1"]);
    assert_eq!(two.counted(Counted::Get), [1, 0, 0, 1, 1]);
}

fn answers_are_counted_by_what_they_were<C: CacheClient>() {
    let error = Act::Say("SERVER_ERROR out of memory\r\n");
    let mut two = Two::<C>::new(10.0, &[HIT, MISS, MISS, error, STORED], &[MISS]);
    for _ in 0..4 {
        two.get();
    }
    two.call(json!(["set", two.of_first, "value"]));
    assert_eq!(two.counted(Counted::Get), [1, 2, 0, 1, 0]);
    assert_eq!(two.counted(Counted::Set), [0, 0, 1, 0, 0]);
    assert!(two.events().is_empty(), "a server's own error is an answer");
}

fn every_server_is_asked_and_the_failing_one_told<C: CacheClient>() {
    let mut two = Two::<C>::new(10.0, &[Act::Close], &[Act::Say("OK\r\n")]);
    let raised = two.call(json!(["flush_all"])).raised.unwrap();
    assert_eq!((raised.command, &*raised.server), ("flush_all", &*two.first.address));
    assert_eq!((two.first.requests().len(), two.second.requests().len()), (1, 1));
}

fn a_slow_command_is_told_with_its_server_and_a_quick_one_is_not<C: CacheClient>() {
    let settings = json!({"timeout": 20, "slow_after": LATE.as_secs_f64() - 0.5});
    let end = "END\r\n";
    let mut two = Two::<C>::with(&settings, &[HIT, Act::SayLate("EN O*\r\n"), Act::SayLate(end)], &[Act::Say(end)]);
    assert_eq!(two.get().value, "value");
    assert!(two.events().is_empty());
    assert_eq!(two.get().value, Value::Null);
    let told = two.client.directory().take_events();
    assert!(told[0].duration >= Some(LATE) && told[0].error.is_none(), "{told:?}");
    assert_eq!((told.len(), told[0].kind, told[0].command), (1, EventKind::Slow, "get"));
    assert!(two.call(json!(["get_many", [two.of_first, two.of_second]])).raised.is_none());
    assert_eq!(two.events(), ["slow get_many on 1"]);
}

fn a_command_that_fails_is_not_told_as_a_slow_one<C: CacheClient>() {
    let settings = json!({"timeout": SHORT, "slow_after": 0.01});
    let (two, _) = unanswered::<C>(&settings, HIT, |two| json!(["get", two.of_first]));
    assert_eq!(two.events(), ["down 1"]);
}

/// A failed command: its number and name, and its failure if the server did not answer.
type Unsuccessful = (usize, &'static str, Option<(Kind, Sent)>);

/// Carries out a quiet batch.
fn batch<C: CacheClient>(two: &mut Two<C>, requests: &[(&str, Request)]) -> Vec<Unsuccessful> {
    let command = |(key, request): &(&str, Request)| {
        let key = OwnedKey::new(&KeyRules::default(), key.as_bytes()).unwrap();
        (key, *request, Some(vec![b'v'; 5]).filter(|_| matches!(request, Request::Store { .. })))
    };
    let unsuccessful = two.client.carry_out_quietly(requests.iter().map(command).collect()).unwrap();
    let told = |one: operations::Unsuccessful<OwnedKey>| match one.why {
        Broken::Failed(error) => {
            assert_eq!((one.command, &*error.server), (error.command, &*two.first.address));
            (one.number, one.command, Some((error.kind, error.sent)))
        }
        Broken::Refused(_) => (one.number, one.command, None),
    };
    unsuccessful.into_iter().map(told).collect()
}

fn each_command_of_a_batch_on_a_broken_connection_is_told_and_the_others_are_done<C: CacheClient>() {
    let mut two = Two::<C>::new(10.0, &[Act::Close], &[STORED, MISS]);
    let (mine, other) = (&*two.of_first.clone(), &*two.of_second.clone());
    let touch = Request::Touch { ttl: 1 };
    let commands = [(mine, touch), (other, Request::Delete), (mine, Request::Delete), (other, touch), (mine, touch)];
    let told = batch(&mut two, &commands);
    let failed = Some((Kind::Closed, Sent::Maybe));
    assert_eq!(told, [(0, "touch", failed), (2, "delete", failed), (3, "touch", None), (4, "touch", failed)]);
    assert!(two.events().is_empty());
}

#[test]
fn in_a_loop_commands_that_go_on_elsewhere_keep_their_order() {
    let mut two = Two::<Loop>::new(10.0, &[Act::Close], &[STORED, STORED, Act::Say("STORED\r\n")]);
    let key = two.of_first.clone();
    // One more failure marks the server down.
    assert!(two.call(json!(["add", key, "value"])).raised.is_some());
    two.first.refuse();
    let calls = [json!(["delete", key]), json!(["touch", key, 1]), json!(["add", key, "value"])];
    let calls: Vec<_> = calls.iter().map(|call| call.as_array().unwrap().as_slice()).collect();
    assert!(two.client.carry_out(&calls).iter().all(|outcome| outcome.value == true));
    assert_eq!(two.second.requests(), ["md", "mg", "add"].map(|verb| format!("{verb} {key}")));
}

fn a_batch_goes_on_elsewhere_where_nothing_of_it_was_sent<C: CacheClient>() {
    let mut two = Two::<C>::new(10.0, &[Act::Close], &[STORED]);
    two.first.refuse();
    let (mine, touch) = (&*two.of_first.clone(), Request::Touch { ttl: 1 });
    assert!(batch(&mut two, &[(mine, Request::Delete), (mine, touch), (mine, Request::Delete)]).is_empty());
    let requests = ["md", "mg", "md"].map(|verb| format!("{verb} {mine}"));
    assert_eq!(two.second.requests(), requests, "in the order they were submitted");
    assert_eq!(two.events().last().map(String::as_str), Some("retry delete on 1"));
}
