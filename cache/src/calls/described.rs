//! The table as JSON. Tools write documentation, stubs and lists from it.

use pinyon_net::json;

use super::{Call, Language, ALL};

/// The calls in their order: a JSON list of objects.
pub fn described() -> String {
    json::list(ALL.into_iter().map(object))
}

fn object(call: &Call) -> String {
    json::object([
        ("name", json::text(call.name)),
        ("asks", json::text(call.asks.word())),
        ("takes", json::list(call.takes.iter().map(|takes| json::text(takes.word())))),
        ("gives", json::text(call.gives.word())),
        ("only_reads", call.only_reads.to_string()),
        ("may_be_joined", call.may_be_joined.to_string()),
        ("needs_meta", call.needs_meta.to_string()),
        ("text", json::text(call.text.trim())),
        ("names", json::object(Language::ALL.iter().map(|language| (language.word(), in_language(call, *language))))),
    ])
}

fn in_language(call: &Call, language: Language) -> String {
    call.name_in(language).map_or_else(|| "null".to_owned(), json::text)
}
