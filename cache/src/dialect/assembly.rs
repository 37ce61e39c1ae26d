//! Assembles the parts from a reader into a host's objects.

use std::vec::Drain;

use super::parts::{Part, Reader};

/// Makes a host's objects.
pub trait Objects {
    type Object;
    /// Why an object cannot be made. A text says what is wrong with the stored value.
    type Error: From<String>;

    /// Makes an object from a single part. Never called with a part that begins or ends a collection.
    fn object(&mut self, part: Part<'_>) -> Result<Self::Object, Self::Error>;

    /// Makes a text that is a map's key. In a list of maps, the same keys usually recur.
    fn key(&mut self, text: &[u8]) -> Result<Self::Object, Self::Error> {
        self.object(Part::Utf8(text))
    }

    fn list(&mut self, items: Drain<'_, Self::Object>) -> Result<Self::Object, Self::Error>;

    /// Makes an immutable list, in languages that have them.
    fn tuple(&mut self, items: Drain<'_, Self::Object>) -> Result<Self::Object, Self::Error>;

    /// `items`: keys and values alternately. `keys_differ`: see [`Reader::KEYS_DIFFER`].
    fn map(&mut self, items: Drain<'_, Self::Object>, keys_differ: bool) -> Result<Self::Object, Self::Error>;
}

/// Makes an object from all parts of a reader.
pub fn assemble<R: Reader, O: Objects>(mut reader: R, objects: &mut O) -> Result<O::Object, O::Error> {
    let mut assembly = Assembly::new(R::KEYS_DIFFER);
    loop {
        if let Some(object) = assembly.add(reader.next()?, objects)? {
            reader.end()?;
            return Ok(object);
        }
    }
}

/// An incomplete value.
#[derive(Debug)]
pub(super) struct Assembly<T> {
    keys_differ: bool,
    /// The open collections, and where the objects of each begin in the list of all objects.
    open: Vec<(Collection, usize)>,
    objects: Vec<T>,
}

#[derive(Clone, Copy, Debug)]
enum Collection {
    List,
    Tuple,
    Map,
}

impl<T> Assembly<T> {
    pub(super) fn new(keys_differ: bool) -> Self {
        Self { keys_differ, open: Vec::new(), objects: Vec::new() }
    }

    /// Adds the next part. Returns the object once it is complete.
    #[inline]
    pub(super) fn add<O: Objects<Object = T>>(
        &mut self,
        part: Part<'_>,
        objects: &mut O,
    ) -> Result<Option<T>, O::Error> {
        let object = match part {
            Part::List(_) => return Ok(self.begin(Collection::List)),
            Part::Tuple(_) => return Ok(self.begin(Collection::Tuple)),
            Part::Map(_) => return Ok(self.begin(Collection::Map)),
            Part::End => match self.open.pop() {
                Some((Collection::List, start)) => objects.list(self.objects.drain(start..))?,
                Some((Collection::Tuple, start)) => objects.tuple(self.objects.drain(start..))?,
                Some((Collection::Map, start)) => objects.map(self.objects.drain(start..), self.keys_differ)?,
                None => return Err("it ends before it begins".to_owned().into()),
            },
            Part::Utf8(text) => match self.open.last() {
                Some((Collection::Map, start)) if (self.objects.len() - start) % 2 == 0 => objects.key(text)?,
                _ => objects.object(part)?,
            },
            part => objects.object(part)?,
        };
        if self.open.is_empty() {
            return Ok(Some(object));
        }
        self.objects.push(object);
        Ok(None)
    }

    fn begin(&mut self, collection: Collection) -> Option<T> {
        self.open.push((collection, self.objects.len()));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{MessagePackReader, Plain, TreeReader};

    /// Records what it is asked to make.
    struct Words;

    impl Objects for Words {
        type Object = String;
        type Error = String;

        fn object(&mut self, part: Part<'_>) -> Result<String, String> {
            match part {
                Part::Utf8(text) => Ok(String::from_utf8_lossy(text).into_owned()),
                part => Ok(part.kind().to_owned()),
            }
        }

        fn key(&mut self, text: &[u8]) -> Result<String, String> {
            Ok(format!("key {}", String::from_utf8_lossy(text)))
        }

        fn list(&mut self, items: Drain<'_, String>) -> Result<String, String> {
            Ok(format!("[{}]", items.collect::<Vec<_>>().join(", ")))
        }

        fn tuple(&mut self, items: Drain<'_, String>) -> Result<String, String> {
            Ok(format!("({})", items.collect::<Vec<_>>().join(", ")))
        }

        fn map(&mut self, items: Drain<'_, String>, keys_differ: bool) -> Result<String, String> {
            let items = items.collect::<Vec<_>>().join(", ");
            Ok(if keys_differ { format!("strict {{{items}}}") } else { format!("{{{items}}}") })
        }
    }

    #[test]
    fn texts_that_are_keys_are_told_from_others_however_deep() {
        // {"a": ["a", {"b": "b"}], "c": null}
        let stored = b"\x82\xa1a\x92\xa1a\x81\xa1b\xa1b\xa1c\xc0";
        let made = assemble(MessagePackReader::new(stored), &mut Words);
        assert_eq!(made.unwrap(), "{key a, [a, {key b, b}], key c, null}");
    }

    #[test]
    fn a_map_is_told_whether_its_keys_must_differ() {
        let tree = Plain::Tuple(vec![Plain::Map(Vec::new()), Plain::List(vec![Plain::Null])]);
        assert_eq!(assemble(TreeReader::new(&tree), &mut Words).unwrap(), "(strict {}, [null])");
    }

    #[test]
    fn an_end_without_a_beginning_is_an_error() {
        assert!(Assembly::new(false).add(Part::End, &mut Words).unwrap_err().contains("ends before it begins"));
    }
}
