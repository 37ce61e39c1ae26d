//! Turns a row of the benchmark into steps for the client.

use serde_json::Value;

use crate::{Failure, Outcome};

/// `[]` as a Python pickle, protocol 5.
pub const PICKLED_LIST: &[u8] = b"\x80\x05]\x94.";
const PICKLE_FLAG: u32 = 1;

/// The work of one cell.
pub struct Row {
    pub servers: Vec<String>,
    pub quiet: bool,
    pub connect_inside: bool,
    pub warmup: u64,
    pub phases: Vec<Phase>,
}

/// Steps, repeated `iterations` times.
pub struct Phase {
    pub iterations: u64,
    pub steps: Vec<Step>,
}

/// One command.
pub enum Step {
    Store { mode: Mode, key: Vec<u8>, value: Vec<u8>, flags: u32 },
    Get { key: Vec<u8> },
    MultiGet { keys: Vec<Vec<u8>> },
    MultiSet { stores: Vec<Step> },
    Delete { key: Vec<u8> },
    Count { key: Vec<u8>, delta: u64, down: bool, initial: Option<u64> },
}

/// The condition of an `ms`.
#[derive(Clone, Copy, PartialEq)]
pub enum Mode {
    Set,
    Add,
    Replace,
}

impl Row {
    /// Reads a row. The error names what is missing.
    pub fn parse(row: &Value) -> Outcome<Row> {
        let values = Values { kind: text(row, "kind")?.to_owned(), length: number(row, "length")? as usize };
        let phases = list(row, "phases")?.iter().map(|phase| {
            Ok(Phase { iterations: number(phase, "iterations")?, steps: values.steps(list(phase, "steps")?)? })
        });
        Ok(Row {
            servers: list(row, "servers")?.iter().map(string).collect::<Outcome<_>>()?,
            quiet: row["quiet"] == true,
            connect_inside: text(row, "connect")? == "inside",
            warmup: number(row, "warmup")?,
            phases: phases.collect::<Outcome<_>>()?,
        })
    }
}

/// The values that the texts in steps stand for.
pub struct Values {
    pub kind: String,
    pub length: usize,
}

impl Values {
    fn steps(&self, steps: &[Value]) -> Outcome<Vec<Step>> {
        steps.iter().map(|step| self.step(step)).collect()
    }

    fn step(&self, step: &Value) -> Outcome<Step> {
        match step[0].as_str() {
            Some("set") => self.store(Mode::Set, step),
            Some("add") => self.store(Mode::Add, step),
            Some("replace") => self.store(Mode::Replace, step),
            Some("get") => Ok(Step::Get { key: key(&step[1])? }),
            Some("delete") => Ok(Step::Delete { key: key(&step[1])? }),
            Some("get_many") => {
                let keys = step[1].as_array().ok_or_else(|| wrong("get_many without keys"))?;
                Ok(Step::MultiGet { keys: keys.iter().map(key).collect::<Outcome<_>>()? })
            }
            Some("set_many") => {
                let pairs = step[1].as_array().ok_or_else(|| wrong("set_many without pairs"))?;
                let stores =
                    pairs.iter().map(|pair| self.stored(Mode::Set, &pair[0], &pair[1])).collect::<Outcome<_>>()?;
                Ok(Step::MultiSet { stores })
            }
            Some("incr" | "incr_or_create") => count(step, false),
            Some("decr") => count(step, true),
            other => Err(Failure::Cannot(format!("no step {other:?}"))),
        }
    }

    fn store(&self, mode: Mode, step: &Value) -> Outcome<Step> {
        self.stored(mode, &step[1], &step[2])
    }

    fn stored(&self, mode: Mode, name: &Value, text: &Value) -> Outcome<Step> {
        let (value, flags) = self.value(&string(text)?);
        Ok(Step::Store { mode, key: key(name)?, value, flags })
    }

    /// The bytes and flags of a value.
    pub fn value(&self, text: &str) -> (Vec<u8>, u32) {
        if self.kind == "object" {
            return (PICKLED_LIST.to_vec(), PICKLE_FLAG);
        }
        let bytes: Vec<u8> = text.chars().map(|character| character as u8).collect();
        let length = if self.length == 0 { bytes.len() } else { self.length };
        (bytes.into_iter().cycle().take(length).collect(), 0)
    }
}

fn count(step: &Value, down: bool) -> Outcome<Step> {
    let delta = step[2].as_u64().ok_or_else(|| wrong("a count without a delta"))?;
    Ok(Step::Count { key: key(&step[1])?, delta, down, initial: step[3].as_u64() })
}

pub fn key(value: &Value) -> Outcome<Vec<u8>> {
    Ok(string(value)?.into_bytes())
}

pub fn string(value: &Value) -> Outcome<String> {
    Ok(value.as_str().ok_or_else(|| wrong("not a text"))?.to_owned())
}

pub fn text<'a>(row: &'a Value, name: &str) -> Outcome<&'a str> {
    row[name].as_str().ok_or_else(|| wrong(name))
}

pub fn number(row: &Value, name: &str) -> Outcome<u64> {
    row[name].as_u64().ok_or_else(|| wrong(name))
}

pub fn list<'a>(row: &'a Value, name: &str) -> Outcome<&'a [Value]> {
    Ok(row[name].as_array().ok_or_else(|| wrong(name))?)
}

pub fn wrong(what: &str) -> Failure {
    Failure::Wrong(format!("a row's field is missing or of the wrong type: {what}"))
}
