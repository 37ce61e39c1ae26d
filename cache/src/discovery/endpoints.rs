//! A look at configuration endpoints, one after another, until one of them answers.

use std::time::Instant;

use pinyon_proto::{Command, Status};

use super::cluster_list::{parse, Listing};
use super::DiscoverySettings;
use crate::fleet::Access;
use crate::session::{Data, Limits, Outcome, Session};
use pinyon_net::address::{Address, ServerSpec};
use pinyon_net::error::{Error, Kind};
use pinyon_net::network::System;
use pinyon_net::resolver::Resolving;

const REMEDY: &str =
    "name a configuration endpoint of ElastiCache or Memorystore, or list the servers and leave discovery out";

pub(super) struct Asking {
    endpoint: usize,
    /// The number of endpoints that have not failed yet, including this one.
    left: usize,
    until: Instant,
    stage: Stage,
}

enum Stage {
    Begin,
    Resolving(Resolving),
    Connected(Question),
}

/// The question to an endpoint, sent once it is connected.
struct Question {
    session: Box<Session>,
    asked: bool,
    answer: Option<Vec<u8>>,
}

/// The reason why an endpoint fails.
type Stuck = (Kind, String);

impl Asking {
    pub(super) fn new(endpoint: usize, settings: &DiscoverySettings, now: Instant) -> Self {
        Self { endpoint, left: settings.given.len(), until: now + settings.timeout, stage: Stage::Begin }
    }

    /// The endpoint that is being asked.
    pub(super) fn endpoint(&self) -> usize {
        self.endpoint
    }

    /// Continues as far as possible without waiting. Returns the endpoint's answer, or the failure of the last
    /// endpoint.
    pub(super) fn advance(
        &mut self,
        settings: &DiscoverySettings,
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
            self.stage = Stage::Begin;
        }
    }

    fn ask(&mut self, spec: &ServerSpec, access: &Access, now: Instant) -> Option<Result<Listing, Error>> {
        let failed =
            |(kind, why): Stuck| Error::new(kind, &spec.name().into(), format!("cannot find the servers: {why}"));
        let until = self.until;
        loop {
            let next = match &mut self.stage {
                Stage::Begin => match spec.addresses() {
                    Ok(addresses) => connect(spec, addresses, access, until, now),
                    Err((name, port)) => Resolving::begin(name, port).map(Stage::Resolving).map_err(unresolved),
                },
                Stage::Resolving(resolving) => match resolving.take() {
                    Some(Ok(addresses)) => {
                        connect(spec, addresses.into_iter().map(Address::Tcp).collect(), access, until, now)
                    }
                    Some(Err(error)) => Err(unresolved(error)),
                    None if now < until => return None,
                    None => Err((Kind::Timeout, "the resolver did not answer in time".into())),
                },
                Stage::Connected(question) => return Some(question.advance(until, now)?.map_err(failed)),
            };
            match next {
                Ok(stage) => self.stage = stage,
                Err(stuck) => return Some(Err(failed(stuck))),
            }
        }
    }
}

impl Question {
    fn advance(&mut self, until: Instant, now: Instant) -> Option<Result<Listing, Stuck>> {
        self.session.poll(now);
        if !self.asked && self.session.accepts() {
            let submitted = self.session.submit(&Command::ClusterConfig, Data::None, until);
            submitted.expect("every server takes it");
            self.asked = true;
            self.session.poll(now);
        }
        if !self.asked {
            return self.session.failure().map(|error| Err(stuck(error.clone())));
        }
        let answered = self.take_answer()?;
        Some(answered.map_err(stuck).and_then(|()| match self.answer.as_deref().map(parse) {
            Some(listing) => {
                listing.map_err(|why| (Kind::Protocol, format!("the answer makes no sense: {why}: {REMEDY}")))
            }
            None => Err((Kind::Server, no_endpoint("it knows of no cluster"))),
        }))
    }

    /// Takes what has arrived. Returns whether the answer is complete.
    fn take_answer(&mut self) -> Option<Result<(), Error>> {
        loop {
            match self.session.next()?.outcome {
                Outcome::Part(reply) | Outcome::Reply(reply) if reply.head.status == Status::Hit => {
                    self.answer = Some(reply.value.bytes().to_vec());
                }
                Outcome::Large { head, .. } => {
                    self.session.receive_into(Box::new(vec![0; head.size.unwrap_or_default()]))
                }
                Outcome::Part(_) => {}
                Outcome::Reply(_) => return Some(Ok(())),
                Outcome::Failed(error) => return Some(Err(error)),
            }
        }
    }
}

fn connect(
    spec: &ServerSpec,
    addresses: Vec<Address>,
    access: &Access,
    until: Instant,
    now: Instant,
) -> Result<Stage, Stuck> {
    let tls = access.tls.as_ref().map(|tls| tls.of_server(spec)).transpose();
    let tls = tls.map_err(|error| (Kind::Usage, error.to_string()))?;
    let session = Session::new(spec.name().into(), System::default(), Limits::default());
    let mut session = Box::new(session.with_access(tls, access.login.clone()));
    session.connect(addresses, now, until.saturating_duration_since(now));
    // The next step looks for the answer.
    session.take_question().into_iter().for_each(|question| question.put(|| ()));
    Ok(Stage::Connected(Question { session, asked: false, answer: None }))
}

fn unresolved(error: std::io::Error) -> Stuck {
    (Kind::Connect, Error::why_unresolved(&error.to_string()))
}

fn no_endpoint(what: &str) -> String {
    format!("{what}, so it is no configuration endpoint: {REMEDY}")
}

fn stuck(error: Error) -> Stuck {
    match error.kind {
        Kind::Server => (error.kind, no_endpoint(&error.message)),
        Kind::Protocol | Kind::TooLarge => (error.kind, format!("{}: {REMEDY}", error.message)),
        _ => (error.kind, error.message),
    }
}
