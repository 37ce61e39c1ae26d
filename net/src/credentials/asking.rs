//! One question for credentials: who asks it, and who answers it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Answer, Credentials, Function, Part, Told};
use crate::own_thread;

/// How long an answer that came too late serves the next connection, if the function does not say how long it lasts.
const LATE: Duration = Duration::from_secs(5);

/// The asking side, which belongs to a connection.
pub struct Asking {
    asked: Arc<Asked>,
    credentials: Arc<Credentials>,
    begun: Instant,
    until: Instant,
}

/// The answering side. A question that is dropped counts as failed.
pub struct Question {
    asked: Arc<Asked>,
    /// None if it is on its way to an answer already.
    open: Option<Open>,
}

/// What remains to be asked.
struct Open {
    credentials: Arc<Credentials>,
    /// Which of the functions is next.
    next: usize,
    known: Answer,
}

#[derive(Default)]
pub(super) struct Asked(Mutex<State>);

#[derive(Default)]
struct State {
    outcome: Option<Result<Answer, String>>,
    /// Whether the outcome was taken.
    is_taken: bool,
    notify: Option<Box<dyn FnOnce() + Send>>,
}

impl Asking {
    /// The answer, or why there is none, once it has come.
    pub fn take(&self) -> Option<Result<Answer, String>> {
        let mut state = self.asked.lock();
        let outcome = state.outcome.take()?;
        state.is_taken = true;
        Some(outcome)
    }

    /// When to look at it: at once if the answer has come.
    pub fn due(&self) -> Instant {
        match self.asked.lock().outcome {
            Some(_) => self.begun,
            None => self.until,
        }
    }

    /// Why there is no answer, if it is too late for one.
    pub(crate) fn too_late(&self, now: Instant) -> Option<String> {
        (self.until <= now).then(|| self.is_late())
    }

    pub fn is_late(&self) -> String {
        let part = self.credentials.functions.first().map_or(Part::Password, |(part, _)| *part).name();
        format!("the function for {part} did not return in time: raise the timeout, or have it answer from memory")
    }
}

/// A function that is under way goes on. The next connection waits for the same call, so that a function that hangs is
/// not called ever again.
impl Drop for Asking {
    fn drop(&mut self) {
        let mut state = self.asked.lock();
        state.notify = None;
        if state.outcome.is_none() && !state.is_taken {
            drop(state);
            self.credentials.late().push(self.asked.clone());
        }
    }
}

impl Question {
    pub(super) fn about(credentials: &Arc<Credentials>, now: Instant) -> (Asking, Self) {
        let until = now + credentials.patience;
        let late = credentials.take_late(now);
        let open = match late {
            Some(_) => None,
            None => Some(Open { credentials: credentials.clone(), next: 0, known: credentials.known(now) }),
        };
        let asked = late.unwrap_or_default();
        let asking = Asking { asked: asked.clone(), credentials: credentials.clone(), begun: now, until };
        (asking, Self { asked, open })
    }

    /// The function to call, and the setting that it was given as. None if it is being called already.
    pub fn function(&self) -> Option<(Part, &dyn Function)> {
        let Open { credentials, next, .. } = self.open.as_ref()?;
        credentials.functions.get(*next).map(|(part, function)| (*part, &**function))
    }

    /// The function to call, to keep beyond the answer.
    pub fn shared_function(&self) -> Option<Arc<dyn Function>> {
        let Open { credentials, next, .. } = self.open.as_ref()?;
        Some(credentials.functions[*next].1.clone())
    }

    /// Calls `notify` when the question is answered, at once if it is.
    pub fn notify(&self, notify: impl FnOnce() + Send + 'static) {
        let mut state = self.asked.lock();
        if state.outcome.is_none() {
            state.notify = Some(Box::new(notify));
            return;
        }
        drop(state);
        notify();
    }

    /// Has the question answered. `notify` is called afterwards, by whoever answers.
    pub fn put(self, notify: impl FnOnce() + Send + 'static) {
        self.notify(notify);
        self.go_on();
    }

    /// Has what remains of it answered, in the same way as before.
    pub fn go_on(self) {
        if let Some(function) = self.shared_function() {
            function.ask(self);
        }
    }

    /// Passes the question to `answer` in a short-lived thread that blocks all signals.
    pub fn answer_apart(self, answer: impl FnOnce(Self) + Send + 'static) {
        // Where it is found again if no thread can be started.
        let kept = Arc::new(Mutex::new(Some(self)));
        let taken = kept.clone();
        let take = |kept: &Mutex<Option<Self>>| kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        let work = move || {
            if let Some(question) = take(&taken) {
                answer(question);
            }
        };
        if let Err(error) = own_thread::start("pinyon-credentials", work) {
            take(&kept).map(|question| question.answer(Err(format!("no thread could be started to call it: {error}"))));
        }
    }

    /// Has the question answered by `call` in a short-lived thread that blocks all signals.
    pub fn answer_in_thread(self, call: impl Fn(&Self) -> Result<Told, String> + Send + 'static) {
        self.answer_apart(move |mut question| loop {
            let told = call(&question);
            match question.answer(told) {
                Some(next) => question = next,
                None => return,
            }
        });
    }

    /// Answers with what the function returned, or with the reason why it did not. Returns the question for the other
    /// part, if another function knows it.
    pub fn answer(self, told: Result<Told, String>) -> Option<Self> {
        Some(self.answered(told)).filter(|question| question.open.is_some())
    }

    /// The same, but returns the question in any case.
    pub fn answered(mut self, told: Result<Told, String>) -> Self {
        let Some(Open { credentials, next, mut known }) = self.open.take() else { return self };
        let part = credentials.functions[next].0;
        let outcome = match told.and_then(|told| told.add_to(&mut known, part)) {
            Err(why) => Err(format!("the function for {} failed: {why}", part.name())),
            Ok(()) if next + 1 < credentials.functions.len() && known.password.is_none() => {
                let open = Some(Open { credentials, next: next + 1, known });
                return Self { asked: self.asked.clone(), open };
            }
            Ok(()) => Ok(Answer { at: Instant::now(), ..known }),
        };
        self.asked.give(outcome);
        self
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        if let Some(Open { credentials, next, .. }) = self.open.take() {
            let part = credentials.functions[next].0.name();
            self.asked.give(Err(format!("the function for {part} was not called")));
        }
    }
}

impl Asked {
    fn give(&self, outcome: Result<Answer, String>) {
        let notify = {
            let mut state = self.lock();
            state.outcome = Some(outcome);
            state.notify.take()
        };
        if let Some(notify) = notify {
            notify();
        }
    }

    /// Whether it still serves, for a connection that asks now.
    pub(super) fn serves(&self, now: Instant) -> bool {
        match &self.lock().outcome {
            None => true,
            Some(Err(_)) => false,
            Some(Ok(answer)) => answer.at + answer.lifetime.map_or(LATE, super::used_for) > now,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Question({:?})", self.function().map(|(part, _)| part))
    }
}

/// As actions are compared in tests.
impl PartialEq for Question {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.asked, &other.asked)
    }
}

impl Eq for Question {}
