//! Texts and objects of JSON.

/// An object. Its members are JSON already.
pub fn object(members: impl IntoIterator<Item = (impl AsRef<str>, impl std::fmt::Display)>) -> String {
    let members = members.into_iter().map(|(name, member)| format!("{}: {member}", text(name.as_ref())));
    format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
}

/// A list. Its members are JSON already.
pub fn list(members: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", members.into_iter().collect::<Vec<_>>().join(", "))
}

/// A text.
pub fn text(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    write_text(&mut out, text);
    String::from_utf8_lossy(&out).into_owned()
}

/// Writes a text. Only quotes, backslashes and control characters are escaped.
pub fn write_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| matches!(byte, 0..0x20 | b'"' | b'\\')) {
        out.extend_from_slice(&rest[..at]);
        escape(out, rest[at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn escape(out: &mut Vec<u8>, character: u8) {
    let letter = match character {
        b'"' | b'\\' => character,
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => return out.extend_from_slice(format!("\\u{character:04x}").as_bytes()),
    };
    out.extend_from_slice(&[b'\\', letter]);
}
