//! Host names into addresses, by the system's resolver.
//!
//! It knows no deadline and cannot be given up, so each question is asked on a short-lived thread of its own.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::doorbell::{Doorbell, Wake};

/// A name that is being resolved. Dropped, it is given up, and the thread ends by itself.
#[derive(Debug)]
pub struct Resolving(Arc<Question>);

#[derive(Debug)]
struct Question {
    answered: Doorbell,
    answer: Mutex<Option<io::Result<Vec<SocketAddr>>>>,
}

impl Resolving {
    /// Begins to resolve a name, to addresses with this port.
    pub fn begin(name: &str, port: u16) -> io::Result<Self> {
        let question = Arc::new(Question { answered: Doorbell::new()?, answer: Mutex::default() });
        let (asked, name) = (question.clone(), name.to_owned());
        let ask = move || {
            let answer = (name.as_str(), port).to_socket_addrs().map(Vec::from_iter);
            *asked.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
            asked.answered.ring();
        };
        std::thread::Builder::new().name("pinyon-resolve".into()).spawn(ask)?;
        Ok(Self(question))
    }

    /// Waits until there may be an answer.
    pub fn wait(&self, deadline: Instant) -> Wake {
        self.0.answered.wait(deadline)
    }

    /// The answer, once there is one.
    pub fn take(&self) -> Option<io::Result<Vec<SocketAddr>>> {
        self.0.answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
