//! Tags that many values have: they are read once for all values that are stored with them.

use pinyon_cache::blocking;
use pinyon_cache::operations::{Answer, AsBytes, BorrowedKey, ReadTags, Request, Single, Tagging};

use crate::client::View;
use crate::host::{Host, Interrupted};
use crate::requests::LEASE;
use crate::tags::Tags;

/// What was read of tags, by their handles.
#[derive(Default)]
pub struct TagsOfMany<'t>(Vec<(&'t Tags, Option<ReadTags>)>);

impl<'t> TagsOfMany<'t> {
    /// How to store a value with these tags. If they cannot be read, each value tries it, and fails by itself. `key`: any.
    #[cold]
    pub fn tagging(
        &mut self,
        view: &View,
        tags: &'t Tags,
        key: BorrowedKey<'_>,
        host: &Host,
    ) -> Result<Tagging, Interrupted> {
        let Some(to_read) = tags.of_steps().filter(|tags| tags.named().is_some()) else { return Ok(tags.tagging()) };
        if tags.is_of_step() {
            return Ok(tags.tagging());
        }
        let known = self.0.iter().find(|(known, _)| std::ptr::eq(*known, tags));
        let read = match known {
            Some((_, read)) => read.clone(),
            None => {
                let read = read(view, &to_read.alone(), key, host)?;
                self.0.push((tags, read.clone()));
                read
            }
        };
        Ok(read.map_or_else(|| tags.tagging(), Tagging::Read))
    }
}

fn read(view: &View, tags: &Tags, key: BorrowedKey<'_>, host: &Host) -> Result<Option<ReadTags>, Interrupted> {
    let request = Request::Lease { lease: LEASE as i32, recache: 0 };
    let data: Option<Vec<u8>> = None;
    let mut single = Single::new(request, key, data, AsBytes, view.policy).with_tags(Some(tags.tagging()));
    blocking::run(&view.shared.directory, host, &mut single)?;
    match single.take_answer() {
        Ok(Answer::Lease(found)) => Ok(found.tags.given),
        _ => Ok(None),
    }
}
