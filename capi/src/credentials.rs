//! Functions in C that return credentials.

use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;

use pinyon_net::credentials::{Function, Question, Told};

use crate::errors::Error;
use crate::exported::exported;
use crate::structs::{self, forward, missing, Bytes, Credentials, CredentialsSource};

/// A source of the caller's. The option's value is its struct.
struct Source(CredentialsSource);

/// A question that a source answers, once.
pub struct CredentialsQuestion(Question);

impl CredentialsQuestion {
    fn into_raw(self) -> *mut forward::CredentialsQuestion {
        Box::into_raw(Box::new(self)).cast()
    }
}

// SAFETY: the header says that any thread of the library may call its functions.
unsafe impl Send for Source {}
// SAFETY: the header says that any number of threads may call its functions at a time. The source never changes.
unsafe impl Sync for Source {}

/// Reads the source that an option's value is.
pub fn source(value: &[u8]) -> Result<Arc<dyn Function>, Error> {
    if value.len() < size_of::<usize>() {
        return Err(missing("pinyon_credentials_source"));
    }
    // SAFETY: the header says that the value is such a struct. It is copied, however it is aligned.
    let source = unsafe { structs::given_unaligned::<CredentialsSource>(value) }?;
    match source.ask {
        Some(_) => Ok(Arc::new(Source(source))),
        None => Err(missing("ask of a pinyon_credentials_source")),
    }
}

impl Function for Source {
    fn ask(&self, question: Question) {
        let CredentialsSource { ask: Some(ask), context, waits, .. } = self.0 else { return };
        if waits == 0 {
            // SAFETY: the header says that it may be called now, with this context.
            unsafe { ask(context, CredentialsQuestion(question).into_raw()) };
            return;
        }
        let context = Context(context);
        question.answer_apart(move |question| {
            let context = &context;
            // An answer may come before the call is over.
            let _source = question.shared_function();
            // SAFETY: the header says that it may be called from a thread of the library's, with this context. The context is
            // kept: the question has a share of its source.
            unsafe { ask(context.0, CredentialsQuestion(question).into_raw()) };
        });
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            // SAFETY: the header says that it is called once, after the last call of `ask`.
            unsafe { release(self.0.context) };
        }
    }
}

struct Context(*mut c_void);

// SAFETY: as for the source.
unsafe impl Send for Context {}

unsafe fn give(question: *mut CredentialsQuestion, told: Result<Told, String>) {
    if question.is_null() {
        return;
    }
    // SAFETY: the caller got it from `ask`, and gives it back once.
    let CredentialsQuestion(question) = *unsafe { Box::from_raw(question) };
    if let Some(next) = question.answer(told) {
        next.go_on();
    }
}

exported! {
    fn pinyon_credentials_answer(question: *mut CredentialsQuestion, credentials: *const Credentials) {
        let told = structs::given(credentials).map(|Credentials { own, username, password, lifetime, .. }| {
            let [own, username, password] = [own, username, password].map(|part| part.given().map(<[u8]>::to_vec));
            Told { own, username, password, lifetime: Some(lifetime).filter(|lifetime| *lifetime != 0.0) }
        });
        give(question, told.map_err(|_| "it answered with a pinyon_credentials without its size".to_owned()));
    }

    fn pinyon_credentials_fail(question: *mut CredentialsQuestion, why: Bytes) {
        give(question, Err(String::from_utf8_lossy(why.slice()).into_owned()));
    }
}
