//! Settings from Ruby's keyword arguments. The core checks them.

use std::sync::Arc;

use magnus::r_hash::ForEach;
use magnus::value::ReprValue;
use magnus::{Error, Float, Integer, RArray, RHash, RString, Ruby, Symbol, Value};
use pinyon_cache::settings::{CompressionSettings, NearSettings, TagTexts};
use pinyon_net::credentials::Function;
use pinyon_net::settings::{Given, NamedSettings, Setting, Words};
use pinyon_net::tls::{Tls, TlsSettings};

use crate::errors::checked;

/// Ruby's words, for messages.
pub(crate) const WORDS: Words = Words {
    nothing: "nil",
    yes: "true",
    no: "false",
    flag: "a boolean",
    whole: "an Integer",
    number: "a Float",
    text: "a String",
    bytes: "a String that is not UTF-8",
    both: "a String",
    list: "an Array",
    plain: "Strings, numbers, true, false, nil, Arrays and Hashes",
    tls: "a Hash",
    compression: "a Hash",
    near: "a Hash",
    function: "a Proc",
};

/// These settings, changed by the given ones. A setting that is nil is left as it is.
pub(crate) fn changed<S: NamedSettings>(ruby: &Ruby, mut settings: S, given: RHash) -> Result<S, Error> {
    for name in names(given)? {
        checked(ruby, S::check_name(&name))?;
        let value: Value = given.aref(ruby.to_symbol(&name))?;
        if value.is_nil() {
            continue;
        }
        let read = match RHash::from_value(value) {
            Some(more) if name == "tls" => Read::Tls(tls(ruby, more)?),
            Some(more) if name == "compression" => {
                let compression: CompressionSettings = changed(ruby, CompressionSettings::default(), more)?;
                checked(ruby, compression.check())?;
                Read::Compression(Arc::new(compression))
            }
            Some(more) if name == "near" => {
                let near: NearSettings = changed(ruby, NearSettings::default(), more)?;
                checked(ruby, near.check())?;
                Read::Near(Arc::new(near))
            }
            _ => match function(ruby, &name, value)? {
                Some(function) => Read::Function(function),
                None => read(value)?,
            },
        };
        checked(ruby, settings.set(&name, read.given()))?;
    }
    Ok(settings)
}

/// The names of tags: a String or Symbol, what has many of them, or nil.
pub(crate) fn tags(ruby: &Ruby, given: Value) -> Result<TagTexts, Error> {
    match given.is_nil() {
        true => Ok(TagTexts::default()),
        false => checked(ruby, TagTexts::read("tags", read(given)?.given())),
    }
}

fn tls(ruby: &Ruby, given: RHash) -> Result<Arc<Tls>, Error> {
    let settings = changed(ruby, TlsSettings::default(), given)?;
    checked(ruby, Tls::new(&settings)).map(Arc::new)
}

/// The function that a setting for credentials is.
fn function(ruby: &Ruby, name: &str, value: Value) -> Result<Option<Arc<dyn Function>>, Error> {
    match name.ends_with("username") || name.ends_with("password") {
        true => crate::credentials::function_of(ruby, value),
        false => Ok(None),
    }
}

fn names(given: RHash) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    given.foreach(|name: Symbol, _: Value| {
        names.push(name.name()?.into_owned());
        Ok(ForEach::Continue)
    })?;
    Ok(names)
}

/// A value of Ruby's, copied.
enum Read {
    Flag(bool),
    Whole(i64),
    Number(f64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Read>),
    Tls(Arc<Tls>),
    Compression(Arc<CompressionSettings>),
    Near(Arc<NearSettings>),
    Function(Arc<dyn Function>),
    Other(String),
}

impl Read {
    fn given(&self) -> Given<'_> {
        match self {
            Read::Flag(flag) => Given::Flag(*flag),
            Read::Whole(number) => Given::Whole(*number),
            Read::Number(number) => Given::Number(*number),
            Read::Text(text) => Given::Text(text),
            Read::Bytes(bytes) => Given::Bytes(bytes),
            Read::List(items) => Given::List(items.iter().map(Read::given).collect()),
            Read::Tls(tls) => Given::Tls(tls.clone()),
            Read::Compression(compression) => Given::Compression(compression.clone()),
            Read::Near(near) => Given::Near(near.clone()),
            Read::Function(function) => Given::Function(function.clone()),
            Read::Other(class) => Given::Other(class.clone()),
        }
    }
}

fn read(value: Value) -> Result<Read, Error> {
    if let Some(symbol) = Symbol::from_value(value) {
        return Ok(Read::Text(symbol.name()?.into_owned()));
    }
    if let Some(text) = RString::from_value(value) {
        // SAFETY: the bytes are copied before Ruby runs again.
        let bytes = unsafe { text.as_slice() }.to_vec();
        return Ok(String::from_utf8(bytes).map_or_else(|error| Read::Bytes(error.into_bytes()), Read::Text));
    }
    if let Some(items) = RArray::from_value(value) {
        return items.into_iter().map(read).collect::<Result<_, _>>().map(Read::List);
    }
    if let Some(flag) = crate::objects::truth(value) {
        return Ok(Read::Flag(flag));
    }
    if let Some(number) = Integer::from_value(value) {
        return Ok(number.to_i64().map_or(Read::Number(f64::INFINITY), Read::Whole));
    }
    if let Some(number) = Float::from_value(value) {
        return Ok(Read::Number(number.to_f64()));
    }
    if let Some(seconds) = crate::ttl::duration(value) {
        return Ok(Read::Number(seconds));
    }
    if RHash::from_value(value).is_none() && value.respond_to("each", false)? {
        return read(value.funcall("to_a", ())?);
    }
    Ok(Read::Other(crate::objects::class_name(value)))
}
