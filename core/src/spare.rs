//! Memory that serves again. With many operations in flight, allocating it anew costs more than all that is put there.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How much is kept at most.
const MOST: usize = 256;

/// What serves again, shared by threads.
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

/// A value in memory that serves another one later.
#[derive(Debug)]
pub struct Reused<T>(Box<Option<T>>);

/// The memory of a value that is over.
#[derive(Debug)]
pub struct Vacant<T>(Box<Option<T>>);

impl<T> Reused<T> {
    /// In this memory, where there is some.
    #[inline]
    pub fn new(value: T, memory: Option<Vacant<T>>) -> Self {
        match memory {
            Some(Vacant(mut place)) => {
                *place = Some(value);
                Self(place)
            }
            None => Self(Box::new(Some(value))),
        }
    }

    /// Drops the value, and returns its memory.
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
