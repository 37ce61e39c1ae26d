//! Values as trees: what the notations of other languages are read into and written from.

use super::parts::{Nesting, Part, Reader, Refused, Writer};
use super::Plain;

/// As deep as what is written is read again.
const DEPTH: usize = 190;

/// Takes a tree apart.
#[derive(Debug)]
pub struct TreeReader<'t> {
    root: Option<&'t Plain>,
    open: Vec<Open<'t>>,
}

#[derive(Debug)]
enum Open<'t> {
    Items(std::slice::Iter<'t, Plain>),
    /// And the value of the key that was given last.
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

/// The tree that a reader's parts make.
pub(super) fn read(mut reader: impl Reader) -> Result<Plain, String> {
    let mut growing = Growing::default();
    loop {
        growing.add(reader.next()?)?;
        if let Some(tree) = growing.done.take() {
            reader.end()?;
            return Ok(tree);
        }
    }
}

/// A tree, written.
pub(super) fn write<W: Writer>(value: &Plain, mut writer: W) -> Result<W::Written, Refused> {
    let mut reader = TreeReader::new(value);
    let mut deep = 0_usize;
    loop {
        // A tree in memory is always read to its end.
        let Ok(part) = reader.next() else { return Err(Refused::Count) };
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

/// Makes a tree of any parts.
#[derive(Debug)]
pub struct TreeWriter {
    nesting: Nesting,
    growing: Growing,
}

impl Default for TreeWriter {
    fn default() -> Self {
        Self { nesting: Nesting::new(DEPTH), growing: Growing::default() }
    }
}

impl Writer for TreeWriter {
    type Written = Plain;

    fn write(&mut self, part: Part<'_>) -> Result<(), Refused> {
        match part {
            Part::End => drop(self.nesting.end()?),
            _ => drop(self.nesting.part()?),
        }
        match part {
            Part::List(length) | Part::Tuple(length) => self.nesting.begin_list(length),
            Part::Map(pairs) => self.nesting.begin_map(pairs),
            _ => {}
        }
        self.growing.add(part).map_err(|_| Refused::Kind(part.kind()))
    }

    fn finish(self) -> Result<Plain, Refused> {
        self.nesting.finish()?;
        self.growing.done.ok_or(Refused::Count)
    }
}

/// A tree that is not complete yet.
#[derive(Debug, Default)]
struct Growing {
    /// Each list or map that has not ended, and the key whose value is to come.
    open: Vec<(Plain, Option<Plain>)>,
    done: Option<Plain>,
}

impl Growing {
    fn add(&mut self, part: Part<'_>) -> Result<(), &'static str> {
        let value = match part {
            Part::End => self.open.pop().map_or(Plain::Null, |(value, _)| value),
            _ => Plain::try_from(part)?,
        };
        match part {
            Part::List(_) | Part::Tuple(_) | Part::Map(_) => self.open.push((value, None)),
            _ => self.put(value),
        }
        Ok(())
    }

    fn put(&mut self, value: Plain) {
        match self.open.last_mut() {
            None => self.done = Some(value),
            Some((Plain::List(items) | Plain::Tuple(items), _)) => items.push(value),
            Some((Plain::Map(pairs), key)) => match key.take() {
                Some(key) => pairs.push((key, value)),
                None => *key = Some(value),
            },
            Some(_) => {}
        }
    }
}
