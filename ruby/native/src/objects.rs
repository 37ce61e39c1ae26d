//! Converts Ruby's objects to the parts that the core writes, and parts that it reads to Ruby's objects.

use std::sync::{Mutex, PoisonError};
use std::vec::Drain;

use magnus::encoding::Coderange;
use magnus::r_hash::ForEach;
use magnus::time::{Offset, Timespec};
use magnus::typed_data::Obj;
use magnus::value::{Opaque, Qfalse, Qtrue, ReprValue};
use magnus::{
    gc, DataTypeFunctions, Error, Float, Integer, IntoValue, Module, RArray, RClass, RHash, RModule, RString, Ruby,
    Time, TypedData, Value,
};
use pinyon_cache::dialect::{
    DateTime, Instant, Notation, Objects, Part, Plain, Unwritable, ValueError, Writer, NOT_UTF8,
};

use crate::define_class;
use crate::errors::of_value;
use crate::texts::{self, StringKind};

/// Why an object cannot be written or read.
pub(crate) enum Failed {
    /// What is wrong with it.
    Why(String),
    Raised(Error),
}

impl From<Error> for Failed {
    fn from(raised: Error) -> Self {
        Failed::Raised(raised)
    }
}

impl From<String> for Failed {
    fn from(why: String) -> Self {
        Failed::Why(why)
    }
}

/// Writes an object.
pub(crate) fn write<W: Writer>(ruby: &Ruby, value: Value, mut writer: W) -> Result<W::Written, Failed> {
    put(ruby, value, &mut writer)?;
    writer.finish().map_err(|refused| Failed::Why(refused.to_string()))
}

fn put<W: Writer>(ruby: &Ruby, value: Value, writer: &mut W) -> Result<(), Failed> {
    let mut write = |part: Part<'_>| writer.write(part).map_err(|refused| named(refused, value));
    if let Some(string) = RString::from_value(value).filter(|_| is_exactly(value, ruby.class_string())) {
        let kind = texts::kind_of(ruby, string)?;
        // SAFETY: the writer copies the bytes and does not call Ruby.
        let bytes = unsafe { string.as_slice() };
        return match (kind, std::str::from_utf8(bytes)) {
            (StringKind::Text, Ok(text)) => write(Part::Text(text)),
            _ => write(Part::Bytes(bytes)),
        };
    }
    if let Some(number) = Integer::from_value(value) {
        if let Ok(small) = number.to_i64() {
            return write(Part::Integer(small));
        }
        return match number.to_u64() {
            Ok(large) => write(Part::Unsigned(large)),
            Err(_) => write(integer(number)?.part()),
        };
    }
    if value.is_nil() {
        return write(Part::Null);
    }
    if let Some(truth) = truth(value) {
        return write(Part::Bool(truth));
    }
    if let Some(number) = Float::from_value(value) {
        return write(Part::Float(number.to_f64()));
    }
    if let Some(items) = RArray::from_value(value).filter(|_| is_exactly(value, ruby.class_array())) {
        write(Part::List(items.len()))?;
        for item in items {
            put(ruby, item, writer)?;
        }
        return writer.write(Part::End).map_err(|refused| named(refused, value));
    }
    if let Some(pairs) = RHash::from_value(value).filter(|_| is_exactly(value, ruby.class_hash())) {
        write(Part::Map(pairs.len()))?;
        put_pairs(ruby, pairs, writer)?;
        return writer.write(Part::End).map_err(|refused| named(refused, value));
    }
    if let Some(time) = Time::from_value(value) {
        let Timespec { tv_sec, tv_nsec } = time.timespec()?;
        return write(Part::Instant(Instant { seconds: tv_sec, nanoseconds: tv_nsec as u32 }));
    }
    match is_exactly(value, date_time_class(ruby)?) {
        true => write(Part::DateTime(without_zone(value)?)),
        false => Err(Failed::Why(class_name(value))),
    }
}

/// What a `DateTime` says without its zone, which must be the one that it is read with.
fn without_zone(value: Value) -> Result<DateTime, Failed> {
    if value.funcall::<_, _, Value>("offset", ())?.funcall::<_, _, bool>("zero?", ())? {
        let text: String = value.funcall("strftime", ("%Y-%m-%dT%H:%M:%S.%N",))?;
        return DateTime::parse(&text)
            .ok_or_else(|| format!("a DateTime of the year {}", &text[..text.len().min(6)]).into());
    }
    Err("DateTime with an offset: give a Time, or the DateTime in UTC".to_owned().into())
}

fn put_pairs<W: Writer>(ruby: &Ruby, pairs: RHash, writer: &mut W) -> Result<(), Failed> {
    let mut failed = None;
    pairs.foreach(|key: Value, item: Value| {
        let put = put(ruby, key, writer).and_then(|()| put(ruby, item, writer));
        failed = put.err();
        Ok(if failed.is_none() { ForEach::Continue } else { ForEach::Stop })
    })?;
    failed.map_or(Ok(()), Err)
}

/// The reason in Ruby's words.
#[cold]
fn named(refused: Unwritable, value: Value) -> Failed {
    Failed::Why(match refused {
        Unwritable::Kind(_) => class_name(value),
        Unwritable::Key(_) => format!("a Hash with a key of class {}", class_name(value)),
        Unwritable::Big => "an Integer of more than 64 bits".to_owned(),
        refused => refused.to_string(),
    })
}

/// Whether it is of the class itself. An object of a subclass would be read back as one of the class.
pub(crate) fn is_exactly(value: Value, class: RClass) -> bool {
    value.class().equal(class).unwrap_or(false)
}

pub(crate) fn truth(value: Value) -> Option<bool> {
    match Qtrue::from_value(value) {
        Some(_) => Some(true),
        None => Qfalse::from_value(value).map(|_| false),
    }
}

pub(crate) fn class_name(value: Value) -> String {
    // SAFETY: the name is copied at once.
    unsafe { value.classname() }.into_owned()
}

pub(crate) fn integer(number: Integer) -> Result<Plain, Error> {
    if let Ok(small) = number.to_i64() {
        return Ok(Plain::Integer(small));
    }
    let digits: String = number.funcall("to_s", (16,))?;
    let (negative, digits) = digits.strip_prefix('-').map_or((false, &*digits), |digits| (true, digits));
    let byte =
        |pair: &[u8]| pair.iter().fold(0, |byte, digit| byte * 16 + (*digit as char).to_digit(16).unwrap_or(0) as u8);
    Ok(Plain::Big { negative, magnitude: digits.as_bytes().rchunks(2).map(byte).collect() })
}

/// Reads an object in this notation.
pub(crate) fn load(ruby: &Ruby, notation: Notation, bytes: &[u8]) -> Result<Value, Error> {
    let roots: Obj<Roots> = ruby.obj_wrap(Roots::default());
    let mut objects = RubyObjects { ruby, roots: &roots };
    let made = notation.assemble(bytes, &mut objects).map_err(|failed| match failed {
        Failed::Why(why) => of_value(ruby, &ValueError::unreadable(notation, why)),
        Failed::Raised(raised) => raised,
    });
    std::hint::black_box(&roots);
    made
}

/// Objects that only Rust's heap refers to otherwise. The garbage collector neither collects nor moves them.
#[derive(Default, TypedData)]
#[magnus(class = "Pinyon::Native::Roots", free_immediately, mark)]
struct Roots(Mutex<Vec<Opaque<Value>>>);

impl DataTypeFunctions for Roots {
    fn mark(&self, marker: &gc::Marker) {
        // Nothing is allocated in Ruby while it is locked, so the collector always finds it free.
        if let Ok(roots) = self.0.try_lock() {
            roots.iter().for_each(|object| marker.mark(*object));
        }
    }
}

pub(crate) fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    define_class::<Roots>(ruby, native, "Roots")?;
    Ok(())
}

/// Makes Ruby's objects of parts.
struct RubyObjects<'r> {
    ruby: &'r Ruby,
    /// Everything that was made so far: unfinished collections are lists of Rust's.
    roots: &'r Roots,
}

impl RubyObjects<'_> {
    fn keep(&self, object: impl IntoValue) -> Value {
        let object = object.into_value_with(self.ruby);
        self.roots.0.lock().unwrap_or_else(PoisonError::into_inner).push(object.into());
        object
    }
}

impl Objects for RubyObjects<'_> {
    type Object = Value;
    type Error = Failed;

    fn object(&mut self, part: Part<'_>) -> Result<Value, Failed> {
        let ruby = self.ruby;
        Ok(match part {
            Part::Null | Part::List(_) | Part::Tuple(_) | Part::Map(_) | Part::End => ruby.qnil().as_value(),
            Part::Bool(truth) => truth.into_value_with(ruby),
            Part::Integer(number) => self.keep(number),
            Part::Unsigned(number) => self.keep(number),
            Part::Float(number) => self.keep(number),
            Part::Bytes(bytes) => self.keep(ruby.str_from_slice(bytes)),
            Part::Text(text) => self.keep(texts::text(ruby, text.as_bytes())),
            Part::Utf8(text) => self.keep(utf8(ruby, text)?),
            Part::Big { negative, magnitude } => self.keep(big(ruby, negative, magnitude)?),
            Part::Encoded(bytes, encoding) => self.keep(encoded(ruby, bytes, encoding)?),
            Part::DateTime(date_time) => self.keep(naive(ruby, date_time)?),
            Part::Instant(Instant { seconds, nanoseconds }) => {
                let since = Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() };
                self.keep(ruby.time_timespec_new(since, Offset::utc())?)
            }
        })
    }

    fn list(&mut self, items: Drain<'_, Value>) -> Result<Value, Failed> {
        Ok(self.keep(self.ruby.ary_new_from_values(items.as_slice())))
    }

    fn tuple(&mut self, items: Drain<'_, Value>) -> Result<Value, Failed> {
        self.list(items)
    }

    fn map(&mut self, mut items: Drain<'_, Value>, keys_differ: bool) -> Result<Value, Failed> {
        let pairs = items.len() / 2;
        let hash = self.ruby.hash_new();
        while let (Some(key), Some(value)) = (items.next(), items.next()) {
            hash.aset(key, value)?;
        }
        match keys_differ && hash.len() != pairs {
            true => Err("two keys in it are the same in Ruby".to_owned().into()),
            false => Ok(self.keep(hash)),
        }
    }
}

fn utf8(ruby: &Ruby, text: &[u8]) -> Result<RString, Failed> {
    let string = texts::text(ruby, text);
    match string.enc_coderange_scan() {
        Coderange::Broken => Err(NOT_UTF8.to_owned().into()),
        _ => Ok(string),
    }
}

fn big(ruby: &Ruby, negative: bool, magnitude: &[u8]) -> Result<Value, Error> {
    let digits: String = magnitude.iter().rev().map(|byte| format!("{byte:02x}")).collect();
    let sign = if negative { "-" } else { "" };
    ruby.str_new(&format!("{sign}{digits}")).funcall("to_i", (16,))
}

/// Text in the encoding with this name, as Ruby's Marshal marks it.
fn encoded(ruby: &Ruby, bytes: &[u8], encoding: &str) -> Result<RString, Failed> {
    let string = ruby.str_from_slice(bytes);
    let forced = string.funcall::<_, _, Value>("force_encoding", (encoding,));
    forced.map_err(|error| format!("there is text in the encoding {encoding} in it: {error}"))?;
    Ok(string)
}

/// Ruby has no class for a time without a zone. `DateTime` has an offset, which is 0 here.
fn naive(ruby: &Ruby, date_time: DateTime) -> Result<Value, Error> {
    let DateTime { year, month, day, hour, minute, second, nanosecond } = date_time;
    let nanoseconds = i64::from(second) * 1_000_000_000 + i64::from(nanosecond);
    let second: Value = ruby.module_kernel().funcall("Rational", (nanoseconds, 1_000_000_000))?;
    date_time_class(ruby)?.funcall("new", (year, month, day, hour, minute, second))
}

fn date_time_class(ruby: &Ruby) -> Result<RClass, Error> {
    ruby.class_object().const_get("DateTime")
}
