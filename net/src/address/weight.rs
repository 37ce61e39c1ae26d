//! A server's share of the keys, relative to the others.

/// A server's weight: a decimal number above 0, at most 65,535. Most rings accept only whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Weight(f64);

// Never NaN: only `parse` and `from` make one.
impl Eq for Weight {}

impl Weight {
    /// The most digits on either side of the decimal point.
    const DIGITS: usize = 6;

    /// Reads `2` or `1.5`. `None` if the text is anything else, or the number is out of bounds.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digits =
            |part: &str| (1..=Self::DIGITS).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let number = text.parse().ok().filter(|_| is_digits(whole) && is_digits(decimals))?;
        (number > 0.0 && number <= f64::from(u16::MAX)).then_some(Self(number))
    }

    pub fn number(self) -> f64 {
        self.0
    }

    pub fn is_whole(self) -> bool {
        self.0.fract() == 0.0
    }

    /// The number without its decimals.
    pub fn whole(self) -> u32 {
        self.0 as u32
    }
}

impl From<u16> for Weight {
    fn from(number: u16) -> Self {
        Self(number.into())
    }
}

impl PartialEq<u16> for Weight {
    fn eq(&self, number: &u16) -> bool {
        *self == Self::from(*number)
    }
}

impl std::fmt::Display for Weight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_numbers_above_zero_are_read() {
        for (text, number) in [("1", 1.0), ("1.5", 1.5), ("0.25", 0.25), ("65535", 65535.0), ("007", 7.0)] {
            let weight = Weight::parse(text).unwrap();
            assert_eq!((weight.number(), weight.is_whole()), (number, text != "1.5" && text != "0.25"), "{text}");
        }
        assert_eq!(Weight::parse("1.5").unwrap().to_string(), "1.5");
        assert_eq!(Weight::parse("3").unwrap(), 3);
        for text in ["", "0", "0.0", "-1", "+1", "1e3", ".5", "5.", "1.5.2", "inf", "nan", "65536", "0.0000001", "1 "] {
            assert_eq!(Weight::parse(text), None, "{text}");
        }
    }
}
