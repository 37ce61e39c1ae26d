//! The largest locks allowed.

use pinyon_locks::call::{Call, ScriptAnswer};

use crate::lab::{attempt, bytes, is_granted, is_queued, names, token, woken, Lab, LONG};

#[test]
fn tokens_are_exact_up_to_the_largest() {
    let mut lab = Lab::new();
    lab.set_counter((1 << 53) - 100);
    lab.lock("x", "a");
    assert_eq!(token(lab.lock("y", "b c")), (1 << 53) - 98);
    lab.lock("z", "a");
    lab.lock("z2", "a");
    assert_eq!(lab.unlock("x", "a"), ["z"]);
    for values in lab.values(&names("a b c")) {
        let expected =
            ["z:0:1 9007199254740897 100000", "y:0:1 9007199254740894 100000", "y:0:1 9007199254740894 100000"];
        let values: Vec<Vec<u8>> = values.into_iter().map(|value| bytes(value).unwrap()).collect();
        assert_eq!(values, expected.map(|value| value.as_bytes().to_vec()));
    }
    assert_eq!(lab.unlock("z", "a"), ["z2"]);
}

#[test]
fn a_thousand_names_go_as_one() {
    let mut lab = Lab::new();
    let all = (0..1000).map(|number| format!("name-{number}")).collect::<Vec<_>>().join(" ");
    lab.lock("x", &all);
    for waiter in ["y", "z"] {
        assert!(is_queued(&lab.lock(waiter, &all)));
        assert!(is_queued(&lab.poll(waiter, &all)));
    }
    lab.lock("z2", "name-999");
    assert_eq!(lab.unlock("x", &all), ["y"]);
    assert!(is_granted(&lab.poll("y", &all)));
    lab.call(&Call::Extend { held: vec![(attempt("y"), names(&all), LONG)] });
    lab.call(&Call::Inspect { names: names(&all), remarks: false });
    let (_, pushes) = lab.call(&Call::Park { attempt: attempt("y"), names: names(&all), ttl: LONG });
    assert_eq!(woken(&pushes), ["z"]);
    let notify = Call::Notify { attempt: attempt("z"), names: names(&all), most: 1 };
    assert_eq!(lab.call(&notify).0, ScriptAnswer::Notified { moved: 1 });
    let (answer, pushes) = lab.call(&Call::ForceRelease { names: names(&all), token: None });
    assert_eq!(answer, ScriptAnswer::ForceReleased { released: 1000 });
    assert_eq!(woken(&pushes), ["z2"]);
    assert_eq!(lab.unlock("z2", "name-999"), ["y"]);
    lab.unlock("y", &all);
    lab.assert_nothing_left();
}

#[test]
fn all_of_a_thousand_waiters_for_one_name_each_are_woken_at_once() {
    let mut lab = Lab::new();
    let each: Vec<String> = (0..1000).map(|number| format!("name-{number}")).collect();
    lab.lock("x", &each.join(" "));
    for (number, name) in each.iter().enumerate() {
        lab.lock(&format!("y.{number}"), name);
    }
    assert_eq!(lab.unlock("x", &each.join(" ")).len(), 1000);
}

#[test]
fn a_call_does_not_look_at_everybody_and_polls_do_the_rest() {
    let mut lab = Lab::new();
    let each: Vec<String> = (0..50).map(|number| format!("name-{number:02}")).collect();
    let all = each.join(" ");
    lab.lock("x", &all);
    lab.lock("x2", "z");
    let waiters: Vec<String> = (0..200).map(|number| format!("y{number}.{}", number + 1)).collect();
    for (number, waiter) in waiters.iter().enumerate() {
        let on = format!("{} z", each[number % 50..].join(" "));
        lab.nested(waiter, &on);
    }
    lab.lock("z", &each[49]);
    assert!(lab.unlock("x", &all).is_empty());
    assert!(is_queued(&lab.poll("z", &each[49])), "nested ones are before it");
    for waiter in &waiters {
        lab.expire_waiter(&attempt(waiter));
    }
    let polls = (0..100).position(|_| is_granted(&lab.poll("z", &each[49])));
    assert!(polls.is_some_and(|polls| (1..20).contains(&polls)), "{polls:?}");
}
