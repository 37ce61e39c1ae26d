//! Plain data, part by part, in every dialect.

mod parts;
mod reader;
mod writer;

use pinyon_cache::dialect::{Form, HostType};
use pinyon_net::invalid::InvalidArgument;

use crate::client::Client;
use crate::errors::Error;
use crate::guard::with;

pub use parts::PartKind;
pub use reader::{pinyon_read, pinyon_read_answers, pinyon_read_value, pinyon_reader_free, pinyon_reader_new, Reader};
pub use writer::{pinyon_write, pinyon_writer_free, pinyon_writer_new, pinyon_written, Writer};

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_flags_of(client: *const Client, kind: u32, client_flags: *mut u32) -> bool {
    let kind = match PartKind::ALL.get(kind as usize) {
        Some(PartKind::Bytes) => HostType::Bytes,
        Some(PartKind::Text | PartKind::Encoded) => HostType::Text,
        Some(PartKind::Integer | PartKind::Unsigned | PartKind::Big) => HostType::Integer,
        Some(PartKind::Bool) => HostType::Bool,
        Some(PartKind::Float) => HostType::Float,
        Some(PartKind::Close | PartKind::Fault) | None => return false,
        Some(_) => HostType::Plain,
    };
    let flags = |client: &Client| {
        let written = client.shared.packing.dialect().write(kind);
        let is_json = |form| matches!(form, Form::Notation(_)) && is_pinyon(client);
        Ok(written.filter(|(form, _)| !matches!(form, Form::Pickle)).map(|(form, flags)| match is_json(form) {
            true => client.shared.serializer.writes().1,
            false => flags,
        }))
    };
    // SAFETY: the header says so.
    match unsafe { with(client, flags) } {
        Ok(Some(flags)) if !client_flags.is_null() => {
            // SAFETY: the header says that it can be written to.
            unsafe { client_flags.write(flags) };
            true
        }
        Ok(flags) => flags.is_some(),
        Err(_) => false,
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn pinyon_kind_of(client: *const Client, client_flags: u32, kind: *mut u32) -> bool {
    let form = |client: &Client| Ok(client.shared.packing.dialect().read(client_flags).ok());
    // SAFETY: the header says so.
    let Ok(Some(form)) = (unsafe { with(client, form) }) else { return false };
    let known = match form {
        Form::Bytes => PartKind::Bytes,
        Form::Text => PartKind::Text,
        Form::Integer => PartKind::Integer,
        Form::Float => PartKind::Float,
        Form::Bool => PartKind::Bool,
        Form::Notation(_) => PartKind::Map,
        Form::Pickle => return false,
    };
    if !kind.is_null() {
        // SAFETY: the header says that it can be written to.
        unsafe { kind.write(known as u32) };
    }
    true
}

/// A value of one client as another stores it: by way of plain data, unless both have one dialect.
pub fn converted(from: &Client, to: &Client, bytes: &[u8], client_flags: u32) -> Result<(Vec<u8>, u32), Error> {
    let dialect = from.shared.packing.dialect();
    if dialect == to.shared.packing.dialect() {
        return Ok((bytes.to_vec(), client_flags));
    }
    let plain = dialect.form(client_flags).and_then(|form| form.decode(bytes)).map_err(InvalidArgument::from)?;
    Ok(writer::encode(to, &plain).map_err(InvalidArgument::from)?)
}

fn is_pinyon(client: &Client) -> bool {
    client.shared.packing.dialect() == pinyon_cache::dialect::Dialect::Pinyon
}
