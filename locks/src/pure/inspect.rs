//! Tells the state of names.

use pinyon_proto::resp::Value;

use super::replies::{first_error, holder, positive, time, unexpected};
use super::shared::{attempt_in, members, permits};
use super::{parts, Pure, Stage};
use crate::call::{Attempt, Holder, Inspected, Names, ScriptAnswer};
use crate::value;

impl Pure {
    pub(super) fn inspect(&mut self, id: u64, names: &Names) {
        let mut commands = vec![self.values_of(names)];
        commands.extend(names.iter().map(|name| parts(&[b"PTTL", &self.keys.lock(name)])));
        commands.push(parts(&[b"TIME"]));
        commands.extend(names.iter().map(|name| self.set(name)));
        self.send(Stage::Inspect { id, names: names.len() }, commands);
    }

    pub(super) fn inspected(&mut self, id: u64, names: usize, mut replies: Vec<Value>) {
        // A name that is not shared has no set, so an error of those says nothing.
        let sets = replies.split_off(replies.len().min(names + 2));
        if let Some(error) = first_error(&mut replies) {
            return self.answers.push((id, Err(error)));
        }
        let values = match replies.first() {
            Some(Value::Array(values)) if values.len() == names => &values[..],
            _ => return self.answers.push((id, Err(unexpected(&replies)))),
        };
        let now = replies.last().and_then(time).unwrap_or_default();
        let each = values.iter().zip(&replies[1..=names]).zip(&sets).map(|((value, pttl), set)| {
            let is_there = !matches!(pttl, Value::Integer(-2));
            let mut sharing: Vec<Attempt> = members(set).iter().filter_map(|(member, _)| attempt_in(member)).collect();
            sharing.dedup();
            let first = sharing.first().map(|attempt| Holder { attempt: attempt.clone(), token: None });
            let holder = holder(value).or(first).or_else(|| is_there.then(value::no_string));
            let pttl = positive(pttl);
            let age = match (value, pttl) {
                (Value::Bytes(value), Some(pttl)) => value::age_in(value, pttl, now),
                _ => None,
            };
            Inspected { holder, permits: permits(set), sharing, pttl, age, ..Inspected::default() }
        });
        self.answers.push((id, Ok(ScriptAnswer::Inspected(each.collect()))));
    }
}
