//! The keys of a namespace, the rules for lock names, and cluster slots.
//!
//! The server keeps seven kinds of keys. `{namespace}:l:name` exists while a name is locked, and its ttl ends the lock
//! if the holder vanishes. `{namespace}:p:name` exists while permits of a pool are taken, and `{namespace}:r:name` until
//! the rate of that name is whole again, `{namespace}:n:attempt` while a lock has a remark. One counter gives tokens and tickets. While clients wait, one sorted set holds
//! the waiters (first come, first served, for each name) and one hash holds what they wait for.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use pinyon_proto::resp::Command;

use crate::call::Attempt;
use crate::names::{given, is_pool};
pub use crate::names::{names, NameError, LONGEST_NAME};
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::invalid::InvalidArgument;
use pinyon_net::shown::shown;

/// The longest namespace, in bytes.
pub const LONGEST_NAMESPACE: usize = 256;
/// The number of slots in a cluster.
pub const SLOTS: u16 = 16384;

const COUNTER: &[u8] = b"#f";
const LOCK: &[u8] = b"l:";
const POOL: &[u8] = b"p:";
const RATE: &[u8] = b"r:";
const REMARK: &[u8] = b"n:";

/// The keys of a namespace, or of those of its names with a certain hash tag. All of them have the same tag, so one
/// server of a cluster holds them all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockKeys {
    /// What a lock's key begins with: the prefix of all keys, and `l:`.
    before_name: Arc<[u8]>,
    /// The length of what the user wants all keys to begin with, before the hash tag.
    given: usize,
    sent_first: Arc<Command>,
    /// The other keys that functions use, if they are declared.
    declared: Option<Arc<Command>>,
}

/// Which of their keys the functions declare. Each key that is sent costs the server more than one that it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declared {
    /// The counter and the names. The functions make the other keys.
    Few,
    /// All keys but those of names that only waiters want. A cluster that moves the slot refuses a call with an absent
    /// key before the function has changed anything.
    All,
    /// All, and the functions use no others, for servers that forbid it. They tell a waiter for other names that it may
    /// be its turn, instead of granting it these names, and do not see deadlocks over them.
    Strictly,
}

impl LockKeys {
    pub fn new(namespace: impl AsRef<[u8]>) -> Result<Self, NamespaceError> {
        Self::prefixed(b"", namespace)
    }

    /// The keys of a namespace, all beginning with a prefix of the user's.
    pub fn prefixed(prefix: &[u8], namespace: impl AsRef<[u8]>) -> Result<Self, NamespaceError> {
        let namespace = namespace.as_ref();
        if prefix.len() > LONGEST_NAMESPACE {
            return Err(NamespaceError::LongPrefix { length: prefix.len() });
        }
        if prefix.iter().any(|byte| matches!(byte, b'{' | b'}')) {
            return Err(NamespaceError::PrefixBrace { prefix: prefix.into() });
        }
        if namespace.is_empty() {
            return Err(NamespaceError::Empty);
        }
        if namespace.len() > LONGEST_NAMESPACE {
            return Err(NamespaceError::TooLong { length: namespace.len() });
        }
        if namespace.contains(&b'}') {
            return Err(NamespaceError::Brace { namespace: namespace.into() });
        }
        Ok(Self::beginning_with(prefix.len(), [prefix, b"{", namespace, b"}:"].concat()))
    }

    /// The keys of the namespace's names with this hash tag.
    pub fn tagged(&self, tag: &[u8]) -> Self {
        let (given, namespace) = self.prefix().split_at(self.given);
        Self::beginning_with(self.given, [given, b"{", tag, b"}", namespace].concat())
    }

    fn beginning_with(given: usize, prefix: Vec<u8>) -> Self {
        let counter = [&prefix[..], COUNTER].concat();
        let before_name = [&prefix[..], LOCK].concat().into();
        Self { before_name, given, sent_first: Command::of([counter]).into(), declared: None }
    }

    /// The same keys, of which the functions declare these.
    pub fn declaring(&self, declared: Declared) -> Self {
        let [queue, pure_waiters] = [self.queue(), self.pure_waiters()];
        // The functions know by the first key what is declared.
        let (first, last) = match declared {
            Declared::Few => return Self { declared: None, ..self.clone() },
            Declared::All => (queue, pure_waiters),
            Declared::Strictly => (pure_waiters, queue),
        };
        let declared = Command::of([first, self.waiters(), self.parked(), last]);
        Self { declared: Some(declared.into()), ..self.clone() }
    }

    /// The keys to declare before the counter, in calls that use the queue.
    pub fn declared(&self) -> Option<&Command> {
        self.declared.as_deref()
    }

    /// The prefix of all keys.
    pub fn prefix(&self) -> &[u8] {
        &self.before_name[..self.before_name.len() - LOCK.len()]
    }

    /// The parts of the key of one name, or of a pool of permits.
    #[inline]
    pub fn parts_of<'k>(&'k self, name: &'k [u8]) -> [&'k [u8]; 3] {
        match is_pool(name) {
            false => [&self.before_name, name, b""],
            true => [self.prefix(), POOL, given(name)],
        }
    }

    /// The key of the counter, with which the keys of every call begin. The functions make the others from it.
    pub fn sent_first(&self) -> &Command {
        &self.sent_first
    }

    pub fn slot(&self) -> u16 {
        slot(self.prefix())
    }

    /// The key of one name. It exists while the name is locked, or permits of the pool are taken.
    pub fn lock(&self, name: &[u8]) -> Vec<u8> {
        self.parts_of(name).concat()
    }

    /// The key of a rate. It exists until the rate is whole again.
    pub fn rate(&self, name: &[u8]) -> Vec<u8> {
        self.key(RATE, name)
    }

    /// The key of what an attempt says about its lock. It exists while the attempt waits or holds.
    pub fn remark(&self, attempt: &Attempt) -> Vec<u8> {
        self.key(REMARK, attempt.to_string().as_bytes())
    }

    /// The counter of tokens and tickets.
    pub fn counter(&self) -> Vec<u8> {
        self.key(COUNTER, b"")
    }

    pub fn queue(&self) -> Vec<u8> {
        self.key(b"#q", b"")
    }

    /// The records of the waiters.
    pub fn waiters(&self) -> Vec<u8> {
        self.key(b"#w", b"")
    }

    /// The waiters that are parked.
    pub fn parked(&self) -> Vec<u8> {
        self.key(b"#n", b"")
    }

    /// A key that exists while clients of the pure handler wait.
    pub fn pure_waiters(&self) -> Vec<u8> {
        self.key(b"#p", b"")
    }

    pub fn tombstone(&self, attempt: &Attempt) -> Vec<u8> {
        self.key(b"#x:", attempt.to_string().as_bytes())
    }

    /// The channel to which one client's grants are pushed.
    pub fn channel(&self, client: &str) -> Vec<u8> {
        self.key(b"#c:", client.as_bytes())
    }

    /// The channel on which freed names are published.
    pub fn freed(&self) -> Vec<u8> {
        self.key(b"#freed", b"")
    }

    fn key(&self, kind: &[u8], of: &[u8]) -> Vec<u8> {
        [self.prefix(), kind, of].concat()
    }
}

/// The cluster slot of a key. The text between the first `{` and the next `}` decides, or the whole key without such
/// text.
pub fn slot(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % SLOTS
}

fn hash_tag(key: &[u8]) -> &[u8] {
    tag_of(key).unwrap_or(key)
}

/// The hash tag in a name, if any.
pub fn tag_of(name: &[u8]) -> Option<&[u8]> {
    let open = name.iter().position(|byte| *byte == b'{')?;
    let inside = &name[open + 1..];
    match inside.iter().position(|byte| *byte == b'}')? {
        0 => None,
        close => Some(&inside[..close]),
    }
}

/// The hash tag that all these names share, or `None` if none has a tag: such names use the namespace's tag.
pub fn common_tag<'n>(names: &[&'n [u8]]) -> Result<Option<&'n [u8]>, SeveralTags> {
    let first = names.first().and_then(|name| tag_of(name));
    match names.iter().all(|name| tag_of(name) == first) {
        true => Ok(first),
        false => Err(SeveralTags::of(names)),
    }
}

/// The CRC-16/XMODEM checksum.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        let shifted = |crc: u16, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
        (0..8).fold(crc ^ (u16::from(*byte) << 8), shifted)
    })
}

/// Names of one lock in several hash tags, which a cluster keeps in different places. Contains the first name of each
/// tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeveralTags {
    names: Vec<Box<[u8]>>,
}

impl SeveralTags {
    fn of(names: &[&[u8]]) -> Self {
        let mut seen = BTreeSet::new();
        let firsts = names.iter().filter(|name| seen.insert(tag_of(name)));
        Self { names: firsts.map(|name| (*name).into()).collect() }
    }
}

impl fmt::Display for SeveralTags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const FEW: usize = 4;
        write!(f, "the names of one lock need one hash tag, as a cluster keeps each elsewhere: ")?;
        for (at, name) in self.names.iter().take(FEW).enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            match tag_of(name) {
                Some(tag) => write!(f, "{comma}{} has {} (slot {})", shown(name), shown(tag), slot(tag))?,
                None => write!(f, "{comma}{} has none, and goes with its namespace", shown(name))?,
            }
        }
        match self.names.len() {
            count if count > FEW => write!(f, ", and there are {} tags more", count - FEW),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for SeveralTags {}

impl From<SeveralTags> for InvalidArgument {
    fn from(error: SeveralTags) -> Self {
        Self::new(ErrorKind::InvalidName, error.to_string())
    }
}

/// Why a namespace cannot be a hash tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceError {
    Empty,
    TooLong { length: usize },
    Brace { namespace: Box<[u8]> },
    LongPrefix { length: usize },
    PrefixBrace { prefix: Box<[u8]> },
}

impl fmt::Display for NamespaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the namespace is empty"),
            Self::TooLong { length } => {
                write!(f, "the namespace has {length} bytes: at most {LONGEST_NAMESPACE} are possible")
            }
            Self::Brace { namespace } => {
                write!(f, "the namespace {} has a }} in it: it would end the keys' hash tag", shown(namespace))
            }
            Self::LongPrefix { length } => {
                write!(f, "prefix has {length} bytes: at most {LONGEST_NAMESPACE} are possible")
            }
            Self::PrefixBrace { prefix } => {
                write!(f, "prefix {} has a brace in it: the hash tag after it would not count", shown(prefix))
            }
        }
    }
}

impl std::error::Error for NamespaceError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_and_slots_are_the_cluster_specification_s() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, expected) in [("foo", 12182), ("bar", 5061), ("hello", 866), ("", 0)] {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
    }

    #[test]
    fn only_a_hash_tag_that_is_not_empty_counts() {
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(hash_tag(b"foo{}{bar}"), b"foo{}{bar}");
        assert_eq!(hash_tag(b"foo{{bar}}zap"), b"{bar");
        assert_eq!(hash_tag(b"foo{bar}{zap}"), b"bar");
        assert_eq!(hash_tag(b"foo{bar"), b"foo{bar");
    }

    #[test]
    fn all_keys_of_a_namespace_share_its_slot() {
        let keys = LockKeys::new("app{").unwrap();
        let attempt = Attempt::parse(b"0.1.0:1:2").unwrap();
        assert_eq!(keys.lock(b"{x}"), b"{app{}:l:{x}");
        assert_eq!(keys.tombstone(&attempt), b"{app{}:#x:0.1.0:1:2");
        for key in [keys.lock(b"{x}"), keys.counter(), keys.queue(), keys.freed(), keys.channel("{y}")] {
            assert_eq!(slot(&key), slot(b"app{"));
            assert_eq!(slot(&key), keys.slot());
        }
        assert_eq!(LockKeys::new(""), Err(NamespaceError::Empty));
        assert_eq!(LockKeys::new("x".repeat(257)), Err(NamespaceError::TooLong { length: 257 }));
        let brace = LockKeys::new("}a").unwrap_err();
        assert_eq!(brace.to_string(), "the namespace \"}a\" has a } in it: it would end the keys' hash tag");
    }

    #[test]
    fn names_with_a_hash_tag_of_their_own_have_keys_in_its_slot_that_no_other_namespace_has() {
        let keys = LockKeys::new("app").unwrap().tagged(b"user:1");
        assert_eq!(keys.lock(b"{user:1}:a"), b"{user:1}{app}:l:{user:1}:a");
        for key in [keys.lock(b"{user:1}:a"), keys.counter(), keys.queue(), keys.channel("c")] {
            assert_eq!(slot(&key), slot(b"user:1"));
        }
        let all = ["{app}:", "{a}{app}:", "{app}{a}:", "{a}{l}:", "{{a}{app}:"];
        let made = [
            LockKeys::new("app").unwrap(),
            LockKeys::new("app").unwrap().tagged(b"a"),
            LockKeys::new("a").unwrap().tagged(b"app"),
            LockKeys::new("l").unwrap().tagged(b"a"),
            LockKeys::new("app").unwrap().tagged(b"{a"),
        ];
        assert_eq!(made.each_ref().map(|keys| keys.prefix()), all.map(str::as_bytes));
    }

    #[test]
    fn all_keys_begin_with_the_users_prefix_and_stay_in_their_slot() {
        let keys = LockKeys::prefixed(b"tenant:", "app").unwrap();
        assert_eq!(keys.lock(b"{x}"), b"tenant:{app}:l:{x}");
        assert_eq!(keys.channel("c"), b"tenant:{app}:#c:c");
        assert_eq!(keys.slot(), slot(b"app"));
        let tagged = keys.tagged(b"x");
        assert_eq!(tagged.lock(b"{x}"), b"tenant:{x}{app}:l:{x}");
        assert_eq!(tagged.slot(), slot(b"x"));
        for (prefix, why) in [("a{b", "prefix \"a{b\" has a brace in it"), (&*"x".repeat(257), "prefix has 257 bytes")]
        {
            let told = LockKeys::prefixed(prefix.as_bytes(), "app").unwrap_err().to_string();
            assert!(told.starts_with(why), "{told}");
        }
    }

    #[test]
    fn names_of_several_hash_tags_are_told_with_their_slots() {
        let common = |names: &[&'static str]| {
            let names: Vec<&'static [u8]> = names.iter().map(|name| name.as_bytes()).collect();
            common_tag(&names).map_err(|error| error.to_string())
        };
        assert_eq!(common(&["a", "b{}", "{c"]), Ok(None));
        assert_eq!(common(&["{foo}:a", "b{foo}{bar}"]), Ok(Some(&b"foo"[..])));
        assert_eq!(common(&[]), Ok(None));
        let told = "the names of one lock need one hash tag, as a cluster keeps each elsewhere: \
                    \"{foo}:a\" has \"foo\" (slot 12182), \"{bar}:a\" has \"bar\" (slot 5061), \
                    \"c\" has none, and goes with its namespace";
        assert_eq!(common(&["{foo}:a", "{foo}:b", "{bar}:a", "c", "d"]), Err(told.into()));
        let many = common(&["{1}", "{2}", "{3}", "{4}", "{5}", "{6}"]).unwrap_err();
        assert!(many.ends_with("\"{4}\" has \"4\" (slot 14039), and there are 2 tags more"), "{many}");
    }
}
