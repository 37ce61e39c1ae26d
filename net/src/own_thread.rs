//! Threads that the core starts itself. They block all signals, which are meant for the host's threads.

use std::io;

/// Starts a thread with this name. It is never joined.
pub fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let _blocked = BlockedSignals::new();
    std::thread::Builder::new().name(name.into()).spawn(work).map(drop)
}

/// Blocks all signals in the calling thread until this is dropped. A thread that is started meanwhile inherits this.
struct BlockedSignals(libc::sigset_t);

#[allow(unsafe_code)]
impl BlockedSignals {
    fn new() -> Self {
        // SAFETY: a zeroed set of signals is valid. The calls write only to these sets, and cannot fail with these
        // arguments.
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
        // SAFETY: an earlier call wrote this set.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[allow(unsafe_code)]
    fn blocks(signal: i32) -> bool {
        // SAFETY: without a new set, the call only writes the current one to the given memory.
        unsafe {
            let mut present = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut present);
            libc::sigismember(&present, signal) == 1
        }
    }

    #[test]
    fn a_thread_of_the_core_gets_no_signals_and_the_one_that_starts_it_as_many_as_before() {
        let (tell, told) = mpsc::channel();
        let signals = [libc::SIGINT, libc::SIGTERM, libc::SIGUSR1, libc::SIGALRM];
        let before = signals.map(blocks);
        start("pinyon-test", move || tell.send(signals.map(blocks)).unwrap()).unwrap();
        assert_eq!((told.recv().unwrap(), signals.map(blocks)), ([true; 4], before));
        assert_eq!(before, [false; 4]);
    }
}
