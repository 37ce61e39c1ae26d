//! Writes values part by part, in a client's dialect.

use pinyon_cache::dialect::{
    Dialect, JsonWriter, MessagePackWriter, Part, Plain, PlainSerializer, TreeWriter, Unwritable, ValueError,
    Writer as _,
};
use pinyon_net::invalid::InvalidArgument;

use crate::client::Client;
use crate::errors::{Error, Failure};
use crate::exported::exported;
use crate::guard::{free, Handle, Poison};
use crate::status::Status;
use crate::structs::{self, given, Bytes};

pub struct Writer {
    client: Client,
    writing: Writing,
    written: (Vec<u8>, u32),
    poison: Poison,
}

/// A value under way.
enum Writing {
    Nothing,
    MessagePack(MessagePackWriter),
    Json(JsonWriter),
    /// For notations that are written from a whole tree.
    Tree(TreeWriter),
    /// It is complete: a single part.
    Complete,
}

impl Handle for Writer {
    const NAME: &'static str = "pinyon_writer";

    fn poison(&self) -> &Poison {
        &self.poison
    }
}

impl Writer {
    fn new(client: &Client) -> Self {
        let (client, poison) = (client.clone(), Poison::default());
        Self { client, writing: Writing::Nothing, written: (Vec::new(), 0), poison }
    }

    fn write(&mut self, part: Part<'_>) -> Result<Status, Error> {
        let written = match &mut self.writing {
            Writing::Nothing => return self.begin(part),
            Writing::MessagePack(writer) => writer.write(part),
            Writing::Json(writer) => writer.write(part),
            Writing::Tree(writer) => writer.write(part),
            Writing::Complete => Err(Unwritable::Count),
        };
        match written {
            Ok(()) => Ok(Status::Done),
            Err(why) => Err(self.refused(why)),
        }
    }

    /// The first part decides how the value is stored.
    fn begin(&mut self, part: Part<'_>) -> Result<Status, Error> {
        let is_collection = matches!(part, Part::List(_) | Part::Tuple(_) | Part::Map(_));
        if !is_collection {
            let plain = match part {
                Part::End => return Err(self.refused(Unwritable::Count)),
                part => Plain::try_from(part).map_err(Failure::usage)?,
            };
            self.written = encode(&self.client, &plain).map_err(InvalidArgument::from)?;
            self.writing = Writing::Complete;
            return Ok(Status::Done);
        }
        self.writing = match (self.client.is_pinyon(), self.client.shared.serializer) {
            (true, PlainSerializer::Portable) => Writing::MessagePack(MessagePackWriter::default()),
            (true, PlainSerializer::Json) => Writing::Json(JsonWriter::default()),
            (false, _) => Writing::Tree(TreeWriter::default()),
        };
        self.write(part)
    }

    fn finish(&mut self) -> Result<(Bytes, u32), Error> {
        let serializer = self.client.shared.serializer;
        let finished = match std::mem::replace(&mut self.writing, Writing::Nothing) {
            Writing::Nothing => return Err(Failure::usage("nothing was written: a value has at least one part")),
            Writing::Complete => Ok(()),
            Writing::MessagePack(writer) => writer.finish().map(|bytes| self.written = (bytes, serializer.writes().1)),
            Writing::Json(writer) => writer.finish().map(|bytes| self.written = (bytes, serializer.writes().1)),
            Writing::Tree(writer) => match writer.finish() {
                Ok(plain) => {
                    self.written = encode(&self.client, &plain).map_err(InvalidArgument::from)?;
                    Ok(())
                }
                Err(why) => Err(why),
            },
        };
        finished.map_err(|why| self.refused(why))?;
        let (bytes, client_flags) = &self.written;
        Ok((Bytes::of(bytes), *client_flags))
    }

    #[cold]
    fn refused(&mut self, why: Unwritable) -> Error {
        self.writing = Writing::Nothing;
        let dialect = self.client.shared.packing.dialect();
        InvalidArgument::from(dialect.refuse("this value", &format!(": {why}"), None)).into()
    }
}

pub fn encode(client: &Client, plain: &Plain) -> Result<(Vec<u8>, u32), ValueError> {
    match (client.is_pinyon(), client.shared.serializer) {
        (true, PlainSerializer::Json) => Dialect::encode_json(plain),
        _ => client.shared.packing.dialect().encode(plain),
    }
}

exported! {
    fn pinyon_writer_new(client: &Client) -> *mut Writer { Writer::new(client) }

    fn pinyon_write(writer: &mut Writer, part: *const structs::Part) -> Result<i32> {
        writer.write(given(part)?.core()?)
    }

    fn pinyon_written(writer: &mut Writer, value: *mut Bytes, client_flags: *mut u32) -> Result<i32> {
        let (bytes, flags) = writer.finish()?;
        if !value.is_null() {
            value.write(bytes);
        }
        if !client_flags.is_null() {
            client_flags.write(flags);
        }
        Ok(Status::Done)
    }

    fn pinyon_writer_free(writer: *mut Writer) { free(writer) }
}
