//! The cheapest form of the coroutines' workload: a window of operations in flight on one blocking socket.
//!
//! So many coroutines correspond to a window of so many requests, which leave in one write before their replies are
//! read. The blocking client is a window of one.

use std::time::Instant;

use serde_json::Value;

use crate::client::{Answer, Client};
use crate::rows::{key, list, number, string, text, wrong, Mode, Step, Values};
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
    texts: Vec<String>,
    values: Values,
}

/// The durations of single operations, in seconds.
pub struct Latency {
    pub mean: f64,
    pub median: f64,
    pub p99: f64,
    pub longest: f64,
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
        let (mut steps, mut texts) = (Vec::new(), Vec::new());
        for pair in list(row, "pairs")? {
            let (key, text) = (key(&pair[0])?, string(&pair[1])?);
            steps.push(match stores {
                true => Step::Store { mode: Mode::Set, key, value: values.value(&text).0, flags: 0 },
                false => Step::Get { key },
            });
            texts.push(text);
        }
        Ok(Pairs {
            server: text(row, "server")?.to_owned(),
            window: (number(row, "concurrency")? as usize).max(1),
            warmup: within(row, "warmup", steps.len())?,
            passes: number(row, "passes")?,
            clocked: within(row, "clocked", steps.len())?,
            steps,
            texts,
            values,
        })
    }

    /// Does every operation once, compares the answers, and reads back what was stored.
    pub fn verify(&self) -> Outcome<()> {
        let mut client = self.open()?;
        for (steps, texts) in self.steps.chunks(self.window).zip(self.texts.chunks(self.window)) {
            let gets: Vec<Step> = steps.iter().map(get_of).collect::<Outcome<_>>()?;
            for (step, answer) in steps.iter().zip(client.ask_together(steps)?) {
                if matches!(step, Step::Store { .. }) && answer != Answer::Done {
                    return Err(Failure::Wrong(format!("a set was answered {answer:?}")));
                }
            }
            for (text, answer) in texts.iter().zip(client.ask_together(&gets)?) {
                if answer != Answer::Value(self.values.value(text).0) {
                    return Err(Failure::Wrong("a get was answered with another value".into()));
                }
            }
        }
        Ok(())
    }

    /// Times all operations on a warm client, then some of them one by one.
    pub fn measure(&self) -> Outcome<(Timing, Option<Latency>)> {
        let mut client = self.open()?;
        self.run(&mut client, &self.steps[..self.warmup])?;
        let start = Start::now();
        for _ in 0..self.passes {
            self.run(&mut client, &self.steps)?;
        }
        let timing = start.elapsed();
        Ok((timing, self.latency(&mut client)?))
    }

    fn open(&self) -> Outcome<Client> {
        Client::open(std::slice::from_ref(&self.server), false)
    }

    fn run(&self, client: &mut Client, steps: &[Step]) -> Outcome<()> {
        steps.chunks(self.window).try_for_each(|window| client.run_together(window, || ()))
    }

    fn latency(&self, client: &mut Client) -> Outcome<Option<Latency>> {
        let mut seconds = Vec::with_capacity(self.clocked);
        for window in self.steps[..self.clocked].chunks(self.window) {
            let sent = Instant::now();
            client.run_together(window, || seconds.push(sent.elapsed().as_secs_f64()))?;
        }
        Ok(Latency::of(seconds))
    }
}

impl Latency {
    /// The figures of single operations, if there are any.
    pub fn of(mut seconds: Vec<f64>) -> Option<Latency> {
        seconds.sort_by(f64::total_cmp);
        let longest = *seconds.last()?;
        let count = seconds.len();
        Some(Latency {
            mean: seconds.iter().sum::<f64>() / count as f64,
            median: seconds[(count - 1) / 2],
            p99: seconds[(count * 99).div_ceil(100) - 1],
            longest,
        })
    }
}

fn get_of(step: &Step) -> Outcome<Step> {
    match step {
        Step::Store { key, .. } | Step::Get { key } => Ok(Step::Get { key: key.clone() }),
        _ => Err(wrong("operation")),
    }
}

fn within(row: &Value, name: &str, most: usize) -> Outcome<usize> {
    Ok((number(row, name)? as usize).min(most))
}
