//! How a language names its types, for messages.

use std::sync::OnceLock;

/// The names of types in a front end's language, with an article where the language's messages have one.
#[derive(Debug)]
pub struct Words {
    /// The value that says that there is none.
    pub nothing: &'static str,
    pub yes: &'static str,
    pub no: &'static str,
    pub flag: &'static str,
    pub whole: &'static str,
    pub number: &'static str,
    pub text: &'static str,
    pub bytes: &'static str,
    /// Text or bytes.
    pub both: &'static str,
    pub list: &'static str,
    /// All that dialects without objects take.
    pub plain: &'static str,
    /// What `tls` takes beside yes and no.
    pub tls: &'static str,
    /// What `compression` takes beside yes, no and the name of an algorithm.
    pub compression: &'static str,
    /// What `near` takes beside yes and no.
    pub near: &'static str,
    pub function: &'static str,
}

/// The words of no language in particular.
const PLAIN: Words = Words {
    nothing: "null",
    yes: "true",
    no: "false",
    flag: "a boolean",
    whole: "a whole number",
    number: "a floating-point number",
    text: "text",
    bytes: "bytes",
    both: "text or bytes",
    list: "a list",
    plain: "bytes, text, numbers, booleans, null, lists and maps",
    tls: "a Tls",
    compression: "a Compression",
    near: "a Near",
    function: "a function",
};

static SPOKEN: OnceLock<&Words> = OnceLock::new();

/// Sets the words of all messages in this process. Only the first call counts: a process has one front end.
pub fn speak(words: &'static Words) {
    let _ = SPOKEN.set(words);
}

/// The words for messages.
pub fn words() -> &'static Words {
    SPOKEN.get().copied().unwrap_or(&PLAIN)
}
