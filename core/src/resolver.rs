//! Host names into addresses, by the system's resolver.
//!
//! The resolver knows no deadline and cannot be given up, so each question is asked on a short-lived thread of its own.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::doorbell::{Doorbell, Wake};
use crate::own_thread;

/// A name that is being resolved. Dropped, it is given up, and the thread ends by itself.
#[derive(Debug)]
pub struct Resolving(Arc<Question>);

#[derive(Debug)]
struct Question {
    bell: Arc<Doorbell>,
    answer: Mutex<Option<io::Result<Vec<SocketAddr>>>>,
}

impl Resolving {
    /// Begins to resolve a name, to addresses with this port. [`Self::wait`] waits for the answer.
    ///
    /// # Errors
    /// The system refuses a thread or a pipe.
    pub fn begin(name: &str, port: u16) -> io::Result<Self> {
        Self::begin_ringing(name, port, Arc::new(Doorbell::new()?))
    }

    /// The same for a host that waits for more than this answer: the thread rings `bell` once [`Self::take`] has it.
    ///
    /// # Errors
    /// The system refuses a thread.
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

    /// Waits until its bell rings: there may be an answer then.
    pub fn wait(&self, deadline: Instant) -> Wake {
        self.0.bell.wait(deadline)
    }

    /// The answer, once there is one.
    pub fn take(&self) -> Option<io::Result<Vec<SocketAddr>>> {
        self.0.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
