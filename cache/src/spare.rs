//! Reuses memory. With many operations in flight, allocating it would cost more than everything that is stored in it.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::LocalKey;

/// The most pieces that are kept.
const MOST: usize = 256;

/// Memory for reuse, shared by threads.
#[derive(Debug)]
pub struct Spare<T>(Mutex<Vec<T>>);

impl<T> Default for Spare<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Spare<T> {
    pub fn take(&self) -> Option<T> {
        self.lock().pop()
    }

    pub fn give(&self, one: T) {
        let mut spare = self.lock();
        if spare.len() < MOST {
            spare.push(one);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The memory of a vector that a thread uses again. malloc consolidates free chunks before it
/// serves a large request, and that costs more than an operation on a hundred keys.
pub struct SpareVector<T>(Cell<Vec<T>>);

/// The most bytes that are kept.
const MOST_KEPT: usize = 64 * 1024;

impl<T> SpareVector<T> {
    #[allow(clippy::new_without_default)] // it is for constants
    pub const fn new() -> Self {
        Self(Cell::new(Vec::new()))
    }

    /// An empty vector.
    pub fn take(here: &'static LocalKey<Self>) -> Vec<T> {
        here.try_with(|kept| kept.0.take()).unwrap_or_default()
    }

    /// Keeps the memory of a vector, unless the thread ends.
    pub fn give(here: &'static LocalKey<Self>, vector: Vec<T>) {
        if vector.capacity() * size_of::<T>() <= MOST_KEPT {
            let _ = here.try_with(|kept| kept.0.set(emptied(vector)));
        }
    }
}

/// The memory of a vector, for values of the same size. They may be of the same type with other lifetimes.
pub fn emptied<A, B>(mut vector: Vec<A>) -> Vec<B> {
    vector.clear();
    // The library collects such vectors where they are.
    vector.into_iter().map(|_| unreachable!("it is empty")).collect()
}

/// A value in memory that another value reuses later.
#[derive(Debug)]
pub struct Reused<T>(Box<Option<T>>);

/// The memory of a dropped value.
#[derive(Debug)]
pub struct Vacant<T>(Box<Option<T>>);

impl<T> Reused<T> {
    /// Places the value in `memory`, if given. Have the memory at hand before making the value: it is made in place then.
    #[inline]
    pub fn new(value: T, memory: Option<Vacant<T>>) -> Self {
        match memory {
            Some(Vacant(mut place)) => {
                // Nothing is there to be dropped, and only without a drop is the value made in place.
                std::mem::forget(place.replace(value));
                Self(place)
            }
            None => Self(Box::new(Some(value))),
        }
    }

    /// Drops the value and returns its memory.
    #[inline]
    pub fn vacate(mut self) -> Vacant<T> {
        *self.0 = None;
        Vacant(self.0)
    }
}

impl<T> Deref for Reused<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &*self.0 {
            Some(value) => value,
            None => unreachable!("it is vacant only once it was given up"),
        }
    }
}

impl<T> DerefMut for Reused<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        match &mut *self.0 {
            Some(value) => value,
            None => unreachable!("it is vacant only once it was given up"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static WORDS: SpareVector<&'static str> = const { SpareVector::new() };
    }

    #[test]
    fn the_memory_of_a_vector_is_used_again() {
        SpareVector::give(&WORDS, Vec::with_capacity(100));
        let own = "owned".to_owned();
        let mut words: Vec<&str> = emptied(SpareVector::take(&WORDS));
        words.push(&own);
        let before = (words.as_ptr().cast::<u8>(), words.capacity());
        SpareVector::give(&WORDS, emptied(words));
        let again = SpareVector::take(&WORDS);
        assert!(again.is_empty());
        assert_eq!((again.as_ptr().cast::<u8>(), again.capacity()), before);
        assert_eq!(SpareVector::take(&WORDS).capacity(), 0, "it is taken once");
        SpareVector::give(&WORDS, Vec::with_capacity(MOST_KEPT));
        assert_eq!(SpareVector::take(&WORDS).capacity(), 0, "much is not kept");
    }
}
