//! The arithmetic of rates: the plain commands' and the model's, with the time given.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::call::ScriptAnswer;
use crate::tests::model::Model;
use crate::tests::rate_vectors::play;

const LONG: Duration = Duration::from_secs(100);

fn rate(limit: i64, per: f64, burst: Option<i64>) -> Arc<Rate> {
    Rate::new("a", limit, per, burst).unwrap().into()
}

/// What plain commands do with the value of a rate's key.
fn take(value: &mut Option<String>, now: u64, call: &Call) -> ScriptAnswer {
    let Call::Rate { cost, most, ticks, .. } = *call else { panic!("{call:?}") };
    let stored = value.as_ref().map(|value| Level::parse(value.as_bytes()).expect("what was written"));
    let (level, went_back) = Level::at(stored, now, ticks);
    let (taken, level) = level.take(cost, most);
    if taken || went_back {
        *value = Some(level.to_string());
    }
    ScriptAnswer::Rated { taken, ahead: level.ahead }
}

#[test]
fn plain_commands_say_what_the_vectors_say() {
    let mut values: BTreeMap<usize, Option<String>> = BTreeMap::new();
    play(|number, now, call| take(values.entry(number).or_default(), now, call));
}

#[test]
fn the_model_says_what_the_vectors_say() {
    let mut models: BTreeMap<usize, Model> = BTreeMap::new();
    play(|number, now, call| {
        let model = models.entry(number).or_insert_with(|| Model::new(LONG, false));
        model.call(Duration::from_micros(now), call)
    });
}

#[test]
fn arguments_that_make_no_sense_are_refused_by_name() {
    let refused = |limit, per, burst| Rate::new("a", limit, per, burst).unwrap_err().message;
    assert_eq!(refused(0, 60.0, None), "limit must be from 1 to 1000000000, not 0");
    assert_eq!(refused(1, 60.0, Some(-1)), "burst must be from 1 to 1000000000, not -1");
    assert_eq!(refused(1, 0.0, None), "per must be a positive number of seconds, not 0.0");
    assert_eq!(refused(1, f64::NAN, None), "per must be a positive number of seconds, not NaN");
    assert_eq!(refused(1, 1e-7, None), "per must be at least 0.000001 seconds");
    let long = "burst must be lower: 1000000000 permits take over a hundred years at this rate";
    assert_eq!(refused(1, 60.0, Some(1_000_000_000)), long);
    assert!(Rate::new("", 1, 1.0, None).is_err());
    let rate = rate(100, 60.0, Some(20));
    let refused = |permits, timeout| rate.ask(permits, timeout).unwrap_err().message;
    assert_eq!(refused(0, None), "n must be at least 1, not 0");
    let never = "n is 21, but this rate never gives more than 20 at once: ask for fewer, or set a larger burst";
    assert_eq!(refused(21, None), never);
    assert_eq!(refused(1, Some(-1.0)), "timeout must be a number of seconds, 0 or more, not -1.0");
}

#[test]
fn a_wait_without_an_end_asks_for_numbers_that_the_server_counts_exactly() {
    let question = rate(999_999_937, 1.0, None).ask(1, Some(f64::INFINITY)).unwrap();
    assert!(matches!(question.call(), Call::Rate { most: MOST_TICKS, .. }));
    let (answer, delay) = question.answer(true, MOST_TICKS);
    assert!(answer.allowed && delay.is_some());
}

#[test]
fn a_key_lasts_until_its_rate_is_whole() {
    for (ahead, ticks, lasts) in [(1, 1, 2), (1000, 1, 2), (1001, 1, 3), (3_000_000, 3, 1001), (3_000_001, 3, 1002)] {
        assert_eq!(Level { at: 0, ahead, ticks }.lasts(), Duration::from_millis(lasts), "{ahead}");
    }
}

#[test]
fn a_value_of_another_program_is_none() {
    for text in ["", "1 2", "1 2 3 4", "x 2 3", "1  3", "-1 2 3"] {
        assert_eq!(Level::parse(text.as_bytes()), None, "{text}");
    }
    let zero = Level::parse(b"1 2 0");
    assert_eq!(Level::at(zero, 5, 1), (Level { at: 5, ahead: 0, ticks: 1 }, false));
}

/// A question: how long after the one before, for how many permits, and with which timeout in milliseconds.
type Step = (u64, i64, Option<u16>);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let passed = prop_oneof![3 => 0..2000u64, 2 => 0..2_000_000u64, 1 => 0..100_000_000u64];
    let timeout = prop_oneof![3 => Just(None), 1 => (0..3000u16).prop_map(Some)];
    proptest::collection::vec((passed, 1..10i64, timeout), 1..60)
}

proptest! {
    /// A naive count: in no time between two permits are there more than the burst and what comes in that time.
    #[test]
    fn never_more_than_a_burst_and_what_comes_in_time(
        limit in 1..2000i64,
        per in 1..5000u32,
        burst in 1..40i64,
        steps in steps(),
    ) {
        let rate = rate(limit, f64::from(per) / 10.0, Some(burst));
        let (mut model, mut value, mut now) = (Model::new(LONG, false), None, 1_800_000_000_000_000);
        // Waits end up to a microsecond late, which shortens the time until the next permits.
        let mut used: Vec<(u64, u64, u64)> = Vec::new();
        for (passed, permits, timeout) in steps {
            now += passed;
            let Ok(question) = rate.ask(permits, timeout.map(|timeout| f64::from(timeout) / 1000.0)) else { continue };
            let answer = take(&mut value, now, &question.call());
            prop_assert_eq!(&model.call(Duration::from_micros(now), &question.call()), &answer);
            let ScriptAnswer::Rated { taken, ahead } = answer else { unreachable!() };
            let (answer, delay) = question.answer(taken, ahead);
            if let Some(retry_after) = answer.retry_after {
                let before = retry_after.as_micros() as u64 - 1;
                let again = rate.ask(permits, None).unwrap().call();
                let is_taken = |now| match take(&mut value.clone(), now, &again) {
                    ScriptAnswer::Rated { taken, .. } => taken,
                    other => panic!("{other:?}"),
                };
                prop_assert_eq!((is_taken(now + before), is_taken(now + before + 1)), (false, true));
            }
            if taken {
                let delay = delay.unwrap_or_default().as_micros() as u64;
                used.push((now + delay, permits as u64, u64::from(delay > 0)));
            }
        }
        used.sort_unstable();
        for (first, (since, _, late)) in used.iter().enumerate() {
            let mut sum = 0;
            for (until, permits, _) in &used[first..] {
                sum += permits;
                let micros = u128::from(per) * 100_000;
                let earned = u128::from(until - since + late) * limit as u128;
                prop_assert!(u128::from(sum) * micros <= burst as u128 * micros + earned, "{sum} since {since}");
            }
        }
    }
}
