//! Takes names away from their holders.

use std::collections::BTreeSet;

use pinyon_proto::resp::Value;

use super::shared::{attempt_in, members};
use super::{parts, Acts, Pure, Then};
use crate::call::{Attempt, Holder, Names, ScriptAnswer};

impl Pure {
    pub(super) fn force_release(
        &self,
        names: &Names,
        token: Option<u64>,
        (holders, sets): (&[Option<Holder>], &[Value]),
        acts: &mut Acts,
    ) -> Then {
        let taken = names
            .iter()
            .zip(holders)
            .filter(|(_, holder)| holder.as_ref().is_some_and(|holder| token.is_none() || holder.token == token));
        let taken: Vec<_> = taken.collect();
        for (_, holder) in &taken {
            let Some(Holder { attempt, .. }) = holder else { continue };
            if attempt.is_foreign() {
                continue;
            }
            let message = format!("l {attempt}");
            acts.messages.push(parts(&[b"PUBLISH", &self.keys.channel(&attempt.client), message.as_bytes()]));
        }
        if token.is_none() {
            let sharing: BTreeSet<Attempt> =
                sets.iter().flat_map(members).filter_map(|(member, _)| attempt_in(member)).collect();
            for attempt in sharing {
                let message = format!("l {attempt}");
                acts.messages.push(parts(&[b"PUBLISH", &self.keys.channel(&attempt.client), message.as_bytes()]));
            }
            // Another value that is no string is not seen before it is deleted.
            let deleted = acts.commands.len();
            self.delete(names.to_vec(), acts);
            return Then::Deleted(deleted);
        }
        let released = self.delete(taken.into_iter().map(|(name, _)| name.clone()).collect(), acts);
        Then::ScriptAnswer(ScriptAnswer::ForceReleased { released })
    }
}
