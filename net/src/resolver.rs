//! Resolves host names by the system's resolver.
//!
//! The system's resolver has no deadline and cannot be cancelled, so each question has a short-lived thread of its own.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::doorbell::{Doorbell, Wake};
use crate::own_thread;

/// A name that is being resolved. If it is dropped, the answer is discarded, and the thread ends by itself.
#[derive(Debug)]
pub struct Resolving(Arc<Question>);

#[derive(Debug)]
struct Question {
    bell: Arc<Doorbell>,
    answer: Mutex<Option<io::Result<Vec<SocketAddr>>>>,
}

impl Resolving {
    /// Begins to resolve a name to addresses with this port. [`Self::wait`] waits for the answer.
    ///
    /// # Errors The system refuses a thread or a pipe.
    pub fn begin(name: &str, port: u16) -> io::Result<Self> {
        Self::begin_ringing(name, port, Arc::new(Doorbell::new()?))
    }

    /// The same for a host that waits for other things too: the thread rings `bell` once [`Self::take`] has the answer.
    ///
    /// # Errors The system refuses a thread.
    pub fn begin_ringing(name: &str, port: u16, bell: Arc<Doorbell>) -> io::Result<Self> {
        let question = Arc::new(Question { bell, answer: Mutex::default() });
        let (asked, name) = (question.clone(), name.to_owned());
        let ask = move || {
            let answer = (name.as_str(), port).to_socket_addrs().map(Vec::from_iter);
            *asked.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
            asked.bell.ring();
        };
        own_thread::start("pinyon-resolve", ask)?;
        Ok(Self(question))
    }

    /// Waits until its bell rings. Then there may be an answer.
    pub fn wait(&self, deadline: Instant) -> Wake {
        self.0.bell.wait(deadline)
    }

    /// The answer, if it has arrived.
    pub fn take(&self) -> Option<io::Result<Vec<SocketAddr>>> {
        self.0.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
