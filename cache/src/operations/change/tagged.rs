//! The part of changing many keys that concerns tags: values that are stored with tags, and tags that are invalidated.

use std::sync::Arc;
use std::time::Instant;

use pinyon_proto::Generation;

use super::{Change, What};
use crate::calls;
use crate::fleet::Fleet;
use crate::operations::keys::Keys;
use crate::operations::tagging::AskedTags;
use crate::operations::values::SentData;
use crate::operations::{Asks, End, Next, Policy, ReadTags, Tagging, Tags};
use crate::session::Data;
use crate::tags::{KnownTags, Question, NO_TAGS};
use pinyon_net::error::{Error, Kind, Sent};

/// Tags of values that are stored.
pub(super) struct Tagged {
    pub(super) asked: AskedTags,
    /// The tags, until they are read.
    names: Option<Tags>,
    /// What stands before each value.
    tags: Option<ReadTags>,
    known: Option<Arc<KnownTags>>,
}

/// A tag that gets a new generation.
pub(super) struct Invalidated {
    name: Box<[u8]>,
    generation: Generation,
    pub(super) text: Vec<u8>,
    question: Question,
}

impl<D: SentData> Change<D> {
    /// Invalidates tags. Its outcome is an error, or that all servers have confirmed it. It is not forgiven if one has not:
    /// the values of its tags would go on to be read.
    pub fn invalidate(known: &KnownTags, tags: &Tags) -> Self {
        let mut keys = Keys::with_capacity(tags.iter().len());
        let mut invalidated = Vec::with_capacity(tags.iter().len());
        for tag in tags.iter() {
            keys.push_formed(&tag.key);
            let (generation, question) = (known.new_generation(), known.invalidating(&tag.name));
            let text = generation.text().to_vec();
            invalidated.push(Invalidated { name: tag.name.clone(), generation, text, question });
        }
        let nothing_is_forgiven = Policy { failover: false, miss: false, ..Policy::default() };
        let alone = (0..keys.len() as u32).collect();
        let name = calls::INVALIDATE_TAGS.name;
        // None is sent twice: in between, another process may have invalidated the tag once more.
        Self { alone, ..Self::new(keys, What::Invalidate(invalidated), name, nothing_is_forgiven) }
    }

    /// The same for values that are stored with tags.
    pub fn with_tags(mut self, tags: Option<Tagging>) -> Self {
        let (asked, known) = (AskedTags::default(), None);
        self.tagged = match tags {
            None | Some(Tagging::Alone(_)) => None,
            Some(Tagging::Named(names)) if names.is_empty() => None,
            Some(Tagging::Read(tags)) => Some(Tagged { asked, names: None, tags: Some(tags), known }.into()),
            Some(Tagging::Named(names)) => {
                let mut tagged = Tagged { asked, names: None, tags: None, known };
                names.iter().for_each(|tag| tagged.asked.add(tag.clone(), true));
                tagged.names = Some(names);
                Some(tagged.into())
            }
        };
        self
    }

    /// Asks for tags that are to be read first. `None`: they are known.
    #[cold]
    pub(super) fn begin_tags(&mut self, fleet: &Fleet, now: Instant) -> Option<Asks> {
        let tagged = self.tagged.as_mut()?;
        let names = tagged.names.as_ref()?;
        let Some(known) = fleet.tags() else {
            return self.end(Error::new(Kind::Usage, &"".into(), NO_TAGS).of("", Sent::No));
        };
        tagged.known = Some(known.clone());
        let (mut asks, first) = (Vec::new(), self.keys.len() as u32);
        tagged.asked.begin(fleet, known, now, &mut asks, |tag| first + tag);
        if !asks.is_empty() || tagged.asked.is_open() {
            return Some(Asks::of(asks));
        }
        match tagged.asked.header(names) {
            Err(error) => self.end(error),
            Ok(tags) => {
                (tagged.names, tagged.tags) = (None, Some(tags));
                None
            }
        }
    }

    fn end(&mut self, error: Error) -> Option<Asks> {
        self.wanted.clear();
        self.failures.note(error);
        Some(Asks::None)
    }

    /// The tag's ask that a part is, behind those of the keys.
    pub(super) fn of_tag(&self, part: u32) -> Option<u32> {
        part.checked_sub(self.keys.len() as u32)
    }

    pub(super) fn tagged(&mut self) -> &mut Tagged {
        self.tagged.as_mut().unwrap_or_else(|| unreachable!("it asks for tags"))
    }

    /// The data with the tags before it.
    #[cold]
    pub(super) fn with_tags_before(&self, data: &Data<'_>) -> Option<(ReadTags, Vec<u8>)> {
        let tags = self.tagged.as_ref()?.tags.clone()?;
        let bytes = match data {
            Data::None => &[],
            Data::Copied(bytes) => *bytes,
            Data::Shared(bytes) => (**bytes).as_ref(),
        };
        let block = [tags.bytes(), bytes].concat();
        Some((tags, block))
    }
}

impl Tagged {
    pub(super) fn over(&mut self, tag: u32, end: End) -> Next {
        self.asked.over(tag, end, self.known.as_deref())
    }
}

impl Invalidated {
    /// Takes note of what became of it.
    pub(super) fn over(&self, known: &KnownTags, is_done: bool) {
        known.invalidated(&self.name, &self.question, is_done.then_some(self.generation));
    }
}
