//! The failures of locks that front ends raise.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::call::{Attempt, Name, Names};
use crate::identity::Who;
use crate::loss::Loss;
use crate::machine::{Blocker, MachineFailure};
use crate::names::{given, is_pool, Mode};
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::error::Error;
use pinyon_net::shown::shown;

/// What becomes of a lock whose release failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreleased {
    /// It is repeated until it is answered. The lock ends at the latest after this time, if that is known.
    GoesOn(Option<Duration>),
    /// It is not repeated.
    Over,
}

/// A failed operation on locks.
#[derive(Clone, Debug)]
pub struct LockFailure {
    pub kind: ErrorKind,
    pub message: String,
    /// The holders in the cycle of a deadlock, in order; empty otherwise.
    pub cycle: Box<[Attempt]>,
    /// Who holds the lock that was not acquired in time, if that is known.
    pub blocker: Option<Box<Blocker>>,
    /// The error of the server or of the connection, if one caused this.
    pub cause: Option<Error>,
}

impl LockFailure {
    /// The failure of an operation, with the names of its lock, if it was about one.
    pub(super) fn of(failure: MachineFailure, names: Option<&Names>, server: &Arc<str>) -> Self {
        let lock = names.map_or_else(|| "the lock".to_owned(), described);
        match failure {
            MachineFailure::Timeout { waited, blocker } => {
                let blocked = blocker.as_deref().map_or_else(String::new, held_by);
                let message = format!("{server}: {lock} could not be acquired {}{blocked}", within(waited));
                Self { blocker, ..Self::new(ErrorKind::LockTimeout, message) }
            }
            MachineFailure::Busy => {
                Self::new(ErrorKind::LockTimeout, format!("{server}: {lock} could not be acquired at once"))
            }
            MachineFailure::AlreadyHeld => {
                let message = format!(
                    "you already hold {lock}, or one of its names; to acquire it again, set reentrant and give no \
                     further names"
                );
                Self::new(ErrorKind::AlreadyHeld, message)
            }
            MachineFailure::Deadlock { cycle } => {
                let held_by = in_turn(&cycle);
                let message = format!(
                    "{lock} can never be acquired: its holders{held_by} are waiting, in turn, for a lock that you hold; \
                     release that one and start again"
                );
                Self { cycle: cycle.into(), ..Self::new(ErrorKind::Deadlock, message) }
            }
            MachineFailure::NotHeld => Self::new(ErrorKind::LockLost, format!("{lock} is not held")),
            MachineFailure::NotInMode { name, mode } => {
                let name = shown(given(&name));
                let message = match mode {
                    Mode::Write => format!("{lock} does not read {name}: only what it reads can be upgraded"),
                    _ => format!("{lock} does not write {name}: only what it writes can be downgraded"),
                };
                Self::new(ErrorKind::UsageError, message)
            }
            MachineFailure::Changing => {
                let message =
                    format!("{lock} is being upgraded or downgraded by another caller: wait until this is done");
                Self::new(ErrorKind::UsageError, message)
            }
            MachineFailure::Server(error) => (*error).into(),
        }
    }

    /// A lock that is not held, with the reason if it is known.
    pub(super) fn not_held(names: &Names, why: Option<&str>) -> Self {
        let why = why.unwrap_or("it was released, or its ttl has passed");
        Self::new(ErrorKind::LockLost, format!("{} is no longer held: {why}", described(names)))
    }

    /// A lock that does not get other modes.
    pub(super) fn unchanged(failure: MachineFailure, names: &Names, server: &Arc<str>) -> Self {
        let lock = described(names);
        match failure {
            MachineFailure::Timeout { waited, blocker } => {
                let read = blocker.as_ref().map_or_else(String::new, |blocker| format!("; read by {}", blocker.holder));
                let message = format!("{server}: {lock} could not be upgraded {}{read}", within(waited));
                Self::new(ErrorKind::LockTimeout, message)
            }
            MachineFailure::Deadlock { cycle } => {
                let by = cycle.first().map_or_else(String::new, |holder| format!("; read by {holder}"));
                let message = format!(
                    "{lock} can never be upgraded: others that read it are waiting, in turn, for what you hold{by}; release \
                     it, and acquire it to write"
                );
                Self { cycle: cycle.into(), ..Self::new(ErrorKind::Deadlock, message) }
            }
            failure => Self::of(failure, Some(names), server),
        }
    }

    /// A lock whose ticket is of no use.
    pub(super) fn not_adopted(names: &Names) -> Self {
        let lock = described(names);
        let message = format!("{lock} cannot be adopted: its ticket was used before, or the lock has ended");
        Self::new(ErrorKind::LockLost, message)
    }

    /// A lock that cannot be handed over because its owner has it more than once.
    pub(super) fn acquired_again(names: &Names) -> Self {
        let lock = described(names);
        let message =
            format!("{lock} was acquired more than once: release it until it is held once, then hand it over");
        Self::new(ErrorKind::UsageError, message)
    }

    /// A lock that was lost before its holder released it.
    pub(super) fn lost_early(names: &Names, loss: Option<Loss>) -> Self {
        let why = loss.map_or("its ttl has passed, or it was released by force", Loss::as_str);
        Self::new(ErrorKind::LockLost, format!("{} was lost before it was released: {why}", described(names)))
    }

    /// A release that failed, or has not succeeded yet.
    pub(super) fn unreleased(failure: MachineFailure, names: &Names, server: &Arc<str>, now: Unreleased) -> Self {
        let lock = described(names);
        let what = match now {
            Unreleased::GoesOn(lasts) => {
                let lasts = lasts.map_or_else(String::new, |lasts| format!(" in {}", short(lasts)));
                format!(
                    "the release of {lock} goes on in the background; at the latest the lock ends with its ttl{lasts}"
                )
            }
            Unreleased::Over => format!("{lock} was not released, and ends with its ttl"),
        };
        match failure {
            MachineFailure::Server(error) => Error { message: format!("{}; {what}", error.message), ..*error }.into(),
            failure => Self::of(failure, Some(names), server),
        }
    }

    /// Permits of a rate that come too late for a waiter.
    pub(super) fn too_early(name: &Name, waited: Duration, retry_after: Duration, server: &Arc<str>) -> Self {
        let (name, within, next) = (shown(name), within(waited), short(retry_after));
        let message = format!("{server}: the rate {name} does not allow it {within}; it does in {next}");
        Self::new(ErrorKind::LockTimeout, message)
    }

    pub(super) fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the client was closed; make another".to_owned())
    }

    fn new(kind: ErrorKind, message: String) -> Self {
        Self { kind, message, cycle: Box::default(), blocker: None, cause: None }
    }
}

impl From<Error> for LockFailure {
    fn from(error: Error) -> Self {
        Self { cause: Some(error.clone()), ..Self::new(error.kind.into(), error.to_string()) }
    }
}

impl fmt::Display for LockFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LockFailure {}

fn within(waited: Duration) -> String {
    match waited.as_millis() {
        0 => "at once".to_owned(),
        milliseconds @ ..100 => format!("within {milliseconds} ms"),
        _ => format!("within {}", short(waited)),
    }
}

/// Who stands in the way, since when, and why: `; held by web2:worker (pid 4711) for 12 s: invoice 17`.
fn held_by(Blocker { holder, held_for, remark }: &Blocker) -> String {
    let since = held_for.map_or_else(String::new, |age| format!(" for {}", short(age)));
    let why = remark.as_ref().map_or_else(String::new, |remark| format!(": {remark}"));
    format!("; held by {}{since}{why}", named(holder))
}

/// An attempt for people: where it comes from, if it says so.
fn named(attempt: &Attempt) -> String {
    match attempt.who() {
        Some(who @ Who { host: Some(_), .. }) => who.to_string(),
        Some(who) => format!("{attempt} ({who})"),
        None => attempt.to_string(),
    }
}

/// The first few holders of a cycle.
fn in_turn(cycle: &[Attempt]) -> String {
    const FEW: usize = 3;
    let few: Vec<String> = cycle.iter().take(FEW).map(named).collect();
    match cycle.len() {
        0 => String::new(),
        count if count <= FEW => format!(" ({})", few.join(", ")),
        count => format!(" ({} and {} more)", few.join(", "), count - FEW),
    }
}

/// A time for people: with tenths below ten seconds, unless they are zero, and in whole seconds above.
pub(super) fn short(time: Duration) -> String {
    let tenths = (time.as_millis() + 50) / 100;
    match (tenths / 10, tenths % 10) {
        (0, 0) => "less than 0.1 s".to_owned(),
        (seconds, 0) if seconds < 10 => format!("{seconds} s"),
        (seconds, tenth) if seconds < 10 => format!("{seconds}.{tenth} s"),
        _ => format!("{} s", (time.as_millis() + 500) / 1000),
    }
}

/// The first few names of a lock, for messages.
pub(super) fn described(names: &Names) -> String {
    const FEW: usize = 3;
    let one = |name: &Name| match is_pool(name) {
        true => format!("the permits {}", shown(given(name))),
        false => shown(name),
    };
    // Pools come first in the order of names.
    let (pools, locks): (Vec<&Name>, Vec<&Name>) = names.iter().partition(|name| is_pool(name));
    let few: Vec<String> = locks.into_iter().chain(pools).take(FEW).map(one).collect();
    match names.len() {
        1 if is_pool(&names[0]) => few[0].clone(),
        1 => format!("the lock {}", few[0]),
        count if count <= FEW => format!("the lock on {}", few.join(", ")),
        count => format!("the lock on {} and {} more", few.join(", "), count - FEW),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_named_by_its_label_or_its_host() {
        let text = |client: &str, seconds, remark: Option<&str>| {
            let holder = Attempt { client: client.into(), owner: 3, number: 255 };
            let held_for = Some(Duration::from_secs(seconds));
            let blocker = Some(Blocker { holder, held_for, remark: remark.map(Into::into) });
            let failure = MachineFailure::timeout(Duration::from_secs(1), blocker);
            let names = crate::names::names(["a"]).unwrap();
            let message = LockFailure::of(failure, Some(&names), &"redis1".into()).message;
            message.strip_prefix("redis1: the lock \"a\" could not be acquired within 1 s; ").unwrap().to_owned()
        };
        let labelled = text("000000000000001f.1267.0.web2.web2%3Aworker", 12, Some("invoice 17"));
        assert_eq!(labelled, "held by web2:worker (pid 4711) for 12 s: invoice 17");
        assert_eq!(text("000000000000001f.1267.0.web2", 12, None), "held by web2 (pid 4711) for 12 s");
        assert_eq!(text("000000000000001f.1267.0", 2, None), "held by 000000000000001f.1267.0:3:ff (pid 4711) for 2 s");
        assert_eq!(text("me", 2, None), "held by me:3:ff for 2 s");
    }

    #[test]
    fn times_are_rounded_as_people_say_them() {
        for (milliseconds, said) in [
            (0, "at once"),
            (30, "within 30 ms"),
            (500, "within 0.5 s"),
            (1000, "within 1 s"),
            (8328, "within 8.3 s"),
            (9970, "within 10 s"),
            (23_141, "within 23 s"),
        ] {
            assert_eq!(within(Duration::from_millis(milliseconds)), said);
        }
        assert_eq!(within(Duration::from_secs_f64(8.328_776_13)), "within 8.3 s");
        assert_eq!(short(Duration::from_millis(20)), "less than 0.1 s");
    }
}
