//! Values as trees, for reading and writing the notations of other languages.

use std::vec::Drain;

use super::assembly::{assemble, Assembly, Objects};
use super::parts::{Nesting, Part, Reader, Unwritable, Writer};
use super::Plain;

/// The deepest nesting that can be read again after it was written.
const DEPTH: usize = 190;

/// Reads the parts of a tree.
#[derive(Debug)]
pub struct TreeReader<'t> {
    root: Option<&'t Plain>,
    open: Vec<Open<'t>>,
}

#[derive(Debug)]
enum Open<'t> {
    Items(std::slice::Iter<'t, Plain>),
    /// The remaining pairs, and the value of the last key.
    Pairs(std::slice::Iter<'t, (Plain, Plain)>, Option<&'t Plain>),
}

impl<'t> TreeReader<'t> {
    pub fn new(root: &'t Plain) -> Self {
        Self { root: Some(root), open: Vec::new() }
    }

    fn following(&mut self) -> Option<&'t Plain> {
        match self.open.last_mut() {
            None => self.root.take(),
            Some(Open::Items(items)) => items.next(),
            Some(Open::Pairs(pairs, value)) => value.take().or_else(|| {
                let (key, its_value) = pairs.next()?;
                *value = Some(its_value);
                Some(key)
            }),
        }
    }
}

impl Reader for TreeReader<'_> {
    const KEYS_DIFFER: bool = true;

    fn next(&mut self) -> Result<Part<'_>, String> {
        let Some(value) = self.following() else {
            self.open.pop();
            return Ok(Part::End);
        };
        match value {
            Plain::List(items) | Plain::Tuple(items) => self.open.push(Open::Items(items.iter())),
            Plain::Map(pairs) => self.open.push(Open::Pairs(pairs.iter(), None)),
            _ => {}
        }
        Ok(value.part())
    }

    fn end(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// Reads a tree from parts.
pub(super) fn read(reader: impl Reader) -> Result<Plain, String> {
    assemble(reader, &mut Trees)
}

/// Makes trees: their parts are objects already.
struct Trees;

impl Objects for Trees {
    type Object = Plain;
    type Error = String;

    fn object(&mut self, part: Part<'_>) -> Result<Plain, String> {
        Plain::try_from(part).map_err(str::to_owned)
    }

    fn list(&mut self, items: Drain<'_, Plain>) -> Result<Plain, String> {
        Ok(Plain::List(items.collect()))
    }

    fn tuple(&mut self, items: Drain<'_, Plain>) -> Result<Plain, String> {
        Ok(Plain::Tuple(items.collect()))
    }

    fn map(&mut self, mut items: Drain<'_, Plain>, _keys_differ: bool) -> Result<Plain, String> {
        let mut pairs = Vec::with_capacity(items.len() / 2);
        while let (Some(key), Some(value)) = (items.next(), items.next()) {
            pairs.push((key, value));
        }
        Ok(Plain::Map(pairs))
    }
}

/// Writes a tree.
pub(super) fn write<W: Writer>(value: &Plain, mut writer: W) -> Result<W::Written, Unwritable> {
    let mut reader = TreeReader::new(value);
    let mut deep = 0_usize;
    loop {
        // A tree in memory is always complete.
        let Ok(part) = reader.next() else { return Err(Unwritable::Count) };
        match part {
            Part::List(_) | Part::Tuple(_) | Part::Map(_) => deep += 1,
            Part::End => deep -= 1,
            _ => {}
        }
        writer.write(part)?;
        if deep == 0 {
            return writer.finish();
        }
    }
}

/// Makes a tree from parts.
#[derive(Debug)]
pub struct TreeWriter {
    nesting: Nesting,
    assembly: Assembly<Plain>,
    tree: Option<Plain>,
}

impl Default for TreeWriter {
    fn default() -> Self {
        Self { nesting: Nesting::new(DEPTH), assembly: Assembly::new(false), tree: None }
    }
}

impl Writer for TreeWriter {
    type Written = Plain;

    fn write(&mut self, part: Part<'_>) -> Result<(), Unwritable> {
        match part {
            Part::End => drop(self.nesting.end()?),
            _ => drop(self.nesting.part()?),
        }
        match part {
            Part::List(length) | Part::Tuple(length) => self.nesting.begin_list(length),
            Part::Map(pairs) => self.nesting.begin_map(pairs),
            _ => {}
        }
        self.tree = self.assembly.add(part, &mut Trees).map_err(|_| Unwritable::Kind(part.kind()))?;
        Ok(())
    }

    fn finish(self) -> Result<Plain, Unwritable> {
        self.nesting.finish()?;
        self.tree.ok_or(Unwritable::Count)
    }
}
