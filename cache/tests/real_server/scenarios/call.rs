//! Converts a scenario's call to an operation, and the outcome to JSON.

use pinyon_cache::dialect::{Dialect, Plain};
use pinyon_cache::operations::{
    self, statistics, Answer, AnyOperation, Beside, Bytes, Change, Compared, DataBlock, Everywhere, Fact, Failed,
    Failures, Fetch, Keys, OwnedKey, Policy, Request, ServerCommand, Single,
};
use pinyon_proto::{Direction, KeyRules, Mode};
use serde_json::{json, Map, Value};

use super::cache::decoded;
use crate::playing::{Outcome, Raised};

pub type Op = AnyOperation<OwnedKey, Option<Vec<u8>>, operations::AsBytes>;

/// The request of a call, which may be part of a batch.
pub fn request(call: &[Value]) -> Option<(&str, Request, Option<Vec<u8>>)> {
    let key = call.get(1)?.as_str()?;
    let number = |index: usize| call[index].as_i64().unwrap() as i32;
    let store = |mode, cas| {
        let (bytes, client_flags) = encoded(&call[2]);
        (Request::Store { mode, size: bytes.len(), client_flags, ttl: 0, cas, returns_cas: false }, Some(bytes))
    };
    let (request, data) = match call[0].as_str()? {
        "get" => (Request::Get(Beside::Nothing), None),
        "gets" => (Request::Get(Beside::Cas), None),
        "gat" => (Request::GetAndTouch { ttl: number(2), cas: false }, None),
        "touch" => (Request::Touch { ttl: number(2) }, None),
        "set" => store(Mode::Set, None),
        "add" => store(Mode::Add, None),
        "append" => store(Mode::Append, None),
        "cas" => store(Mode::Set, call[3].as_u64()),
        "delete" => (Request::Delete, None),
        "incr" => (Request::Arithmetic { direction: Direction::Increment, delta: 1, initial: None }, None),
        "meta" => (Request::Metadata, None),
        _ => return None,
    };
    Some((key, request, data))
}

pub fn owned(key: &str) -> OwnedKey {
    OwnedKey::new(&KeyRules::default(), key.as_bytes()).unwrap()
}

fn ttl(call: &[Value]) -> i32 {
    call[2].as_i64().unwrap() as i32
}

pub fn operation(call: &[Value]) -> Op {
    let policy = Policy::default();
    if let Some((key, request, data)) = request(call) {
        return Single::new(request, owned(key), data, operations::AsBytes, policy).into();
    }
    match call[0].as_str().unwrap() {
        "get_many" => Fetch::new(keys(&call[1]), Request::Get(Beside::Nothing), operations::AsBytes, policy).into(),
        "gat_many" => {
            let each = Request::GetAndTouch { ttl: ttl(call), cas: false };
            Fetch::new(keys(&call[1]), each, operations::AsBytes, policy).into()
        }
        "delete_many" => Change::each(keys(&call[1]), Request::Delete, policy).into(),
        "touch_many" => Change::each(keys(&call[1]), Request::Touch { ttl: ttl(call) }, policy).into(),
        "set_many" => {
            let block = |value| {
                let (data, client_flags) = encoded(value);
                DataBlock { size: data.len(), data: Some(data), client_flags }
            };
            let blocks = call[1].as_object().unwrap().values().map(block).collect();
            Change::store(keys(&call[1]), blocks, 0, policy).into()
        }
        "flush_all" => Everywhere::new(ServerCommand::FlushAll { delay: 0 }).into(),
        "stats" => Everywhere::new(ServerCommand::Stats(String::new())).into(),
        "version" => Everywhere::new(ServerCommand::Version).into(),
        other => panic!("no call {other}"),
    }
}

pub fn outcome(operation: Op, call: &[Value]) -> Outcome {
    match operation {
        AnyOperation::Single(mut single) => match single.take_answer() {
            Ok(answer) => of_answer(answer),
            Err(Failed::Error(error)) => (*error).into(),
            Err(Failed::Unreadable { error, .. }) => match error {},
        },
        AnyOperation::Fetch(fetch) => {
            let mut fetched = fetch.finish();
            let name = |index: usize| call[1][index].as_str().unwrap().to_owned();
            let found = fetched.found.into_iter().map(|one| (name(one.index), value_of(&one.value).value));
            of_many(Value::Object(found.collect::<Map<_, _>>()), &mut fetched.failures)
        }
        AnyOperation::Change(change) => {
            let mut changed = change.finish();
            let done = call[1].as_array().into_iter().flatten().zip(&changed.done).filter(|(_, done)| **done);
            let value = match call[0].as_str() {
                Some("touch_many") => done.map(|(key, _)| key.clone()).collect(),
                _ => json!(changed.done.iter().filter(|done| **done).count()),
            };
            of_many(value, &mut changed.failures)
        }
        AnyOperation::Everywhere(everywhere) => match everywhere.finish() {
            Ok(lines) => {
                let lines = lines.iter().map(|(_, lines)| json!(statistics(lines).collect::<Vec<_>>()));
                Outcome { value: lines.collect(), raised: None }
            }
            Err(error) => error.into(),
        },
        AnyOperation::Several(_) => unreachable!("scenarios have no requests that leave together"),
        AnyOperation::Quiet(_) => unreachable!("a batch's outcome is that of all its runs"),
    }
}

fn of_many(value: Value, failures: &mut Failures) -> Outcome {
    Outcome { value, raised: failures.raised().map(Raised::from) }
}

fn of_answer(answer: Answer<Bytes>) -> Outcome {
    let value = match answer {
        Answer::Value(bytes) => return value_of(&bytes),
        Answer::ValueAnd(bytes, Fact::Cas(cas)) => {
            let Outcome { value, raised } = value_of(&bytes);
            return Outcome { value: json!([value, cas]), raised };
        }
        Answer::Missing => Value::Null,
        Answer::Done(done) => json!(done),
        Answer::Compared(compared) => json!(compared == Compared::Stored),
        Answer::Number(number) => json!(number),
        other => json!(format!("{other:?}")),
    };
    Outcome { value, raised: None }
}

fn value_of(Bytes { bytes, client_flags }: &Bytes) -> Outcome {
    decoded(*client_flags, bytes)
}

fn encoded(value: &Value) -> (Vec<u8>, u32) {
    Dialect::Pinyon.encode(&Plain::Text(value.as_str().unwrap().to_owned())).unwrap()
}

fn keys(given: &Value) -> Keys {
    let mut keys = Keys::default();
    let names: Vec<&str> = match given {
        Value::Object(given) => given.keys().map(String::as_str).collect(),
        given => given.as_array().unwrap().iter().filter_map(Value::as_str).collect(),
    };
    names.iter().for_each(|name| keys.push(&KeyRules::default(), name.as_bytes()).unwrap());
    keys
}
