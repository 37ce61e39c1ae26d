//! Decimal and hexadecimal numbers in the protocol's notation.

/// Appends `number` in decimal.
pub(crate) fn push(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends `flag`, then `number` in lower-case hexadecimal without leading zeros.
#[inline]
pub(crate) fn push_hex(out: &mut Vec<u8>, [space, flag]: [u8; 2], number: u16) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let missing = (number | 1).leading_zeros() as usize / 4;
    let first = number << (4 * missing);
    // A fixed number of bytes is appended at less cost than a variable one.
    let [a, b, c, d] = [12, 8, 4, 0].map(|shift| DIGITS[usize::from(first >> shift & 15)]);
    out.extend_from_slice(&[space, flag, a, b, c, d]);
    out.truncate(out.len() - missing);
}

/// Reads digits only. `None` if the text is empty, contains anything else, or exceeds 64 bits.
pub(crate) fn unsigned(text: &[u8]) -> Option<u64> {
    match leading(text)? {
        (number, []) => Some(number),
        _ => None,
    }
}

/// Reads the digits at the beginning of the text, at least one. Returns the number and the rest of the text.
pub(crate) fn leading(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0u64;
    let mut length = 0;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        number = match length {
            0..19 => number * 10 + u64::from(digit),
            _ => number.checked_mul(10)?.checked_add(u64::from(digit))?,
        };
        length += 1;
    }
    (length > 0).then(|| (number, &text[length..]))
}

/// Like [`unsigned`], with an optional leading minus.
pub(crate) fn signed(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) => unsigned(digits)?.try_into().ok().map(|number: i64| -number),
        None => unsigned(text)?.try_into().ok(),
    }
}

/// Reads one to four hexadecimal digits at the beginning of the text. Returns the number and the rest of the text.
#[inline]
pub(crate) fn leading_hex(text: &[u8]) -> Option<(u16, &[u8])> {
    let mut number = 0u16;
    let mut length = 0;
    for byte in text.iter().take(4) {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => break,
        };
        number = number << 4 | u16::from(digit);
        length += 1;
    }
    (length > 0).then(|| (number, &text[length..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_survive_being_written_and_read(number: u64, short: u16, negative in i64::MIN + 1..0) {
            let mut text = Vec::new();
            push(&mut text, number);
            prop_assert_eq!(unsigned(&text), Some(number));

            text.clear();
            push(&mut text, negative);
            prop_assert_eq!(signed(&text), Some(negative));

            text.clear();
            push_hex(&mut text, *b" O", short);
            prop_assert_eq!(leading_hex(&text[2..]), Some((short, &b""[..])));
            prop_assert_eq!(text, format!(" O{short:x}").into_bytes());
        }
    }

    #[test]
    fn what_is_not_a_number_is_refused() {
        for text in [&b""[..], b"-", b"1 ", b"+1", b"1x", b"18446744073709551616"] {
            assert_eq!(unsigned(text), None);
            assert_eq!(signed(text), None);
        }
        assert_eq!(leading_hex(b"12345"), Some((0x1234, &b"5"[..])));
        assert_eq!(leading_hex(b"Fg"), Some((0xf, &b"g"[..])));
        assert_eq!(leading_hex(b"g"), None);
    }
}
