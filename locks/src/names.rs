//! The names of one lock, and how it wants each of them.
//!
//! Most locks want all their names to write, which is what a mutex is. Names that are read, and pools of permits, are
//! shared: several locks have them at the same time. A pool of permits is a name, too. It begins with NUL, which no name
//! of a user has, so pools and locks of the same name are different things.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::invalid::InvalidArgument;
use pinyon_net::shown::shown;

/// The longest name, in bytes.
pub const LONGEST_NAME: usize = 1024;
/// The most names of one lock.
pub const MOST_NAMES: usize = 1000;
/// The most permits of a pool.
pub const MOST_PERMITS: u32 = 1_000_000;
/// The most permits of one lock. Each is a member of a sorted set on the server.
pub const MOST_AT_ONCE: u32 = 1000;

/// What the name of a pool begins with.
const POOL: u8 = 0;

/// A lock's name, without its prefix.
pub type Name = Arc<[u8]>;

/// How a lock wants one of its names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Alone, as a mutex.
    #[default]
    Write,
    /// Together with others that read it.
    Read,
    /// So many of a pool's permits, of which there are `limit`.
    Permits { count: u32, limit: u32 },
}

/// The names of one lock: sorted, each once, each with its mode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Names(List);

/// One name, as nearly always, needs no lists. [`List::Many`] are none, or more than one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum List {
    One(Name, Mode),
    /// The mode of each; none if all are written.
    Many(Arc<[Name]>, Option<Arc<[Mode]>>),
}

impl Names {
    /// The mode of each name; `None` if all are written.
    #[inline]
    pub fn modes(&self) -> Option<&[Mode]> {
        match &self.0 {
            List::One(_, Mode::Write) => None,
            List::One(_, mode) => Some(std::slice::from_ref(mode)),
            List::Many(_, modes) => modes.as_deref(),
        }
    }

    /// The same names, all to read.
    pub fn to_read(self) -> Self {
        Self(match self.0 {
            List::One(name, _) => List::One(name, Mode::Read),
            List::Many(names, _) => {
                let modes = vec![Mode::Read; names.len()];
                List::Many(names, Some(modes.into()))
            }
        })
    }

    /// Whether other locks can have some of the names at the same time.
    #[inline]
    pub fn are_shared(&self) -> bool {
        self.modes().is_some()
    }

    /// Whether any of them is written. Such a lock has a token of its own; others have the highest of the locks before.
    pub fn are_written(&self) -> bool {
        self.modes().is_none_or(|modes| modes.contains(&Mode::Write))
    }

    /// The names with their modes.
    pub fn each(&self) -> impl Iterator<Item = (&Name, Mode)> + Clone {
        self.iter().enumerate().map(|(at, name)| (name, self.mode(at)))
    }

    /// The mode of this name, if it is one of these.
    pub fn mode_of(&self, name: &[u8]) -> Option<Mode> {
        self.binary_search_by(|known| (**known).cmp(name)).ok().map(|at| self.mode(at))
    }

    /// Whether a lock that has these names has what `self` wants. A writer may read.
    pub fn are_covered_by(&self, held: &Names) -> bool {
        self.each().all(|(name, mode)| match (mode, held.mode_of(name)) {
            (Mode::Permits { count: wanted, .. }, Some(Mode::Permits { count, .. })) => wanted <= count,
            (Mode::Read, Some(_)) => true,
            (mode, held) => held == Some(mode),
        })
    }

    /// The same names, of which these have this mode, to read or to write, instead of the other one; all that have the
    /// other one, if none are given. A name that does not have it is the error.
    pub(crate) fn turned(&self, given: &[Name], mode: Mode) -> Result<Names, Name> {
        let before = if mode == Mode::Write { Mode::Read } else { Mode::Write };
        if let Some(name) = given.iter().find(|name| self.mode_of(name) != Some(before)) {
            return Err(name.clone());
        }
        let turns = |name: &Name, is: Mode| is == before && (given.is_empty() || given.contains(name));
        Ok(self.each().map(|(name, is)| (name.clone(), if turns(name, is) { mode } else { is })).collect())
    }

    /// The same names, of which those that `other` reads are read.
    pub(crate) fn read_as_in(&self, other: &Names) -> Names {
        let mode = |name: &Name, mode| if other.mode_of(name) == Some(Mode::Read) { Mode::Read } else { mode };
        self.each().map(|(name, is)| (name.clone(), mode(name, is))).collect()
    }

    pub(crate) fn mode(&self, at: usize) -> Mode {
        self.modes().map_or(Mode::Write, |modes| modes[at])
    }
}

impl Deref for Names {
    type Target = [Name];

    #[inline]
    fn deref(&self) -> &[Name] {
        match &self.0 {
            List::One(name, _) => std::slice::from_ref(name),
            List::Many(names, _) => names,
        }
    }
}

impl Default for Names {
    fn default() -> Self {
        Self(List::Many(Arc::default(), None))
    }
}

impl From<Name> for Names {
    #[inline]
    fn from(name: Name) -> Self {
        Self(List::One(name, Mode::Write))
    }
}

impl<const N: usize> From<[Name; N]> for Names {
    fn from(names: [Name; N]) -> Self {
        names.into_iter().collect()
    }
}

impl From<Vec<Name>> for Names {
    fn from(names: Vec<Name>) -> Self {
        names.into_iter().collect()
    }
}

impl FromIterator<Name> for Names {
    fn from_iter<I: IntoIterator<Item = Name>>(names: I) -> Self {
        let mut names = names.into_iter();
        match (names.next(), names.next()) {
            (Some(only), None) => only.into(),
            (first, second) => Self(List::Many(first.into_iter().chain(second).chain(names).collect(), None)),
        }
    }
}

/// Of names that are sorted, each once.
impl FromIterator<(Name, Mode)> for Names {
    fn from_iter<I: IntoIterator<Item = (Name, Mode)>>(wanted: I) -> Self {
        let mut wanted = wanted.into_iter();
        let (first, second) = match (wanted.next(), wanted.next()) {
            (Some((only, mode)), None) => return Self(List::One(only, mode)),
            others => others,
        };
        let all: Vec<_> = first.into_iter().chain(second).chain(wanted).collect();
        let is_shared = all.iter().any(|(_, mode)| *mode != Mode::Write);
        let modes = is_shared.then(|| all.iter().map(|(_, mode)| *mode).collect());
        Self(List::Many(all.into_iter().map(|(name, _)| name).collect(), modes))
    }
}

/// Whether the name is that of a pool.
pub fn is_pool(name: &[u8]) -> bool {
    name.first() == Some(&POOL)
}

/// The name without the mark of a pool, as the user gave it.
pub fn given(name: &[u8]) -> &[u8] {
    name.strip_prefix(&[POOL]).unwrap_or(name)
}

/// Several names in one text, joined by NUL. The NUL of a pool stands before it, as after an empty name.
pub fn joined(names: &[Name]) -> Vec<u8> {
    names.join(&POOL)
}

/// Reads what [`joined`] writes.
pub fn parted(text: &[u8]) -> Vec<Name> {
    let mut words = text.split(|byte| *byte == POOL);
    let pool = |name: &[u8]| [&[POOL], name].concat().into();
    std::iter::from_fn(|| match words.next()? {
        b"" => words.next().map(pool),
        name => Some(name.into()),
    })
    .collect()
}

/// The name of the pool that a user calls so.
pub fn pool(given: &[u8]) -> Result<Name, NameError> {
    check(given).map(|()| std::iter::once(POOL).chain(given.iter().copied()).collect())
}

/// The names of one lock, all to write: sorted and without repetition.
pub fn names<N: AsRef<[u8]>>(given: impl IntoIterator<Item = N>) -> Result<Names, NameError> {
    let mut given = given.into_iter().map(|name| checked(name.as_ref()));
    let first = given.next().ok_or(NameError::None)??;
    let Some(second) = given.next() else {
        return Ok(first.into());
    };
    let mut names = vec![first, second?];
    for name in given {
        names.push(name?);
    }
    names.sort_unstable();
    names.dedup();
    match names.len() {
        count if count > MOST_NAMES => Err(NameError::TooMany { count }),
        _ => Ok(names.into()),
    }
}

/// Permits of a pool that a lock wants.
#[derive(Clone, Debug)]
pub struct PermitsWanted<N> {
    pub pool: N,
    pub count: u32,
    pub limit: u32,
}

/// The names of one lock: those to write, those to read, and pools of permits. A name to read and to write is written.
pub fn wanted<N: AsRef<[u8]>>(
    write: impl IntoIterator<Item = N>,
    read: impl IntoIterator<Item = N>,
    permits: impl IntoIterator<Item = PermitsWanted<N>>,
) -> Result<Names, NameError> {
    let with = |mode| move |name: N| checked(name.as_ref()).map(|name| (name, mode));
    let mut all = write.into_iter().map(with(Mode::Write)).collect::<Result<Vec<_>, _>>()?;
    all.extend(read.into_iter().map(with(Mode::Read)).collect::<Result<Vec<_>, _>>()?);
    for wanted in permits {
        let (pool, mode) = permits_of(&wanted)?;
        if all.iter().any(|(known, _)| *known == pool) {
            return Err(NameError::Twice { pool: wanted.pool.as_ref().into() });
        }
        all.push((pool, mode));
    }
    all.sort_unstable();
    all.dedup_by(|next, before| next.0 == before.0);
    match all.len() {
        0 => Err(NameError::None),
        count if count > MOST_NAMES => Err(NameError::TooMany { count }),
        _ => Ok(all.into_iter().collect()),
    }
}

/// Permits of one pool, and no other names.
pub(crate) fn permits<N: AsRef<[u8]>>(wanted: &PermitsWanted<N>) -> Result<Names, NameError> {
    permits_of(wanted).map(|(pool, mode)| Names(List::One(pool, mode)))
}

fn permits_of<N: AsRef<[u8]>>(wanted: &PermitsWanted<N>) -> Result<(Name, Mode), NameError> {
    let PermitsWanted { pool: name, count, limit } = wanted;
    let (name, count, limit) = (name.as_ref(), *count, *limit);
    let (pool, largest) = (pool(name)?, limit.min(MOST_AT_ONCE));
    if limit == 0 || limit > MOST_PERMITS {
        return Err(NameError::Limit { pool: name.into(), limit });
    }
    if count == 0 || count > largest {
        return Err(NameError::Permits { pool: name.into(), count, largest });
    }
    Ok((pool, Mode::Permits { count, limit }))
}

fn checked(name: &[u8]) -> Result<Name, NameError> {
    check(name).map(|()| name.into())
}

fn check(name: &[u8]) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > LONGEST_NAME {
        return Err(NameError::TooLong { name: name.into() });
    }
    match name.iter().position(|byte| *byte == 0) {
        Some(at) => Err(NameError::Nul { name: name.into(), at }),
        None => Ok(()),
    }
}

/// Why names are not valid for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameError {
    None,
    TooMany { count: usize },
    Empty,
    TooLong { name: Box<[u8]> },
    Nul { name: Box<[u8]>, at: usize },
    Limit { pool: Box<[u8]>, limit: u32 },
    Permits { pool: Box<[u8]>, count: u32, largest: u32 },
    Twice { pool: Box<[u8]> },
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "a lock needs at least one name"),
            Self::TooMany { count } => write!(f, "{count} names for one lock: at most {MOST_NAMES} are possible"),
            Self::Empty => write!(f, "a lock's name is empty"),
            Self::TooLong { name } => {
                let length = name.len();
                write!(f, "the lock's name {} has {length} bytes: at most {LONGEST_NAME} are possible", shown(name))
            }
            Self::Nul { name, at } => write!(f, "the lock's name {} has a NUL at byte {at}", shown(name)),
            Self::Limit { pool, limit } => {
                write!(f, "the limit of the permits {} is {limit}: give 1 to {MOST_PERMITS}", shown(pool))
            }
            Self::Permits { pool, count, largest } => {
                write!(f, "{count} permits of {}: give 1 to {largest}", shown(pool))
            }
            Self::Twice { pool } => write!(f, "the permits {} are wanted twice: give their number once", shown(pool)),
        }
    }
}

impl std::error::Error for NameError {}

impl From<NameError> for InvalidArgument {
    fn from(error: NameError) -> Self {
        Self::new(ErrorKind::InvalidName, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(pool: &str, count: u32, limit: u32) -> [PermitsWanted<&str>; 1] {
        [PermitsWanted { pool, count, limit }]
    }

    #[test]
    fn names_are_sorted_with_their_modes() {
        let all = wanted(["b", "a"], ["c", "a"], permits("a", 2, 3)).unwrap();
        let of = |name: &str| all.mode_of(name.as_bytes());
        assert_eq!(
            [of("a"), of("b"), of("c"), of("d")],
            [Some(Mode::Write), Some(Mode::Write), Some(Mode::Read), None]
        );
        assert_eq!(of("\0a"), Some(Mode::Permits { count: 2, limit: 3 }), "a pool is no lock's name");
        assert!(all.is_sorted() && all.are_shared() && all.are_written());
        assert_eq!(wanted(["b", "a"], ["a"], []).unwrap(), names(["a", "b"]).unwrap());
        assert!(!wanted([], ["a"], []).unwrap().are_written());
    }

    #[test]
    fn names_are_turned_from_one_mode_to_the_other() {
        let all = wanted(["b", "a"], ["c", "d"], permits("a", 2, 3)).unwrap();
        let of =
            |names: &[&[u8]], mode| all.turned(&names.iter().map(|name| Name::from(*name)).collect::<Vec<_>>(), mode);
        assert_eq!(
            of(&[], Mode::Write),
            wanted(["a", "b", "c", "d"], [], permits("a", 2, 3)).map_err(|_| "".as_bytes().into())
        );
        assert_eq!(of(&[b"b"], Mode::Read).unwrap(), wanted(["a"], ["b", "c", "d"], permits("a", 2, 3)).unwrap());
        for (name, mode) in [("a", Mode::Write), ("c", Mode::Read), ("\0a", Mode::Read), ("e", Mode::Write)] {
            assert_eq!(of(&[name.as_bytes()], mode), Err(name.as_bytes().into()));
        }
    }

    #[test]
    fn names_in_one_text_are_told_apart() {
        for all in [wanted(["b", "a"], ["c"], permits("a", 1, 1)), wanted([], [], permits("a", 1, 1)), names(["x"])] {
            let all = all.unwrap();
            assert_eq!(parted(&joined(&all)), all.to_vec());
        }
    }

    #[test]
    fn what_no_lock_can_have_is_refused() {
        let text = |wanted: Result<Names, NameError>| wanted.unwrap_err().to_string();
        let none: [&str; 0] = [];
        assert_eq!(text(wanted(none, none, [])), "a lock needs at least one name");
        assert_eq!(text(wanted(none, ["a\0"], [])), "the lock's name \"a\\0\" has a NUL at byte 1");
        assert_eq!(text(wanted(none, none, permits("p", 4, 3))), "4 permits of \"p\": give 1 to 3");
        assert_eq!(text(wanted(none, none, permits("p", 0, 3))), "0 permits of \"p\": give 1 to 3");
        assert_eq!(text(wanted(none, none, permits("p", 1001, 5000))), "1001 permits of \"p\": give 1 to 1000");
        assert_eq!(
            text(wanted(none, none, permits("p", 1, 0))),
            "the limit of the permits \"p\" is 0: give 1 to 1000000"
        );
        let twice = permits("p", 1, 2).into_iter().chain(permits("p", 1, 2));
        assert_eq!(text(wanted(none, none, twice)), "the permits \"p\" are wanted twice: give their number once");
    }

    #[test]
    fn names_are_sorted_and_each_once() {
        let sorted = names(["b", "a", "b"]).unwrap();
        assert_eq!(sorted.iter().map(|name| &name[..]).collect::<Vec<_>>(), [b"a", b"b"]);
        assert_eq!(names((0..1000).map(|n| n.to_string())).unwrap().len(), 1000);
        assert_eq!(names([[255; 1024]]).unwrap().len(), 1);
    }

    #[test]
    fn an_impossible_name_is_named() {
        let text = |names: Result<Names, NameError>| names.unwrap_err().to_string();
        assert_eq!(text(names::<&str>([])), "a lock needs at least one name");
        assert_eq!(text(names(["a", ""])), "a lock's name is empty");
        assert_eq!(text(names((0..1001).map(|n| n.to_string()))), "1001 names for one lock: at most 1000 are possible");
        let long = format!("{}ä{}", "x".repeat(39), "y".repeat(1000));
        let start = "x".repeat(39);
        assert_eq!(
            text(names([long])),
            format!("the lock's name \"{start}...\" has 1041 bytes: at most 1024 are possible")
        );
        assert_eq!(text(names([b"\xff\0"])), "the lock's name \"\\xff\\x00\" has a NUL at byte 1");
    }
}
