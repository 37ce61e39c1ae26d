//! Meta commands: `mg ms md ma`.

use crate::number::push;
use crate::{
    Arithmetic, Capabilities, Command, Direction, Flag, Key, Lease, MarkStale, MetaCommand, Mode, Store, Unsupported,
    Verb,
};

/// Appends the command with its own flags. The encoder adds the opaque, the quiet mark and the line's end.
pub(crate) fn encode(
    command: &Command<'_>,
    capabilities: &Capabilities,
    out: &mut Vec<u8>,
) -> Result<Verb, Unsupported> {
    match command {
        Command::Get { key, cas } => {
            encode_get(key, *cas, out);
            Ok(Verb::Get)
        }
        Command::GetAndTouch { key, ttl, cas } => {
            encode_get(key, *cas, out);
            push_flag(Flag::Ttl(*ttl), out);
            Ok(Verb::Get)
        }
        Command::Touch { key, ttl } => {
            begin(Verb::Get, key, None, out);
            push_flag(Flag::Ttl(*ttl), out);
            Ok(Verb::Get)
        }
        Command::Store(store) => {
            encode_store(store, out);
            Ok(Verb::Store)
        }
        Command::Delete { key } => {
            begin(Verb::Delete, key, None, out);
            Ok(Verb::Delete)
        }
        Command::DeleteIf { key, cas } => {
            begin(Verb::Delete, key, None, out);
            push_flag(Flag::CompareCas(*cas), out);
            Ok(Verb::Delete)
        }
        Command::MarkStale(mark) => {
            encode_mark(mark, out);
            Ok(Verb::Delete)
        }
        Command::Lease(lease) => {
            encode_lease(lease, out);
            Ok(Verb::Get)
        }
        Command::Arithmetic(arithmetic) => {
            encode_arithmetic(arithmetic, out);
            Ok(Verb::Arithmetic)
        }
        Command::Meta(meta) => encode_any(meta, capabilities, out),
        Command::GetMany { .. }
        | Command::NoOp
        | Command::FlushAll { .. }
        | Command::Stats(_)
        | Command::Version
        | Command::ClusterConfig => {
            unreachable!("written the same way for every server")
        }
    }
}

#[inline(always)]
fn begin(verb: Verb, key: &Key<'_>, size: Option<usize>, out: &mut Vec<u8>) {
    out.extend_from_slice(verb.text());
    out.extend_from_slice(key.wire);
    if let Some(size) = size {
        out.push(b' ');
        push(out, size);
    }
    if key.base64 {
        out.extend_from_slice(b" b");
    }
}

#[inline]
fn encode_get(key: &Key<'_>, cas: bool, out: &mut Vec<u8>) {
    begin(Verb::Get, key, None, out);
    out.extend_from_slice(if cas { b" f c v" } else { b" f v" });
}

fn encode_store(store: &Store<'_>, out: &mut Vec<u8>) {
    begin(Verb::Store, &store.key, Some(store.size), out);
    if store.client_flags != 0 {
        push_flag(Flag::ClientFlags(store.client_flags), out);
    }
    if store.ttl != 0 {
        push_flag(Flag::Ttl(store.ttl), out);
    }
    if let Some(cas) = store.cas {
        push_flag(Flag::CompareCas(cas), out);
    }
    if store.mode != Mode::Set {
        push_flag(Flag::StoreMode(store.mode), out);
    }
    if store.returns_cas {
        push_flag(Flag::ReturnCas, out);
    }
}

#[inline(never)]
fn encode_mark(mark: &MarkStale<'_>, out: &mut Vec<u8>) {
    begin(Verb::Delete, &mark.key, None, out);
    push_flag(Flag::Invalidate, out);
    if let Some(ttl) = mark.ttl {
        push_flag(Flag::Ttl(ttl), out);
    }
    if let Some(cas) = mark.cas {
        push_flag(Flag::CompareCas(cas), out);
    }
}

#[inline(never)]
fn encode_lease(lease: &Lease<'_>, out: &mut Vec<u8>) {
    begin(Verb::Get, &lease.key, None, out);
    out.extend_from_slice(b" f c v");
    push_flag(Flag::Vivify(lease.lease), out);
    if lease.recache != 0 {
        push_flag(Flag::Recache(lease.recache), out);
    }
}

#[inline(never)]
fn encode_arithmetic(arithmetic: &Arithmetic<'_>, out: &mut Vec<u8>) {
    begin(Verb::Arithmetic, &arithmetic.key, None, out);
    out.extend_from_slice(b" v");
    if arithmetic.delta != 1 {
        push_flag(Flag::Delta(arithmetic.delta), out);
    }
    if arithmetic.direction == Direction::Decrement {
        push_flag(Flag::Direction(arithmetic.direction), out);
    }
}

#[inline(never)]
fn encode_any(meta: &MetaCommand<'_>, capabilities: &Capabilities, out: &mut Vec<u8>) -> Result<Verb, Unsupported> {
    let unsupported = |what, since| Unsupported { what, since, capabilities: *capabilities };
    if meta.size.is_some() != (meta.verb == Verb::Store) {
        return Err(unsupported("a data block on a meta command other than ms, or ms without one", None));
    }
    for (position, flag) in meta.flags.iter().enumerate() {
        let Some(since) = flag.since(meta.verb) else {
            return Err(unsupported("this flag on this meta command", None));
        };
        if !capabilities.since(since) {
            return Err(unsupported("a flag of this meta command", Some(since)));
        }
        if meta.flags[..position].iter().any(|earlier| earlier.letter() == flag.letter()) {
            return Err(unsupported("the same flag twice", None));
        }
    }
    begin(meta.verb, &meta.key, meta.size, out);
    for flag in meta.flags {
        push_flag(*flag, out);
    }
    Ok(meta.verb)
}

fn push_flag(flag: Flag, out: &mut Vec<u8>) {
    out.extend_from_slice(&[b' ', flag.letter()]);
    match flag {
        Flag::CompareCas(number) | Flag::Delta(number) => push(out, number),
        Flag::ClientFlags(number) => push(out, number),
        Flag::Vivify(ttl) | Flag::Recache(ttl) | Flag::Ttl(ttl) => push(out, ttl),
        Flag::StoreMode(mode) => out.push(mode.letter()),
        Flag::Direction(direction) => out.push(direction.letter()),
        _ => {}
    }
}
