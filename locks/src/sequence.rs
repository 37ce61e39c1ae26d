//! Things under way, by number. They nearly always return in order.

use std::collections::VecDeque;

/// Things in the order of their numbers. Most are added at the end and removed at the front, where both are cheap.
pub(super) struct Sequence<T>(VecDeque<(u64, T)>);

impl<T> Default for Sequence<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Sequence<T> {
    /// Inserts a thing. Its number must not be present.
    pub(super) fn insert(&mut self, number: u64, thing: T) {
        match self.0.back() {
            Some((last, _)) if *last >= number => {
                let at = self.0.partition_point(|(other, _)| *other < number);
                self.0.insert(at, (number, thing));
            }
            _ => self.0.push_back((number, thing)),
        }
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<T> {
        let (first, _) = self.0.front()?;
        let removed = match *first == number {
            true => self.0.pop_front(),
            false => self.0.remove(self.0.binary_search_by_key(&number, |(other, _)| *other).ok()?),
        };
        removed.map(|(_, thing)| thing)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(u64, T)> {
        self.0.iter()
    }

    /// Removes the things that match.
    pub(super) fn extract(&mut self, is_it: impl Fn(&T) -> bool) -> Vec<T> {
        let (extracted, left): (VecDeque<_>, _) = self.0.drain(..).partition(|(_, thing)| is_it(thing));
        self.0 = left;
        extracted.into_iter().map(|(_, thing)| thing).collect()
    }

    /// Removes all of them.
    pub(super) fn take(&mut self) -> impl Iterator<Item = T> {
        std::mem::take(&mut self.0).into_iter().map(|(_, thing)| thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_found_in_whatever_order() {
        let mut sequence = Sequence::default();
        [1, 2, 4, 7].into_iter().for_each(|number| sequence.insert(number, number * 10));
        assert_eq!([4, 3, 1].map(|number| sequence.remove(number)), [Some(40), None, Some(10)]);
        sequence.insert(4, 41);
        assert_eq!(sequence.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [2, 4, 7]);
        assert_eq!(sequence.extract(|thing| *thing == 41), [41]);
        assert_eq!(sequence.take().collect::<Vec<_>>(), [20, 70]);
        assert!(sequence.is_empty() && sequence.remove(2).is_none());
    }
}
