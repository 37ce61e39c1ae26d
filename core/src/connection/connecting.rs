//! From closed to connected: one address after the other, all within one deadline.

use std::time::{Duration, Instant};

use super::secured::{Failure, Secured};
use super::{Connection, State};
use crate::address::Address;
use crate::error::{Error, Kind};
use crate::network::{Network, Stream};

/// An attempt to connect, to one address at a time.
pub(super) struct Attempt<S> {
    stream: Option<S>,
    addresses: std::vec::IntoIter<Address>,
    /// The one that is tried.
    address: Option<Address>,
    limit: Limit,
    /// Why the address before this one failed.
    failure: String,
}

impl<S> Attempt<S> {
    pub(super) fn stream(&self) -> Option<&S> {
        self.stream.as_ref()
    }

    pub(super) fn into_stream(self) -> Option<S> {
        self.stream
    }

    pub(super) fn limit(&self) -> Limit {
        self.limit
    }
}

/// Until when the next stage of a connection must be reached.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    pub(super) deadline: Instant,
    timeout: Duration,
}

impl Limit {
    fn begun(self) -> Instant {
        self.deadline - self.timeout
    }

    /// For the stage that follows one reached now. A host that comes to look after the deadline was away, so the server
    /// could not go on: it has the whole time again.
    fn for_the_next(self, now: Instant) -> Self {
        match self.deadline > now {
            true => self,
            false => Self { deadline: now + self.timeout, ..self },
        }
    }
}

impl<N: Network> Connection<N> {
    /// Begins to connect, to the first of `addresses` that answers, with `timeout` for all of it and the greeting:
    /// [`Self::advance`] does so, and [`Self::check_time`] ends it.
    pub(crate) fn connect(&mut self, addresses: Vec<Address>, now: Instant, timeout: Duration) {
        self.broken.clear();
        self.secured = None;
        let failure = "its name has no address".to_owned();
        let addresses = addresses.into_iter();
        let limit = Limit { deadline: now + timeout, timeout };
        self.state = State::Connecting(Attempt { stream: None, addresses, address: None, limit, failure });
    }

    /// Gives up a connection whose greeting is not answered, and connects to the same address once more, by the same
    /// deadline. Returns what [`Self::advance`] does.
    pub(crate) fn connect_anew(&mut self) -> Result<bool, Error> {
        let State::Greeting(stream, limit) = std::mem::replace(&mut self.state, State::Closed) else {
            unreachable!("it is greeting")
        };
        self.broken.push(stream);
        self.secured = None;
        let addresses = self.address.take().into_iter().collect::<Vec<_>>().into_iter();
        let failure = String::new();
        self.state = State::Connecting(Attempt { stream: None, addresses, address: None, limit, failure });
        self.connect_further(limit.begun())
    }

    /// Goes on connecting as far as it can without waiting. Returns whether it is connected just now, and the server
    /// is to be greeted.
    pub(crate) fn advance(&mut self, now: Instant) -> Result<bool, Error> {
        match self.state {
            State::Connecting(_) => self.connect_further(now),
            State::Securing(..) => self.secure(now),
            _ => Ok(false),
        }
    }

    /// Fails once the deadline is over. Ask this after everything was read that has come: a host that looks late must
    /// not give up a server that was in time. `greeting` is what the server has to answer, as a message names it.
    pub(crate) fn check_time(&self, now: Instant, greeting: &str) -> Result<(), Error> {
        match self.deadline().is_some_and(|deadline| deadline <= now) {
            true => Err(self.too_late(greeting)),
            false => Ok(()),
        }
    }

    fn connect_further(&mut self, now: Instant) -> Result<bool, Error> {
        let State::Connecting(attempt) = &mut self.state else { return Ok(false) };
        loop {
            let opened = match attempt.stream.take() {
                Some(stream) => Ok(stream),
                None => match attempt.addresses.next() {
                    Some(address) => {
                        let opened = self.network.open(&address).map_err(|error| (address.clone(), error));
                        attempt.address = Some(address);
                        opened
                    }
                    None => break,
                },
            };
            let mut stream = match opened {
                Ok(stream) => stream,
                Err((address, error)) => {
                    attempt.failure = format!("{address}: {error}");
                    continue;
                }
            };
            match stream.connected() {
                Ok(true) => {
                    let limit = attempt.limit.for_the_next(now);
                    self.address = attempt.address.take();
                    if self.tls.is_some() {
                        self.state = State::Securing(stream, limit);
                        return self.secure(now);
                    }
                    self.state = State::Greeting(stream, limit);
                    return Ok(true);
                }
                Ok(false) => {
                    attempt.stream = Some(stream);
                    return Ok(false);
                }
                Err(error) => {
                    attempt.failure = error.to_string();
                    self.broken.push(stream);
                }
            }
        }
        let message = format!("cannot connect: {}", attempt.failure);
        Err(Error::new(Kind::Connect, &self.server, message))
    }

    /// Goes on agreeing upon TLS, as far as it can without waiting.
    fn secure(&mut self, now: Instant) -> Result<bool, Error> {
        let (State::Securing(stream, _), Some(tls)) = (&mut self.state, &self.tls) else { return Ok(false) };
        let begun = match self.secured.take() {
            Some(secured) => Ok(secured),
            None => Secured::new(tls).map(Box::new),
        };
        let shaken = begun.and_then(|mut secured| {
            let is_over = secured.shake(stream)?;
            self.secured = Some(secured);
            Ok(is_over)
        });
        match shaken {
            Ok(false) => Ok(false),
            Ok(true) => {
                self.state = match std::mem::replace(&mut self.state, State::Closed) {
                    State::Securing(stream, limit) => State::Greeting(stream, limit.for_the_next(now)),
                    other => other,
                };
                Ok(true)
            }
            Err(error) => Err(match Failure::of(&error) {
                Some(failure) => self.cannot_connect(failure),
                None => self.cannot_connect(format!("the connection broke during the handshake of TLS: {error}")),
            }),
        }
    }

    fn too_late(&self, greeting: &str) -> Error {
        let why = match self.state {
            State::Greeting(..) => format!("it accepted the connection but did not answer \"{greeting}\" in time"),
            State::Securing(..) => {
                "it accepted the connection but did not answer the handshake of TLS in time: does it speak TLS on this \
                 port?"
                    .to_owned()
            }
            _ => "it did not accept the connection in time".to_owned(),
        };
        Error::new(Kind::Timeout, &self.server, format!("cannot connect: {why}"))
    }
}
