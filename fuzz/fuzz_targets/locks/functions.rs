//! The locks' functions in the wire format.

use std::time::Duration;

use pinyon_locks::call::{Attempt, Call, Holder, Name, Names, Said, ScriptAnswer};
use pinyon_locks::library::Rule;

use crate::in_resp as say;

/// A call as a client has sent it.
pub struct Called {
    pub call: Call,
    /// What the call says about its client.
    pub waiter_ttl: Option<Duration>,
    pub throughput: bool,
}

/// Reads the words after the function's name: the number of keys, the keys, the arguments.
pub fn read(rule: &Rule, words: &[&[u8]], prefix: &[u8]) -> Called {
    let count = number(words[0]) as usize;
    let (keys, arguments) = words[1..].split_at(count);
    let (prefix, rates) = ([prefix, b"l:"].concat(), [prefix, b"r:"].concat());
    // Beside the names' keys, it may declare others.
    let mut locks = keys.iter().filter_map(|key| key.strip_prefix(&prefix[..])).map(Name::from);
    let (mut waiter_ttl, mut flags) = (None, &b""[..]);
    let mut waiter = || {
        let ttl = Duration::from_millis(number(arguments[1]));
        (waiter_ttl, flags) = (Some(Duration::from_millis(number(arguments[2]))), arguments[3]);
        (attempt(arguments[0]), ttl)
    };
    let call = match rule.name {
        "open" => Call::Open { seen: number(arguments[0]) },
        "lock" | "poll" | "park" | "unpark" | "change" => {
            let (attempt, ttl) = waiter();
            let (names, nested): (Names, _) = (locks.collect(), flags.contains(&b'n'));
            match rule.name {
                "lock" => Call::Lock { attempt, names, ttl, wait: flags.contains(&b'w'), nested },
                "poll" => Call::Poll { attempt, names, ttl, nested },
                "park" => Call::Park { attempt, names, ttl },
                "change" => {
                    Call::Change { attempt, names, ttl, wait: flags.contains(&b'w'), seen: number(arguments[4]) }
                }
                _ => Call::Unpark { attempt, names, ttl },
            }
        }
        "unlock" => {
            flags = arguments.get(1).copied().unwrap_or_default();
            let rest = arguments.get(2).map(|rest| Duration::from_millis(number(rest)));
            let tombstone = flags.contains(&b'x');
            Call::Unlock { attempt: attempt(arguments[0]), names: locks.collect(), tombstone, rest }
        }
        "extend" => {
            let each = arguments[1..].chunks(3).map(|held| {
                let names: Names = locks.by_ref().take(number(held[2]) as usize).collect();
                (attempt(held[0]), names, Duration::from_millis(number(held[1])))
            });
            Call::Extend { held: each.collect() }
        }
        "raise" => Call::Raise {
            attempt: attempt(arguments[0]),
            names: locks.collect(),
            ttl: Duration::from_millis(number(arguments[1])),
            floor: number(arguments[2]),
        },
        "adopt" => Call::Adopt {
            attempt: attempt(arguments[0]),
            names: locks.collect(),
            ttl: Duration::from_millis(number(arguments[1])),
            from: attempt(arguments[2]).into(),
        },
        "notify" => Call::Notify {
            attempt: attempt(arguments[0]),
            names: locks.collect(),
            most: number(arguments[1]).try_into().expect("a number of waiters"),
        },
        "inspect" => Call::Inspect { names: locks.collect(), remarks: false },
        "rate" => {
            let [cost, most, ticks] = [0, 1, 2].map(|at| number(arguments[at]));
            let name = keys.iter().find_map(|key| key.strip_prefix(&rates[..])).expect("the key of a rate").into();
            Call::Rate { name, cost, most, ticks }
        }
        _ => {
            flags = arguments[1];
            let token = (!arguments[0].is_empty()).then(|| number(arguments[0]));
            Call::ForceRelease { names: locks.collect(), token }
        }
    };
    Called { call, waiter_ttl, throughput: flags.contains(&b't') }
}

/// Writes an answer like the functions.
pub fn write(answer: ScriptAnswer) -> Vec<u8> {
    let numbers = |numbers: &[u64]| say::array(numbers.iter().map(|number| say::number(*number as i64)));
    match answer {
        ScriptAnswer::Opened { counter } => numbers(&[counter]),
        ScriptAnswer::Queued { pttl } => say::number(-2 - pttl.map_or(-1, |time| time.as_millis() as i64)),
        ScriptAnswer::Granted { token } => say::number(token as i64),
        ScriptAnswer::Busy { pttl, first } => {
            let (holder, age, said) = match first {
                Some(first) => (Some(first.holder), first.age, first.said),
                None => (None, None, Said::Untold),
            };
            let told = match said {
                Said::Untold => None,
                Said::Nothing => Some(say::null()),
                Said::Remark(remark) => Some(say::bytes(remark.as_bytes())),
            };
            say::array([say::number(2), time(pttl), say::bytes(&value(&holder)), time(age)].into_iter().chain(told))
        }
        ScriptAnswer::Cancelled => numbers(&[3]),
        ScriptAnswer::Deadlock { cycle } => {
            say::array([say::number(4)].into_iter().chain(cycle.iter().map(|attempt| say::text(&attempt.to_string()))))
        }
        ScriptAnswer::Unknown => numbers(&[5]),
        ScriptAnswer::NotHeld => numbers(&[6]),
        ScriptAnswer::Released { released } => say::number(released as i64),
        ScriptAnswer::Extended(each) => say::array(each.into_iter().map(|held| say::number(held.into()))),
        ScriptAnswer::Notified { moved } => numbers(&[0, moved.into()]),
        ScriptAnswer::Inspected(each) => say::array(each.into_iter().map(|inspected| {
            let fields = [say::bytes(&value(&inspected.holder)), time(inspected.pttl), time(inspected.age)];
            let waiting = inspected.waiting.iter().map(|attempt| say::text(&attempt.to_string()));
            say::array(fields.into_iter().chain(waiting))
        })),
        ScriptAnswer::ForceReleased { released } => numbers(&[released as u64]),
        ScriptAnswer::Remarked => unreachable!("no function writes remarks"),
        ScriptAnswer::Rated { taken, ahead } => say::number(if taken { ahead as i64 } else { -1 - ahead as i64 }),
    }
}

fn value(holder: &Option<Holder>) -> Vec<u8> {
    let Some(Holder { attempt, token }) = holder else { return Vec::new() };
    match token {
        Some(token) => format!("{attempt} {token}").into_bytes(),
        None => attempt.to_string().into_bytes(),
    }
}

fn time(time: Option<Duration>) -> Vec<u8> {
    say::number(time.map_or(-1, |time| time.as_millis() as i64))
}

fn attempt(text: &[u8]) -> Attempt {
    Attempt::parse(text).expect("an attempt")
}

fn number(text: &[u8]) -> u64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).expect("a number")
}
