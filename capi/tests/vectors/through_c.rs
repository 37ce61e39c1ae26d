//! A client of Rust's that does everything through the exported functions.

use std::ffi::{CStr, CString};
use std::ptr::{null, null_mut};
use std::vec::Drain;

use pinyon::client::{pinyon_client_free, pinyon_client_new};
use pinyon::error_fields::{pinyon_error_free, pinyon_error_message};
use pinyon::errors::Error;
use pinyon::replies::pinyon_reply_clear;
use pinyon::requests::{with, Verb};
use pinyon::run::pinyon_run;
use pinyon::status::Status;
use pinyon::structs::{empty, Bytes, NamedText, Part, Reply, Request};
use pinyon::values::parts::PartKind;
use pinyon::values::reader::{pinyon_read, pinyon_read_value, pinyon_reader_free, pinyon_reader_new, Reader};
use pinyon::values::writer::{pinyon_write, pinyon_writer_free, pinyon_writer_new, pinyon_written, Writer};
use pinyon_cache::dialect::{assemble, Objects, Part as Core, Plain, Reader as _, TreeReader};

pub struct Client {
    client: *mut pinyon::client::Client,
    writer: *mut Writer,
    reader: *mut Reader,
}

impl Client {
    pub fn new(options: &[(&str, &str)]) -> Self {
        let names: Vec<CString> = options.iter().map(|(name, _)| CString::new(*name).unwrap()).collect();
        let named: Vec<NamedText> = names
            .iter()
            .zip(options)
            .map(|(name, (_, value))| NamedText { name: name.as_ptr(), value: Bytes::of(value.as_bytes()) })
            .collect();
        let mut error = null_mut();
        // SAFETY: as the header says.
        unsafe {
            let client = pinyon_client_new(named.as_ptr(), named.len(), &mut error);
            assert!(!client.is_null(), "{}", message(error));
            Self { client, writer: pinyon_writer_new(client), reader: pinyon_reader_new(client) }
        }
    }

    pub fn write(&self, value: &Plain) -> Result<(Vec<u8>, u32), String> {
        let (mut reader, mut depth, mut error) = (TreeReader::new(value), 0, null_mut());
        loop {
            let part = Part::of(&reader.next().unwrap());
            match PartKind::ALL[part.kind as usize] {
                PartKind::List | PartKind::Tuple | PartKind::Map => depth += 1,
                PartKind::Close => depth -= 1,
                _ => {}
            }
            // SAFETY: as the header says.
            unsafe {
                if pinyon_write(self.writer, &part, &mut error) < 0 {
                    return Err(message(error));
                }
                if depth > 0 {
                    continue;
                }
                let (mut bytes, mut flags) = (Bytes::NONE, 0);
                return match pinyon_written(self.writer, &mut bytes, &mut flags, &mut error) {
                    0 => Ok((bytes.slice().to_vec(), flags)),
                    _ => Err(message(error)),
                };
            }
        }
    }

    pub fn read(&self, bytes: &[u8], client_flags: u32) -> Result<Plain, String> {
        let mut error = null_mut();
        // SAFETY: as the header says.
        match unsafe { pinyon_read_value(self.reader, Bytes::of(bytes), client_flags, &mut error) } {
            0 => assemble(Parts { reader: self.reader, part: empty() }, &mut Trees),
            // SAFETY: it was set.
            _ => Err(unsafe { message(error) }),
        }
    }

    pub fn store_raw(&self, key: &str, value: &[u8], client_flags: u32) {
        let store = Request { value: Bytes::of(value), client_flags, with: with::RAW, ..about(Verb::Set, key) };
        self.run(&store, |reply| assert_eq!(reply.status, Status::Done as i32));
    }

    pub fn get(&self, key: &str) -> (Vec<u8>, u32) {
        // SAFETY: a reply has its value until it is cleared.
        self.run(&about(Verb::Get, key), |reply| (unsafe { reply.value.slice() }.to_vec(), reply.client_flags))
    }

    fn run<T>(&self, request: &Request, take: impl FnOnce(&Reply) -> T) -> T {
        let mut reply: Reply = empty();
        // SAFETY: as the header says.
        unsafe {
            if pinyon_run(self.client, request, &mut reply, null()) < 0 {
                panic!("{}", message(reply.error));
            }
            let taken = take(&reply);
            pinyon_reply_clear(&mut reply);
            taken
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: as the header says.
        unsafe {
            pinyon_writer_free(self.writer);
            pinyon_reader_free(self.reader);
            pinyon_client_free(self.client);
        }
    }
}

fn about(verb: Verb, key: &str) -> Request {
    Request { verb: verb as u32, key: Bytes::of(key.as_bytes()), ..empty() }
}

/// # Safety
/// It is an error, which is freed.
unsafe fn message(error: *mut Error) -> String {
    // SAFETY: the caller says so.
    unsafe {
        let message = CStr::from_ptr(pinyon_error_message(error)).to_string_lossy().into_owned();
        pinyon_error_free(error);
        message
    }
}

/// What the reader of C says, for the core's assembly.
struct Parts {
    reader: *mut Reader,
    part: Part,
}

impl Parts {
    fn advance(&mut self) -> Result<i32, String> {
        let mut error = null_mut();
        // SAFETY: as the header says.
        match unsafe { pinyon_read(self.reader, &mut self.part, &mut error) } {
            // SAFETY: it was set.
            status if status < 0 => Err(unsafe { message(error) }),
            status => Ok(status),
        }
    }
}

impl pinyon_cache::dialect::Reader for Parts {
    const KEYS_DIFFER: bool = true;

    fn next(&mut self) -> Result<Core<'_>, String> {
        assert_eq!(self.advance()?, Status::Done as i32);
        // SAFETY: the bytes are there until the next call.
        let (bytes, encoding) = unsafe { (self.part.bytes.slice(), self.part.encoding.slice()) };
        match PartKind::ALL[self.part.kind as usize] {
            PartKind::Text => Ok(Core::Utf8(bytes)),
            PartKind::Encoded => Ok(Core::Encoded(bytes, std::str::from_utf8(encoding).unwrap())),
            // SAFETY: as above.
            _ => Ok(unsafe { self.part.core() }.unwrap()),
        }
    }

    fn end(&mut self) -> Result<(), String> {
        assert_eq!(self.advance()?, Status::End as i32);
        Ok(())
    }
}

struct Trees;

impl Objects for Trees {
    type Object = Plain;
    type Error = String;

    fn object(&mut self, part: Core<'_>) -> Result<Plain, String> {
        Plain::try_from(part).map_err(str::to_owned)
    }

    fn list(&mut self, items: Drain<'_, Plain>) -> Result<Plain, String> {
        Ok(Plain::List(items.collect()))
    }

    fn tuple(&mut self, items: Drain<'_, Plain>) -> Result<Plain, String> {
        Ok(Plain::Tuple(items.collect()))
    }

    fn map(&mut self, mut items: Drain<'_, Plain>, _keys_differ: bool) -> Result<Plain, String> {
        let mut pairs = Vec::new();
        while let (Some(key), Some(value)) = (items.next(), items.next()) {
            pairs.push((key, value));
        }
        Ok(Plain::Map(pairs))
    }
}
