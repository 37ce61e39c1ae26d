use std::collections::BTreeSet;

use super::*;

#[test]
fn each_call_has_a_name_of_its_own_in_each_language() {
    for language in Language::ALL {
        let names: Vec<_> = ALL.iter().filter_map(|call| call.name_in(language)).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{language:?}");
    }
    assert_eq!(Call::named("get_many").unwrap().name_in(Language::Perl), Some("get_multi"));
    assert_eq!(Call::named("gats").unwrap().name_in(Language::Ruby), None);
    assert_eq!(Call::named("get_multi"), None);
}

#[test]
fn the_table_is_exported_as_json() {
    let calls: Vec<serde_json::Value> = serde_json::from_str(&described()).unwrap();
    assert_eq!(calls.len(), ALL.len());
    for (json, call) in calls.iter().zip(ALL) {
        assert_eq!((&json["name"], &json["takes"]), (&call.name.into(), &serde_json::json!(words(call))));
        let text = json["text"].as_str().unwrap();
        assert!(text.ends_with('.') && !text.starts_with(' '), "{text}");
    }
    assert_eq!(calls[0]["names"], serde_json::json!({"python": "get", "ruby": "get", "perl": "get", "c": "get"}));
    assert_eq!((&calls[0]["only_reads"], &calls[0]["may_be_joined"]), (&true.into(), &true.into()));
}

fn words(call: &Call) -> Vec<&str> {
    call.takes.iter().map(|takes| takes.word()).collect()
}
