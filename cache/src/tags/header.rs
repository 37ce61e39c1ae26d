//! The header of a value with tags: two bytes that begin no text, the number of tags, and for each tag the length of its
//! name, the name and the generation that it had.

use pinyon_proto::{Generation, GENERATION_LENGTH};

/// 0xC1 begins neither UTF-8 nor MessagePack.
const MARK: [u8; 2] = [0xc1, b'T'];

/// The tags of a stored value, as they were when it was made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header<'b> {
    pub(crate) tags: Vec<(&'b [u8], Generation)>,
    /// Where the value begins.
    pub(crate) length: usize,
}

impl<'b> Header<'b> {
    /// `None` if the bytes do not begin with one: the client flag then means something else.
    pub(crate) fn read(bytes: &'b [u8]) -> Option<Self> {
        let (count, mut rest) = bytes.strip_prefix(&MARK)?.split_first()?;
        let mut tags = Vec::with_capacity((*count).into());
        for _ in 0..*count {
            let (length, behind) = rest.split_first()?;
            let (name, behind) = behind.split_at_checked((*length).into())?;
            let (generation, behind) = behind.split_at_checked(GENERATION_LENGTH)?;
            tags.push((name, Generation::read(generation)?));
            rest = behind;
        }
        (!tags.is_empty()).then(|| Self { tags, length: bytes.len() - rest.len() })
    }

    /// The header of a value with these tags: at most [`MOST_TAGS`](super::MOST_TAGS).
    pub(crate) fn write<'n>(tags: impl ExactSizeIterator<Item = (&'n [u8], Generation)>) -> Vec<u8> {
        let mut header = [&MARK[..], &[tags.len() as u8]].concat();
        for (name, generation) in tags {
            header.push(name.len() as u8);
            header.extend_from_slice(name);
            header.extend_from_slice(&generation.text());
        }
        header
    }
}
