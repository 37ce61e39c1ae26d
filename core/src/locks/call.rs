//! What is asked of a server, and what it answers: the words that the machine, the handlers and the tests' model
//! share. How a call is sent is a handler's matter.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A lock's name, without its prefix.
pub type Name = Arc<[u8]>;

/// The names of one lock: sorted, each once.
pub type Names = Arc<[Name]>;

/// One try to take a lock: the value that is compared on the server, and what makes sending it twice harmless.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt {
    /// Of one process's connection; grants are pushed to it.
    pub client: Arc<str>,
    /// Whoever holds or waits: a thread, greenlet or task, numbered by its client.
    pub owner: u64,
    pub number: u64,
}

impl fmt::Display for Attempt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{:x}:{:x}", self.client, self.owner, self.number)
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl Attempt {
    /// Writes what [`Display`](fmt::Display) writes, quicker: it is a part of nearly every command.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.client.as_bytes());
        for number in [self.owner, self.number] {
            out.push(b':');
            for digit in (0..hex_digits(number)).rev() {
                out.push(b"0123456789abcdef"[(number >> (4 * digit) & 15) as usize]);
            }
        }
    }

    /// How many bytes [`Self::write_to`] writes.
    pub fn written_length(&self) -> usize {
        self.client.len() + 2 + (hex_digits(self.owner) + hex_digits(self.number)) as usize
    }

    /// Reads what [`Display`](fmt::Display) wrote.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(text).ok()?.splitn(3, ':');
        let (client, owner, number) = (parts.next()?, parts.next()?, parts.next()?);
        let hex = |digits| u64::from_str_radix(digits, 16).ok();
        Some(Self { client: client.into(), owner: hex(owner)?, number: hex(number)? })
    }
}

fn hex_digits(number: u64) -> u32 {
    (64 - number.leading_zeros()).div_ceil(4).max(1)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Once per connection: lifts the counter of the tokens to the server's clock.
    Open,
    /// Takes all names or none. `wait`: queues up where they are not free. `nested`: its owner holds locks already.
    Lock {
        attempt: Attempt,
        names: Names,
        ttl: Duration,
        wait: bool,
        nested: bool,
    },
    /// Gives the names back, or stops waiting for them. `tombstone`: the attempt may still be on its way to the server
    /// by an earlier connection, and must not be granted then.
    Unlock {
        attempt: Attempt,
        names: Names,
        tombstone: bool,
    },
    /// Says that a waiter is alive, and asks how it stands.
    Poll {
        attempt: Attempt,
        names: Names,
        ttl: Duration,
        nested: bool,
    },
    Extend {
        held: Vec<(Attempt, Names, Duration)>,
    },
    /// Gives the names back and waits to be notified by whoever holds them.
    Park {
        attempt: Attempt,
        names: Names,
        ttl: Duration,
    },
    /// A parked waiter wants its names back without having been notified.
    Unpark {
        attempt: Attempt,
        names: Names,
        ttl: Duration,
    },
    /// Lets parked waiters queue up again: the first `most`, or all for 0.
    Notify {
        attempt: Attempt,
        names: Names,
        most: u32,
    },
    Inspect {
        names: Names,
    },
    /// Takes the names from whoever holds them; only where the holder's token is this one, if one is given.
    ForceRelease {
        names: Names,
        token: Option<u64>,
    },
}

impl Call {
    /// The attempt that this call takes names for, now or once it is their turn.
    pub(super) fn taker(&self) -> Option<&Attempt> {
        match self {
            Self::Lock { attempt, .. } | Self::Unpark { attempt, .. } => Some(attempt),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptAnswer {
    Opened {
        counter: u64,
    },
    Granted {
        token: u64,
    },
    /// In the queue. `pttl`: when the first of those in the way expires, if nothing prolongs it.
    Queued {
        pttl: Option<Duration>,
    },
    /// Not in the queue.
    Busy {
        pttl: Option<Duration>,
        /// The first holder, and how long ago it was granted what is in the way, where that is known.
        holder: Option<Holder>,
        age: Option<Duration>,
    },
    /// A tombstone stands.
    Cancelled,
    /// It would wait for an owner that waits for it: the holders in turn.
    Deadlock {
        cycle: Vec<Attempt>,
    },
    /// The server knows nothing of this waiter.
    Unknown,
    /// Not all names are this attempt's.
    NotHeld,
    Released {
        released: usize,
    },
    /// For each attempt, whether it still holds all its names.
    Extended(Vec<bool>),
    Notified {
        moved: u32,
    },
    Inspected(Vec<Inspected>),
    ForceReleased {
        released: usize,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub attempt: Attempt,
    /// Unknown where the pure handler took the lock.
    pub token: Option<u64>,
}

/// How one name stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    pub holder: Option<Holder>,
    pub pttl: Option<Duration>,
    /// How long ago it was granted; unknown where the pure handler took the lock.
    pub age: Option<Duration>,
    /// In the order of the queue.
    pub waiting: Vec<Attempt>,
}

/// What a server sends without being asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pushed {
    Granted {
        attempt: Attempt,
        token: u64,
    },
    ForceReleased {
        attempt: Attempt,
    },
    /// A client of the pure handler, or for one, has given these names back.
    Freed {
        names: Vec<Name>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_attempt_is_written_in_one_way_and_read_back(owner: u64, number: u64, small in 0u64..20) {
            for (owner, number) in [(owner, number), (small, number), (owner, small)] {
                let attempt = Attempt { client: "0123.ab.0".into(), owner, number };
                let mut written = Vec::new();
                attempt.write_to(&mut written);
                prop_assert_eq!(written.len(), attempt.written_length());
                prop_assert_eq!(std::str::from_utf8(&written).unwrap(), attempt.to_string());
                prop_assert_eq!(Attempt::parse(&written), Some(attempt));
            }
        }
    }
}
