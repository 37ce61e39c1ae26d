//! Dates and times.

/// A date and a time of day without a time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DateTime {
    /// From 0 to 9999.
    pub year: u16,
    pub month: u8,
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
    pub nanosecond: u32,
}

/// A point in time, independent of time zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    /// Whole seconds since 1970-01-01T00:00:00Z, rounded down.
    pub seconds: i64,
    /// The remainder, below 1,000,000,000.
    pub nanoseconds: u32,
}

impl DateTime {
    /// Reads ISO 8601, such as `2024-02-29T12:34:56.000007`. Seconds and their fraction are optional.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let number = |at: std::ops::Range<usize>| -> Option<u32> {
            bytes
                .get(at)?
                .iter()
                .try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + u32::from(digit - b'0')))
        };
        let stands = |at: usize, mark: &[u8]| bytes.get(at).is_some_and(|byte| mark.contains(byte));
        if !(stands(4, b"-") && stands(7, b"-") && stands(10, b"T ") && stands(13, b":")) {
            return None;
        }
        let (second, nanosecond) = match bytes.get(16..) {
            Some([]) => (0, 0),
            Some([b':', _, _]) => (number(17..19)?, 0),
            Some([b':', _, _, b'.', fraction @ ..]) if (1..=9).contains(&fraction.len()) => {
                (number(17..19)?, number(20..bytes.len())? * 10_u32.pow(9 - fraction.len() as u32))
            }
            _ => return None,
        };
        let date_time = Self {
            year: number(0..4)? as u16,
            month: number(5..7)? as u8,
            day: number(8..10)? as u8,
            hour: number(11..13)? as u8,
            minute: number(14..16)? as u8,
            second: second as u8,
            nanosecond,
        };
        date_time.exists().then_some(date_time)
    }

    fn exists(&self) -> bool {
        (1..=12).contains(&self.month)
            && (1..=self.days()).contains(&self.day)
            && self.hour < 24
            && self.minute < 60
            && self.second < 60
            && self.nanosecond < 1_000_000_000
    }

    /// The number of days in its month.
    fn days(&self) -> u8 {
        match self.month {
            2 if self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }
}

/// Writes ISO 8601. A fraction has six digits, or nine if six do not suffice.
impl std::fmt::Display for DateTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { year, month, day, hour, minute, second, nanosecond } = self;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        match nanosecond {
            0 => Ok(()),
            whole if whole % 1000 == 0 => write!(f, ".{:06}", whole / 1000),
            nanosecond => write!(f, ".{nanosecond:09}"),
        }
    }
}
