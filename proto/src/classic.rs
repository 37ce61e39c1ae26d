//! Classic text commands, for servers that do not take meta commands.

use crate::number::push;
use crate::version::META;
use crate::{Capabilities, Command, Form, Key, Store, Unsupported};

/// Appends a whole command line. Base64 keys, and features of meta commands only, are [`Unsupported`].
pub(crate) fn encode(
    command: &Command<'_>,
    capabilities: &Capabilities,
    out: &mut Vec<u8>,
) -> Result<Form, Unsupported> {
    let needs_meta = |what| Unsupported { what, since: Some(META), capabilities: *capabilities };
    if key_of(command).is_some_and(|key| key.base64) {
        return Err(needs_meta("a key sent as base64"));
    }
    let form = match command {
        Command::Get { key, cas } => {
            words(out, if *cas { b"gets" } else { b"get" }, key.wire);
            Form::ClassicGet
        }
        Command::GetAndTouch { key, ttl, cas } => {
            out.extend_from_slice(if *cas { b"gats " } else { b"gat " });
            push(out, *ttl);
            out.push(b' ');
            out.extend_from_slice(key.wire);
            Form::ClassicGet
        }
        Command::Touch { key, ttl } => {
            words(out, b"touch", key.wire);
            number(out, *ttl);
            Form::ClassicTouch
        }
        Command::Store(store) if store.compares_and_completes() => {
            return Err(needs_meta("append or prepend with a CAS token"));
        }
        Command::Store(store) => {
            encode_store(store, out);
            Form::ClassicStore
        }
        Command::Delete { key } => {
            words(out, b"delete", key.wire);
            Form::ClassicDelete
        }
        Command::Arithmetic(arithmetic) => {
            words(out, arithmetic.direction.name().as_bytes(), arithmetic.key.wire);
            number(out, arithmetic.delta);
            Form::ClassicNumber
        }
        Command::Lease(_) => return Err(needs_meta("a lease (as of get_or_set)")),
        Command::MarkStale(_) => return Err(needs_meta("marking an item stale")),
        Command::DeleteIf { .. } => return Err(needs_meta("deleting by CAS token")),
        Command::Meta(_) => return Err(needs_meta("a meta command")),
        Command::GetMany { .. }
        | Command::NoOp
        | Command::FlushAll { .. }
        | Command::Stats(_)
        | Command::Version
        | Command::ClusterConfig => unreachable!("written the same way for every server"),
    };
    out.extend_from_slice(b"\r\n");
    Ok(form)
}

pub(crate) fn encode_store(store: &Store<'_>, out: &mut Vec<u8>) {
    let name = if store.cas.is_some() { "cas" } else { store.mode.name() };
    words(out, name.as_bytes(), store.key.wire);
    number(out, store.client_flags);
    number(out, store.ttl);
    number(out, store.size);
    if let Some(cas) = store.cas {
        number(out, cas);
    }
}

fn key_of<'a>(command: &Command<'a>) -> Option<Key<'a>> {
    match command {
        Command::Get { key, .. } | Command::GetAndTouch { key, .. } => Some(*key),
        Command::Touch { key, .. } | Command::Delete { key } | Command::DeleteIf { key, .. } => Some(*key),
        Command::MarkStale(mark) => Some(mark.key),
        Command::Lease(lease) => Some(lease.key),
        Command::Store(store) => Some(store.key),
        Command::Arithmetic(arithmetic) => Some(arithmetic.key),
        _ => None,
    }
}

fn words(out: &mut Vec<u8>, name: &[u8], key: &[u8]) {
    out.extend_from_slice(name);
    out.push(b' ');
    out.extend_from_slice(key);
}

fn number(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.push(b' ');
    push(out, value);
}
