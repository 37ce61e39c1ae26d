//! Verification: repeats the row's steps, and compares each answer with a model of a cache.

use std::collections::HashMap;

use crate::client::{Answer, Client};
use crate::rows::{Mode, Row, Step};
use crate::{Failure, Outcome};

/// Runs a row with a fresh client, then reads everything back. Fails at the first wrong answer.
pub fn verify(row: &Row) -> Outcome<()> {
    let mut model = Model { items: HashMap::new(), counters: HashMap::new(), quiet: false };
    model.check_all(&mut Client::open(&row.servers, false)?, &row.prepare)?;
    model.quiet = row.quiet;
    let mut client = Client::open(&row.servers, row.quiet)?;
    for phase in &row.phases {
        for _ in 0..phase.iterations {
            model.check_all(&mut client, &phase.steps)?;
        }
    }
    client.finish()?;
    let mut reader = Client::open(&row.servers, false)?;
    for (key, value) in model.items {
        let answer = reader.ask(&Step::Get { key: key.clone() })?;
        compare(&key, answer, Answer::Value(value))?;
    }
    Ok(())
}

/// A model of a cache.
struct Model {
    items: HashMap<Vec<u8>, Vec<u8>>,
    counters: HashMap<Vec<u8>, u64>,
    quiet: bool,
}

impl Model {
    fn check_all(&mut self, client: &mut Client, steps: &[Step]) -> Outcome<()> {
        for step in steps {
            let answer = client.ask(step)?;
            self.check(step, answer)?;
        }
        Ok(())
    }

    fn check(&mut self, step: &Step, answer: Answer) -> Outcome<()> {
        match step {
            Step::Get { key } => {
                let wanted = self.items.get(key).map_or(Answer::Refused, |value| Answer::Value(value.clone()));
                compare(key, answer, wanted)
            }
            Step::MultiGet { keys } => {
                let found = keys.iter().filter_map(|key| Some((key.clone(), self.items.get(key)?.clone())));
                compare(b"multiget", answer, Answer::Values(found.collect()))
            }
            Step::Delete { key } => {
                let existed = self.items.remove(key).is_some();
                compare(key, answer, done(self.quiet || existed))
            }
            Step::Store { mode, key, value, .. } => {
                let stored = *mode == Mode::Set || (*mode == Mode::Replace) == self.items.contains_key(key);
                if stored {
                    self.items.insert(key.clone(), value.clone());
                }
                compare(key, answer, done(self.quiet || stored))
            }
            Step::MultiSet { stores } => stores.iter().try_for_each(|store| self.check(store, Answer::Done)),
            Step::Count { key, delta, down, initial } => {
                let now = self.count(key, *delta, *down, *initial);
                let wanted = now.map_or(Answer::Refused, |now| Answer::Value(now.to_string().into_bytes()));
                compare(key, answer, wanted)
            }
        }
    }

    fn count(&mut self, key: &[u8], delta: u64, down: bool, initial: Option<u64>) -> Option<u64> {
        let now = match self.counters.get(key) {
            Some(&value) if down => value.saturating_sub(delta),
            Some(&value) => value.wrapping_add(delta),
            None => initial?,
        };
        self.counters.insert(key.to_vec(), now);
        Some(now)
    }
}

fn done(yes: bool) -> Answer {
    if yes {
        Answer::Done
    } else {
        Answer::Refused
    }
}

fn compare(key: &[u8], answer: Answer, wanted: Answer) -> Outcome<()> {
    if answer == wanted {
        return Ok(());
    }
    let key = String::from_utf8_lossy(key).into_owned();
    Err(Failure::Wrong(format!("{key:.30} was answered {answer:?} instead of {wanted:?}")))
}
