//! Takes names away from their holders.

use super::{parts, Acts, Pure, Then};
use crate::call::{Holder, Names, ScriptAnswer};

impl Pure {
    pub(super) fn force_release(
        &self,
        names: &Names,
        token: Option<u64>,
        holders: &[Option<Holder>],
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
            // A value that is no string is not seen before it is deleted.
            let deleted = acts.commands.len();
            self.delete(names.to_vec(), acts);
            return Then::Deleted(deleted);
        }
        let released = self.delete(taken.into_iter().map(|(name, _)| name.clone()).collect(), acts);
        Then::ScriptAnswer(ScriptAnswer::ForceReleased { released })
    }
}
