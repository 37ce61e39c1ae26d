//! Values with tags, and what invalidates them.

use std::sync::Arc;

use magnus::value::ReprValue;
use magnus::{method, Error, Module, RArray, RClass, Ruby, Value};
use pinyon_cache::calls::Gives;
use pinyon_cache::operations::{Change, Mode, Tagging, Tags};
use pinyon_cache::tags::KnownTags;

use super::{many, Cache, Returned, Storing};
use crate::errors::checked;
use crate::settings;

pub(super) fn define(class: RClass) -> Result<(), Error> {
    class.define_method("invalidate_tags", method!(Cache::invalidate_tags, 1))
}

impl Cache {
    /// Stores a value with tags.
    #[cold]
    #[inline(never)]
    pub(super) fn store_tagged(
        &self,
        ruby: &Ruby,
        (mode, cas): (Mode, Option<u64>),
        key: Value,
        value: Value,
        ttl: Value,
        tags: Value,
    ) -> Returned {
        let tags = self.tagging(ruby, tags)?;
        let storing = Storing { mode, cas, returns_cas: false, tags: tags.as_ref() };
        self.store_as(ruby, storing, key, value, ttl)
    }

    /// Those of a migrating client are in its new pool.
    fn invalidate_tags(ruby: &Ruby, this: &Self, tags: RArray) -> Returned {
        this.check_open(ruby)?;
        let (texts, known) = (settings::tags(ruby, tags.as_value())?, this.known_tags());
        let names = checked(ruby, Tags::new(known, texts.0.iter().map(Vec::as_slice)))?;
        let Some(known) = known else { unreachable!("the names were formed by it") };
        let change = this.carry_out(ruby, Change::<Option<Vec<u8>>>::invalidate(known, &names))?;
        many::changed(ruby, ruby.ary_new(), change.finish(), Gives::Nothing)
    }

    /// The tags that a caller gives: a name, or what has names; or nil.
    pub(super) fn tagging(&self, ruby: &Ruby, given: Value) -> Result<Option<Tagging>, Error> {
        checked(ruby, settings::tags(ruby, given)?.tagging(self.known_tags()))
    }

    fn known_tags(&self) -> Option<&KnownTags> {
        self.directory.tags().map(Arc::as_ref)
    }
}
