//! For lock names that carry their own hash tags in a cluster: one client for each hash tag.
//!
//! The client of a tag uses the node of the cluster that has the tag's slot.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use foldhash::HashMap;

use pinyon_net::fork::PerProcess;

/// How many clients keep their connection while they hold nothing and no lock of theirs exists.
pub const KEPT: usize = 64;

/// The clients of the hash tags in use; `B` is what a host makes of each. The most recent ones stay. A client also
/// stays alive while it holds a lock, or while a lock object refers to it.
#[derive(Debug)]
pub struct Branches<B>(PerProcess<Mutex<Known<B>>>);

#[derive(Debug)]
struct Known<B> {
    by_tag: HashMap<Box<[u8]>, Weak<B>>,
    /// The most recent one is last.
    recent: VecDeque<(Box<[u8]>, Arc<B>)>,
}

impl<B> Default for Known<B> {
    fn default() -> Self {
        Self { by_tag: HashMap::default(), recent: VecDeque::new() }
    }
}

impl<B> Default for Branches<B> {
    fn default() -> Self {
        Self(PerProcess::new(Mutex::default()))
    }
}

impl<B> Branches<B> {
    /// Returns the only client of a tag, made by `make` if needed. No mutex is held while `make` runs or a client is
    /// dropped.
    pub fn of<E>(&self, tag: &[u8], make: impl FnOnce() -> Result<B, E>) -> Result<Arc<B>, E> {
        let known = self.lock().by_tag.get(tag).and_then(Weak::upgrade);
        let (branch, is_new) = match known {
            Some(branch) => (branch, false),
            None => (Arc::new(make()?), true),
        };
        let (branch, dropped) = self.lock().used(tag, branch, is_new);
        drop(dropped);
        Ok(branch)
    }

    /// All clients in use.
    pub fn all(&self) -> Vec<Arc<B>> {
        self.lock().by_tag.values().filter_map(Weak::upgrade).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Known<B>> {
        self.0.get(inherit).lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A forked child keeps its parent's clients, unless a thread that does not exist in the child was changing them.
fn inherit<B>(parents: &Mutex<Known<B>>) -> Mutex<Known<B>> {
    let mut known = match parents.try_lock() {
        Ok(known) => known,
        Err(TryLockError::Poisoned(known)) => known.into_inner(),
        Err(TryLockError::WouldBlock) => return Mutex::default(),
    };
    Mutex::new(std::mem::take(&mut known))
}

impl<B> Known<B> {
    /// Notes the use of a tag. If another client was made for it meanwhile, returns that one. Also returns the clients
    /// to drop.
    fn used(&mut self, tag: &[u8], branch: Arc<B>, is_new: bool) -> (Arc<B>, Vec<Arc<B>>) {
        let mut dropped = Vec::new();
        let branch = match self.by_tag.get(tag).and_then(Weak::upgrade).filter(|_| is_new) {
            Some(earlier) => {
                dropped.push(branch);
                earlier
            }
            None => branch,
        };
        if is_new {
            self.by_tag.retain(|_, branch| branch.strong_count() > 0);
            self.by_tag.insert(tag.into(), Arc::downgrade(&branch));
        }
        match self.recent.iter().rposition(|(of, _)| **of == *tag) {
            Some(at) => {
                let used = self.recent.remove(at);
                self.recent.extend(used);
            }
            None => self.recent.push_back((tag.into(), branch.clone())),
        }
        if self.recent.len() > KEPT {
            dropped.extend(self.recent.pop_front().map(|(_, branch)| branch));
        }
        (branch, dropped)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use super::*;

    /// Counts how many clients are dropped.
    struct Client<'c>(&'c Cell<usize>);

    impl Drop for Client<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    fn of<'c>(branches: &Branches<Client<'c>>, tag: usize, dropped: &'c Cell<usize>) -> Arc<Client<'c>> {
        let Ok(branch) = branches.of(tag.to_string().as_bytes(), || Ok::<_, Infallible>(Client(dropped)));
        branch
    }

    #[test]
    fn a_tag_has_one_client_as_long_as_anybody_has_it() {
        let (dropped, branches) = (Cell::new(0), Branches::default());
        let held = of(&branches, 0, &dropped);
        for tag in 1..3 * KEPT {
            of(&branches, tag, &dropped);
        }
        assert!(Arc::ptr_eq(&held, &of(&branches, 0, &dropped)), "what is held keeps its client");
        drop(held);
        assert_eq!(dropped.get(), 3 * KEPT - KEPT, "and the most recent ones stay");
        assert_eq!(branches.all().len(), KEPT);
        for tag in 1..=KEPT {
            of(&branches, tag, &dropped);
        }
        assert_eq!(branches.all().len(), KEPT);
        drop(branches);
        assert_eq!(dropped.get(), 3 * KEPT + KEPT);
    }

    #[test]
    fn the_least_recently_used_one_goes_first() {
        let (dropped, branches) = (Cell::new(0), Branches::default());
        let first = Arc::downgrade(&of(&branches, 0, &dropped));
        for tag in 1..KEPT {
            of(&branches, tag, &dropped);
        }
        of(&branches, 0, &dropped);
        of(&branches, KEPT, &dropped);
        assert!(first.upgrade().is_some());
        assert_eq!(dropped.get(), 1);
    }

    #[test]
    fn whoever_makes_a_client_may_use_the_branches_meanwhile() {
        let (dropped, branches) = (Cell::new(0), Branches::default());
        let mut inner = None;
        let Ok(outer) = branches.of(b"0", || {
            inner = Some(of(&branches, 0, &dropped));
            Ok::<_, Infallible>(Client(&dropped))
        });
        assert!(inner.is_some_and(|inner| Arc::ptr_eq(&inner, &outer)), "there is only one of a tag");
        assert_eq!(dropped.get(), 1);
    }

    #[test]
    fn a_client_that_cannot_be_made_leaves_nothing() {
        let branches = Branches::<()>::default();
        assert_eq!(branches.of(b"0", || Err("why")).unwrap_err(), "why");
        assert!(branches.all().is_empty());
        assert!(branches.of(b"0", || Ok::<_, Infallible>(())).is_ok());
    }

    #[test]
    fn a_child_goes_on_with_the_clients_of_its_parent_or_begins_anew() {
        let parents = Mutex::new(Known::default());
        let (branch, _) = parents.lock().unwrap().used(b"0", Arc::new(()), true);
        let while_changing = parents.lock().unwrap();
        assert!(inherit(&parents).into_inner().unwrap().by_tag.is_empty(), "a thread that is gone was changing them");
        drop(while_changing);
        let childs = inherit(&parents).into_inner().unwrap();
        assert!(Arc::ptr_eq(&childs.by_tag[&b"0"[..]].upgrade().unwrap(), &branch));
        assert_eq!(childs.recent.len(), 1);
        assert!(parents.lock().unwrap().recent.is_empty(), "they are kept once");
    }
}
