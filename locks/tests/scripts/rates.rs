//! Rates on a real Redis: the arithmetic in Lua with the time given, and what its clock makes of keys.

use std::sync::Arc;
use std::time::Duration;

use pinyon_locks::call::{Call, ScriptAnswer};
use pinyon_locks::keys::LockKeys;
use pinyon_locks::library::RULES;
use pinyon_locks::script;
use pinyon_proto::resp::Value;

use crate::lab::Lab;
use crate::rate_vectors::play;
use crate::redis::Redis;
use crate::Rate;

fn rate(limit: i64, per: f64, burst: Option<i64>) -> Arc<Rate> {
    Rate::new("a", limit, per, burst).unwrap().into()
}

/// The script, which takes the server's clock from its last two arguments. Keys last a thousand times as long, as the
/// real clock does not go by the given one.
fn with_a_given_clock() -> String {
    let rule = RULES.iter().find(|rule| rule.name == "rate").expect("a rule");
    let script = rule.source().replace("call(\"TIME\")", "{ARGV[4], ARGV[5]}").replace("\"PX\"", "\"EX\"");
    assert!(script.contains("{ARGV[4], ARGV[5]}") && script.contains("\"EX\""));
    script
}

#[test]
fn the_script_says_what_the_vectors_say() {
    let server = Redis::start();
    let (mut redis, script) = (server.connect(), with_a_given_clock());
    play(|number, now, call| {
        let Call::Rate { cost, most, ticks, .. } = call else { panic!("{call:?}") };
        let keys = LockKeys::new(format!("{number}")).unwrap();
        let numbers = [*cost, *most, *ticks, now / 1_000_000, now % 1_000_000].map(|number| number.to_string());
        let (counter, key) = (keys.counter(), keys.rate(b"a"));
        let mut command: Vec<&[u8]> = vec![b"EVAL", script.as_bytes(), b"2", &counter, &key];
        command.extend(numbers.iter().map(|number| number.as_bytes()));
        script::decode(call, redis.run(&command)).expect("an answer")
    });
}

#[test]
fn a_key_expires_when_its_rate_is_whole_and_not_before() {
    let mut lab = Lab::new();
    let question = rate(10, 100.0, Some(4)).ask(3, None).unwrap();
    let (answers, _) = lab.call_servers(&question.call());
    for answer in answers {
        assert_eq!(answer.unwrap(), ScriptAnswer::Rated { taken: true, ahead: 30_000_000 });
    }
    for left in lab.each(|keys| keys.rate(b"a"), b"PTTL", &[]) {
        let Value::Integer(left) = left else { panic!("{left:?}") };
        assert!((1..=30_001).contains(&left), "{left}");
    }
    let (answers, _) = lab.call_servers(&rate(1_000_000, 1.0, None).ask(1, None).unwrap().call());
    for answer in answers {
        let ScriptAnswer::Rated { taken: false, ahead } = answer.unwrap() else { panic!("the debt stays") };
        assert!(ahead <= 30_000_000);
    }
}

#[test]
fn the_servers_clock_counts_and_a_clock_that_was_set_back_goes_on() {
    let mut lab = Lab::new();
    let call = rate(1, 1000.0, None).ask(1, None).unwrap().call();
    for (micros, taken) in [(1, true), (1_000_000_000, true), (u64::MAX >> 12, false)] {
        // As if permits had been taken at that time of the server's clock.
        let value = format!("{micros} 1000000000 1");
        lab.each(|keys| keys.rate(b"a"), b"SET", &[value.as_bytes()]);
        let (answers, _) = lab.call_servers(&call);
        for answer in answers {
            let ScriptAnswer::Rated { taken: was, .. } = answer.unwrap() else { panic!("a rate") };
            assert_eq!(was, taken, "{micros}");
        }
    }
    for value in lab.each(|keys| keys.rate(b"a"), b"GET", &[]) {
        let Value::Bytes(value) = value else { panic!("{value:?}") };
        let at: u64 = std::str::from_utf8(&value).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!(at < u64::MAX >> 12, "time goes on from the new time");
    }
}

#[test]
fn a_check_is_one_command_and_touches_no_key_of_locks() {
    let mut lab = Lab::new();
    let mut monitor = lab.monitor();
    lab.call_servers(&rate(5, 60.0, None).ask(1, None).unwrap().call());
    lab.redis.run(&[b"ECHO", b"the end"]);
    let lines = monitor.until("the end");
    let inside = lines.iter().filter(|line| line.contains(" lua] "));
    for line in inside.clone() {
        assert!(line.contains("\"TIME\"") || line.contains(":r:a\""), "{line}");
    }
    assert_eq!(inside.count(), 3 * lab.worlds.len());
    let ttl = Duration::from_millis(12_001);
    assert!(lines.iter().any(|line| line.contains(&format!("\"{}\"", ttl.as_millis()))));
}
