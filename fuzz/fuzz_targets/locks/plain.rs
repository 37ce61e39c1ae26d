//! The plain commands of locks without scripts, on keys that expire.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::in_resp as say;

/// The value of a lock that another client holds.
const ELSEWHERE: &[u8] = b"other:1:1";

const BEGINNING_OF_2024: Duration = Duration::from_secs(1_704_067_200);

#[derive(Default)]
pub struct Plain {
    keys: BTreeMap<Vec<u8>, Entry>,
    /// The number of writes.
    pub writes: u64,
}

struct Entry {
    value: Vec<u8>,
    expires: Option<Duration>,
}

impl Plain {
    pub fn flush(&mut self) {
        self.writes += 1;
        self.keys.clear();
    }

    /// Another client takes this key, without the rules of locks.
    pub fn occupy(&mut self, key: Vec<u8>, expires: Duration) {
        self.writes += 1;
        self.keys.entry(key).or_insert(Entry { value: ELSEWHERE.to_vec(), expires: Some(expires) });
    }

    /// That client releases it.
    pub fn vacate(&mut self, key: &[u8]) {
        self.writes += 1;
        if self.keys.get(key).is_some_and(|entry| entry.value == ELSEWHERE) {
            self.keys.remove(key);
        }
    }

    /// Runs a command at a time since the beginning of 2024. `None` if it is not one of these.
    pub fn run(&mut self, now: Duration, words: &[&[u8]]) -> Option<Vec<u8>> {
        self.keys.retain(|_, entry| entry.expires.is_none_or(|expires| expires > now));
        let millis = |word: &[u8]| now + Duration::from_millis(decimal(word).unwrap_or(0));
        Some(match (words[0], &words[1..]) {
            (b"TIME", []) => {
                let time = BEGINNING_OF_2024 + now;
                say::array([time.as_secs(), time.subsec_micros().into()].map(|part| say::text(&part.to_string())))
            }
            (b"MGET", keys) => say::array(keys.iter().map(|key| match self.keys.get(*key) {
                Some(entry) => say::bytes(&entry.value),
                None => say::null(),
            })),
            (b"EXISTS", [key]) => say::number(self.keys.contains_key(*key).into()),
            (b"PTTL", [key]) => say::number(match self.keys.get(*key) {
                Some(Entry { expires: Some(expires), .. }) => (*expires - now).as_millis() as i64,
                Some(_) => -1,
                None => -2,
            }),
            (b"SET", [key, value, rest @ ..]) => {
                let (only_new, expires) = match rest {
                    [b"NX", b"PX", ttl] => (true, Some(millis(ttl))),
                    [b"PX", ttl] => (false, Some(millis(ttl))),
                    _ => (false, None),
                };
                if only_new && self.keys.contains_key(*key) {
                    return Some(say::null());
                }
                self.set(key, value, expires);
                say::status("OK")
            }
            (b"MSETNX", pairs) => {
                let is_free = pairs.chunks(2).all(|pair| !self.keys.contains_key(pair[0]));
                if is_free {
                    pairs.chunks(2).for_each(|pair| self.set(pair[0], pair[1], None));
                }
                say::number(is_free.into())
            }
            (b"PEXPIRE", [key, ttl, rest @ ..]) => match self.keys.get_mut(*key) {
                Some(entry) if rest.is_empty() || entry.expires.is_none() => {
                    (entry.expires, self.writes) = (Some(millis(ttl)), self.writes + 1);
                    say::number(1)
                }
                _ => say::number(0),
            },
            (b"INCR", [key]) => {
                let next = self.keys.get(*key).and_then(|entry| decimal(&entry.value)).unwrap_or(0) + 1;
                self.set(key, next.to_string().as_bytes(), None);
                say::number(next as i64)
            }
            (b"DEL", keys) => {
                let deleted = keys.iter().filter(|key| self.keys.remove(**key).is_some()).count();
                self.writes += 1;
                say::number(deleted as i64)
            }
            _ => return None,
        })
    }

    fn set(&mut self, key: &[u8], value: &[u8], expires: Option<Duration>) {
        self.writes += 1;
        self.keys.insert(key.to_vec(), Entry { value: value.to_vec(), expires });
    }
}

fn decimal(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
