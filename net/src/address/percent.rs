//! Percent-encoded parts of URLs.

pub(super) fn text(encoded: &str) -> String {
    String::from_utf8_lossy(&percent_decoded(encoded)).into_owned()
}

pub(super) fn percent_decoded(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, ..] => hexadecimal(*high).zip(hexadecimal(*low)),
            _ => None,
        };
        decoded.push(escaped.map_or(*first, |(high, low)| high << 4 | low));
        rest = if escaped.is_some() { &rest[3..] } else { after };
    }
    decoded
}

fn hexadecimal(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}
