//! Reads values part by part, in a client's dialect.

use pinyon_cache::dialect::{
    Form, JsonReader, MessagePackReader, Notation, Part as Core, Plain, Reader as _, TreeReader, ValueError,
};
use pinyon_locks::RedisValue;
use pinyon_net::invalid::InvalidArgument;

use super::parts::PartKind;
use crate::answers::Answers;
use crate::client::Client;
use crate::errors::{Error, Failure};
use crate::exported::{exported, result};
use crate::guard::{free, with, Handle, Poison};
use crate::status::Status;
use crate::structs::{to_fill, Bytes, Part};

pub struct Reader {
    /// Without one, it reads the answers of locks' servers only.
    client: Option<Client>,
    reading: Reading,
    /// How many lists and maps are open.
    depth: usize,
    is_complete: bool,
    /// The tree that `reading` refers to. It is declared after it, so that it is dropped after it.
    tree: Option<Box<Plain>>,
    poison: Poison,
}

/// A value under way. What it borrows is the caller's until the value is read, or the reader's own tree.
enum Reading {
    Nothing,
    One(PartKind, &'static [u8]),
    MessagePack(MessagePackReader<'static>),
    Json(JsonReader<'static>),
    Tree(TreeReader<'static>),
    Redis { open: Vec<Open>, root: Option<&'static RedisValue>, shown: String },
}

/// An open collection of a Redis server's answer.
enum Open {
    Items(std::slice::Iter<'static, RedisValue>),
    Pairs(std::slice::Iter<'static, (RedisValue, RedisValue)>, Option<&'static RedisValue>),
}

// SAFETY: it borrows memory only, which any thread may read.
unsafe impl Send for Reader {}

impl Handle for Reader {
    const NAME: &'static str = "pinyon_reader";

    fn poison(&self) -> &Poison {
        &self.poison
    }
}

impl Reader {
    fn new(client: Option<&Client>) -> Self {
        let (client, reading, poison) = (client.cloned(), Reading::Nothing, Poison::default());
        Self { client, reading, depth: 0, is_complete: false, tree: None, poison }
    }

    fn begin(&mut self, reading: Reading) -> Status {
        self.reading = reading;
        (self.depth, self.is_complete) = (0, false);
        Status::Done
    }

    fn value(&mut self, bytes: &'static [u8], client_flags: u32) -> Result<Status, Error> {
        self.begin(Reading::Nothing);
        self.tree = None;
        let Some(client) = &self.client else {
            return Err(Failure::usage("this reader was made without a client, whose dialect it would read"));
        };
        let form = client.shared.packing.dialect().form(client_flags).map_err(InvalidArgument::from)?;
        let reading = match form {
            Form::Bytes => Reading::One(PartKind::Bytes, bytes),
            Form::Text => Reading::One(PartKind::Text, bytes),
            Form::Notation(Notation::MessagePack) => Reading::MessagePack(MessagePackReader::new(bytes)),
            Form::Notation(Notation::Json) => Reading::Json(JsonReader::new(bytes)),
            form => {
                let tree = self.tree.insert(Box::new(form.decode(bytes).map_err(InvalidArgument::from)?));
                // SAFETY: the reader keeps the tree in a place of its own, and drops it after what reads it.
                Reading::Tree(TreeReader::new(unsafe { &*std::ptr::from_ref::<Plain>(tree) }))
            }
        };
        Ok(self.begin(reading))
    }

    fn next(&mut self, part: &mut Part) -> Result<Status, Error> {
        if self.is_complete {
            return self.end();
        }
        let next = match &mut self.reading {
            Reading::Nothing => return Ok(Status::End),
            Reading::One(kind, bytes) => Ok(Part::of_bytes(*kind, bytes)),
            Reading::MessagePack(reader) => reader.next().map(|part| Part::of(&part)),
            Reading::Json(reader) => reader.next().map(|part| Part::of(&part)),
            Reading::Tree(reader) => reader.next().map(|part| Part::of(&part)),
            Reading::Redis { open, root, shown } => Ok(redis(open, root, shown)),
        };
        let next = next.map_err(|why| self.unreadable(why))?;
        match PartKind::ALL[next.kind as usize] {
            PartKind::List | PartKind::Tuple | PartKind::Map => self.depth += 1,
            PartKind::Close => self.depth -= 1,
            _ => {}
        }
        self.is_complete = self.depth == 0;
        *part = Part { size: part.size, ..next };
        Ok(Status::Done)
    }

    fn end(&mut self) -> Result<Status, Error> {
        let end = match &mut self.reading {
            Reading::MessagePack(reader) => reader.end(),
            Reading::Json(reader) => reader.end(),
            _ => Ok(()),
        };
        end.map_err(|why| self.unreadable(why))?;
        self.begin(Reading::Nothing);
        Ok(Status::End)
    }

    #[cold]
    fn unreadable(&mut self, why: String) -> Error {
        let notation = match self.reading {
            Reading::Json(_) => Notation::Json,
            _ => Notation::MessagePack,
        };
        self.begin(Reading::Nothing);
        InvalidArgument::from(ValueError::unreadable(notation, why)).into()
    }
}

/// The next part of a Redis server's answer. `shown`: memory for the text of an error.
fn redis(open: &mut Vec<Open>, root: &mut Option<&'static RedisValue>, shown: &mut String) -> Part {
    let next = match open.last_mut() {
        None => root.take(),
        Some(Open::Items(items)) => items.next(),
        Some(Open::Pairs(pairs, value)) => value.take().or_else(|| {
            let (key, its_value) = pairs.next()?;
            *value = Some(its_value);
            Some(key)
        }),
    };
    let Some(next) = next else {
        open.pop();
        return Part::of(&Core::End);
    };
    match next {
        RedisValue::Null => Part::of(&Core::Null),
        RedisValue::Boolean(truth) => Part::of(&Core::Bool(*truth)),
        RedisValue::Integer(number) => Part::of(&Core::Integer(*number)),
        RedisValue::Double(number) => Part::of(&Core::Float(*number)),
        RedisValue::Status(text) | RedisValue::BigNumber(text) => Part::of_bytes(PartKind::Text, text),
        RedisValue::Bytes(bytes) => Part::of_bytes(PartKind::Bytes, bytes),
        RedisValue::Array(items) | RedisValue::Set(items) => {
            open.push(Open::Items(items.iter()));
            Part::of_collection(PartKind::List, items.len())
        }
        RedisValue::Map(pairs) => {
            open.push(Open::Pairs(pairs.iter(), None));
            Part::of_collection(PartKind::Map, pairs.len())
        }
        RedisValue::Error(error) => {
            *shown = error.to_string();
            Part::of_bytes(PartKind::Fault, shown.as_bytes())
        }
    }
}

exported! {
    fn pinyon_reader_new(client: *const Client) -> *mut Reader {
        let reader = match client.is_null() {
            true => Ok(Reader::new(None)),
            false => with(client, |client| Ok(Reader::new(Some(client)))),
        };
        result(reader)
    }

    fn pinyon_read_value(reader: &mut Reader, value: Bytes, client_flags: u32) -> Result<i32> {
        // The value stays as it is while it is read.
        reader.value(value.slice(), client_flags)
    }

    fn pinyon_read_answers(reader: &mut Reader, answers: *const Answers) -> Result<i32> {
        // The answers stay while they are read.
        let root = answers.as_ref().and_then(|answers| answers.value.as_ref());
        if root.is_none() {
            return Err(Failure::usage("these answers are not those of a PINYON_COMMAND"));
        }
        Ok(reader.begin(Reading::Redis { open: Vec::new(), root, shown: String::new() }))
    }

    fn pinyon_read(reader: &mut Reader, part: *mut Part) -> Result<i32> { reader.next(to_fill(part)?) }

    fn pinyon_reader_free(reader: *mut Reader) { free(reader) }
}
