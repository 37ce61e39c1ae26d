//! One lock that a front end asked for, and the registry of held locks.

use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::HashMap;

use crate::call::Names;
use crate::failure::LockFailure;
use crate::loss::Loss;
use crate::machine::LockRequest;
use pinyon_net::fork;

/// A lock that was asked for. Its holder has it, and so does the client as long as the lock may be lost.
///
/// `L`: a listener, which tells the host where to report a loss. The core only keeps listeners and returns them.
#[derive(Debug)]
pub struct Grant<L> {
    names: Names,
    /// What its holder says about it.
    note: Option<Arc<str>>,
    /// The process that asked, by its number of forks.
    generation: u64,
    /// 0 until the client knows the lock.
    number: AtomicU64,
    token: AtomicU64,
    /// Whether it is in its client's registry.
    is_held: AtomicBool,
    /// Whether no caller can release it any more.
    is_forsaken: AtomicBool,
    is_handed_over: AtomicBool,
    /// Whether its holder goes on without it while the servers are away.
    proceeds: bool,
    /// Whether it has done so.
    is_uncertain: AtomicBool,
    /// Whether its caller is not to wait for it any more.
    is_unwanted: AtomicBool,
    fate: Mutex<Fate<L>>,
}

#[derive(Debug)]
struct Fate<L> {
    loss: Option<Loss>,
    listeners: Vec<L>,
}

impl<L> Grant<L> {
    /// For what this request asks for.
    pub fn of(request: &LockRequest) -> Arc<Self> {
        Self::wanted(request.names.clone(), request.remark().cloned(), request.proceeds())
    }

    #[cfg(test)]
    pub(super) fn new(names: Names) -> Arc<Self> {
        Self::wanted(names, None, false)
    }

    fn wanted(names: Names, note: Option<Arc<str>>, proceeds: bool) -> Arc<Self> {
        Arc::new(Self {
            names,
            note,
            generation: fork::generation(),
            number: AtomicU64::default(),
            token: AtomicU64::default(),
            is_held: AtomicBool::default(),
            is_forsaken: AtomicBool::default(),
            is_handed_over: AtomicBool::default(),
            proceeds,
            is_uncertain: AtomicBool::default(),
            is_unwanted: AtomicBool::default(),
            fate: Mutex::new(Fate { loss: None, listeners: Vec::new() }),
        })
    }

    pub fn names(&self) -> &Names {
        &self.names
    }

    /// What its holder says about it, for people.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// The fencing token, once the lock is granted. It is higher than the token of any earlier lock on any of the
    /// names.
    pub fn token(&self) -> u64 {
        self.token.load(Ordering::Relaxed)
    }

    /// Whether the parent of this forked process holds it.
    pub fn is_inherited(&self) -> bool {
        self.generation != fork::generation()
    }

    /// Keeps a listener. If the lock is lost, a note returns it. If the lock is lost already, this call returns it.
    pub fn listen(&self, listener: L) -> Result<(), L> {
        let mut fate = self.fate();
        match fate.loss {
            Some(_) => Err(listener),
            None => {
                fate.listeners.push(listener);
                Ok(())
            }
        }
    }

    /// Passes the listeners to `look`, for a garbage collector. Does not wait: `None` if another thread is using them.
    pub fn with_listeners<R>(&self, look: impl FnOnce(&[L]) -> R) -> Option<R> {
        self.fate.try_lock().ok().map(|fate| look(&fate.listeners))
    }

    /// Removes the listeners. They are not told of a loss any more.
    pub fn take_listeners(&self) -> Vec<L> {
        std::mem::take(&mut self.fate().listeners)
    }

    /// Why the lock was lost. `None` if it is held, or was released.
    pub fn loss(&self) -> Option<Loss> {
        match self.is_inherited() {
            true => Some(Loss::Forked),
            false => self.fate().loss,
        }
    }

    /// Whether its holder has handed it over.
    pub fn is_handed_over(&self) -> bool {
        self.is_handed_over.load(Ordering::Relaxed)
    }

    /// Whether the lock has been held from its acquisition until now, or until it was released. A holder that went on
    /// without it while the servers were away may not have been alone.
    pub fn is_certain(&self) -> bool {
        !self.is_uncertain() && self.loss().is_none()
    }

    /// Whether its holder has gone on without it.
    pub fn is_uncertain(&self) -> bool {
        self.is_uncertain.load(Ordering::Relaxed)
    }

    pub(super) fn proceeds(&self) -> bool {
        self.proceeds
    }

    pub(super) fn proceed(&self) {
        self.is_uncertain.store(true, Ordering::Relaxed);
    }

    /// Marks it as a lock that its caller is not to wait for, even if it only begins to.
    pub(super) fn unwant(&self) {
        self.is_unwanted.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_unwanted(&self) -> bool {
        self.is_unwanted.load(Ordering::Relaxed)
    }

    /// The failure for a caller that needs the lock while it is not held.
    pub fn not_held(&self) -> LockFailure {
        LockFailure::not_held(&self.names, self.why_not_held())
    }

    /// The failure for a holder that releases a lock which was lost.
    pub fn lost_early(&self) -> LockFailure {
        LockFailure::lost_early(&self.names, self.loss())
    }

    fn why_not_held(&self) -> Option<&'static str> {
        let uncertain = || self.is_uncertain().then_some("its holder has gone on without it, as the servers were away");
        self.loss().map(Loss::as_str).or_else(uncertain)
    }

    pub(super) fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    pub(super) fn begun(&self, number: u64) {
        self.number.store(number, Ordering::Relaxed);
    }

    /// Whether it was granted, and neither released nor lost since.
    pub(super) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Relaxed)
    }

    fn granted(&self, number: u64, token: u64) {
        self.begun(number);
        self.token.store(token, Ordering::Relaxed);
    }

    /// Marks it as a lock that no caller can release any more, even if it is granted later. Returns whether to tell its
    /// client: not if it was released before, as nearly always.
    pub fn forsake(&self) -> bool {
        self.is_forsaken.store(true, Ordering::Relaxed);
        self.is_held() && !self.is_inherited()
    }

    pub(super) fn is_forsaken(&self) -> bool {
        self.is_forsaken.load(Ordering::Relaxed)
    }

    /// Marks it lost. Returns the listeners to tell.
    fn lose(&self, loss: Loss) -> Vec<L> {
        let mut fate = self.fate();
        self.end(&mut fate, loss);
        std::mem::take(&mut fate.listeners)
    }

    fn end(&self, fate: &mut Fate<L>, loss: Loss) {
        self.is_held.store(false, Ordering::Relaxed);
        if self.proceeds() && loss.is_by_servers() {
            self.proceed();
        }
        self.is_handed_over.store(loss == Loss::HandedOver, Ordering::Relaxed);
        fate.loss = Some(loss);
    }

    fn fate(&self) -> MutexGuard<'_, Fate<L>> {
        self.fate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The locks that a client holds, by the numbers of their attempts.
#[derive(Debug)]
pub(super) struct Registry<L>(HashMap<u64, Grants<L>>);

/// The grants of one lock: nearly always one, but one for each acquisition of a reentrant lock.
#[derive(Debug)]
struct Grants<L> {
    first: Arc<Grant<L>>,
    others: Vec<Arc<Grant<L>>>,
}

impl<L> Default for Registry<L> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<L> Registry<L> {
    /// Adds a held lock. A parked lock may return with another token, which then applies to all grants of its number.
    pub(super) fn add(&mut self, grant: &Arc<Grant<L>>, number: u64, token: u64) {
        let was_held = grant.is_held.swap(true, Ordering::Relaxed);
        match self.0.entry(number) {
            Entry::Occupied(mut grants) => {
                let grants = grants.get_mut();
                if !was_held {
                    grants.others.push(grant.clone());
                }
                grants.all().for_each(|grant| grant.granted(number, token));
            }
            Entry::Vacant(none) => {
                grant.granted(number, token);
                none.insert(Grants { first: grant.clone(), others: Vec::new() });
            }
        }
    }

    /// Removes a grant. Returns whether it was held.
    pub(super) fn remove(&mut self, grant: &Arc<Grant<L>>) -> bool {
        if !grant.is_held.swap(false, Ordering::Relaxed) {
            return false;
        }
        let Entry::Occupied(mut grants) = self.0.entry(grant.number()) else { return false };
        match (Arc::ptr_eq(&grants.get().first, grant), grants.get_mut().others.pop()) {
            (true, None) => drop(grants.remove()),
            (true, Some(other)) => grants.get_mut().first = other,
            (false, last) => {
                let others = &mut grants.get_mut().others;
                others.extend(last);
                others.retain(|other| !Arc::ptr_eq(other, grant));
            }
        }
        true
    }

    /// Whether its owner has acquired the lock of this number more than once.
    pub(super) fn has_several(&self, number: u64) -> bool {
        self.0.get(&number).is_some_and(|grants| !grants.others.is_empty())
    }

    /// The numbers of all locks, in the order in which they were asked for.
    pub(super) fn numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.0.keys().copied().collect();
        numbers.sort_unstable();
        numbers
    }

    /// The grant of this number whose holder goes on after its loss.
    pub(super) fn proceeding(&self, number: u64) -> Option<&Arc<Grant<L>>> {
        self.0.get(&number)?.all().find(|grant| grant.proceeds())
    }

    /// Whether some caller can release the lock of this number.
    pub(super) fn has_any(&self, number: u64) -> bool {
        self.0.contains_key(&number)
    }

    /// Removes a lost lock. Returns the listeners to tell.
    pub(super) fn lose(&mut self, number: u64, loss: Loss) -> Vec<L> {
        self.0.remove(&number).iter().flat_map(Grants::all).flat_map(|grant| grant.lose(loss)).collect()
    }

    /// Closes all grants. No listener is told: the caller that closed the client knows.
    pub(super) fn close(&mut self) {
        for grants in std::mem::take(&mut self.0).values() {
            grants.all().for_each(|grant| grant.end(&mut grant.fate(), Loss::Closed));
        }
    }
}

impl<L> Grants<L> {
    fn all(&self) -> impl Iterator<Item = &Arc<Grant<L>>> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;

    fn grant() -> Arc<Grant<&'static str>> {
        Grant::new(keys::names(["a"]).unwrap())
    }

    #[test]
    fn a_loss_is_told_to_those_who_listen_and_no_more() {
        let (mut registry, [lost, released]) = (Registry::default(), [(); 2].map(|()| grant()));
        registry.add(&lost, 1, 10);
        registry.add(&released, 2, 20);
        for listener in ["first", "second"] {
            lost.listen(listener).unwrap();
            released.listen(listener).unwrap();
        }
        assert_eq!(lost.loss(), None);
        assert!(registry.remove(&released));
        assert_eq!(registry.lose(1, Loss::Forced), ["first", "second"]);
        assert_eq!(lost.loss(), Some(Loss::Forced));
        assert_eq!(lost.listen("later"), Err("later"), "it is lost already");
        assert!(registry.lose(1, Loss::Gone).is_empty() && registry.lose(2, Loss::Gone).is_empty());
        assert_eq!((lost.loss(), released.loss()), (Some(Loss::Forced), None));
    }

    #[test]
    fn all_grants_of_one_lock_share_its_token_and_its_end() {
        let (mut registry, [first, second]) = (Registry::default(), [(); 2].map(|()| grant()));
        registry.add(&first, 1, 10);
        registry.add(&second, 1, 10);
        // One of them parked it, and it was granted again.
        registry.add(&second, 1, 30);
        assert_eq!((first.token(), second.token()), (30, 30));
        assert!(registry.remove(&first) && !registry.remove(&first) && !first.is_held());
        assert!(registry.has_any(1), "the second can release the lock still");
        first.listen("first").unwrap();
        second.listen("second").unwrap();
        assert_eq!(registry.lose(1, Loss::Expired), ["second"]);
    }

    #[test]
    fn closing_tells_nobody_but_says_why() {
        let (mut registry, [held, released]) = (Registry::default(), [(); 2].map(|()| grant()));
        registry.add(&held, 1, 10);
        registry.add(&released, 2, 20);
        registry.remove(&released);
        held.listen("nobody").unwrap();
        registry.close();
        assert_eq!((held.loss(), released.loss()), (Some(Loss::Closed), None));
        assert!(held.not_held().to_string().ends_with("the lock \"a\" is no longer held: its client was closed"));
        assert!(released.not_held().to_string().ends_with("it was released, or its ttl has passed"));
    }
}
