//! Commands into requests.

use crate::number::push;

/// Appends one command: an array of bulk strings, the command's name first. Any bytes may stand in them.
pub fn encode(parts: &[&[u8]], out: &mut Vec<u8>) {
    debug_assert!(!parts.is_empty(), "a command without a name is never answered");
    out.reserve(parts.iter().map(|part| part.len() + 16).sum());
    push_length(b'*', parts.len(), out);
    for part in parts {
        push_length(b'$', part.len(), out);
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
}

/// Nearly all lengths have one digit or two.
fn push_length(kind: u8, length: usize, out: &mut Vec<u8>) {
    match length {
        0..10 => out.extend_from_slice(&[kind, b'0' + length as u8, b'\r', b'\n']),
        10..100 => {
            let (tens, ones) = (length as u8 / 10, length as u8 % 10);
            out.extend_from_slice(&[kind, b'0' + tens, b'0' + ones, b'\r', b'\n']);
        }
        _ => {
            out.push(kind);
            push(out, length);
            out.extend_from_slice(b"\r\n");
        }
    }
}
