//! Decimal numbers.

/// The most digits of an integer that is read. The work grows with the square of the length.
pub(super) const LONGEST: usize = 4300;
/// How many digits are processed at once.
const AT_ONCE: usize = 9;

/// A float as Python writes it: with just enough digits to read the same number again.
pub(in crate::dialect) fn float(number: f64) -> String {
    if number == 0.0 || (1e-4..1e16).contains(&number.abs()) {
        let shortest = format!("{number:?}");
        return even(number, &shortest, |decimals| format!("{number:.decimals$}")).unwrap_or(shortest);
    }
    let shortest = format!("{number:e}");
    let scientific = even(number, &shortest, |decimals| format!("{number:.decimals$e}")).unwrap_or(shortest);
    match scientific.split_once('e').map(|(digits, exponent)| (digits, exponent.parse::<i32>())) {
        Some((digits, Ok(exponent))) => format!("{digits}e{exponent:+03}"),
        _ => scientific.to_lowercase(),
    }
}

/// Where the number is in the middle of two that are equally short, Python writes the even one, and Rust the larger. Returns
/// the even one. `with`: writes so many decimals, the nearest, and of two that are as near the even one.
fn even(number: f64, shortest: &str, with: impl FnOnce(usize) -> String) -> Option<String> {
    // Such a number has a few more digits than are written. So it is a whole number of 2^-25, since 5^25 has 18 digits.
    if number.fract() == 0.0 || (number * f64::from(1 << 25)).fract() != 0.0 {
        return None;
    }
    let (_, decimals) = shortest.split('e').next()?.split_once('.')?;
    Some(with(decimals.len())).filter(|even| even.parse() == Ok(number))
}

/// The digits of an integer. `magnitude`: its absolute value, least significant byte first.
pub(in crate::dialect) fn digits(negative: bool, magnitude: &[u8]) -> String {
    let mut limbs: Vec<u32> = magnitude
        .chunks(4)
        .map(|bytes| bytes.iter().rev().fold(0, |limb, byte| limb << 8 | u32::from(*byte)))
        .collect();
    let mut groups = Vec::new();
    while limbs.last().is_some_and(|limb| *limb == 0) {
        limbs.pop();
    }
    while !limbs.is_empty() {
        let mut rest = 0;
        for limb in limbs.iter_mut().rev() {
            let held = rest << 32 | u64::from(*limb);
            *limb = (held / 1_000_000_000) as u32;
            rest = held % 1_000_000_000;
        }
        groups.push(rest);
        while limbs.last().is_some_and(|limb| *limb == 0) {
            limbs.pop();
        }
    }
    let first = groups.pop().unwrap_or_default();
    let sign = if negative { "-" } else { "" };
    groups.iter().rev().fold(format!("{sign}{first}"), |digits, group| format!("{digits}{group:09}"))
}

/// The absolute value, least significant byte first, of an integer in digits; `None` if it has too many.
pub(in crate::dialect) fn integer(digits: &[u8]) -> Option<Vec<u8>> {
    if digits.len() > LONGEST || digits.is_empty() {
        return None;
    }
    let mut limbs: Vec<u32> = Vec::new();
    for group in digits.chunks(AT_ONCE) {
        let mut carried = 0;
        for digit in group {
            if !digit.is_ascii_digit() {
                return None;
            }
            carried = carried * 10 + u64::from(digit - b'0');
        }
        let factor = 10_u64.pow(group.len() as u32);
        for limb in &mut limbs {
            let held = u64::from(*limb) * factor + carried;
            *limb = held as u32;
            carried = held >> 32;
        }
        if carried > 0 {
            limbs.push(carried as u32);
        }
    }
    Some(limbs.into_iter().flat_map(u32::to_le_bytes).collect())
}
