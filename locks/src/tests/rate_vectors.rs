//! The vectors of rates: what a rate says when it is asked at certain times.

use std::sync::Arc;
use std::time::Duration;

use super::call::{Call, ScriptAnswer};
use super::{Rate, RateAnswer};

/// Plays all vectors. `call` answers a call for the rate with this number, at a time of the server's clock in
/// microseconds.
pub fn play(mut call: impl FnMut(usize, u64, &Call) -> ScriptAnswer) {
    let vectors: Vec<serde_json::Value> =
        serde_json::from_str(include_str!("../../../vectors/rates.json")).expect("JSON");
    for (number, vector) in vectors.iter().enumerate() {
        for (at, step) in vector["steps"].as_array().expect("steps").iter().enumerate() {
            let setting = |name: &str| match &step["rate"][name] {
                serde_json::Value::Null => vector[name].as_f64(),
                given => given.as_f64(),
            };
            let burst = setting("burst").map(|burst| burst as i64);
            let (limit, per) = (setting("limit").expect("limit"), setting("per").expect("per"));
            let rate = Arc::new(Rate::new("a", limit as i64, per, burst).expect("a rate"));
            let question = rate.ask(step["n"].as_i64().expect("n"), step["timeout"].as_f64()).expect("a question");
            let time = |name: &str| step[name].as_u64().map(Duration::from_micros);
            let answer = call(number, step["at"].as_u64().expect("at"), &question.call());
            let ScriptAnswer::Rated { taken, ahead } = answer else { panic!("{answer:?}") };
            let expected = RateAnswer {
                allowed: step["allowed"].as_bool().expect("allowed"),
                limit: limit as u64,
                remaining: step["remaining"].as_u64().expect("remaining"),
                retry_after: time("retry_after"),
                reset: time("reset").expect("reset"),
            };
            let (answer, delay) = question.answer(taken, ahead);
            assert_eq!(answer, expected, "{}, step {at}", vector["title"]);
            assert_eq!(delay.unwrap_or_default(), time("delay").unwrap_or_default(), "{}, step {at}", vector["title"]);
        }
    }
}
