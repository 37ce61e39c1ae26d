//! The stages of an attempt: from which to which it goes, and why. Debug builds compare every change of a stage with
//! this table, and so do the tests by random schedules. The drawing in `stages.md` is made from it.

use super::entry::Stage;

/// A [`Stage`] without what is known in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Lined,
    Asking,
    Queued,
    Refused,
    Held,
    Parked,
    Releasing,
    Cancelling,
    Lost,
    /// Forgotten.
    Gone,
}

/// What ends a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// No attempt of this process is ahead any more.
    Leads,
    Connected,
    Queued,
    Busy,
    NotNow,
    /// The server does not know the waiter.
    Unknown,
    Granted,
    /// Granted so long ago that the grant is to be confirmed.
    GrantedLate,
    /// Granted with a token that is not higher than an earlier one.
    Distrusted,
    /// Some of its names were released.
    Freed,
    /// The time has come to ask again.
    Due,
    Park,
    Release,
    HandOver,
    /// No answer came, or the server refused, so its caller waits no longer.
    Unanswered,
    Answered,
    GiveUp,
    Lose,
    Fail,
    /// Its calls, which might be on their way still, are not any more.
    Old,
}

/// From where, why, to where; and what is done on the way.
pub(super) const MOVES: &[(Name, Why, Name, &str)] = &[
    (Name::Lined, Why::Leads, Name::Asking, "ask"),
    (Name::Lined, Why::Fail, Name::Gone, "tell"),
    (Name::Lined, Why::GiveUp, Name::Gone, ""),
    (Name::Asking, Why::Connected, Name::Asking, "ask"),
    (Name::Asking, Why::Queued, Name::Queued, ""),
    (Name::Asking, Why::Busy, Name::Refused, ""),
    (Name::Asking, Why::NotNow, Name::Refused, ""),
    (Name::Asking, Why::Unknown, Name::Asking, "ask"),
    (Name::Asking, Why::Granted, Name::Held, "tell"),
    (Name::Asking, Why::GrantedLate, Name::Queued, "poll"),
    (Name::Asking, Why::Distrusted, Name::Asking, "ask as another attempt"),
    (Name::Asking, Why::GiveUp, Name::Cancelling, "unlock"),
    (Name::Asking, Why::GiveUp, Name::Gone, ""),
    (Name::Asking, Why::Fail, Name::Gone, "tell"),
    (Name::Queued, Why::Connected, Name::Queued, "unpark"),
    (Name::Queued, Why::Connected, Name::Asking, "ask as another attempt"),
    (Name::Queued, Why::Queued, Name::Queued, ""),
    (Name::Queued, Why::Busy, Name::Refused, ""),
    (Name::Queued, Why::NotNow, Name::Refused, ""),
    (Name::Queued, Why::Unknown, Name::Asking, "ask"),
    (Name::Queued, Why::Granted, Name::Held, "tell"),
    (Name::Queued, Why::GrantedLate, Name::Queued, "poll"),
    (Name::Queued, Why::Distrusted, Name::Asking, "ask as another attempt"),
    (Name::Queued, Why::GiveUp, Name::Cancelling, "unlock"),
    (Name::Queued, Why::Fail, Name::Gone, "tell"),
    (Name::Refused, Why::Freed, Name::Asking, "ask"),
    (Name::Refused, Why::Due, Name::Asking, "ask"),
    (Name::Refused, Why::Due, Name::Queued, "unpark"),
    (Name::Refused, Why::GiveUp, Name::Cancelling, "unlock"),
    (Name::Refused, Why::GiveUp, Name::Gone, ""),
    (Name::Refused, Why::Fail, Name::Gone, "tell"),
    (Name::Held, Why::Park, Name::Parked, "park"),
    (Name::Held, Why::Release, Name::Releasing, "unlock"),
    (Name::Held, Why::Release, Name::Cancelling, "tell"),
    (Name::Held, Why::HandOver, Name::Gone, "tell"),
    (Name::Held, Why::GiveUp, Name::Cancelling, "unlock"),
    (Name::Held, Why::Lose, Name::Lost, "tell"),
    (Name::Parked, Why::Connected, Name::Asking, "ask as another attempt"),
    (Name::Parked, Why::Busy, Name::Refused, ""),
    (Name::Parked, Why::Unknown, Name::Asking, "ask"),
    (Name::Parked, Why::Granted, Name::Held, "tell"),
    (Name::Parked, Why::GrantedLate, Name::Parked, "poll"),
    (Name::Parked, Why::Distrusted, Name::Asking, "ask as another attempt"),
    (Name::Parked, Why::Due, Name::Queued, "unpark"),
    (Name::Parked, Why::GiveUp, Name::Cancelling, "unlock"),
    (Name::Parked, Why::Fail, Name::Gone, "tell"),
    (Name::Releasing, Why::Answered, Name::Gone, "tell"),
    (Name::Releasing, Why::Unanswered, Name::Cancelling, "tell"),
    (Name::Releasing, Why::GiveUp, Name::Cancelling, ""),
    (Name::Cancelling, Why::GiveUp, Name::Cancelling, ""),
    (Name::Cancelling, Why::Answered, Name::Gone, ""),
    (Name::Cancelling, Why::Old, Name::Gone, ""),
    (Name::Lost, Why::Release, Name::Gone, "tell"),
    (Name::Lost, Why::GiveUp, Name::Gone, ""),
];

impl Stage {
    pub(super) fn name(&self) -> Name {
        match self {
            Self::Lined => Name::Lined,
            Self::Asking(_) => Name::Asking,
            Self::Queued { .. } => Name::Queued,
            Self::Refused { .. } => Name::Refused,
            Self::Held(_) => Name::Held,
            Self::Parked { .. } => Name::Parked,
            Self::Releasing { .. } => Name::Releasing,
            Self::Cancelling { .. } => Name::Cancelling,
            Self::Lost => Name::Lost,
        }
    }

    /// Ends this stage. The next one follows.
    pub(super) fn turn(&mut self, why: Why, next: Stage) {
        self.ends(why, next.name());
        *self = next;
    }

    /// Compares the end of this stage with the table.
    pub(super) fn ends(&self, why: Why, next: Name) {
        let is_known = || MOVES.iter().any(|(from, of, to, _)| (*from, *of, *to) == (self.name(), why, next));
        debug_assert!(is_known(), "{:?} ends by {why:?} in {next:?}", self.name());
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::path::Path;

    use super::*;

    const DRAWING: &str = include_str!("stages.md");

    /// The table as a drawing, as GitHub shows it.
    fn drawn() -> String {
        let mut drawing = String::from(
            "# The stages of an attempt\n\nMade from the table in [stages.rs](stages.rs): `PINYON_WRITE_TABLES=1 cargo test \
             -p pinyon-locks stages` writes it.\n\n```mermaid\nstateDiagram-v2\n    [*] --> Lined\n",
        );
        for (from, why, to, action) in MOVES {
            let to = if *to == Name::Gone { "[*]".to_owned() } else { format!("{to:?}") };
            let action = if action.is_empty() { String::new() } else { format!(", {action}") };
            writeln!(drawing, "    {from:?} --> {to}: {why:?}{action}").unwrap();
        }
        drawing + "```\n"
    }

    #[test]
    fn the_drawing_shows_the_table() {
        if std::env::var_os("PINYON_WRITE_TABLES").is_some() {
            let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/machine/stages.md");
            return std::fs::write(page, drawn()).unwrap();
        }
        assert_eq!(drawn(), DRAWING);
    }

    #[test]
    fn each_move_is_listed_once() {
        for (at, one) in MOVES.iter().enumerate() {
            let is_same = |other: &&(Name, Why, Name, &str)| (one.0, one.1, one.2) == (other.0, other.1, other.2);
            assert!(!MOVES[..at].iter().any(|other| is_same(&other)), "{one:?}");
        }
    }
}
