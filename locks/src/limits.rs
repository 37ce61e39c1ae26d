//! The limits of pools of permits that a client was told, for requests that say only how many permits they want.

use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;

use crate::names::{permits, pool, wanted, Mode, Name, Names, PermitsWanted};
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::invalid::InvalidArgument;
use pinyon_net::shown::shown;

/// The most pools whose limits a client remembers. Then it forgets them all, and is to be told again.
const MOST: usize = 10_000;

/// The last limit that the client was told of each pool. The server keeps the one that counts.
#[derive(Debug, Default)]
pub struct Limits(Mutex<HashMap<Name, u32>>);

/// Permits that a lock wants, of a pool whose limit may be known from before.
#[derive(Clone, Copy, Debug)]
pub struct PermitsAsked<'a> {
    pub pool: &'a [u8],
    pub count: u32,
    pub limit: Option<u32>,
}

impl Limits {
    /// The names of one lock: those to write, those to read, and pools of permits. Remembers the limits.
    pub fn wanted(
        &self,
        write: &[&[u8]],
        read: &[&[u8]],
        permits: &[PermitsAsked<'_>],
    ) -> Result<Names, InvalidArgument> {
        if let ([], [], [only]) = (write, read, permits) {
            return self.permits(only);
        }
        let permits = permits.iter().map(|asked| self.with_limit(asked)).collect::<Result<Vec<_>, _>>()?;
        let names = wanted(write.iter().copied(), read.iter().copied(), permits)?;
        for (pool, mode) in names.each() {
            if let Mode::Permits { limit, .. } = mode {
                self.tell(pool, limit);
            }
        }
        Ok(names)
    }

    /// Permits of one pool, and no other names. Remembers the limit.
    pub fn permits(&self, asked: &PermitsAsked<'_>) -> Result<Names, InvalidArgument> {
        let wanted = self.with_limit(asked)?;
        let names = permits(&wanted)?;
        self.tell(&names[0], wanted.limit);
        Ok(names)
    }

    fn with_limit<'a>(&self, asked: &PermitsAsked<'a>) -> Result<PermitsWanted<&'a [u8]>, InvalidArgument> {
        let PermitsAsked { pool: name, count, limit } = *asked;
        if let Some(limit) = limit {
            return Ok(PermitsWanted { pool: name, count, limit });
        }
        let known = self.known().get(&pool(name)?).copied();
        let unknown = || {
            let message = format!(
                "the limit of the permits {} is not known here: give it with their number, or make them by permits first",
                shown(name)
            );
            InvalidArgument::new(ErrorKind::InvalidName, message)
        };
        Ok(PermitsWanted { pool: name, count, limit: known.ok_or_else(unknown)? })
    }

    fn tell(&self, pool: &Name, limit: u32) {
        let mut known = self.known();
        if known.get(pool) == Some(&limit) {
            return;
        }
        if known.len() >= MOST && !known.contains_key(pool) {
            known.clear();
        }
        known.insert(pool.clone(), limit);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Name, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Mode;

    #[test]
    fn a_limit_that_was_told_is_known_later() {
        let limits = Limits::default();
        let asked = |limit| PermitsAsked { pool: b"p", count: 2, limit };
        let unknown = limits.wanted(&[b"a"], &[], &[asked(None)]).unwrap_err();
        assert!(unknown.to_string().contains("the limit of the permits \"p\" is not known here"), "{unknown}");
        limits.wanted(&[], &[], &[asked(Some(5))]).unwrap();
        let names = limits.wanted(&[b"a"], &[b"b"], &[asked(None)]).unwrap();
        assert_eq!(names.mode_of(b"\0p"), Some(Mode::Permits { count: 2, limit: 5 }));
        assert!(limits.wanted(&[], &[], &[asked(Some(1))]).is_err());
        assert!(limits.wanted(&[b"a"], &[], &[asked(None)]).is_ok(), "what was refused is not remembered");
    }

    #[test]
    fn no_more_are_remembered_than_fit() {
        let limits = Limits::default();
        for number in 0..=MOST {
            limits.tell(&pool(number.to_string().as_bytes()).unwrap(), 1);
        }
        assert_eq!(limits.known().len(), 1);
    }
}
