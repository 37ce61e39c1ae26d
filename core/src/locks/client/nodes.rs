//! Finding the node of a cluster that has the slot of the keys.
//!
//! Each node that is asked says whether it has the slot or which one does, and names all nodes. They are asked in
//! rounds: whoever served the client before, the nodes with the slot, others, and those in the settings, each once in a
//! round. Between two rounds there is a pause.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use pinyon_proto::resp::{Command, Value};

use super::link::{About, COMMANDS};
use super::slots::{node, Slots};
use super::{Client, Platform, Setup};
use crate::address::Endpoint;
use crate::error::{Error, Kind};
use crate::locks::handler::Redirection;

/// How many nodes without the slot are asked in a round, beside those in the settings.
const OTHERS: usize = 16;

/// A round in so many asks those again that failed in the last one, although others answered.
const ALL_EVERY: usize = 4;

/// How many nodes a round asks, however they send the client on.
const MOST_ASKED: usize = 64;

/// How many nodes an error quotes.
const QUOTED: usize = 8;

/// How often a client that is in use asks its node for all nodes.
const REFRESH: Duration = Duration::from_secs(60);

pub(super) struct Nodes {
    slot: u16,
    given: Vec<Endpoint>,
    slots: Slots,
    /// Who was asked in this round, and what came of it.
    asked: Vec<(Endpoint, Said)>,
    /// Who could not be asked in the last round, and whether anybody else answered.
    failed: Vec<Endpoint>,
    answered: bool,
    round: usize,
    /// Whether the current endpoint has served the client, so that it is the first to be asked again.
    has_served: bool,
    /// What came of the last round; none once a node serves the client.
    verdict: Option<Error>,
    refresh_at: Option<Instant>,
}

/// What a node has said about the slot.
#[derive(Clone, Debug, PartialEq)]
enum Said {
    Nothing,
    /// Another node has it.
    Elsewhere(Box<str>),
    /// Nobody has it, in the node's words.
    NotServed(String),
    /// Why it was not asked, or cannot be used.
    Failed(String),
}

/// What comes after a node that could not be used.
#[derive(Debug, PartialEq)]
enum Next {
    Ask(Endpoint),
    /// All were asked. `patiently`: the cluster is there, and is about to serve the slot again.
    Pause {
        patiently: bool,
        many: bool,
    },
}

impl Nodes {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            slot: setup.keys.slot(),
            given: std::iter::once(&setup.endpoint).chain(&setup.other_nodes).cloned().collect(),
            slots: setup.slots.clone(),
            asked: Vec::new(),
            failed: Vec::new(),
            answered: false,
            round: 0,
            has_served: false,
            verdict: None,
            refresh_at: None,
        }
    }

    /// Who is to be asked now. `current` is the endpoint so far.
    fn begin(&mut self, current: &Endpoint) -> Endpoint {
        let first = match self.asked.is_empty() && !self.has_served {
            true => self.candidates().next().unwrap_or_else(|| current.clone()),
            false => current.clone(),
        };
        if !self.was_asked(&first) {
            self.asked.push((first.clone(), Said::Nothing));
        }
        first
    }

    fn was_asked(&self, node: &Endpoint) -> bool {
        self.asked.iter().any(|(asked, _)| asked == node)
    }

    fn may_ask(&self, node: &Endpoint) -> bool {
        !self.was_asked(node) && self.asked.len() < MOST_ASKED
    }

    /// Whom to ask in this round, in order.
    fn candidates(&self) -> impl Iterator<Item = Endpoint> + '_ {
        let all = self.slots.of(self.slot).into_iter().chain(self.slots.some(self.round, OTHERS));
        let all = all.chain(self.given.iter().cloned());
        let (failed, others): (Vec<_>, Vec<_>) = all.partition(|node| self.failed.contains(node));
        let skips = self.answered && self.round % ALL_EVERY != 0;
        others.into_iter().chain(failed.into_iter().filter(move |_| !skips))
    }

    /// Notes what a node has said in this round. Its first word counts.
    fn note(&mut self, node: &Endpoint, said: Said) {
        match self.asked.iter_mut().find(|(asked, _)| asked == node) {
            Some((_, before)) if *before == Said::Nothing => *before = said,
            Some(_) => {}
            None => self.asked.push((node.clone(), said)),
        }
    }

    /// Turns to the next node after one that could not be used.
    fn next(&mut self, has_been_up: bool) -> Next {
        let next = self.candidates().find(|node| self.may_ask(node));
        if let Some(next) = next {
            return Next::Ask(next);
        }
        let (many, is_down) = (
            self.asked.len() > 1 || self.asked.iter().any(answered),
            self.asked.iter().any(|(_, said)| matches!(said, Said::NotServed(_))),
        );
        self.answered = self.asked.iter().any(answered);
        self.failed = self.asked.drain(..).filter(|asked| !answered(asked)).map(|(node, _)| node).collect();
        self.round = self.round.wrapping_add(1);
        self.has_served = false;
        Next::Pause { patiently: is_down || self.answered && has_been_up, many }
    }

    /// What the nodes have said in this round.
    fn said(&self) -> String {
        let quote = |(node, said): &(Endpoint, Said)| match said {
            Said::Nothing => format!("{node} was not asked"),
            Said::Elsewhere(address) => format!("{node} says that it is on {address}"),
            Said::NotServed(words) => format!("{node} says {words}"),
            Said::Failed(why) => format!("{node} cannot be asked ({why})"),
        };
        let mut quoted: Vec<String> = self.asked.iter().take(QUOTED).map(quote).collect();
        if self.asked.len() > QUOTED {
            quoted.push(format!("and {} more", self.asked.len() - QUOTED));
        }
        let quoted = quoted.join("; ");
        match self.asked.iter().any(answered) {
            true => format!("slot {} of the cluster is not served: {quoted}", self.slot),
            false => format!("no node of the cluster can be used: {quoted}"),
        }
    }

    /// Begins a new round, as the connection to the node that served the client is gone.
    pub(super) fn restart(&mut self) {
        self.asked.clear();
        self.failed.clear();
    }

    /// Whether this node has said in this round that it does not have the slot.
    pub(super) fn is_refused_by(&self, node: &Endpoint) -> bool {
        self.asked.iter().any(|asked| asked.0 == *node && answered(asked))
    }

    /// The current node serves the client.
    pub(super) fn rise(&mut self) {
        self.restart();
        (self.has_served, self.answered, self.verdict) = (true, false, None);
    }

    /// What came of the last round, if no node has served the client since.
    pub(super) fn verdict(&self) -> Option<&Error> {
        self.verdict.as_ref()
    }
}

fn answered((_, said): &(Endpoint, Said)) -> bool {
    matches!(said, Said::Elsewhere(_) | Said::NotServed(_))
}

impl<W, P: Platform> Client<W, P> {
    /// Decides whom to ask for the slot, or on a single server, to connect there.
    pub(super) fn begin_to_ask(&mut self) {
        self.endpoint = self.nodes.begin(&self.endpoint);
    }

    /// Asks a cluster's node for all nodes, and whether it serves the keys.
    pub(super) fn ask_for_slot(&mut self, now: Instant) {
        self.submit_first(&[b"CLUSTER", b"SLOTS"], About::Nodes, now);
        let key = self.settings.keys.counter();
        self.submit_first(&[b"EXISTS", &key], About::Slot, now);
    }

    /// Takes what a node says of all nodes. A user who may not ask for them goes without.
    pub(super) fn told_nodes(&mut self, reply: &Value, now: Instant) {
        self.settings.slots.learn(reply, &self.endpoint);
        self.nodes.refresh_at = Some(now + REFRESH);
    }

    /// Asks for all nodes again, from time to time while the client is in use.
    pub(super) fn refresh_nodes(&mut self, now: Instant) {
        if self.nodes.refresh_at.is_some_and(|at| at <= now) && self.link.is_up() {
            self.nodes.refresh_at = None;
            let deadline = now + self.settings.options.patience;
            self.link.push(Command::of(["CLUSTER", "SLOTS"]), About::Nodes, deadline);
        }
    }

    /// Goes to the node that is said to have the slot, unless it was asked in this round.
    pub(super) fn sent_on(&mut self, Redirection { slot, address }: Redirection) {
        let message = format!("slot {slot} is on {address}");
        if self.link.is_up() {
            self.nodes.restart();
        }
        self.nodes.note(&self.endpoint, Said::Elsewhere(address.clone()));
        match node_at(&address, &self.endpoint).filter(|node| self.nodes.may_ask(node)) {
            Some(node) => {
                self.endpoint = node;
                match self.link.is_up() {
                    true => self.moved(message),
                    false => {
                        // No node is asked twice in a round, so this is not counted.
                        self.link.moved = true;
                        self.give_up_on(message);
                    }
                }
            }
            None => self.give_up_on(message),
        }
    }

    /// Leaves a node that says that nobody has the slot.
    pub(super) fn not_served(&mut self, words: String) {
        if self.link.is_up() {
            self.nodes.restart();
        }
        self.nodes.note(&self.endpoint, Said::NotServed(words.clone()));
        self.give_up_on(words);
    }

    fn give_up_on(&mut self, why: String) {
        let error = Error::new(Kind::Connect, &self.settings.server, why);
        self.link.lanes[COMMANDS].session.fail(error);
    }

    /// Turns to the next node, as the current one cannot be used. Returns the error to tell, and whether there is
    /// something left to wait for: another node, or the cluster's next primary.
    pub(super) fn ask_next_node(&mut self, error: Error) -> (Error, bool, bool) {
        let is_cluster = self.link.handler.mode() == "cluster" || !self.settings.other_nodes.is_empty();
        let named = self.naming_node(error.clone());
        self.nodes.note(&self.endpoint, Said::Failed(error.message.clone()));
        let said = self.nodes.said();
        match self.nodes.next(self.link.has_been_up()) {
            Next::Ask(node) => {
                self.endpoint = node;
                (self.nodes.verdict.clone().unwrap_or(named), true, false)
            }
            Next::Pause { patiently, many } => {
                let error = match many && is_cluster {
                    true => Error::new(Kind::Connect, &self.settings.server, said),
                    false => named,
                };
                self.nodes.verdict = Some(error.clone());
                (error, false, patiently)
            }
        }
    }
}

/// The node at `host:port`, as a redirection names it.
pub(super) fn node_at(address: &str, asked: &Endpoint) -> Option<Endpoint> {
    let (host, port) = address.rsplit_once(':')?;
    node(host, port.parse().ok()?, asked)
}
