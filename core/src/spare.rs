//! Reuses memory. With many operations in flight, allocating it would cost more than everything that is stored in it.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

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

/// A value in memory that another value reuses later.
#[derive(Debug)]
pub struct Reused<T>(Box<Option<T>>);

/// The memory of a dropped value.
#[derive(Debug)]
pub struct Vacant<T>(Box<Option<T>>);

impl<T> Reused<T> {
    /// Places the value in `memory`, if given.
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
