//! For lock names that carry their own hash tags in a cluster: one client for each hash tag.
//!
//! The client of a tag uses the node of the cluster that has the tag's slot.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use foldhash::HashMap;

use crate::limits::Limits;
use pinyon_net::fork::PerProcess;

/// How many clients keep their connection while they hold nothing and no lock of theirs exists.
pub const KEPT: usize = 64;

/// The client of a server, and those of the hash tags there if names carry their own. `C` is what a host makes of each.
#[derive(Debug)]
pub struct ByTag<C> {
    main: Arc<C>,
    branches: Option<Branches<C>>,
    limits: Limits,
    closed: AtomicBool,
}

/// The clients of the hash tags in use. The most recent ones stay. A client also stays alive while it holds a lock, or
/// while a lock object refers to it.
#[derive(Debug)]
struct Branches<B>(PerProcess<Mutex<Known<B>>>);

#[derive(Debug)]
struct Known<B> {
    by_tag: HashMap<Box<[u8]>, Weak<B>>,
    /// The most recent one is last.
    recent: VecDeque<(Box<[u8]>, Arc<B>)>,
}

impl<C> ByTag<C> {
    /// `main`: the client of names without a hash tag.
    pub fn new(main: C, names_have_tags: bool) -> Self {
        let branches = names_have_tags.then(Branches::default);
        Self { main: Arc::new(main), branches, limits: Limits::default(), closed: false.into() }
    }

    /// The client of names without a hash tag.
    pub fn main(&self) -> &Arc<C> {
        &self.main
    }

    /// The limits of pools of permits that were told.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn names_have_tags(&self) -> bool {
        self.branches.is_some()
    }

    /// The client of a hash tag, made of the main one by `make` if needed. `tag` is not asked if names have none or if
    /// the clients are closed.
    pub fn of<T: AsRef<[u8]>, E>(
        &self,
        tag: impl FnOnce() -> Result<Option<T>, E>,
        make: impl FnOnce(&C, &[u8]) -> C,
    ) -> Result<Arc<C>, E> {
        let Some(branches) = self.branches.as_ref().filter(|_| !self.closed.load(Ordering::Relaxed)) else {
            return Ok(self.main.clone());
        };
        Ok(match tag()? {
            Some(tag) => branches.of(tag.as_ref(), || make(&self.main, tag.as_ref())),
            None => self.main.clone(),
        })
    }

    /// Makes no further client. Returns [all](Self::all), which the host must close.
    pub fn close(&self) -> Vec<Arc<C>> {
        self.closed.store(true, Ordering::Relaxed);
        self.all()
    }

    /// All clients in use. The main one is first.
    pub fn all(&self) -> Vec<Arc<C>> {
        let branches = self.branches.iter().flat_map(Branches::all);
        std::iter::once(self.main.clone()).chain(branches).collect()
    }
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
    fn of(&self, tag: &[u8], make: impl FnOnce() -> B) -> Arc<B> {
        let known = self.lock().by_tag.get(tag).and_then(Weak::upgrade);
        let (branch, is_new) = match known {
            Some(branch) => (branch, false),
            None => (Arc::new(make()), true),
        };
        let (branch, dropped) = self.lock().used(tag, branch, is_new);
        drop(dropped);
        branch
    }

    /// All clients in use.
    fn all(&self) -> Vec<Arc<B>> {
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
        branches.of(tag.to_string().as_bytes(), || Client(dropped))
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
        let outer = branches.of(b"0", || {
            inner = Some(of(&branches, 0, &dropped));
            Client(&dropped)
        });
        assert!(inner.is_some_and(|inner| Arc::ptr_eq(&inner, &outer)), "there is only one of a tag");
        assert_eq!(dropped.get(), 1);
    }

    /// The client for names with `tag`, which is its tag in words.
    fn tagged(clients: &ByTag<String>, tag: Option<&str>) -> String {
        let make = |main: &String, tag: &[u8]| format!("{main}{{{}}}", String::from_utf8_lossy(tag));
        let Ok(client) = clients.of(|| Ok::<_, Infallible>(tag), make);
        client.to_string()
    }

    #[test]
    fn the_hash_tag_of_names_chooses_their_client() {
        let clients = ByTag::new("main".to_owned(), true);
        assert_eq!(tagged(&clients, Some("a")), "main{a}");
        assert_eq!(tagged(&clients, None), "main");
        assert_eq!(clients.of(|| Err::<Option<&str>, _>("why"), |main, _| main.clone()).unwrap_err(), "why");
        let namespace = ByTag::new("main".to_owned(), false);
        assert_eq!(tagged(&namespace, Some("a")), "main", "the namespace's tag is that of all names");
    }

    #[test]
    fn closed_clients_make_no_further_one() {
        let clients = ByTag::new("main".to_owned(), true);
        let Ok(kept) = clients.of(|| Ok::<_, Infallible>(Some("a")), |_, _| "a".to_owned());
        let closed = clients.close();
        assert_eq!(closed, [clients.main().clone(), kept], "the host closes the main one first");
        assert_eq!(tagged(&clients, Some("b")), "main");
        assert_eq!(clients.close().len(), closed.len());
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
