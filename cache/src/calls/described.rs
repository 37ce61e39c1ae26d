//! The table as JSON. Tools write documentation, stubs and lists from it.

use super::{Call, Language, ALL};

/// The calls in their order: a JSON list of objects.
pub fn described() -> String {
    format!("[{}]", ALL.map(object).join(", "))
}

fn object(call: &Call) -> String {
    let Call { name, asks, takes, gives, only_reads, may_be_joined, text, names: _ } = call;
    let takes: Vec<_> = takes.iter().map(|takes| takes.word()).collect();
    let names: Vec<_> = Language::ALL.iter().map(|language| in_language(call, *language)).collect();
    format!(
        "{{\"name\": {name:?}, \"asks\": {:?}, \"takes\": {takes:?}, \"gives\": {:?}, \"only_reads\": {only_reads}, \
         \"may_be_joined\": {may_be_joined}, \"text\": {:?}, \"names\": {{{}}}}}",
        asks.word(),
        gives.word(),
        text.trim(),
        names.join(", ")
    )
}

fn in_language(call: &Call, language: Language) -> String {
    let name = call.name_in(language).map_or_else(|| "null".to_owned(), |name| format!("{name:?}"));
    format!("{:?}: {name}", language.word())
}
