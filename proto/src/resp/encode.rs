//! Commands into requests.

use crate::number::push;

/// Appends one command: an array of bulk strings, the command's name first. Any bytes may stand in them.
pub fn encode(parts: &[&[u8]], out: &mut Vec<u8>) {
    debug_assert!(!parts.is_empty(), "a command without a name is never answered");
    out.reserve(parts.iter().map(|part| part.len() + 16).sum());
    out.push(b'*');
    push(out, parts.len());
    out.extend_from_slice(b"\r\n");
    for part in parts {
        out.push(b'$');
        push(out, part.len());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
}
