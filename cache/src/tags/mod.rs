//! Tags: groups of values that are invalidated together, wherever they lie.
//!
//! A tag has a generation: the value of an item of its own, `!tag:` and the name, in the client's namespace. A value with
//! tags is stored behind a header with the generations that its tags had, and is marked by a client flag ([`TAGGED`]). To
//! invalidate a tag is to replace its generation. A value counts only while all its generations are still those of its
//! tags. They are compared for equality, so no clock is, and none ever comes back. A tag without an item, as after an
//! eviction, has no generation: then the value is missing.
//!
//! A generation that was heard is used for a time without asking ([`KnownTags`]). An operation that reads a value with
//! other tags asks for them before it is over; the session, the drivers and the hosts know nothing of tags.
//!
//! Other clients do not know the flag. Pinyon of before the tags and clients that check flags refuse such a value. Clients
//! that ignore flags return it with its header, whose first byte begins no text.

mod header;
mod known;
#[cfg(test)]
mod tests;

pub(crate) use header::Header;
pub use known::KnownTags;
pub(crate) use known::Question;

use pinyon_net::invalid::InvalidArgument;

/// The client flag of a value behind a header of tags. Only Pinyon's own dialect has it.
pub const TAGGED: u32 = 1 << 14;

/// The item with the generation of a tag: this and the name, as a key of the client.
pub const TAG_KEY: &[u8] = b"!tag:";

/// The most tags of a value.
pub const MOST_TAGS: usize = 64;

/// The most bytes of a tag's name.
pub const LONGEST_TAG: usize = 255;

/// Why a client has no tags.
pub(crate) const NO_TAGS: &str = "tags need the dialect \"pinyon\": values of other clients have no place for them";

/// Sorts the names of tags. Refuses those that no value can have.
pub(crate) fn sorted<'n>(names: impl IntoIterator<Item = &'n [u8]>) -> Result<Vec<&'n [u8]>, InvalidArgument> {
    let mut names: Vec<_> = names.into_iter().collect();
    names.sort_unstable();
    names.dedup();
    if names.len() > MOST_TAGS {
        let message = format!("a value can have {MOST_TAGS} tags at most, not {}", names.len());
        return Err(InvalidArgument::usage(message));
    }
    if names.iter().any(|name| name.is_empty() || name.len() > LONGEST_TAG) {
        let message = format!("a tag must have at least one byte, and {LONGEST_TAG} at most");
        return Err(InvalidArgument::usage(message));
    }
    Ok(names)
}
