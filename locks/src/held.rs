//! A lock in its holder's hands, from before it is acquired. It is the same for threads and for coroutines, and in every
//! language.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use crate::drivers::Driver;
use crate::front::{GiveUp, LockOperation};
use crate::grant::Grant;
use crate::machine::LockRequest;
use crate::names::{names, Mode, Name, NameError};

/// What drives the locks of one event loop. It is not asked about a lock that a forked child inherited.
pub trait LoopDriver<L> {
    type Error;

    /// How long a lock remains held without renewal. `None` if it is not held.
    fn remaining(&self, grant: &Arc<Grant<L>>) -> Result<Option<Duration>, Self::Error>;

    /// Gives up what the caller of a grant waits for or holds, without waiting for an answer.
    fn give_up(&self, grant: &Arc<Grant<L>>, what: GiveUp) -> Result<(), Self::Error>;

    /// Gives up a lock that no caller can release any more. Any thread may call it, wherever it drops a lock.
    fn forsake(&self, grant: &Arc<Grant<L>>);
}

/// A lock that is to be acquired, or was, and what its holder can do with it. One that is dropped is not renewed, and
/// ends with its ttl.
///
/// `C` keeps the client alive, which renews the lock.
pub struct Held<L: Send + 'static, D: LoopDriver<L>, C> {
    grant: Arc<Grant<L>>,
    driver: Driver<L, D>,
    /// How long it tries to take its names again after it was parked.
    relock: Duration,
    is_given_back: AtomicBool,
    _client: C,
}

impl<L: Send + 'static, D: LoopDriver<L>, C> Held<L, D, C> {
    pub fn new(grant: Arc<Grant<L>>, driver: Driver<L, D>, relock: Duration, client: C) -> Self {
        Self { grant, driver, relock, is_given_back: AtomicBool::new(false), _client: client }
    }

    pub fn grant(&self) -> &Arc<Grant<L>> {
        &self.grant
    }

    /// What carries out its operations.
    pub fn driver(&self) -> &Driver<L, D> {
        &self.driver
    }

    /// Whether its holder has released it, in time or not, or has handed it over.
    pub fn is_given_back(&self) -> bool {
        self.is_given_back.load(Ordering::Relaxed) || self.grant.is_handed_over()
    }

    /// Whether a block that it was acquired for ends without an error although it does not hold it: it was given back, or
    /// the block has gone on without it.
    pub fn ends_quietly(&self) -> bool {
        self.is_given_back() || self.grant.is_uncertain()
    }

    /// Marks it as released by its holder. Returns whether it was not before.
    pub fn give_back(&self) -> bool {
        !self.is_given_back.swap(true, Ordering::Relaxed)
    }

    /// How long it remains held without renewal. `None` if it is not held.
    pub fn remaining(&self) -> Result<Option<Duration>, D::Error> {
        match &self.driver {
            Driver::Threads(station) => Ok(station.remaining(&self.grant)),
            Driver::Loop(_) if self.grant.is_inherited() => Ok(None),
            Driver::Loop(driver) => driver.remaining(&self.grant),
        }
    }

    /// Releases it without waiting for the answer, because its caller is gone. No listener is told.
    pub fn cancel(&self) -> Result<(), D::Error> {
        drop(self.grant.take_listeners());
        self.driver.give_up(&self.grant, GiveUp::Lock)
    }

    /// Ends the wait for it in another thread or coroutine, also if that only begins to wait. It gets
    /// [`LockOutcome::Busy`](crate::LockOutcome::Busy), unless the lock was granted before.
    pub fn stop_waiting(&self) -> Result<(), D::Error> {
        self.driver.give_up(&self.grant, GiveUp::Wait)
    }

    /// Stops waiting for other modes. It stays held.
    pub fn stay(&self) -> Result<(), D::Error> {
        self.driver.give_up(&self.grant, GiveUp::Change)
    }

    /// Acquires it.
    pub fn acquire(&self, request: LockRequest) -> LockOperation<L> {
        LockOperation::Acquire { grant: self.grant.clone(), request }
    }

    /// Releases it. It counts as given back from now on.
    pub fn release(&self) -> LockOperation<L> {
        self.is_given_back.store(true, Ordering::Relaxed);
        LockOperation::Release { grant: self.grant.clone(), early: false }
    }

    /// Releases it although its names were to stay locked for longer, because what it was for has failed.
    pub fn release_early(&self) -> LockOperation<L> {
        self.is_given_back.store(true, Ordering::Relaxed);
        LockOperation::Release { grant: self.grant.clone(), early: true }
    }

    /// Hands it over to whoever adopts it within `ttl`, or within its own.
    pub fn hand_over(&self, ttl: Option<Duration>) -> LockOperation<L> {
        LockOperation::HandOver { grant: self.grant.clone(), ttl }
    }

    /// Extends it to `ttl` from now.
    pub fn extend(&self, ttl: Duration) -> LockOperation<L> {
        LockOperation::Extend { grant: self.grant.clone(), ttl }
    }

    /// Writes what it has read: these names, or all of them. Waits for others that read them, for at most `wait` or as long
    /// as the lock was to wait.
    pub fn upgrade<N: AsRef<[u8]>>(&self, names: &[N], wait: Option<Duration>) -> Result<LockOperation<L>, NameError> {
        let (grant, wait) = (self.grant.clone(), wait.unwrap_or(self.relock));
        Ok(LockOperation::Change { grant, names: some(names)?, mode: Mode::Write, wait })
    }

    /// Reads what it has written: these names, or all of them.
    pub fn downgrade<N: AsRef<[u8]>>(&self, names: &[N]) -> Result<LockOperation<L>, NameError> {
        let (grant, wait) = (self.grant.clone(), Duration::ZERO);
        Ok(LockOperation::Change { grant, names: some(names)?, mode: Mode::Read, wait })
    }

    /// Releases its names until it is notified, for at most `wait`, then takes them again.
    pub fn park(&self, wait: Option<Duration>) -> LockOperation<L> {
        LockOperation::Park { grant: self.grant.clone(), wait, relock: self.relock }
    }

    /// Notifies `most` of the locks parked on the same names, or all if 0.
    pub fn notify(&self, most: u32) -> LockOperation<L> {
        LockOperation::Notify { grant: self.grant.clone(), most }
    }
}

/// These names, if there are any.
fn some<N: AsRef<[u8]>>(given: &[N]) -> Result<Vec<Name>, NameError> {
    match given {
        [] => Ok(Vec::new()),
        given => names(given).map(|names| names.to_vec()),
    }
}

impl<L: Send + 'static, D: LoopDriver<L>> Driver<L, D> {
    /// Gives up what the caller of a grant waits for or holds, without waiting for an answer. A forked child has nothing to
    /// give up.
    pub fn give_up(&self, grant: &Arc<Grant<L>>, what: GiveUp) -> Result<(), D::Error> {
        if grant.is_inherited() {
            return Ok(());
        }
        match self {
            Self::Threads(station) => station.give_up(grant, what),
            Self::Loop(driver) => driver.give_up(grant, what)?,
        }
        Ok(())
    }
}

impl<L: Send + 'static, D: LoopDriver<L>, C> Drop for Held<L, D, C> {
    fn drop(&mut self) {
        match &self.driver {
            Driver::Threads(station) => station.forsake(&self.grant),
            Driver::Loop(driver) if self.grant.forsake() => driver.forsake(&self.grant),
            Driver::Loop(_) => {}
        }
    }
}

impl<L, D: LoopDriver<L> + ?Sized> LoopDriver<L> for Arc<D> {
    type Error = D::Error;

    fn remaining(&self, grant: &Arc<Grant<L>>) -> Result<Option<Duration>, Self::Error> {
        (**self).remaining(grant)
    }

    fn give_up(&self, grant: &Arc<Grant<L>>, what: GiveUp) -> Result<(), Self::Error> {
        (**self).give_up(grant, what)
    }

    fn forsake(&self, grant: &Arc<Grant<L>>) {
        (**self).forsake(grant);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use super::*;
    use crate::grant::Registry;
    use crate::keys;

    /// A loop, and what it was asked for.
    #[derive(Default)]
    struct Loop(Mutex<Vec<&'static str>>);

    impl LoopDriver<&'static str> for Loop {
        type Error = Infallible;

        fn remaining(&self, _: &Arc<Grant<&'static str>>) -> Result<Option<Duration>, Infallible> {
            self.0.lock().unwrap().push("remaining");
            Ok(Some(Duration::from_secs(7)))
        }

        fn give_up(&self, grant: &Arc<Grant<&'static str>>, what: GiveUp) -> Result<(), Infallible> {
            assert!(what != GiveUp::Lock || grant.take_listeners().is_empty(), "none is told");
            self.0.lock().unwrap().push(match what {
                GiveUp::Lock => "cancel",
                GiveUp::Hold => "release",
                GiveUp::Wait => "stop_waiting",
                GiveUp::Change => "stay",
            });
            Ok(())
        }

        fn forsake(&self, _: &Arc<Grant<&'static str>>) {
            self.0.lock().unwrap().push("forsake");
        }
    }

    fn held(driver: &Arc<Loop>, client: &Arc<()>) -> Held<&'static str, Arc<Loop>, Arc<()>> {
        let grant = Grant::new(keys::names(["a"]).unwrap());
        Held::new(grant, Driver::Loop(driver.clone()), Duration::from_secs(3), client.clone())
    }

    #[test]
    fn one_that_is_dropped_while_it_is_held_is_forsaken() {
        let (driver, client, mut registry) = (Arc::<Loop>::default(), Arc::new(()), Registry::default());
        let [forsaken, released] = [(); 2].map(|()| held(&driver, &client));
        registry.add(forsaken.grant(), 1, 10);
        registry.add(released.grant(), 2, 20);
        assert_eq!(Arc::strong_count(&client), 3, "its client lives as long as it");
        registry.remove(released.grant());
        drop((released, held(&driver, &client)));
        assert!(driver.0.lock().unwrap().is_empty(), "what is not held needs nothing");
        drop(forsaken);
        assert_eq!((&driver.0.lock().unwrap()[..], Arc::strong_count(&client)), (&["forsake"][..], 1));
    }

    #[test]
    fn what_is_asked_without_waiting_goes_to_its_loop() {
        let (driver, client) = (Arc::<Loop>::default(), Arc::new(()));
        let held = held(&driver, &client);
        held.grant().listen("nobody").unwrap();
        let Ok(remaining) = held.remaining();
        let Ok(()) = held.stay();
        let Ok(()) = held.cancel();
        assert_eq!(
            (remaining, &driver.0.lock().unwrap()[..]),
            (Some(Duration::from_secs(7)), &["remaining", "stay", "cancel"][..])
        );
    }

    #[test]
    fn operations_are_about_its_grant_and_only_a_release_gives_it_back() {
        let held = held(&Arc::default(), &Arc::new(()));
        let about = |given: &Arc<Grant<_>>| Arc::ptr_eq(given, held.grant());
        assert!(matches!(held.extend(Duration::ZERO), LockOperation::Extend { grant, .. } if about(&grant)));
        assert!(matches!(held.notify(2), LockOperation::Notify { grant, most: 2 } if about(&grant)));
        let relock = Duration::from_secs(3);
        assert!(
            matches!(held.park(None), LockOperation::Park { grant, relock: for_, .. } if about(&grant) && for_ == relock)
        );
        assert!(!held.is_given_back());
        assert!(matches!(held.release(), LockOperation::Release { grant, .. } if about(&grant)));
        assert!(held.is_given_back() && !held.give_back(), "once");
    }
}
