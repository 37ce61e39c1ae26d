//! Keys and names in messages.

use std::borrow::Cow;

/// A key or name of the user's for messages: quoted, escaped and shortened.
pub fn shown(name: &[u8]) -> String {
    const MOST: usize = 40;
    let (start, dots) = if name.len() > MOST { (&name[..MOST], "...") } else { (name, "") };
    let text = match std::str::from_utf8(start) {
        Ok(text) => Cow::Borrowed(text),
        // Shortening may have cut a character in two.
        Err(error) if error.error_len().is_none() && !dots.is_empty() => {
            String::from_utf8_lossy(&start[..error.valid_up_to()])
        }
        Err(_) => return format!("\"{}{dots}\"", start.escape_ascii()),
    };
    format!("\"{}{dots}\"", text.escape_debug())
}
