//! A look at configuration endpoints: one after the other, until one answers.

use std::time::Instant;

use pinyon_proto::{Command, Status};

use super::listing::{parse, Listing};
use super::Settings;
use crate::address::{Address, ServerSpec};
use crate::error::{Error, Kind};
use crate::fleet::Access;
use crate::network::System;
use crate::resolver::Resolving;
use crate::session::{Data, Limits, Outcome, Session};

const NO_ENDPOINT: &str =
    "it is no configuration endpoint; name one of ElastiCache or Memorystore, or list the servers without discovery";

pub(super) struct Asking {
    endpoint: usize,
    /// How many endpoints have not failed yet, this one included.
    left: usize,
    until: Instant,
    step: Step,
}

enum Step {
    Begin,
    Resolving(Resolving),
    Connected { session: Box<Session>, asked: bool, answer: Option<Vec<u8>> },
}

impl Asking {
    pub(super) fn new(endpoint: usize, settings: &Settings, now: Instant) -> Self {
        Self { endpoint, left: settings.given.len(), until: now + settings.timeout, step: Step::Begin }
    }

    /// Which of the endpoints is asked.
    pub(super) fn endpoint(&self) -> usize {
        self.endpoint
    }

    /// Goes as far as it can without waiting. Returns what an endpoint said, or why the last one did not.
    pub(super) fn advance(
        &mut self,
        settings: &Settings,
        access: &Access,
        now: Instant,
    ) -> Option<Result<Listing, Error>> {
        loop {
            let outcome = self.ask(&settings.given[self.endpoint], access, now)?;
            self.left -= 1;
            if outcome.is_ok() || self.left == 0 {
                return Some(outcome);
            }
            self.endpoint = (self.endpoint + 1) % settings.given.len();
            self.until = now + settings.timeout;
            self.step = Step::Begin;
        }
    }

    fn ask(&mut self, spec: &ServerSpec, access: &Access, now: Instant) -> Option<Result<Listing, Error>> {
        let failed = |kind, why: String| {
            Some(Err(Error::new(kind, &spec.name().into(), format!("cannot find the servers: {why}"))))
        };
        loop {
            match &mut self.step {
                Step::Begin => match spec.address() {
                    Ok(address) => match connect(spec, vec![address], access, self.until, now) {
                        Ok(session) => self.step = Step::of(session),
                        Err(error) => return Some(Err(error)),
                    },
                    Err((name, port)) => match Resolving::begin(name, port) {
                        Ok(resolving) => self.step = Step::Resolving(resolving),
                        Err(error) => return failed(Kind::Connect, format!("its name cannot be resolved: {error}")),
                    },
                },
                Step::Resolving(resolving) => match resolving.take() {
                    Some(Ok(addresses)) => {
                        let addresses = addresses.into_iter().map(Address::Tcp).collect();
                        match connect(spec, addresses, access, self.until, now) {
                            Ok(session) => self.step = Step::of(session),
                            Err(error) => return Some(Err(error)),
                        }
                    }
                    Some(Err(why)) => {
                        return failed(
                            Kind::Connect,
                            format!("its name does not resolve ({why}); check that it is spelled right"),
                        )
                    }
                    None if now < self.until => return None,
                    None => return failed(Kind::Timeout, "the resolver did not answer in time".into()),
                },
                Step::Connected { session, asked, answer } => {
                    session.poll(now);
                    if !*asked && session.accepts() {
                        let submitted = session.submit(&Command::ClusterConfig, Data::None, self.until);
                        submitted.expect("every server takes it");
                        *asked = true;
                        session.poll(now);
                    }
                    if let Some(error) = session.failure().filter(|_| !*asked) {
                        let error = error.clone();
                        return failed(error.kind, error.message);
                    }
                    return match take(session, answer)? {
                        Ok(()) => match answer.as_deref().map(parse) {
                            Some(Ok(listing)) => Some(Ok(listing)),
                            Some(Err(why)) => failed(Kind::Protocol, format!("the answer makes no sense: {why}")),
                            None => failed(Kind::Server, format!("it knows of no cluster: {NO_ENDPOINT}")),
                        },
                        Err(error) if error.kind == Kind::Server => {
                            failed(error.kind, format!("{}: {NO_ENDPOINT}", error.message))
                        }
                        Err(error) => failed(error.kind, error.message),
                    };
                }
            }
        }
    }
}

impl Step {
    fn of(session: Box<Session>) -> Self {
        Step::Connected { session, asked: false, answer: None }
    }
}

fn connect(
    spec: &ServerSpec,
    addresses: Vec<Address>,
    access: &Access,
    until: Instant,
    now: Instant,
) -> Result<Box<Session>, Error> {
    let name = spec.name().into();
    let tls = access.tls.as_ref().map(|tls| tls.of_server(spec)).transpose();
    let tls = tls.map_err(|error| Error::new(Kind::Usage, &name, error.to_string()))?;
    let session = Session::new(name, System, Limits::default());
    let mut session = Box::new(session.with_access(tls, access.login.clone()));
    session.connect(addresses, now, until.saturating_duration_since(now));
    Ok(session)
}

/// Takes what has come; returns whether that was all.
fn take(session: &mut Session, answer: &mut Option<Vec<u8>>) -> Option<Result<(), Error>> {
    loop {
        match session.next()?.outcome {
            Outcome::Part(reply) | Outcome::Reply(reply) if reply.head.status == Status::Hit => {
                *answer = Some(reply.value.bytes().to_vec());
            }
            Outcome::Large(head) => session.receive_into(Box::new(vec![0; head.size.unwrap_or_default()])),
            Outcome::Part(_) => {}
            Outcome::Reply(_) => return Some(Ok(())),
            Outcome::Failed(error) => return Some(Err(error)),
        }
    }
}
