//! What `check` asks for: every reply of a row's steps, as JSON knows it.

use serde_json::{json, Value};

use crate::client::{Answer, Client};
use crate::rows::{Row, Step, PICKLED_LIST};
use crate::Outcome;

/// Does a row's phases with a new client, and returns the replies.
pub fn replies(row: &Row) -> Outcome<Vec<Value>> {
    let mut client = Client::open(&row.servers, row.quiet)?;
    let mut replies = Vec::new();
    for phase in &row.phases {
        for step in (0..phase.iterations).flat_map(|_| &phase.steps) {
            replies.push(told(step, client.ask(step)?));
        }
    }
    client.finish()?;
    Ok(replies)
}

fn told(step: &Step, answer: Answer) -> Value {
    match (answer, step) {
        (Answer::Refused, Step::Get { .. } | Step::Count { .. }) => Value::Null,
        (Answer::Refused, _) => false.into(),
        (Answer::Done, Step::MultiSet { stores }) => stores.len().into(),
        (Answer::Done, _) => true.into(),
        (Answer::Value(value), Step::Count { .. }) => {
            String::from_utf8_lossy(&value).parse::<u64>().map_or(Value::Null, Value::from)
        }
        (Answer::Value(value), _) => text(&value),
        (Answer::Values(found), _) => {
            found.iter().map(|(key, value)| (String::from_utf8_lossy(key).into_owned(), text(value))).collect()
        }
    }
}

fn text(value: &[u8]) -> Value {
    if value == PICKLED_LIST {
        return json!([]);
    }
    value.iter().map(|&byte| char::from(byte)).collect::<String>().into()
}
