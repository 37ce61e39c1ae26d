//! Questions for hosts whose functions only their own threads may call: the core leaves them, and the host takes them.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::Question;
use crate::fork::PerProcess;

/// The questions of a process that nobody has taken. A forked child starts without its parent's.
#[derive(Debug)]
pub struct Questions {
    left: PerProcess<Left>,
}

impl Default for Questions {
    fn default() -> Self {
        Self { left: PerProcess::new(Left::default()) }
    }
}

#[derive(Debug, Default)]
struct Left {
    waiting: Mutex<Waiting>,
    some: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    questions: VecDeque<Question>,
    interrupted: bool,
}

impl Questions {
    /// Leaves a question for the host.
    pub fn leave(&self, question: Question) {
        let left = self.of_process();
        left.lock().questions.push_back(question);
        left.some.notify_one();
    }

    /// The next question, if there is one.
    pub fn take(&self) -> Option<Question> {
        self.of_process().lock().questions.pop_front()
    }

    /// Waits for the next question. [`Self::interrupt`] ends the wait with `None`.
    pub fn wait(&self) -> Option<Question> {
        let left = self.of_process();
        let mut waiting = left.lock();
        loop {
            if std::mem::take(&mut waiting.interrupted) {
                return None;
            }
            if let Some(question) = waiting.questions.pop_front() {
                return Some(question);
            }
            waiting = left.some.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the present wait, or the next one.
    pub fn interrupt(&self) {
        let left = self.of_process();
        left.lock().interrupted = true;
        left.some.notify_all();
    }

    fn of_process(&self) -> &Left {
        self.left.get(|_| Left::default())
    }
}

impl Left {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
