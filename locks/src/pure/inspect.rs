//! Tells the state of names.

use pinyon_proto::resp::Value;

use super::replies::{first_error, holder, positive, time, unexpected};
use super::{parts, Pure, Stage};
use crate::call::{Inspected, Names, ScriptAnswer};
use crate::value;

impl Pure {
    pub(super) fn inspect(&mut self, id: u64, names: &Names) {
        let mut commands = vec![self.values_of(names)];
        commands.extend(names.iter().map(|name| parts(&[b"PTTL", &self.keys.lock(name)])));
        commands.push(parts(&[b"TIME"]));
        self.send(Stage::Inspect { id, names: names.len() }, commands);
    }

    pub(super) fn inspected(&mut self, id: u64, names: usize, mut replies: Vec<Value>) {
        if let Some(error) = first_error(&mut replies) {
            return self.answers.push((id, Err(error)));
        }
        let values = match replies.first() {
            Some(Value::Array(values)) if values.len() == names => &values[..],
            _ => return self.answers.push((id, Err(unexpected(&replies)))),
        };
        let now = replies.last().and_then(time).unwrap_or_default();
        let each = values.iter().zip(&replies[1..=names]).map(|(value, pttl)| {
            let is_there = !matches!(pttl, Value::Integer(-2));
            let holder = holder(value).or_else(|| is_there.then(value::no_string));
            let pttl = positive(pttl);
            let age = match (value, pttl) {
                (Value::Bytes(value), Some(pttl)) => value::age_in(value, pttl, now),
                _ => None,
            };
            Inspected { holder, sharing: Vec::new(), pttl, age, waiting: Vec::new() }
        });
        self.answers.push((id, Ok(ScriptAnswer::Inspected(each.collect()))));
    }
}
