//! Tags: handles that C makes of names, and those that the steps of a maker lend to its requests.

use std::sync::Arc;

use pinyon_cache::operations::{Change, ReadTags, SentData, SentKey, Single, Tagging, Values};
use pinyon_cache::tags::KnownTags;

use crate::client::{Client, View};
use crate::errors::{Error, Failure};
use crate::exported::exported;
use crate::guard::free;
use crate::requests::Verb;
use crate::structs::{missing, names_of, Bytes, Request};

/// Tags of values, which never change.
#[derive(Clone, Debug)]
pub struct Tags {
    tagging: Tagging,
    /// Whether a step of a maker has them, whose requests ask for leases, too.
    is_of_step: bool,
    known: Arc<KnownTags>,
}

impl Tags {
    fn new(client: &Client, names: &[&[u8]]) -> Result<Self, Error> {
        let known = client.shared.directory.tags();
        let tags = pinyon_cache::operations::Tags::new(known.map(Arc::as_ref), names.iter().copied())?;
        let Some(known) = known else { return Err(Failure::internal()) };
        Ok(Self { tagging: Tagging::Named(tags), is_of_step: false, known: known.clone() })
    }

    /// The same for the steps of a maker; `None`: there are no names.
    pub fn of_steps(&self) -> Option<Self> {
        match &self.tagging {
            Tagging::Named(names) if names.is_empty() => None,
            tagging => Some(Self { tagging: tagging.clone(), is_of_step: true, known: self.known.clone() }),
        }
    }

    /// The same, to read nothing else.
    pub fn alone(&self) -> Self {
        Self { tagging: self.tagging.clone().alone(), ..self.clone() }
    }

    /// Tags as they were read.
    pub fn read(view: &View, tags: ReadTags) -> Option<Self> {
        let known = view.shared.directory.tags()?.clone();
        Some(Self { tagging: Tagging::Read(tags), is_of_step: true, known })
    }

    pub fn is_of_step(&self) -> bool {
        self.is_of_step
    }

    /// The names, if they are to be read.
    pub fn named(&self) -> Option<&pinyon_cache::operations::Tags> {
        match &self.tagging {
            Tagging::Named(names) => Some(names),
            _ => None,
        }
    }

    /// Whether a request with them asks for nothing else.
    pub fn are_alone(&self) -> bool {
        matches!(self.tagging, Tagging::Alone(_))
    }

    pub fn tagging(&self) -> Tagging {
        self.tagging.clone()
    }

    pub fn known(&self) -> &Arc<KnownTags> {
        &self.known
    }

    #[cold]
    fn check_taken(&self, view: &View, verb: Verb) -> Result<(), Error> {
        match verb {
            Verb::Set | Verb::Add | Verb::Replace => self.check_of(view),
            Verb::Lease if self.is_of_step => self.check_of(view),
            _ => Err(Failure::usage(
                "this request takes no tags: PINYON_SET, PINYON_ADD, PINYON_REPLACE and PINYON_INVALIDATE_TAGS do, and terms",
            )),
        }
    }

    /// Their keys are formed with the namespace of one client.
    pub fn check_of(&self, view: &View) -> Result<(), Error> {
        match view.shared.directory.tags().is_some_and(|known| Arc::ptr_eq(known, &self.known)) {
            true => Ok(()),
            false => Err(Failure::usage("these tags are of another client: make them with this one (pinyon_tags_new)")),
        }
    }
}

impl Request {
    /// # Safety
    /// The tags live for the lifetime.
    #[inline]
    pub unsafe fn tags<'t>(&self) -> Option<&'t Tags> {
        // SAFETY: the caller's tags live for the lifetime, or are null.
        unsafe { self.tags.cast::<Tags>().as_ref() }
    }

    /// The tags, unless the request takes none, or they are of another client. Each driver asks here before it begins a
    /// request, and nowhere else, so that a request without tags costs one test.
    ///
    /// # Safety
    /// The tags live for the lifetime.
    #[inline]
    pub unsafe fn taken_tags<'t>(&self, view: &View, verb: Verb) -> Result<Option<&'t Tags>, Error> {
        // SAFETY: the caller's tags live for the lifetime, or are null.
        match unsafe { self.tags() } {
            None => Ok(None),
            Some(tags) => tags.check_taken(view, verb).map(|()| Some(tags)),
        }
    }

    /// Has a request of the core's store a value with the [tags](Self::taken_tags) of this one, or read them for one.
    ///
    /// # Safety
    /// The tags live.
    #[inline]
    pub unsafe fn tag<K: SentKey, D: SentData, V: Values>(
        &self,
        view: &View,
        verb: Verb,
        single: &mut Single<K, D, V>,
    ) -> Result<(), Error> {
        // SAFETY: the caller's tags live, or are null.
        if let Some(tags) = unsafe { self.taken_tags(view, verb)? } {
            single.tag(Some(tags.tagging()));
        }
        Ok(())
    }

    /// What invalidates the tags of this request.
    ///
    /// # Safety
    /// The tags live.
    pub unsafe fn invalidated(&self, view: &View) -> Result<(&Arc<KnownTags>, &pinyon_cache::operations::Tags), Error> {
        // SAFETY: the caller's tags live, or are null.
        let tags = unsafe { self.tags() }.ok_or_else(|| missing("pinyon_tags in the request"))?;
        tags.check_of(view)?;
        let names = tags.named().ok_or_else(|| Failure::usage("tags of a step cannot be invalidated"))?;
        Ok((&tags.known, names))
    }

    /// The core's operation for [`Self::invalidated`].
    ///
    /// # Safety
    /// The tags live.
    #[cold]
    pub unsafe fn invalidation<D: SentData>(&self, view: &View) -> Result<Change<D>, Error> {
        // SAFETY: the caller's tags live, or are null.
        let (known, names) = unsafe { self.invalidated(view)? };
        Ok(Change::invalidate(known, names))
    }
}

exported! {
    fn pinyon_tags_new(client: &Client, names: *const Bytes, count: usize) -> Result<*mut Tags> {
        Tags::new(client, &names_of(names, count)?)
    }

    fn pinyon_tags_free(tags: *mut Tags) { free(tags) }
}
