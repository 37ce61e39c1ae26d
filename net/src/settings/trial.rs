//! What tests of settings share.

use super::{Given, NamedSettings};
use crate::error::kinds::ErrorKind;
use crate::invalid::InvalidArgument;

pub type Named<'a> = &'a [(&'a str, Given<'a>)];

/// Settings with these values.
pub fn filled<S: NamedSettings>(named: Named<'_>) -> Result<S, InvalidArgument> {
    let mut settings = S::default();
    named.iter().try_for_each(|(name, given)| settings.set(name, given.clone()))?;
    Ok(settings)
}

/// Each row: the settings, the kind of error, and the beginning of its message.
pub fn assert_refused<T>(
    build: impl Fn(Named<'_>) -> Result<T, InvalidArgument>,
    rows: &[(Named<'_>, ErrorKind, &str)],
) {
    for (named, kind, message) in rows {
        let refused = build(named).err().unwrap_or_else(|| panic!("taken, but should be: {message}"));
        assert_eq!(refused.kind, *kind, "{}", refused.message);
        assert!(refused.message.starts_with(message), "{}\nshould be: {message}", refused.message);
    }
}

/// A table takes what it hands out, by the same names.
pub fn assert_hands_out_what_it_holds<S: NamedSettings>() {
    let mut settings = S::default();
    let defaults = S::default();
    for (name, value) in defaults.values() {
        settings.set(name, value).unwrap();
    }
    let names: Vec<_> = settings.values().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, S::NAMES);
    assert!(names.len() > 1);
}

/// Each hint names settings that exist, or says that none is needed; and no setting needs a hint.
pub fn assert_hints_help<S: NamedSettings>() {
    let known = || S::NAMES.iter().chain(S::OF_HOSTS);
    for (names, hint) in S::ELSEWHERE {
        match hint.split('"').nth(1) {
            Some(quoted) => assert!(known().any(|name| *name == quoted), "{hint}"),
            None => assert!(hint.starts_with("leave it out: "), "{hint}"),
        }
        for name in *names {
            let refused = S::default().set(name, Given::Nothing).unwrap_err();
            assert_eq!(refused.message, format!("there is no setting {name:?}: {hint}"));
        }
    }
}
