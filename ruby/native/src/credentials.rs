//! Functions in Ruby that return credentials. Only Ruby's threads may call them, so questions wait for such a thread.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use magnus::r_hash::ForEach;
use magnus::value::ReprValue;
use magnus::{function, method, Error, Float, Integer, Module, Object, RHash, RModule, RString, Ruby, Symbol, Value};
use pinyon_net::credentials::{Function, Question, Questions, Told};

use crate::host::unlocked_until;
use crate::objects::class_name;

/// A function, by the number that `Pinyon::Asking` knows it by.
struct Returns(u64);

impl Function for Returns {
    fn ask(&self, question: Question) {
        questions().leave(question);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A question, for the thread that calls the function.
#[magnus::wrap(class = "Pinyon::Native::CredentialsQuestion", free_immediately)]
struct CredentialsQuestion(Mutex<Option<Question>>);

pub(crate) fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    let class = crate::define_class::<CredentialsQuestion>(ruby, native, "CredentialsQuestion")?;
    class.define_method("number", method!(CredentialsQuestion::number, 0))?;
    class.define_method("answer", method!(CredentialsQuestion::answer, 1))?;
    class.define_method("fail", method!(CredentialsQuestion::fail, 1))?;
    native.define_singleton_method("next_credentials_question", function!(next, 0))
}

/// The function that a setting is, if its value can be called.
pub(crate) fn function_of(ruby: &Ruby, value: Value) -> Result<Option<Arc<dyn Function>>, Error> {
    if !value.respond_to("call", false)? {
        return Ok(None);
    }
    let asking: RModule = ruby.define_module("Pinyon")?.const_get("Asking")?;
    let number = asking.funcall("register", (value,))?;
    Ok(Some(Arc::new(Returns(number))))
}

fn questions() -> &'static Questions {
    static QUESTIONS: OnceLock<Questions> = OnceLock::new();
    QUESTIONS.get_or_init(Questions::default)
}

/// Waits for the next question.
fn next(ruby: &Ruby) -> Result<CredentialsQuestion, Error> {
    let interrupted = AtomicBool::new(false);
    loop {
        let wait = || questions().wait();
        let interrupt = || {
            interrupted.store(true, Ordering::Relaxed);
            questions().interrupt();
        };
        if let Some(question) = unlocked_until(ruby, wait, interrupt)? {
            return Ok(CredentialsQuestion(Mutex::new(Some(question))));
        }
    }
}

impl CredentialsQuestion {
    fn lock(&self) -> MutexGuard<'_, Option<Question>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the function to call next, or nil.
    fn number(&self) -> Option<u64> {
        let question = self.lock();
        let (_, function) = question.as_ref()?.function()?;
        function.as_any().downcast_ref().map(|Returns(number)| *number)
    }

    /// Takes what the function returned.
    fn answer(&self, returned: Value) -> Result<(), Error> {
        let told = match told(returned) {
            Ok(told) => Ok(told),
            Err(Wrong::Why(why)) => Err(why),
            Err(Wrong::Raised(error)) => return Err(error),
        };
        self.give(told);
        Ok(())
    }

    /// Takes what the function's error says.
    fn fail(&self, why: String) {
        self.give(Err(why));
    }

    fn give(&self, told: Result<Told, String>) {
        let question = self.lock().take();
        // Whoever is told of the answer takes locks of the core's, which no thread holds while it waits for Ruby's.
        let next = question.and_then(|question| question.answer(told));
        *self.lock() = next;
    }
}

/// Why a value is not what a function may return.
enum Wrong {
    Why(String),
    Raised(Error),
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Self {
        Wrong::Raised(error)
    }
}

/// Reads what a function returned. No message shows it.
fn told(returned: Value) -> Result<Told, Wrong> {
    if let Some(own) = bytes(returned) {
        return Ok(Told { own: Some(own), ..Told::default() });
    }
    let Some(hash) = RHash::from_value(returned) else {
        let class = class_name(returned);
        return Err(Wrong::Why(format!(
            "it returned {class} instead of a String, or of a Hash of username, password and lifetime"
        )));
    };
    let (mut told, mut wrong) = (Told::default(), None);
    hash.foreach(|name: Value, value: Value| {
        wrong = wrong.take().or(add(&mut told, name, value)?);
        Ok(ForEach::Continue)
    })?;
    wrong.map_or(Ok(told), |why| Err(Wrong::Why(why)))
}

/// Adds an entry of a Hash. Returns what is wrong with it.
fn add(told: &mut Told, name: Value, value: Value) -> Result<Option<String>, Error> {
    let name = match Symbol::from_value(name) {
        Some(symbol) => symbol.name()?.into_owned(),
        None => bytes(name).and_then(|name| String::from_utf8(name).ok()).unwrap_or_default(),
    };
    if value.is_nil() && matches!(&*name, "username" | "password" | "lifetime") {
        return Ok(None);
    }
    let wrong =
        |expected: &str| Ok(Some(format!("it returned a {name} that is not {expected} but {}", class_name(value))));
    match &*name {
        "username" | "password" => match (bytes(value), &*name) {
            (None, _) => wrong("a String"),
            (username, "username") => {
                told.username = username;
                Ok(None)
            }
            (password, _) => {
                told.password = password;
                Ok(None)
            }
        },
        "lifetime" => match seconds(value) {
            None => wrong("a number of seconds"),
            lifetime => {
                told.lifetime = lifetime;
                Ok(None)
            }
        },
        _ => Ok(Some("it returned a Hash with other keys than username, password and lifetime".to_owned())),
    }
}

fn bytes(value: Value) -> Option<Vec<u8>> {
    let text = RString::from_value(value)?;
    // SAFETY: the bytes are copied before Ruby runs again.
    Some(unsafe { text.as_slice() }.to_vec())
}

fn seconds(value: Value) -> Option<f64> {
    if let Some(number) = Integer::from_value(value) {
        return number.to_i64().ok().map(|number| number as f64);
    }
    Float::from_value(value).map(|number| number.to_f64()).or_else(|| crate::ttl::duration(value))
}
