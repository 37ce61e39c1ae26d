//! The vectors of `vectors/`, which every implementation must match.

mod replies;
mod requests;
mod resp;

use serde_json::Value;

fn load(name: &str) -> Vec<Value> {
    let path = format!("{}/../vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let vectors: Vec<Value> = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert!(!vectors.is_empty(), "{path} has no vectors");
    vectors
}

fn text<'v>(vector: &'v Value, field: &str) -> &'v str {
    vector[field].as_str().unwrap_or_else(|| panic!("{field} is missing in {vector}"))
}

/// The bytes in a field, or in the field with `_hex` after its name; `None` if neither exists.
fn bytes(vector: &Value, field: &str) -> Option<Vec<u8>> {
    if let Some(text) = vector[field].as_str() {
        return Some(text.as_bytes().to_vec());
    }
    let digits = vector[format!("{field}_hex")].as_str()?;
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    Some((0..digits.len()).step_by(2).map(byte).collect())
}
