//! The calls to a server and its answers, in words that the machine, the handlers and the tests' model share. Each
//! handler has its own way to send a call.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::identity::Who;
use pinyon_net::shown::shown;

pub use crate::names::{Mode, Name, Names};

/// One attempt to take a lock. The server stores and compares it, so sending it twice is harmless.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt {
    /// The client's name: one connection of one process. Grants are pushed to it.
    pub client: Arc<str>,
    /// The holder or waiter: a thread, greenlet or task, numbered by its client.
    pub owner: u64,
    pub number: u64,
}

impl fmt::Display for Attempt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_foreign() {
            return formatter.write_str(&self.client);
        }
        write!(formatter, "{}:{:x}:{:x}", self.client, self.owner, self.number)
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// The owner and the number of what stands for a value that is no attempt's.
const FOREIGN: u64 = u64::MAX;

/// The owner of a name that its holder has released, but that stays locked.
const NO_OWNER: u64 = 0;

impl Attempt {
    /// Stands for a holder that no client is: another program has written this value, or `None`, no string. Its text says
    /// so wherever a holder is shown.
    pub fn foreign(value: Option<&[u8]>) -> Self {
        let value = value.map_or_else(|| "no string".to_owned(), shown);
        let client = format!("a value of another program ({value})").into();
        Self { client, owner: FOREIGN, number: FOREIGN }
    }

    /// Who its client is, as far as is known.
    pub fn who(&self) -> Option<Who> {
        (!self.is_foreign()).then(|| Who::of(&self.client)).flatten()
    }

    pub fn is_foreign(&self) -> bool {
        (self.owner, self.number) == (FOREIGN, FOREIGN)
    }

    /// Writes the same text as [`Display`](fmt::Display), but faster: it is part of nearly every command.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.client.as_bytes());
        for number in [self.owner, self.number] {
            out.push(b':');
            for digit in (0..hex_digits(number)).rev() {
                out.push(b"0123456789abcdef"[(number >> (4 * digit) & 15) as usize]);
            }
        }
    }

    /// The length of what [`Self::write_to`] writes, in bytes.
    pub fn written_length(&self) -> usize {
        self.client.len() + 2 + (hex_digits(self.owner) + hex_digits(self.number)) as usize
    }

    /// Stands for this attempt once it has released a name that stays locked. No owner has this number.
    pub fn kept(&self) -> Self {
        Self { owner: NO_OWNER, ..self.clone() }
    }

    /// Reads the text that [`Display`](fmt::Display) writes.
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
    /// Raises the counter of tokens to the server's clock, and to the highest number that this client has seen. Sent
    /// once per connection.
    Open {
        seen: u64,
    },
    /// Takes all names or none. `wait`: joins the queue if they are not free. `nested`: the owner already holds other
    /// locks.
    Lock {
        attempt: Attempt,
        names: Names,
        ttl: Duration,
        wait: bool,
        nested: bool,
    },
    /// Releases the names, or stops waiting for them. `tombstone`: the attempt may still reach the server over an
    /// earlier connection, and must then not be granted. `rest`: how long the names stay locked although nobody holds
    /// them, if the attempt has them all.
    Unlock {
        attempt: Attempt,
        names: Names,
        tombstone: bool,
        rest: Option<Duration>,
    },
    /// Takes the names over from the attempt `from`, which was handed over. Does nothing unless `from` has them all.
    Adopt {
        attempt: Attempt,
        names: Names,
        ttl: Duration,
        from: Arc<Attempt>,
    },
    /// Gives a held lock other modes of its names: it writes what it has read, or reads what it has written. `wait`: it
    /// waits for others that read what it is to write. `seen`: the highest number that the client knew when it first
    /// asked. What the lock has written since a later one, it writes on.
    Change {
        attempt: Attempt,
        names: Names,
        ttl: Duration,
        wait: bool,
        seen: u64,
    },
    /// Tells the server that a waiter is alive, and asks for its state.
    Poll {
        attempt: Attempt,
        names: Names,
        ttl: Duration,
        nested: bool,
    },
    Extend {
        held: Vec<(Attempt, Names, Duration)>,
    },
    /// Extends the lock, and raises its token and the counter to `floor` if they are lower. Does neither if the attempt
    /// no longer has all of its names.
    Raise {
        attempt: Attempt,
        names: Names,
        ttl: Duration,
        floor: u64,
    },
    /// Releases the names and waits for a notification from their next holder.
    Park {
        attempt: Attempt,
        names: Names,
        ttl: Duration,
    },
    /// Takes the names of a parked waiter again, without a notification.
    Unpark {
        attempt: Attempt,
        names: Names,
        ttl: Duration,
    },
    /// Lets parked waiters queue up again: the first `most` of them, or all if 0.
    Notify {
        attempt: Attempt,
        names: Names,
        most: u32,
    },
    /// Tells the state of names. `remarks`: also what their holders and waiters say.
    Inspect {
        names: Names,
        remarks: bool,
    },
    /// Takes the names away from their holders. With a token, only from the holder of that token.
    ForceRelease {
        names: Names,
        token: Option<u64>,
    },
    /// Takes permits of a rate, if that puts it ahead by at most `most` ticks. Only one that is not ahead is whole.
    Rate {
        name: Name,
        /// What the permits cost, in ticks.
        cost: u64,
        most: u64,
        /// The ticks of a microsecond: how fast the rate becomes whole again.
        ticks: u64,
    },
    /// Keeps what an attempt says about its lock for `ttl`, or forgets it.
    Remark {
        attempt: Attempt,
        remark: Option<Arc<str>>,
        ttl: Duration,
    },
    /// Asks what those say that were found: [`ScriptAnswer::Inspected`], with it.
    Remarks {
        inspected: Vec<Inspected>,
    },
}

impl Call {
    /// The attempt for which this call takes names, now or when its turn comes.
    pub(super) fn taker(&self) -> Option<&Attempt> {
        match self {
            Self::Lock { attempt, .. } | Self::Unpark { attempt, .. } | Self::Adopt { attempt, .. } => Some(attempt),
            _ => None,
        }
    }
}

/// What a holder says about its lock, as far as the server has told it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Said {
    /// The server has not told it. Plain commands and earlier libraries do not.
    #[default]
    Untold,
    Nothing,
    Remark(Arc<str>),
}

/// The first lock in the way of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstHolder {
    pub holder: Holder,
    /// How long ago it was granted, if that is known.
    pub age: Option<Duration>,
    pub said: Said,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptAnswer {
    Opened {
        counter: u64,
    },
    Granted {
        token: u64,
    },
    /// In the queue. `pttl`: the time until the first lock in its way expires, unless it is renewed.
    Queued {
        pttl: Option<Duration>,
    },
    /// Not in the queue.
    Busy {
        pttl: Option<Duration>,
        /// Boxed, because answers are moved often and nearly all are small.
        first: Option<Box<FirstHolder>>,
    },
    /// A tombstone stands.
    Cancelled,
    /// Waiting would be a deadlock: an owner in its way waits for it. Contains the holders of the cycle, in order.
    Deadlock {
        cycle: Vec<Attempt>,
    },
    /// The server does not know this waiter.
    Unknown,
    /// The attempt does not hold all of the names.
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
    /// Whether the permits were taken, and by how many ticks the rate is ahead now.
    Rated {
        taken: bool,
        ahead: u64,
    },
    Remarked,
}

impl ScriptAnswer {
    /// Of the lock in the way, at most its holder is known.
    pub fn busy(pttl: Option<Duration>, holder: Option<Holder>) -> Self {
        let first = holder.map(|holder| FirstHolder { holder, age: None, said: Said::Untold }.into());
        Self::Busy { pttl, first }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub attempt: Attempt,
    /// `None` if the pure handler took the lock.
    pub token: Option<u64>,
}

/// The state of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspected {
    pub holder: Option<Holder>,
    /// Those that have the name together, if it is shared; the holder is one of them.
    pub sharing: Vec<Attempt>,
    /// The permits that are taken, and how many there are, if it is a pool.
    pub permits: Option<(u32, u32)>,
    pub pttl: Option<Duration>,
    /// The time since it was granted; `None` if the pure handler took the lock.
    pub age: Option<Duration>,
    /// In the order of the queue.
    pub waiting: Vec<Attempt>,
    /// What some of these say about their locks, if that was asked.
    pub remarks: BTreeMap<Attempt, Arc<str>>,
}

/// A message that a server pushes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pushed {
    Granted {
        attempt: Attempt,
        token: u64,
    },
    ForceReleased {
        attempt: Attempt,
    },
    /// On a quorum: an attempt that comes before this one waits for its names.
    Contested {
        attempt: Attempt,
    },
    /// The lock in its way is another one, which may end earlier than the one before.
    Look {
        attempt: Attempt,
    },
    /// A client released these names, and the pure handler is involved on either side.
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
