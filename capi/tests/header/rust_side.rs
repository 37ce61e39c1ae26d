//! What Rust exports, in C: prototypes from the sources, layouts and numbers from the types.

use std::fmt::Write;

use pinyon::errors::Kind;
use pinyon::locks::lock::{number, LOSSES};
use pinyon::making::step::StepKind;
use pinyon::making::{made, terms};
use pinyon::requests::{with, Verb};
use pinyon::status::{marks, Status};
use pinyon::values::parts::PartKind;
use pinyon::wishes::wanted::{with as flags, WishKind};
use pinyon::LAYOUTS;
use pinyon_locks::{LeaderReportKind, LeaderStepKind};
use regex_lite::Regex;

pub struct Function {
    pub name: String,
    prototype: String,
}

/// The functions that a source file exports, by its macro.
pub fn functions(source: &str) -> Vec<Function> {
    let function = Regex::new(r"\n    fn (pinyon_\w+)\(([^)]*)\)(?: -> ([^{]+))? \{").unwrap();
    function
        .captures_iter(source)
        .map(|found| {
            let parameters = found[2].split(',').map(str::trim).filter(|parameter| !parameter.is_empty());
            let mut kinds: Vec<String> =
                parameters.map(|parameter| c_type(parameter.split_once(": ").unwrap().1)).collect();
            let result = found.get(3).map_or("()", |result| result.as_str());
            let fails = result.strip_prefix("Result<").and_then(|result| result.strip_suffix('>'));
            kinds.extend(fails.map(|_| c_type("*mut *mut Error")));
            let result = c_type(fails.unwrap_or(result));
            let parameters = if kinds.is_empty() { "void".to_owned() } else { kinds.join(", ") };
            Function { name: found[1].to_owned(), prototype: format!("{result} {}({parameters});", &found[1]) }
        })
        .collect()
}

/// A type of Rust's in C. Enums are numbers to Rust, and C takes them for the same type.
fn c_type(rust: &str) -> String {
    let rust = rust.trim();
    if let Some(pointed) = rust.strip_prefix("*mut ").or_else(|| rust.strip_prefix("&mut ")) {
        return format!("{} *", c_type(pointed));
    }
    if let Some(pointed) = rust.strip_prefix("*const ").or_else(|| rust.strip_prefix('&')) {
        return format!("const {} *", c_type(pointed)).replace("const const", "const");
    }
    match rust.rsplit("::").next().unwrap() {
        "u8" => "uint8_t".to_owned(),
        "u32" => "uint32_t".to_owned(),
        "u64" => "uint64_t".to_owned(),
        "i32" => "int32_t".to_owned(),
        "c_int" => "int".to_owned(),
        "usize" => "size_t".to_owned(),
        "f64" => "double".to_owned(),
        "bool" => "bool".to_owned(),
        "c_char" => "char".to_owned(),
        "c_void" | "()" => "void".to_owned(),
        "NamedText" => "pinyon_option".to_owned(),
        "Option<Place>" => "pinyon_place".to_owned(),
        "HowMade" => "pinyon_made".to_owned(),
        name => format!("pinyon_{}", snake(name)),
    }
}

/// Declarations and assertions that a C compiler takes only if the header agrees.
pub fn checks(functions: &[Function]) -> String {
    let mut all: String = functions.iter().map(|function| format!("{}\n", function.prototype)).collect();
    let mut equal = |what: &str, number: i64| writeln!(all, "_Static_assert({what} == {number}, \"{what}\");").unwrap();
    for layout in LAYOUTS {
        let name = layout.name;
        equal(&format!("sizeof({name})"), layout.size as i64);
        for (field, offset, size) in layout.fields {
            equal(&format!("offsetof({name}, {field})"), *offset as i64);
            equal(&format!("sizeof((({name} *)0)->{field})"), *size as i64);
        }
    }
    equal("PINYON_ABI", pinyon::ABI.into());
    Verb::ALL.iter().for_each(|verb| equal(&constant("", verb), *verb as i64));
    PartKind::ALL.iter().for_each(|kind| equal(&constant("", kind), *kind as i64));
    StepKind::ALL.iter().for_each(|step| equal(&constant("STEP_", step), *step as i64));
    WishKind::ALL.iter().for_each(|kind| equal(&constant("", kind), *kind as i64));
    LeaderStepKind::ALL.iter().for_each(|step| equal(&constant("LEADER_", step), *step as i64));
    LeaderReportKind::ALL.iter().for_each(|report| equal(&constant("LEADER_", report), *report as i64));
    for loss in LOSSES {
        equal(&constant("LOSS_", &loss), number(Some(loss)).into());
    }
    for (number, name) in ["WATCH", "FORGET", "END_TURN", "ALARM"].into_iter().enumerate() {
        equal(&format!("PINYON_{name}"), number as i64);
    }
    for status in Status::ALL {
        equal(&constant("", &status), status as i64);
    }
    for kind in Kind::all() {
        let name = match kind.name() {
            "Error" => "Error",
            name => name.trim_end_matches("Error").trim_end_matches("Failed"),
        };
        equal(&format!("PINYON_E_{}", snake(name).to_uppercase()), kind.number().into());
    }
    for (number, name) in ["NO", "MAYBE", "YES"].into_iter().enumerate() {
        equal(&format!("PINYON_SENT_{name}"), number as i64);
    }
    for (name, flag) in FLAGS {
        equal(&format!("PINYON_{name}"), (*flag).into());
    }
    all
}

const FLAGS: &[(&str, u32)] = &[
    ("WITH_CAS", with::CAS),
    ("WITH_TTL", with::TTL),
    ("WITH_METADATA", with::METADATA),
    ("WITHOUT_BUMP", with::WITHOUT_BUMP),
    ("WITH_NEW_CAS", with::NEW_CAS),
    ("WITH_INITIAL", with::INITIAL),
    ("KEEP", with::KEEP),
    ("NO_FAILOVER", with::NO_FAILOVER),
    ("RAW", with::RAW),
    ("TTL_AS_SENT", with::TTL_AS_SENT),
    ("TERMS_STALE_ON_ERROR", terms::STALE_ON_ERROR),
    ("TERMS_TTL_OF_VALUE", terms::TTL_OF_VALUE),
    ("TERMS_ANEW", terms::ANEW),
    ("TERMS_SOFT_TIMEOUT", terms::SOFT_TIMEOUT),
    ("TERMS_BEHIND", terms::BEHIND),
    ("MADE_TTL", made::TTL),
    ("MADE_STALE", made::STALE),
    ("MADE_NOT_STORED", made::NOT_STORED),
    ("AT_ONCE", flags::AT_ONCE),
    ("NO_RENEWAL", flags::NO_RENEWAL),
    ("REENTRANT", flags::REENTRANT),
    ("NOT_REENTRANT", flags::NOT_REENTRANT),
    ("WITH_TOKEN", flags::TOKEN),
    ("HAS_VALUE", marks::HAS_VALUE),
    ("HAS_CAS", marks::HAS_CAS),
    ("HAS_STALE", marks::HAS_STALE),
    ("HAS_TTL", marks::HAS_TTL),
    ("HAS_LAST_ACCESS", marks::HAS_LAST_ACCESS),
    ("FETCHED", marks::FETCHED),
    ("IS_STALE", marks::IS_STALE),
    ("IS_WON", marks::IS_WON),
    ("IS_FILLING", marks::IS_FILLING),
    ("WAS_NOTIFIED", marks::WAS_NOTIFIED),
    ("OF_OLD", marks::OF_OLD),
    ("HAS_TAGS", marks::HAS_TAGS),
];

/// The name of a variant in the header.
fn constant(prefix: &str, variant: &impl std::fmt::Debug) -> String {
    format!("PINYON_{prefix}{}", snake(&format!("{variant:?}")).to_uppercase())
}

fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}
