//! Turns every kind of error into an exception of its class in `Pinyon`.

use magnus::error::ErrorType;
use magnus::value::ReprValue;
use magnus::{kwargs, Class, Error, Exception, ExceptionClass, Module, RClass, RHash, RModule, Ruby, Value};
use pinyon_cache::blocking::Failure;
use pinyon_cache::dialect::ValueError;
use pinyon_cache::operations::KeyError;
pub(crate) use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::error::kinds::Standard;
use pinyon_net::invalid::InvalidArgument;

/// An exception for a mistake that involves no server.
#[cold]
pub(crate) fn exception(ruby: &Ruby, kind: ErrorKind, message: &str) -> Error {
    raised(class_of(ruby, kind).and_then(|class| class.funcall("new", (message,))))
}

/// Raises the core's refusal of an argument.
pub(crate) fn checked<T, E: Into<InvalidArgument>>(ruby: &Ruby, argument: Result<T, E>) -> Result<T, Error> {
    argument.map_err(|refused| {
        let InvalidArgument { kind, message } = refused.into();
        exception(ruby, kind, &message)
    })
}

/// A key that cannot be sent.
#[cold]
pub(crate) fn invalid_key(ruby: &Ruby, error: &KeyError, key: &[u8]) -> Error {
    let InvalidArgument { kind, message } = InvalidArgument::key(error, key);
    exception(ruby, kind, &message)
}

/// A value that cannot be stored or read.
#[cold]
pub(crate) fn of_value(ruby: &Ruby, error: &ValueError) -> Error {
    exception(ruby, error.kind, &error.message)
}

/// An object of a class that is not taken. `expected`: what is, as a sentence begins.
#[cold]
pub(crate) fn unsupported(ruby: &Ruby, expected: &str, object: Value) -> Error {
    // SAFETY: the name is copied at once.
    let class = unsafe { object.classname() }.into_owned();
    exception(ruby, ErrorKind::UnsupportedType, &format!("{expected}, not {class}"))
}

/// The exception for a failed command.
#[cold]
pub(crate) fn from_core(ruby: &Ruby, error: &pinyon_net::Error) -> Error {
    raised(failure(ruby, error))
}

/// The exception for an operation that failed or was interrupted.
pub(crate) fn from_failure(ruby: &Ruby, failed: Failure<Error>) -> Error {
    match failed {
        Failure::Error(error) => from_core(ruby, &error),
        Failure::Interrupted(raised) => raised,
    }
}

/// The same as [`from_core`], as an object to be kept.
#[cold]
pub(crate) fn failure(ruby: &Ruby, error: &pinyon_net::Error) -> Result<Value, Error> {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let details = kwargs!(ruby,
        "server" => text(&error.server), "command" => text(error.command), "sent" => ruby.to_symbol(error.sent.as_str())
    );
    class_of(ruby, error.kind.into())?.funcall("new", (error.to_string(), details))
}

/// Raises what was made, or what prevented it.
pub(crate) fn raised(made: Result<Value, Error>) -> Error {
    match made.map(magnus::Exception::from_value) {
        Ok(Some(exception)) => exception.into(),
        Ok(None) => unreachable!("the classes of errors make exceptions"),
        Err(raised) => raised,
    }
}

/// Adds the partial results of an operation on many keys to its failure.
#[cold]
pub(crate) fn beside(ruby: &Ruby, error: Error, partial: Value) -> Error {
    let added = own(ruby, &error).and_then(|own| match own {
        Some(exception) => exception.funcall::<_, _, Value>("instance_variable_set", ("@partial", partial)).map(drop),
        None => Ok(()),
    });
    added.err().unwrap_or(error)
}

/// Adds the index of the key to a failure of an operation on many keys.
#[cold]
pub(crate) fn at_index(ruby: &Ruby, error: Error, index: usize) -> Error {
    reworded(ruby, error, |message| format!("keys[{index}]: {message}"))
}

/// Adds the key to a failure to read its value.
#[cold]
pub(crate) fn stored_under(ruby: &Ruby, error: Error, key: Value) -> Error {
    reworded(ruby, error, |message| format!("{}: {message}", key.inspect()))
}

/// Adds the key to a failure to write one of many values.
#[cold]
pub(crate) fn unstorable(ruby: &Ruby, error: Error, key: Value) -> Error {
    reworded(ruby, error, |message| format!("the value of {} cannot be stored: {message}", key.inspect()))
}

/// An exception of Pinyon's with another message. Others stay as they are.
fn reworded(ruby: &Ruby, error: Error, word: impl FnOnce(&str) -> String) -> Error {
    let reworded = || {
        let Some(exception) = own(ruby, &error)? else { return Ok(None) };
        let message: String = exception.funcall("message", ())?;
        exception.funcall::<_, _, Value>("exception", (word(&message),)).map(Some)
    };
    match reworded() {
        Ok(None) => error,
        made => raised(made.map(|made| made.unwrap_or_else(|| ruby.qnil().as_value()))),
    }
}

/// The exception, if it is Pinyon's.
pub(crate) fn own(ruby: &Ruby, error: &Error) -> Result<Option<Exception>, Error> {
    let module: RModule = pinyon(ruby)?.const_get("Error")?;
    match error.value().and_then(Exception::from_value) {
        Some(exception) if exception.funcall::<_, _, bool>("is_a?", (module,))? => Ok(Some(exception)),
        _ => Ok(None),
    }
}

/// The kind of one of Pinyon's exceptions.
pub(crate) fn kind_of(exception: Exception) -> ErrorKind {
    let kind_named = |class: Value| {
        let name = class.to_string();
        let name = name.strip_prefix("Pinyon::")?;
        ErrorKind::ALL.into_iter().find(|kind| kind.as_str() == name)
    };
    exception.class().ancestors().into_iter().find_map(kind_named).unwrap_or(ErrorKind::Error)
}

fn pinyon(ruby: &Ruby) -> Result<RModule, Error> {
    ruby.class_object().const_get("Pinyon")
}

/// The class of a kind. Kinds that are never raised themselves are modules.
fn class_of(ruby: &Ruby, kind: ErrorKind) -> Result<ExceptionClass, Error> {
    pinyon(ruby)?.const_get(kind.as_str())
}

/// For each kind its parents, and the name of the standard error that it resembles.
pub(crate) fn error_kinds(ruby: &Ruby) -> Result<RHash, Error> {
    let kinds = ruby.hash_new();
    for kind in ErrorKind::ALL {
        let parents = ruby.ary_from_iter(kind.parents().iter().map(|parent| parent.as_str()));
        let standard = kind.resembles().map(|standard| match standard {
            Standard::Timeout => "Timeout::Error",
            Standard::Connection => "IOError",
            Standard::Argument => "ArgumentError",
            Standard::Type => "TypeError",
        });
        kinds.aset(kind.as_str(), (parents, standard))?;
    }
    Ok(kinds)
}

/// Whether an error says that a stored value cannot be read. A failure of a client that loading uses does not.
#[cold]
pub(crate) fn is_unreadable(ruby: &Ruby, error: &Error) -> Result<bool, Error> {
    if let Some(exception) = own(ruby, error)? {
        return Ok(kind_of(exception).is_a(ErrorKind::UndecodableValue));
    }
    thrown(error)?.map_or(Ok(false), |exception| is_failure(ruby, exception))
}

/// Why a stored value cannot be read, in a line.
#[cold]
pub(crate) fn reason(ruby: &Ruby, error: &Error) -> Result<String, Error> {
    let Some(exception) = thrown(error)? else { return Ok(String::new()) };
    let message: String = exception.funcall("message", ())?;
    Ok(match own(ruby, error)? {
        Some(_) => message,
        None => format!("{}: {message}", exception.class()),
    })
}

/// Whether it says that code of the user's has failed, such as the block that makes a value. What stops a thread does not,
/// nor a `Timeout::Error`: it may be the caller's, and others that wait for the value may have more time. Errors below it, such
/// as `Net::ReadTimeout`, are of the code itself.
pub(crate) fn is_failure(ruby: &Ruby, exception: Exception) -> Result<bool, Error> {
    let timeout = ruby.class_object().const_get::<_, RModule>("Timeout")?.const_get::<_, RClass>("Error")?;
    let fails = [ruby.exception_standard_error(), ruby.exception_script_error()];
    let has_failed = fails.into_iter().any(|class| exception.is_kind_of(class));
    let is_expired = |class: Value| class.to_string() == "Async::TimeoutError";
    Ok(has_failed && !exception.class().equal(timeout)? && !exception.class().ancestors().into_iter().any(is_expired))
}

/// The exception; nothing for a `throw`, `break` or `Thread#kill`.
pub(crate) fn thrown(raised: &Error) -> Result<Option<Exception>, Error> {
    match raised.error_type() {
        ErrorType::Jump(_) => Ok(None),
        ErrorType::Exception(exception) => Ok(Some(*exception)),
        ErrorType::Error(class, message) => class.new_instance((&**message,)).map(Some),
    }
}
