//! What the JSON of a scenario means, and how a server's answer looks in it.

use pinyon_locks::settings::{LockSettings, UsualLock};
use pinyon_locks::{RedisValue, Setup};
use pinyon_net::settings::{Given, NamedSettings};
use serde_json::{json, Value};

/// The parts of a client. Later settings override earlier ones.
pub fn settings(url: &str, given: &[&Value]) -> (Setup, UsualLock) {
    let mut settings = LockSettings::default();
    settings.set("url", Given::Text(url)).expect("it is a URL");
    for (name, value) in given.iter().copied().filter_map(Value::as_object).flatten() {
        let value = match value {
            Value::Null => Given::Nothing,
            Value::String(text) => Given::Text(text),
            value => Given::Number(value.as_f64().expect("a number")),
        };
        settings.set(name, value).expect("it makes sense");
    }
    let parts = settings.build().expect("settings that make sense");
    (parts.setup, parts.usual)
}

pub fn texts(given: &Value) -> Vec<String> {
    let text = |each: &Value| each.as_str().map_or_else(|| each.to_string(), str::to_owned);
    given.as_array().expect("a list").iter().map(text).collect()
}

/// Permits in settings: for each pool how many, and its limit if it is given.
pub fn permits(settings: &Value) -> Vec<(String, u32, Option<u32>)> {
    let number = |given: &Value| given.as_u64().expect("a number") as u32;
    let wanted = |given: &Value| match given.as_array() {
        None => (number(given), None),
        Some(pair) => (number(&pair[0]), Some(number(&pair[1]))),
    };
    let all = settings["permits"].as_object().into_iter().flatten();
    all.map(|(pool, given)| {
        let (count, limit) = wanted(given);
        (pool.clone(), count, limit)
    })
    .collect()
}

/// The names to read in settings.
pub fn read(settings: &Value) -> Vec<String> {
    settings.get("read").map(texts).unwrap_or_default()
}

/// Each character of a text is a byte.
pub fn plain(value: &RedisValue) -> Value {
    match value {
        RedisValue::Null => Value::Null,
        RedisValue::Integer(number) => json!(number),
        RedisValue::Status(bytes) | RedisValue::Bytes(bytes) => {
            bytes.iter().map(|byte| char::from(*byte)).collect::<String>().into()
        }
        RedisValue::Array(items) => items.iter().map(plain).collect(),
        other => json!(format!("{other:?}")),
    }
}
