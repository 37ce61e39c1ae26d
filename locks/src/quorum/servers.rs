//! A quorum of clients, driven by a host as if it were one.

use std::collections::VecDeque;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Ballot, Now, Quorum};
use crate::client::{Client, InTime, Outcome, Platform, QuorumSetup, Report, Setup, Wish};
use crate::failure::Unreleased;
use crate::machine::MachineFailure;
use pinyon_net::address::Address;
use pinyon_net::driven::{Action, Actions, Driven};
use pinyon_net::error::{Error, Kind};
use pinyon_net::network::System;

/// How many connections a client numbers. None of them is to a Sentinel.
const LANES: usize = 2;

pub struct Servers<W, P: Platform = System> {
    quorum: Quorum<W, Client<Ballot, P>>,
    platform: P,
    settings: Setup,
    actions: VecDeque<Action>,
    turn_is_due: bool,
}

impl<W, P: Platform> Servers<W, P> {
    /// `client`: a name that no other client of any process ever has.
    pub fn on(platform: P, settings: Setup, quorum: &QuorumSetup, client: Arc<str>) -> Self {
        let member = |setup: &Setup| Client::on(platform.clone(), setup.clone(), client.clone());
        let members = quorum.members.iter().map(member).collect();
        let quorum = Quorum::new(members, settings.options.clone(), quorum.longest_ttl, client.clone());
        Self { quorum, platform, settings, actions: VecDeque::new(), turn_is_due: false }
    }

    pub fn begin(&mut self, wish: Wish, waiter: W, now: Instant) -> Option<u64> {
        if self.quorum.closed {
            let error = Error::new(Kind::Closed, &self.settings.server, "the client was closed");
            self.quorum.reports.push_back(Report::Done { waiter, outcome: wish.outcome_if_closed(error) });
            self.end_turn();
            return None;
        }
        let number = self.quorum.begin(wish, waiter, self.now(now));
        self.end_turn();
        self.take_orders();
        number
    }

    pub fn cancel(&mut self, number: u64, now: Instant) {
        self.quorum.cancel(number, self.now(now));
        self.end_turn();
        self.take_orders();
    }

    pub fn forsake(&mut self, number: u64) {
        self.quorum.forsake(number, self.now(self.platform.now()));
        self.take_orders();
    }

    pub fn drop_hold(&mut self, number: u64) {
        self.quorum.drop_hold(number);
    }

    pub fn held(&self, number: u64) -> Option<(u64, Duration)> {
        self.quorum.held(number, self.now(self.platform.now()))
    }

    /// What becomes of a lock whose release failed.
    pub(crate) fn unreleased(&self, number: u64) -> Unreleased {
        match self.quorum.closed {
            true => Unreleased::Over,
            false => Unreleased::GoesOn(self.quorum.lasts(number, self.now(self.platform.now()))),
        }
    }

    pub fn next_finished(&mut self) -> Option<Report<W>> {
        let mut report = self.quorum.next_report()?;
        if let Report::Done { outcome: Outcome::Failed(MachineFailure::Server(error)), .. } = &mut report {
            if error.server.is_empty() {
                error.server = self.settings.server.clone();
            }
        }
        Some(report)
    }

    pub fn settings(&self) -> &Setup {
        &self.settings
    }

    /// Whether nothing is under way.
    pub fn is_quiet(&self) -> bool {
        self.quorum.members.iter().all(Client::is_quiet)
    }

    pub(crate) fn end_turn(&mut self) {
        if !std::mem::replace(&mut self.turn_is_due, true) {
            self.actions.push_back(Action::EndTurn);
        }
    }

    fn now(&self, instant: Instant) -> Now {
        Now { instant, moment: self.platform.boot_time() }
    }

    /// Lets a member do something, and takes what follows.
    fn with(&mut self, lane: usize, now: Instant, act: impl FnOnce(&mut Client<Ballot, P>, usize)) {
        if let Some(member) = self.quorum.members.get_mut(lane / LANES) {
            act(member, lane % LANES);
        }
        self.follow(now);
    }

    /// Lets all members do something, and takes what follows.
    fn with_each(&mut self, now: Instant, mut act: impl FnMut(&mut Client<Ballot, P>)) {
        self.quorum.members.iter_mut().for_each(&mut act);
        self.follow(now);
    }

    fn follow(&mut self, now: Instant) {
        let now = self.now(now);
        self.quorum.collect(now);
        self.take_orders();
    }

    /// Passes the members' orders on, with lanes of their own for each.
    fn take_orders(&mut self) {
        let mut ends_turn = false;
        for (index, member) in self.quorum.members.iter_mut().enumerate() {
            let base = index * LANES;
            for action in member.take_actions().into_iter().flatten() {
                self.actions.push_back(match action {
                    Action::Resolve { lane, name, port } => Action::Resolve { lane: base + lane, name, port },
                    Action::Watch { lane, fd, write } => Action::Watch { lane: base + lane, fd, write },
                    Action::Forget { lane, fd } => Action::Forget { lane: base + lane, fd },
                    Action::Ask(question) => Action::Ask(question),
                    Action::EndTurn => {
                        ends_turn = true;
                        continue;
                    }
                });
            }
        }
        if ends_turn {
            self.end_turn();
        }
    }
}

impl<W, P: Platform> Driven for Servers<W, P> {
    type Finished = Report<W>;

    fn take_actions(&mut self) -> Option<Actions> {
        (!self.actions.is_empty()).then(|| self.actions.drain(..).collect())
    }

    fn take_finished(&mut self) -> Vec<Report<W>> {
        std::iter::from_fn(|| self.next_finished()).collect()
    }

    fn open_connections(&self, server: usize) -> usize {
        self.quorum.members.get(server).map_or(0, |member| member.open_connections(0))
    }

    fn turn(&mut self, now: Instant) {
        self.turn_is_due = false;
        self.with_each(now, |member| member.turn(now));
    }

    fn ready(&mut self, lane: usize, now: Instant) {
        self.with(lane, now, |member, lane| member.ready(lane, now));
    }

    fn connect(&mut self, lane: usize, resolved: Result<Vec<Address>, String>, now: Instant) {
        self.with(lane, now, |member, lane| member.connect(lane, resolved, now));
    }

    fn expire(&mut self, now: Instant) {
        self.quorum.members.iter_mut().for_each(|member| member.expire(now));
        let at = self.now(now);
        self.quorum.expire(at);
        self.take_orders();
    }

    fn deadline(&self) -> Option<Instant> {
        let members = self.quorum.members.iter().filter_map(Driven::deadline).min();
        let Some(due) = self.quorum.due() else { return members };
        let (now, at) = (self.platform.now(), self.platform.boot_time());
        let due = now + (due - at);
        Some(members.map_or(due, |members| members.min(due)))
    }

    fn forgotten(&mut self, lane: usize, now: Instant) {
        self.with(lane, now, |member, lane| member.forgotten(lane, now));
    }

    fn watched(&self) -> impl Iterator<Item = (usize, RawFd)> + '_ {
        let members = self.quorum.members.iter().enumerate();
        members.flat_map(|(index, member)| member.watched().map(move |(lane, fd)| (index * LANES + lane, fd)))
    }

    fn is_idle(&self) -> bool {
        self.quorum.is_idle() && self.quorum.members.iter().all(Client::is_idle)
    }

    fn discard(&mut self) -> Vec<Report<W>> {
        self.quorum.members.iter_mut().for_each(|member| drop(member.discard()));
        self.quorum.closed = true;
        Vec::new()
    }

    fn close(&mut self, now: Instant) {
        let error = Error::new(Kind::Closed, &self.settings.server, "the client was closed");
        self.quorum.close(&error);
        self.with_each(now, |member| member.close(now));
    }
}

/// For threads that wait by themselves.
impl<W> Servers<W> {
    pub fn in_time(&self, now: Instant, time: Duration) -> InTime {
        self.quorum.members[0].in_time(now, time)
    }

    pub fn is_due_before(&self, end: InTime) -> bool {
        end.is_after(self.quorum.due()) || self.quorum.members.iter().any(|member| member.is_due_before(end))
    }

    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    pub fn descriptors(&self) -> Vec<(usize, Arc<OwnedFd>, bool)> {
        let members = self.quorum.members.iter().enumerate();
        let of = |(index, member): (usize, &Client<Ballot>)| {
            let base = index * LANES;
            member.descriptors().into_iter().map(move |(lane, fd, write)| (base + lane, fd, write))
        };
        members.flat_map(of).collect()
    }
}
