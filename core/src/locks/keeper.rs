//! The thread that renews what threads hold, while they do other things. It calls no host: it leaves notes.
//!
//! It is started when something is first acquired, in a forked child anew, and ends when its client is closed. A process
//! that exits does not wait for it.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use super::station::Station;
use crate::blocking::Host;

/// Starts the keeper of a station.
pub(super) fn start<L: Send + 'static>(station: Arc<Station<L>>) -> io::Result<()> {
    let _blocked = BlockedSignals::new();
    let keep = move || while station.keep(&NoHost) {};
    std::thread::Builder::new().name("pinyon-locks".into()).spawn(keep).map(drop)
}

/// The keeper has no lock of a language's to give up, and gets no signals.
struct NoHost;

impl Host for NoHost {
    type Interrupt = Infallible;

    fn unlocked<T: Send>(&self, wait: impl FnOnce() -> T + Send) -> Result<T, Infallible> {
        Ok(wait())
    }

    fn interrupted(&self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// The signals that the running thread does not get, until this is dropped. A thread that it starts inherits them: it never
/// gets one that is meant for the host's threads.
struct BlockedSignals(libc::sigset_t);

#[allow(unsafe_code)]
impl BlockedSignals {
    fn new() -> Self {
        // SAFETY: all bytes zero are a set of signals; the calls write to the sets that they are given, and cannot fail
        // with these arguments.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before);
            Self(before)
        }
    }
}

#[allow(unsafe_code)]
impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the set is one that the call has written before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}
