//! Finding the node of a cluster that has the slot of the keys.
//!
//! Each node that is asked says whether it has the slot or which one does, and names all nodes. They are asked in
//! rounds: whoever served the client before, the nodes with the slot, others, and those in the settings, each once in a
//! round. Between two rounds there is a pause, which grows.
//!
//! While nodes answer and none has the slot, its next primary is awaited: the client stays with the first node that
//! answers, and asks it at a steady pace. It leaves for a node that is news, and after some questions for the others.
//!
//! The clients of all hash tags share what the nodes say. The nodes of the settings are the last resort. As long as
//! one node answers, waiters wait within their own time.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use pinyon_proto::resp::{Command, Value};

use super::link::{About, COMMANDS};
use super::slots::{node, Slots};
use super::{Client, Platform, Setup};
use crate::handler::Redirection;
use crate::jitter::Jitter;
use pinyon_net::address::Endpoint;
use pinyon_net::error::{Error, Kind};

/// How many nodes without the slot are asked in a round, beside those in the settings; and if some answered in the last.
const OTHERS: usize = 16;
const FEW_OTHERS: usize = 2;

/// How often in a round a client asks the node again with which it stays.
const QUESTIONS: u32 = 4;

/// How many questions there are in a heartbeat, and the bounds of the time between two of them.
const IN_A_HEARTBEAT: u32 = 8;
const SHORTEST_PACE: Duration = Duration::from_millis(50);
const LONGEST_PACE: Duration = Duration::from_millis(250);

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
    /// The same of the last round, and whether anybody answered.
    last: Vec<(Endpoint, Said)>,
    answered: bool,
    stay: Stay,
    /// When to ask the node again with which the client stays.
    again_at: Option<Instant>,
    /// The time between two questions.
    pace: Duration,
    jitter: Jitter,
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
    /// Why it does not serve this client at any time.
    Refused(String),
}

/// Whether the client stays with a node in this round.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stay {
    NotYet,
    /// It does, and has asked it again so often.
    Asked(u32),
    Left,
    /// It did, until it had asked its last question.
    Over,
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
    pub(super) fn new(setup: &Setup, client: &str) -> Self {
        Self {
            slot: setup.keys.slot(),
            given: std::iter::once(&setup.endpoint).chain(&setup.other_nodes).cloned().collect(),
            slots: setup.slots.clone(),
            asked: Vec::new(),
            last: Vec::new(),
            answered: false,
            stay: Stay::NotYet,
            again_at: None,
            pace: (setup.options.heartbeat / IN_A_HEARTBEAT).clamp(SHORTEST_PACE, LONGEST_PACE),
            jitter: Jitter::of(client),
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
        let count = if self.answered { FEW_OTHERS } else { OTHERS };
        let all = self.slots.of(self.slot).into_iter().chain(self.slots.some(self.round, count));
        let all = all.chain(self.given.iter().cloned());
        let (failed, others): (Vec<_>, Vec<_>) = all.partition(|node| self.has_failed(node));
        let skips = self.answered && self.round % ALL_EVERY != 0;
        others.into_iter().chain(failed.into_iter().filter(move |_| !skips))
    }

    /// Whether it could not be asked in the last round.
    fn has_failed(&self, node: &Endpoint) -> bool {
        self.last.iter().any(|last| last.0 == *node && !answered(last))
    }

    /// Whether the client stays with a node that says this. `is_elsewhere`: a node may have the slot that was not asked
    /// in this round.
    fn stays_with(&mut self, node: &Endpoint, said: &Said, is_elsewhere: bool, now: Instant) -> bool {
        let questions = match self.stay {
            Stay::NotYet if self.answered => 0,
            Stay::Asked(questions) => questions,
            _ => return false,
        };
        let before = self.last.iter_mut().find(|(last, _)| last == node);
        let is_news = is_elsewhere && before.as_ref().is_none_or(|(_, before)| before != said);
        self.stay = match questions {
            _ if is_news => Stay::Left,
            QUESTIONS => Stay::Over,
            _ => Stay::Asked(questions + 1),
        };
        if let Some((_, before)) = before {
            *before = said.clone();
        }
        let stays = matches!(self.stay, Stay::Asked(_));
        self.again_at = stays.then(|| now + self.next_pause());
        stays
    }

    /// The time until the next question, or the next round of a client that has stayed with a node.
    fn next_pause(&mut self) -> Duration {
        self.pace * 3 / 4 + Duration::from_micros(self.jitter.below(self.pace.as_micros() as u64 / 2))
    }

    /// How long a node may take for what keeps the client from asking another one.
    fn briefly(&self) -> Duration {
        self.pace * QUESTIONS
    }

    /// How long connecting to a node may take. One that failed gets less time while others answer, except in some rounds.
    pub(super) fn connect_timeout(&self, node: &Endpoint, timeout: Duration) -> Duration {
        match self.answered && self.round % ALL_EVERY != 0 && self.has_failed(node) {
            true => timeout.min(self.briefly()),
            false => timeout,
        }
    }

    /// The pause after a round in which the client has stayed with a node.
    pub(super) fn steady_pause(&mut self) -> Option<Duration> {
        let is_over = std::mem::replace(&mut self.stay, Stay::NotYet) == Stay::Over;
        is_over.then(|| self.next_pause())
    }

    /// When to ask the node again with which the client stays.
    pub(super) fn again_at(&self) -> Option<Instant> {
        self.again_at
    }

    /// The connection to the node is gone.
    pub(super) fn leave(&mut self) {
        self.again_at = None;
        if matches!(self.stay, Stay::Asked(_)) {
            self.stay = Stay::Left;
        }
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
        self.answered = self.asked.iter().any(answered);
        let many = self.asked.len() > 1 || self.answered;
        let patiently = self.is_changing() || self.answered && has_been_up;
        self.last = std::mem::take(&mut self.asked);
        self.round = self.round.wrapping_add(1);
        self.has_served = false;
        Next::Pause { patiently, many }
    }

    /// Whether what the nodes have said in this round cannot last: nobody has the slot, or whoever is said to have it says
    /// that another one does.
    fn is_changing(&self) -> bool {
        let names_one_that_refuses = |(node, said): &(Endpoint, Said)| match said {
            Said::Elsewhere(address) => node_at(address, node).is_some_and(|named| self.is_refused_by(&named)),
            _ => true,
        };
        self.asked.iter().any(|(_, said)| matches!(said, Said::NotServed(_)))
            || self.answered && self.asked.iter().all(names_one_that_refuses)
    }

    /// What the nodes have said in this round.
    fn said(&self) -> String {
        let quote = |(node, said): &(Endpoint, Said)| match said {
            Said::Nothing => format!("{node} was not asked"),
            Said::Elsewhere(address) => format!("{node} says that it is on {address}"),
            Said::NotServed(words) => format!("{node} says {words}"),
            Said::Failed(why) | Said::Refused(why) => format!("{node} cannot be asked ({why})"),
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

    /// The kind of the error: none of the nodes serves this client at any time, or some may.
    fn kind(&self) -> Kind {
        match self.asked.iter().all(|(_, said)| matches!(said, Said::Refused(_))) {
            true => Kind::Refused,
            false => Kind::Connect,
        }
    }

    /// Begins a new round, as the connection to the node that served the client is gone.
    pub(super) fn restart(&mut self) {
        self.asked.clear();
        self.last.clear();
        (self.stay, self.answered) = (Stay::NotYet, false);
    }

    /// Moves a node that has stopped answering behind the others.
    pub(super) fn doubt(&mut self, node: &Endpoint, why: &Error) {
        let known = self.slots.of(self.slot);
        if known.len() < 2 || !known.contains(node) {
            return;
        }
        self.has_served = false;
        self.last = vec![(node.clone(), Said::Failed(why.message.clone()))];
    }

    /// Whether this node has said in this round that it does not have the slot.
    pub(super) fn is_refused_by(&self, node: &Endpoint) -> bool {
        self.asked.iter().any(|asked| asked.0 == *node && answered(asked))
    }

    /// The current node serves the client.
    pub(super) fn rise(&mut self, now: Instant) {
        if matches!(self.stay, Stay::Asked(_)) {
            self.refresh_at = Some(now);
        }
        self.restart();
        (self.has_served, self.verdict) = (true, None);
    }

    /// What came of the last round, if no node has served the client since.
    /// Whether the settings name this node.
    pub(super) fn is_given(&self, node: &str) -> bool {
        self.given.iter().any(|given| given.to_string() == node)
    }

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

    /// Asks the node again with which the client stays, or leaves it if nobody waits any more.
    pub(super) fn ask_again_for_slot(&mut self, now: Instant) {
        if self.nodes.again_at.is_none_or(|at| at > now) {
            return;
        }
        self.nodes.again_at = None;
        if !self.is_connection_wanted() {
            return self.give_up_on("nobody waits for the slot".into());
        }
        let deadline = now + self.settings.options.patience.min(self.nodes.briefly());
        let key = self.settings.keys.counter();
        self.link.submit_first(&[b"EXISTS", &key], About::Slot, deadline);
    }

    /// Stays with a node that does not have the slot, or not.
    pub(super) fn stays(&mut self, said: &Redirection, now: Instant) -> bool {
        let node = node_at(&said.address, &self.endpoint);
        let is_elsewhere = node.is_some_and(|node| self.nodes.may_ask(&node));
        self.nodes.stays_with(&self.endpoint, &Said::Elsewhere(said.address.clone()), is_elsewhere, now)
    }

    /// Stays with a node that says that nobody has the slot, or not.
    pub(super) fn stays_unserved(&mut self, words: &str, now: Instant) -> bool {
        self.nodes.stays_with(&self.endpoint, &Said::NotServed(words.into()), false, now)
    }

    /// Takes what a node says of all nodes. A user who may not ask for them goes without.
    pub(super) fn told_nodes(&mut self, reply: &Value, now: Instant) {
        self.settings.slots.learn(reply, &self.endpoint);
        self.nodes.refresh_at = Some(now + REFRESH);
        self.report_gone(now);
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
        let why = error.message.clone();
        let said = if error.kind == Kind::Refused { Said::Refused(why) } else { Said::Failed(why) };
        self.nodes.note(&self.endpoint, said);
        let said = self.nodes.said();
        let kind = self.nodes.kind();
        match self.nodes.next(self.link.has_been_up()) {
            Next::Ask(node) => {
                self.endpoint = node;
                (self.nodes.verdict.clone().unwrap_or(named), true, false)
            }
            Next::Pause { patiently, many } => {
                let error = match many && is_cluster {
                    true => Error::new(kind, &self.settings.server, said),
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
