//! What upgrades and downgrades send, by what a section has read.

use std::time::Duration;

use crate::call::{Attempt, Holder, Mode, Name, ScriptAnswer};
use crate::keys::LockKeys;
use crate::pure::shared::Seen;
use crate::pure::{Acts, Pure, Then};

const NOW: u64 = 1_000_000;
const TTL: Duration = Duration::from_secs(10);

fn attempt(client: &str) -> Attempt {
    Attempt { client: client.into(), owner: 0, number: 1 }
}

/// What `x` asks for, and what was read: the mode that a name is to have, who writes it, and who reads it for how long.
type Given<'g> = (Mode, Option<&'g str>, &'g [(&'g str, u64)]);

/// What follows, and the words that are sent in the transaction, after it and in any case.
fn changed(given: &[Given<'_>], wait: bool) -> (Then, [Vec<String>; 3]) {
    let pure = Pure::new(LockKeys::new("n").unwrap(), true, Duration::from_secs(15), 0);
    let names: Vec<Name> = (b'a'..).map(|letter| Name::from([letter])).take(given.len()).collect();
    let holders: Vec<Option<Holder>> =
        given.iter().map(|(_, by, _)| by.map(|by| Holder { attempt: attempt(by), token: None })).collect();
    let members: Vec<Vec<(String, u64)>> = given
        .iter()
        .map(|(.., readers)| readers.iter().map(|(by, left)| (attempt(by).to_string(), NOW + left)).collect())
        .collect();
    let seen: Vec<Seen<'_>> = (0..given.len())
        .map(|at| Seen {
            name: &names[at],
            mode: given[at].0,
            holder: holders[at].as_ref(),
            members: members[at].iter().map(|(member, ends)| (member.as_bytes(), *ends)).collect(),
        })
        .collect();
    let mut acts = Acts::default();
    let then = pure.change((&attempt("x"), TTL, wait), &seen, NOW, &mut acts);
    let words = [acts.commands, acts.messages, acts.asides].map(|commands| {
        let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
        commands.iter().map(|command| command.iter().map(text).collect::<Vec<_>>().join(" ")).collect()
    });
    (then, words)
}

fn answer(then: Then) -> ScriptAnswer {
    match then {
        Then::ScriptAnswer(answer) => answer,
        _ => panic!("it waits for the transaction"),
    }
}

#[test]
fn who_alone_reads_draws_a_token_and_writes() {
    let (then, [commands, messages, asides]) = changed(&[(Mode::Write, None, &[("x", 5000)])], true);
    assert!(matches!(then, Then::Token(0)));
    assert_eq!(commands, ["INCR {n}:#f", "SET {n}:l:a x:0:1 PX 10000"]);
    assert!(messages.is_empty() && asides.is_empty());
}

#[test]
fn an_upgrade_waits_for_the_last_of_the_others() {
    let readers: &[_] = &[("y", 2000), ("x", 9000), ("z", 4000)];
    for (wait, said) in [(false, &[][..]), (true, &["SET {n}:#p 1 PX 15000"])] {
        let (then, [commands, messages, asides]) = changed(&[(Mode::Write, None, readers)], wait);
        let holder = Some(Holder { attempt: attempt("z"), token: None });
        let busy = ScriptAnswer::busy(Some(Duration::from_secs(4)), holder);
        assert_eq!(answer(then), busy);
        assert!(commands.is_empty() && messages.is_empty());
        assert_eq!(asides, said);
    }
}

#[test]
fn a_downgrade_tells_those_who_wait_and_draws_no_token() {
    let (then, [commands, messages, _]) = changed(&[(Mode::Read, Some("x"), &[])], false);
    assert_eq!(answer(then), ScriptAnswer::Granted { token: 0 });
    assert_eq!(commands[..1], ["DEL {n}:l:a"]);
    assert!(commands.contains(&"ZADD {n}:l:a 1010000 x:0:1".to_owned()), "{commands:?}");
    assert_eq!(messages, ["PUBLISH {n}:#freed a"]);
}

#[test]
fn names_that_keep_their_mode_are_extended() {
    let given: [Given<'_>; 2] = [(Mode::Write, Some("x"), &[]), (Mode::Read, None, &[("x", 10), ("y", 10)])];
    let (then, [commands, messages, _]) = changed(&given, false);
    assert_eq!(answer(then), ScriptAnswer::Granted { token: 0 });
    assert_eq!(commands[..1], ["PEXPIRE {n}:l:a 10000"]);
    assert!(commands.contains(&"ZADD {n}:l:b 1010000 x:0:1".to_owned()), "{commands:?}");
    assert!(messages.is_empty());
}

#[test]
fn a_lock_that_lacks_a_name_changes_nothing() {
    let lacking: [[Given<'_>; 2]; 3] = [
        [(Mode::Write, None, &[("x", 10)]), (Mode::Write, None, &[("y", 10)])],
        [(Mode::Read, Some("x"), &[]), (Mode::Read, Some("y"), &[])],
        [(Mode::Read, Some("x"), &[]), (Mode::Permits { count: 1, limit: 2 }, None, &[("x", 10)])],
    ];
    for given in lacking {
        let (then, [commands, messages, asides]) = changed(&given, true);
        assert_eq!(answer(then), ScriptAnswer::NotHeld);
        assert!(commands.is_empty() && messages.is_empty() && asides.is_empty());
    }
}
