//! Logging in anew on a live connection, before the credentials of its login end.
//!
//! At four fifths of their lifetime the connection asks for others, and sends them with `AUTH`. If that fails, the
//! connection goes on, and tries again until the end. With RESP2, a connection that has subscribed takes no `AUTH`: it
//! is given up, and its owner makes another.
//!
//! The reply to that `AUTH` belongs to the session alone.

use std::time::{Duration, Instant};

use pinyon_proto::resp::{encode, Value};

use super::submitting::Exchange;
use super::RespSession;
use pinyon_net::connection::Ticket;
use pinyon_net::credentials::{used_for, Answer};
use pinyon_net::error::{Error, Kind};
use pinyon_net::network::Network;

/// The pause after a failure: a quarter of what is left of the lifetime, within these bounds.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How often the reply to `AUTH` is looked for, if nobody waits for others.
const LOOK: Duration = Duration::from_millis(100);

/// When the credentials of a connection's login end, and what is done about it.
pub(super) struct Renewal {
    /// When to ask for others.
    at: Instant,
    ends: Instant,
    stage: Stage,
    /// Why it failed last, until that was reported.
    trouble: Option<Error>,
    /// Whether a failure was reported since the last success.
    is_reported: bool,
}

enum Stage {
    Rests,
    Asks,
    /// The credentials that were sent, until they are accepted.
    Sent(Ticket, Box<Answer>),
}

impl Renewal {
    /// The renewal of a login with this answer, if its credentials end.
    pub(super) fn of(answer: &Answer) -> Option<Box<Self>> {
        let lifetime = answer.lifetime?;
        let (at, ends) = (answer.at + used_for(lifetime), answer.at + lifetime);
        Some(Box::new(Self { at, ends, stage: Stage::Rests, trouble: None, is_reported: false }))
    }

    pub(super) fn take_trouble(&mut self) -> Option<Error> {
        self.trouble.take()
    }

    fn failed(&mut self, error: Error, now: Instant) {
        let left = self.ends.saturating_duration_since(now) / 4;
        self.at = now + left.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        self.stage = Stage::Rests;
        if !std::mem::replace(&mut self.is_reported, true) {
            self.trouble = Some(error);
        }
    }
}

impl<N: Network> RespSession<N> {
    /// Takes the credentials that a function has returned for this connection.
    pub(super) fn adopt_answer(&mut self) {
        let Some(answer) = self.connection.take_answer() else { return };
        self.adopt(answer);
    }

    fn adopt(&mut self, answer: Answer) {
        self.renewal = Renewal::of(&answer);
        (self.settings.user, self.settings.password) = (answer.username, answer.password);
    }

    /// When to look after the login.
    pub(super) fn renewal_due(&self) -> Option<Instant> {
        let renewal = self.renewal.as_ref()?;
        match renewal.stage {
            Stage::Rests | Stage::Sent(..) => Some(renewal.at),
            Stage::Asks => self.connection.new_answer_due(),
        }
    }

    /// Does what is due for the login.
    #[cold]
    pub(super) fn renew(&mut self, now: Instant) {
        let (is_ready, is_subscriber_only) = (self.is_ready(), self.is_subscriber_only());
        let Some(renewal) = self.renewal.as_mut().filter(|_| is_ready) else { return };
        match renewal.stage {
            Stage::Rests if renewal.at > now => {}
            Stage::Rests if is_subscriber_only => {
                let why = "its credentials end, and with RESP2 it cannot log in anew while it is subscribed";
                self.fail(Error::new(Kind::Closed, self.connection.server(), why));
            }
            Stage::Rests => {
                renewal.stage = Stage::Asks;
                self.connection.ask_anew(now);
            }
            Stage::Asks => match self.connection.take_new_answer(now) {
                None => {}
                Some(Ok(answer)) => self.log_in_anew(answer, now),
                Some(Err(why)) => {
                    let error = Error::new(Kind::Credentials, self.connection.server(), cannot_renew(&why));
                    renewal.failed(error, now);
                }
            },
            Stage::Sent(..) => {
                if renewal.at <= now {
                    renewal.at = now + LOOK;
                }
            }
        }
    }

    /// Sends the credentials. Until they are accepted, the connection keeps those that it has.
    fn log_in_anew(&mut self, answer: Answer, now: Instant) {
        let password = answer.password.as_ref().map(|password| password.bytes()).unwrap_or_default();
        let mut request = Vec::new();
        match &answer.username {
            Some(username) => encode(&[b"AUTH", username.as_bytes(), password], &mut request),
            None => encode(&[b"AUTH", password], &mut request),
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        // Nobody awaits the reply but this session.
        self.queue.push_back(Exchange::unawaited(ticket, now, self.outgoing.end()));
        self.outgoing.append_bytes(&request);
        if let Some(renewal) = &mut self.renewal {
            renewal.at = now + LOOK;
            renewal.stage = Stage::Sent(ticket, answer.into());
        }
        self.flush();
    }

    /// Takes the reply to an exchange that no caller awaits: it may be the one to `AUTH`.
    #[cold]
    pub(super) fn take_unawaited(&mut self, ticket: Ticket, reply: &Value) {
        let Some(renewal) = &mut self.renewal else { return };
        let Stage::Sent(sent, _) = renewal.stage else { return };
        if sent != ticket {
            return;
        }
        let Stage::Sent(_, answer) = std::mem::replace(&mut renewal.stage, Stage::Rests) else { return };
        let Value::Error(refusal) = reply else { return self.adopt(*answer) };
        // Servers may repeat what they were sent.
        let refusal = refusal.to_string();
        let said = match &answer.password {
            Some(password) => password.redact(refusal.as_bytes()),
            None => refusal,
        };
        let why = format!("the server refused the credentials that were returned (it answered \"{said}\")");
        let error = Error::new(Kind::Credentials, self.connection.server(), cannot_renew(&why));
        // That is when it was looked for last, or a little later.
        let now = renewal.at;
        renewal.failed(error, now);
    }
}

fn cannot_renew(why: &str) -> String {
    format!("cannot log in anew before the credentials end: {why}")
}
