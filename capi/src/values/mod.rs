//! Plain data, part by part, in every dialect.

pub mod parts;
pub mod reader;
pub mod writer;

use pinyon_cache::dialect::{Form, HostType};
use pinyon_net::invalid::InvalidArgument;

use crate::client::Client;
use crate::errors::Error;
use crate::exported::exported;
use parts::PartKind;

/// The client flags of a value of this kind.
fn flags_of(client: &Client, kind: u32) -> Option<u32> {
    let kind = match PartKind::ALL.get(kind as usize)? {
        PartKind::Bytes => HostType::Bytes,
        PartKind::Text | PartKind::Encoded => HostType::Text,
        PartKind::Integer | PartKind::Unsigned | PartKind::Big => HostType::Integer,
        PartKind::Bool => HostType::Bool,
        PartKind::Float => HostType::Float,
        PartKind::Close | PartKind::Fault => return None,
        _ => HostType::Plain,
    };
    match client.shared.packing.dialect().write(kind)? {
        (Form::Pickle, _) => None,
        (Form::Notation(_), _) if client.is_pinyon() => Some(client.shared.serializer.writes().1),
        (_, flags) => Some(flags),
    }
}

/// The kind of values with these client flags.
fn kind_of(client: &Client, client_flags: u32) -> Option<PartKind> {
    Some(match client.shared.packing.dialect().read(client_flags).ok()? {
        Form::Bytes => PartKind::Bytes,
        Form::Text => PartKind::Text,
        Form::Integer => PartKind::Integer,
        Form::Float => PartKind::Float,
        Form::Bool => PartKind::Bool,
        Form::Notation(_) => PartKind::Map,
        Form::Pickle => return None,
    })
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

exported! {
    fn pinyon_flags_of(client: &Client, kind: u32, client_flags: *mut u32) -> bool {
        let flags = flags_of(client, kind);
        if let (Some(flags), false) = (flags, client_flags.is_null()) {
            client_flags.write(flags);
        }
        flags.is_some()
    }

    fn pinyon_kind_of(client: &Client, client_flags: u32, kind: *mut u32) -> bool {
        let known = kind_of(client, client_flags);
        if let (Some(known), false) = (known, kind.is_null()) {
            kind.write(known as u32);
        }
        known.is_some()
    }
}
