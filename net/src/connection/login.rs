//! Asking for credentials before a connection is made, and again before they end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Connection, State};
use crate::address::Address;
use crate::credentials::{Answer, Asking, Credentials, Question};
use crate::error::{Error, Kind};
use crate::network::Network;

/// Whom a connection asks for credentials, and what it was told.
pub(super) struct Logging {
    credentials: Arc<Credentials>,
    asking: Option<Asking>,
    /// For the driver, which has it answered.
    question: Option<Question>,
    /// For the session, which logs in with it.
    answer: Option<Answer>,
    /// Where to connect afterwards, and how long that may take.
    addresses: Vec<Address>,
    timeout: Duration,
}

impl Logging {
    pub(super) fn ask(&mut self, addresses: Vec<Address>, now: Instant, timeout: Duration) {
        (self.addresses, self.timeout) = (addresses, timeout);
        self.begin(now);
    }

    fn begin(&mut self, now: Instant) {
        // A call that an earlier attempt has given up serves this one.
        self.question = None;
        self.asking = None;
        let (asking, question) = self.credentials.ask(now);
        (self.asking, self.question, self.answer) = (Some(asking), Some(question), None);
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.asking.as_ref().map(Asking::due)
    }

    /// The answer, once it has come. After this it asks no more.
    fn take(&mut self, now: Instant) -> Option<Result<Answer, String>> {
        let outcome = self.asking.as_ref()?.take()?;
        self.asking = None;
        // By the clock of the caller.
        let at = |answer: &Answer| now.checked_sub(answer.at.elapsed()).unwrap_or(now);
        Some(outcome.map(|answer| Answer { at: at(&answer), ..answer }))
    }
}

impl<N: Network> Connection<N> {
    /// Sets whom to ask for credentials before each connection.
    pub fn set_credentials(&mut self, credentials: Option<Arc<Credentials>>) {
        self.logging = credentials.map(|credentials| {
            let (addresses, timeout) = (Vec::new(), Duration::ZERO);
            Box::new(Logging { credentials, asking: None, question: None, answer: None, addresses, timeout })
        });
    }

    /// Whether a function of the host's returns its credentials.
    pub fn has_credentials(&self) -> bool {
        self.logging.is_some()
    }

    /// Whether it awaits credentials before it connects.
    pub fn is_asking(&self) -> bool {
        matches!(self.state, State::Asking)
    }

    #[inline]
    pub fn has_question(&self) -> bool {
        self.logging.as_ref().is_some_and(|logging| logging.question.is_some())
    }

    /// The question to have answered, once. Take it after every call.
    pub fn take_question(&mut self) -> Option<Question> {
        self.logging.as_mut()?.question.take()
    }

    /// What to log in with, once, before the greeting.
    pub fn take_answer(&mut self) -> Option<Answer> {
        self.logging.as_mut()?.answer.take()
    }

    /// Begins to ask again, on a live connection.
    pub fn ask_anew(&mut self, now: Instant) {
        if let Some(logging) = &mut self.logging {
            logging.begin(now);
        }
    }

    /// The answer to [`Self::ask_anew`], or why there is none, once that is known.
    pub fn take_new_answer(&mut self, now: Instant) -> Option<Result<Answer, String>> {
        let logging = self.logging.as_mut()?;
        if let Some(outcome) = logging.take(now) {
            return Some(outcome);
        }
        let late = logging.asking.as_ref()?.too_late(now)?;
        logging.asking = None;
        Some(Err(late))
    }

    /// When to look for the answer to [`Self::ask_anew`].
    pub fn new_answer_due(&self) -> Option<Instant> {
        self.logging.as_ref()?.due()
    }

    /// Connects once the credentials have come.
    #[cold]
    pub(super) fn look_for_answer(&mut self, now: Instant) -> Result<bool, Error> {
        let Some(logging) = &mut self.logging else { return Ok(false) };
        match logging.take(now) {
            None => Ok(false),
            Some(Err(why)) => Err(self.without_credentials(&why)),
            Some(Ok(answer)) => {
                logging.answer = Some(answer);
                let (addresses, timeout) = (std::mem::take(&mut logging.addresses), logging.timeout);
                self.connect_to(addresses, now, timeout);
                self.connect_further(now)
            }
        }
    }

    #[cold]
    pub(super) fn check_asking_time(&self, now: Instant) -> Result<(), Error> {
        let asking = self.logging.as_ref().and_then(|logging| logging.asking.as_ref());
        match asking.and_then(|asking| asking.too_late(now)) {
            Some(_) => Err(self.unanswered_credentials()),
            None => Ok(()),
        }
    }

    /// The error if the function for the credentials does not return in time.
    pub fn unanswered_credentials(&self) -> Error {
        let asking = self.logging.as_ref().and_then(|logging| logging.asking.as_ref());
        let why = asking.map(Asking::is_late).unwrap_or_default();
        self.without_credentials(&why)
    }

    pub fn without_credentials(&self, why: &str) -> Error {
        Error::new(Kind::Credentials, &self.server, format!("cannot connect: {why}"))
    }
}
