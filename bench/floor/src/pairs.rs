//! The cheapest form of the coroutines' workload: a window of operations in flight on one blocking socket.
//!
//! So many coroutines correspond to a window of so many requests, which leave in one write before their replies are
//! read. The blocking client is a window of one.

use std::time::Instant;

use serde_json::Value;

use crate::client::{Answer, Client};
use crate::rows::{key, list, number, text, wrong, Mode, Step, Values};
use crate::timing::{Start, Timing};
use crate::{Failure, Outcome};

/// The work of one cell: the same operation for every pair of a key and a value.
pub struct Pairs {
    server: String,
    window: usize,
    warmup: usize,
    passes: u64,
    clocked: usize,
    steps: Vec<Step>,
    wanted: Vec<Answer>,
    check: bool,
}

/// Whether a row has pairs rather than steps.
pub fn is_pairs(row: &Value) -> bool {
    row["pairs"].is_array()
}

impl Pairs {
    /// Reads a row. The error names what is missing.
    pub fn parse(row: &Value) -> Outcome<Pairs> {
        let values = Values { kind: "bytes".into(), length: number(row, "length")? as usize };
        let stores = match text(row, "operation")? {
            "set" => true,
            "get" => false,
            other => return Err(Failure::Cannot(format!("no operation {other}"))),
        };
        let (mut steps, mut wanted) = (Vec::new(), Vec::new());
        for pair in list(row, "pairs")? {
            let key = key(&pair[0])?;
            let value = pair[1].as_str().map(|text| values.value(text).0);
            let (step, answer) = match (stores, value) {
                (true, value) => {
                    let value = value.ok_or_else(|| wrong("pairs"))?;
                    (Step::Store { mode: Mode::Set, key, value, flags: 0 }, Answer::Done)
                }
                (false, Some(value)) => (Step::Get { key }, Answer::Value(value)),
                (false, None) => (Step::Get { key }, Answer::Refused),
            };
            steps.push(step);
            wanted.push(answer);
        }
        Ok(Pairs {
            server: text(row, "server")?.to_owned(),
            window: (number(row, "concurrency")? as usize).max(1),
            warmup: within(row, "warmup", steps.len())?,
            passes: number(row, "passes")?,
            clocked: within(row, "clocked", steps.len())?,
            steps,
            wanted,
            check: row["check"] == true,
        })
    }

    /// Does every operation once, and compares the answers.
    fn check(&self, client: &mut Client) -> Outcome<()> {
        for (steps, wanted) in self.steps.chunks(self.window).zip(self.wanted.chunks(self.window)) {
            for (answer, wanted) in client.ask_together(steps)?.iter().zip(wanted) {
                if answer != wanted {
                    return Err(Failure::Wrong(format!("an operation was answered {answer:?} instead of {wanted:?}")));
                }
            }
        }
        Ok(())
    }

    /// Times all operations on a warm client, then some of them one by one; returns the seconds of each of these.
    pub fn measure(&self) -> Outcome<(Timing, Vec<f64>)> {
        let mut client = Client::open(std::slice::from_ref(&self.server), false)?;
        if self.check {
            self.check(&mut client)?;
        }
        self.run(&mut client, &self.steps[..self.warmup])?;
        let start = Start::now();
        for _ in 0..self.passes {
            self.run(&mut client, &self.steps)?;
        }
        let timing = start.elapsed();
        Ok((timing, self.seconds(&mut client)?))
    }

    fn run(&self, client: &mut Client, steps: &[Step]) -> Outcome<()> {
        steps.chunks(self.window).try_for_each(|window| client.run_together(window, || ()))
    }

    fn seconds(&self, client: &mut Client) -> Outcome<Vec<f64>> {
        let mut seconds = Vec::with_capacity(self.clocked);
        for window in self.steps[..self.clocked].chunks(self.window) {
            let sent = Instant::now();
            client.run_together(window, || seconds.push(sent.elapsed().as_secs_f64()))?;
        }
        Ok(seconds)
    }
}

fn within(row: &Value, name: &str, most: usize) -> Outcome<usize> {
    Ok((number(row, name)? as usize).min(most))
}
