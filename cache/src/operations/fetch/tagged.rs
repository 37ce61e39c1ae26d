//! The part of reading many keys that concerns tags: values with tags are kept until these are known.

use std::sync::Arc;
use std::time::Instant;

use super::{refuse, Fetch, FoundKey, Part, Unreadable};
use crate::fleet::Fleet;
use crate::operations::tagging::{AskedTags, KeptReply, Worth};
use crate::operations::values::Values;
use crate::operations::{Ask, End, Next};
use crate::session::Reply;
use crate::tags::KnownTags;
use pinyon_net::error::Error;

/// The tags of values that were read.
#[derive(Default)]
pub(super) struct Tagged {
    pub(super) asked: AskedTags,
    known: Option<Arc<KnownTags>>,
    /// The replies, with the indexes of their keys.
    kept: Vec<(u32, KeptReply)>,
}

impl<V: Values> Fetch<V> {
    /// Keeps a value with tags until they are known.
    #[cold]
    pub(super) fn keep(&mut self, key: u32, reply: Reply<'_>) {
        let tagged = self.tagged.get_or_insert_default();
        tagged.kept.push((key, KeptReply::new(reply)));
    }

    /// Forgets the replies to a request that failed.
    pub(super) fn forget_kept(&mut self, keys: &[u32]) {
        self.tagged.iter_mut().for_each(|tagged| tagged.kept.retain(|(key, _)| !keys.contains(key)));
    }

    /// Whether the next `begin` has something to do about tags.
    pub(super) fn keeps_some(&self) -> bool {
        self.tagged.as_ref().is_some_and(|tagged| !tagged.kept.is_empty() && !tagged.asked.is_open())
    }

    /// Asks for tags. Takes the values whose tags are known.
    #[cold]
    pub(super) fn begin_tags(&mut self, fleet: &Fleet, now: Instant, asks: &mut Vec<Ask>) {
        let Some(mut tagged) = self.tagged.take() else { return };
        let parts = &mut self.parts;
        if self.failures.policy().tagged_is_miss {
            tagged.kept.retain(|(_, kept)| kept.header().is_none());
        }
        if let Some(known) = fleet.tags() {
            tagged.known = Some(known.clone());
            let headers = tagged.kept.iter().filter_map(|(_, kept)| kept.header());
            headers.for_each(|header| tagged.asked.add_of(&header, known));
            tagged.asked.begin(fleet, known, now, asks, |tag| {
                parts.push(Part { tag: Some(tag), ..Part::default() });
                parts.len() as u32 - 1
            });
        }
        if !tagged.asked.is_open() {
            let has_tags = tagged.known.is_some();
            let kept = std::mem::take(&mut tagged.kept);
            kept.into_iter().for_each(|(key, kept)| self.take_kept(&tagged.asked, key, kept, has_tags));
        }
        self.tagged = Some(tagged);
    }

    fn take_kept(&mut self, asked: &AskedTags, key: u32, kept: KeptReply, has_tags: bool) {
        let worth = kept.header().filter(|_| has_tags).map_or(Worth::Valid, |header| asked.worth(&header));
        match worth {
            Worth::Invalid => {}
            // Another server has the key now, which knows nothing of tags either.
            Worth::Unknown(_) if self.policy().failover => {}
            Worth::Unknown(error) => self.fail_key(key, error.reading(true)),
            Worth::Valid => {
                let (index, cas) = (key as usize, kept.head.item.cas.filter(|_| self.cas));
                let values = &self.values;
                match kept.read(has_tags, |reply| values.read_of(index, reply.head, reply.value, reply.server)) {
                    Ok(value) => self.found.push(FoundKey { index, value, cas }),
                    Err(error) => drop(self.unreadable.get_or_insert(Unreadable { index, error })),
                }
            }
        }
    }

    fn fail_key(&mut self, key: u32, error: Error) {
        refuse(&mut self.unanswered, key, &error);
        self.failures.note(error);
    }

    /// Takes the reply to an ask for a tag, which has no keys.
    #[cold]
    pub(super) fn reply_of_tag(&mut self, tag: Option<u32>, reply: &Reply<'_>) {
        if let (Some(tag), Some(tagged)) = (tag, &mut self.tagged) {
            tagged.asked.reply(tag, reply);
        }
    }

    /// Takes the end of an ask for a tag.
    #[cold]
    pub(super) fn over_tag(&mut self, tag: u32, end: End) -> Next {
        let Some(tagged) = &mut self.tagged else { unreachable!("it asks for tags") };
        tagged.asked.over(tag, end, tagged.known.as_deref())
    }
}
