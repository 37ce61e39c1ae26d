//! What follows from the answers of the servers.

use crate::call::{Attempt, Holder, Inspected};
use crate::quorum::polls::{merged, verdict, Unknown};

/// The token of a holder with whose lock the servers that have answered stored these. `None` while others decide.
fn token(stored: &[u64], pending: usize) -> Option<u64> {
    let inspected = |token: &u64| {
        let attempt = Attempt { client: "client".into(), owner: 1, number: 1 };
        let holder = Some(Holder { attempt, token: Some(*token) });
        Inspected {
            holder,
            sharing: Vec::new(),
            permits: None,
            pttl: None,
            age: None,
            waiting: Vec::new(),
            ..Inspected::default()
        }
    };
    let each: Vec<Inspected> = stored.iter().map(inspected).collect();
    merged(&each.iter().collect::<Vec<_>>(), 3, pending)?.holder?.token
}

/// The servers that granted a lock last may have stored a higher token than the majority.
#[test]
fn a_token_is_what_a_majority_has_stored() {
    assert_eq!(token(&[7, 7, 7], 2), Some(7));
    assert_eq!(token(&[8, 7, 9], 2), None);
    assert_eq!(token(&[8, 7, 9, 7], 1), None);
    assert_eq!(token(&[8, 7, 9, 7, 7], 0), Some(7));
    assert_eq!(token(&[9, 8, 7], 0), Some(7), "the others are down");
}

/// A member that has failed may have held it, whether its failure came before the others' answers or after them.
#[test]
fn what_was_decided_no_later_answer_changes() {
    for (members, majority) in [(3, 2), (5, 3), (7, 4)] {
        let all = || (0..=members).flat_map(|held| (0..=members - held).map(move |unknown| (held, unknown)));
        for (held, unknown) in all() {
            let last = verdict(held, unknown, 0, majority).expect("nothing is pending");
            let expected = match held {
                _ if held >= majority => Ok(true),
                _ if held + unknown < majority => Ok(false),
                _ => Err(Unknown),
            };
            assert_eq!(last, expected, "{held} held it, {unknown} failed, of {members}");
            // The same with some of these answers still to come.
            for (sooner, failed) in all().filter(|(sooner, failed)| *sooner <= held && *failed <= unknown) {
                let pending = (held - sooner) + (unknown - failed);
                let early = verdict(sooner, failed, pending, majority);
                assert!(
                    early.is_none_or(|early| early == last),
                    "{sooner} of {held}, {failed} of {unknown}: {early:?}"
                );
            }
        }
    }
}
