//! From closed to connected: tries one address after another, within one deadline.

use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::tls_stream::{Failure, Secured};
use super::{Connection, State};
use crate::address::Address;
use crate::error::{Error, Kind};
use crate::network::{Network, Stream};

/// An attempt to connect, to one address at a time.
pub(super) struct Attempt<S> {
    stream: Option<S>,
    addresses: std::vec::IntoIter<Address>,
    /// The address that is being tried.
    address: Option<Address>,
    limit: Limit,
    /// Why the previous address failed.
    failure: String,
    /// Whether this process may open no more descriptors.
    is_full: bool,
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

/// The deadline of the connection's next stage.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    pub(super) deadline: Instant,
    timeout: Duration,
}

impl Limit {
    fn begun(self) -> Instant {
        self.deadline - self.timeout
    }

    /// The limit of the next stage, after one was reached now. If the host was away until after the deadline, the
    /// server had no chance to continue, so it has the whole time again.
    fn for_the_next(self, now: Instant) -> Self {
        match self.deadline > now {
            true => self,
            false => Self { deadline: now + self.timeout, ..self },
        }
    }
}

impl<N: Network> Connection<N> {
    /// Begins to connect to the first of `addresses` that answers, with `timeout` for connecting and the greeting.
    /// [`Self::advance`] does the work, and [`Self::check_time`] ends it.
    pub fn connect(&mut self, addresses: Vec<Address>, now: Instant, timeout: Duration) {
        self.broken.clear();
        self.secured = None;
        if let Some(logging) = &mut self.logging {
            logging.ask(addresses, now, timeout);
            self.state = State::Asking;
            return;
        }
        self.connect_to(addresses, now, timeout);
    }

    pub(super) fn connect_to(&mut self, addresses: Vec<Address>, now: Instant, timeout: Duration) {
        let failure = "its name has no address".to_owned();
        let addresses = addresses.into_iter();
        let limit = Limit { deadline: now + timeout, timeout };
        self.state =
            State::Connecting(Attempt { stream: None, addresses, address: None, limit, failure, is_full: false });
    }

    /// Gives up a connection whose greeting went unanswered, and connects to the same address again within the same
    /// deadline. Returns the same as [`Self::advance`].
    pub fn connect_anew(&mut self) -> Result<bool, Error> {
        let State::Greeting(stream, limit) = std::mem::replace(&mut self.state, State::Closed) else {
            unreachable!("it is greeting")
        };
        self.broken.push(stream);
        self.secured = None;
        let addresses = self.address.take().into_iter().collect::<Vec<_>>().into_iter();
        let failure = String::new();
        self.state =
            State::Connecting(Attempt { stream: None, addresses, address: None, limit, failure, is_full: false });
        self.connect_further(limit.begun())
    }

    /// Greets the server once more, on a connection that is ready. The answer may take `timeout`.
    pub fn greet_again(&mut self, now: Instant, timeout: Duration) {
        self.state = match std::mem::replace(&mut self.state, State::Closed) {
            State::Ready(stream) => State::Greeting(stream, Limit { deadline: now + timeout, timeout }),
            other => other,
        };
    }

    /// Continues to connect as far as possible without waiting. Returns whether it has just connected, so that the
    /// server must be greeted.
    pub fn advance(&mut self, now: Instant) -> Result<bool, Error> {
        match self.state {
            State::Asking => self.look_for_answer(now),
            State::Connecting(_) => self.connect_further(now),
            State::Securing(..) => self.secure(now),
            _ => Ok(false),
        }
    }

    /// Fails after the deadline. Call it after reading everything that has arrived: a host that looks late must not
    /// give up a punctual server. `greeting`: the awaited answer, for the message.
    pub fn check_time(&self, now: Instant, greeting: &str) -> Result<(), Error> {
        match self.deadline().is_some_and(|deadline| deadline <= now) {
            // An answer that has come is taken by the next look.
            true if self.is_asking() => self.check_asking_time(now),
            true => Err(self.too_late(greeting)),
            false => Ok(()),
        }
    }

    pub(super) fn connect_further(&mut self, now: Instant) -> Result<bool, Error> {
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
                    attempt.is_full = matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE));
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
        match attempt.is_full {
            true => Err(Error::new(Kind::Crowded, &self.server, format!("{message}: raise the limit (ulimit -n)"))),
            false => Err(Error::new(Kind::Connect, &self.server, message)),
        }
    }

    /// Continues the TLS handshake as far as possible without waiting.
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
                Some(failure) => self.unsecured(failure),
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
