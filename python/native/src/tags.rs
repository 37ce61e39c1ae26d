//! The tags of values, as Python gives them.

use std::sync::Arc;

use pinyon_cache::directory::Directory;
use pinyon_cache::operations::{Tagging, Tags as Names};
use pinyon_cache::settings::TagTexts;
use pinyon_cache::tags::KnownTags;
use pinyon_net::settings::Setting;
use pyo3::prelude::*;

use crate::errors::checked;
use crate::settings::{listed, read};

/// Tags to store a value with, or to ask for a lease with. `get_or_set` passes them from one step to the next.
#[pyclass(frozen, module = "pinyon._native")]
pub(crate) struct Tags(pub(crate) Tagging);

/// The tags that a caller gives: names, or those of a step of `get_or_set`.
#[cold]
pub(crate) fn tagging(directory: &Directory, given: &Bound<'_, PyAny>) -> PyResult<Option<Tagging>> {
    if let Ok(tags) = given.cast::<Tags>() {
        return Ok(Some(tags.get().0.clone()));
    }
    let py = given.py();
    let given = listed(given.clone())?;
    let texts = checked(py, TagTexts::read("tags", read("tag", &given)?))?;
    checked(py, texts.tagging(directory.tags().map(Arc::as_ref)))
}

/// Tags to invalidate, and what the client knows of them.
pub(crate) fn named<'d>(
    directory: &'d Directory,
    given: &Bound<'_, PyAny>,
) -> PyResult<(Option<&'d KnownTags>, Names)> {
    let py = given.py();
    let texts = checked(py, TagTexts::read("tags", read("tag", &listed(given.clone())?)?))?;
    let known = directory.tags().map(Arc::as_ref);
    let names = checked(py, Names::new(known, texts.0.iter().map(Vec::as_slice)))?;
    Ok((known, names))
}
