//! What the values of locks' keys say.
//!
//! The ttl in a value tells the age of a lock until the first renewal. The renewal then writes the time of the grant
//! instead. So an ordinary lock pays nothing for its age.

use std::time::Duration;

use crate::call::{Attempt, Holder};

/// The holder in the text of a lock's value.
pub(super) fn holder_in(value: &[u8]) -> Holder {
    let mut words = value.split(|byte| *byte == b' ');
    match words.next().and_then(Attempt::parse) {
        Some(attempt) => Holder { attempt, token: words.next().and_then(decimal) },
        None => Holder { attempt: Attempt::foreign(Some(value)), token: None },
    }
}

/// The holder of a name whose value another program has written, of another type.
pub(super) fn no_string() -> Holder {
    Holder { attempt: Attempt::foreign(None), token: None }
}

/// How long ago the lock was granted, judging by its value and the server's clock.
pub(super) fn age_in(value: &[u8], pttl: Duration, now: Duration) -> Option<Duration> {
    let mark = value.split(|byte| *byte == b' ').nth(2)?;
    match mark.strip_prefix(b"@") {
        Some(granted) => Some(now.saturating_sub(Duration::from_millis(decimal(granted)?))),
        None => Some(Duration::from_millis(decimal(mark)?).saturating_sub(pttl)),
    }
}

pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
