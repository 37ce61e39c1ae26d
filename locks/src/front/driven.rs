//! How hosts drive a front. Several members share the numbers of its lanes, and each call is followed by a count.

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::members::{Asked, OfFront};
use super::{Front, LockFinished};
use crate::client::{Client, InTime, Now, Platform};
use pinyon_net::address::Address;
use pinyon_net::driven::{Action, Actions, Driven};
use pinyon_net::error::{Error, Kind};

/// How many connections a member of a quorum numbers. A server that is alone may have more.
const LANES: usize = 2;

impl<W, L, P: Platform> Front<W, L, P> {
    /// The member whose lane this is, with its own number for it.
    fn with_lane(&mut self, lane: usize, act: impl FnOnce(&mut Asked<W, L, P>, usize)) {
        match &mut self.members[..] {
            [alone] => act(alone, lane),
            several => {
                if let Some(member) = several.get_mut(lane / LANES) {
                    act(member, lane % LANES);
                }
            }
        }
    }

    /// Counts what the members have said, if there are several.
    #[inline]
    fn count(&mut self, now: Instant) {
        if self.votes.is_some() {
            self.with_quorum(now, |quorum, at| quorum.collect(at));
        }
    }

    #[cold]
    fn with_quorum(&mut self, now: Instant, act: impl FnOnce(&mut OfFront<'_, W, L, P>, Now)) {
        let at = self.members[0].at(now);
        if let Some(mut quorum) = self.quorum() {
            act(&mut quorum, at);
        }
    }
}

impl<W, L, P: Platform> Driven for Front<W, L, P> {
    type Finished = LockFinished<W, L>;

    fn take_actions(&mut self) -> Option<Actions> {
        if let [alone] = &mut self.members[..] {
            return alone.take_actions();
        }
        let actions: Actions = std::iter::from_fn(|| self.next_action()).collect();
        (!actions.is_empty()).then_some(actions)
    }

    fn take_finished(&mut self) -> Vec<LockFinished<W, L>> {
        let mut taken = Vec::new();
        while let Some(finished) = self.next_finished() {
            match (finished, &self.notes) {
                (LockFinished::Note(note), Some(notes)) => notes.leave(note),
                (finished, _) => taken.push(finished),
            }
        }
        taken
    }

    fn open_connections(&self, server: usize) -> usize {
        self.members.get(server).map_or(0, |member| member.open_connections(0))
    }

    fn turn(&mut self, now: Instant) {
        self.at(now);
        self.members.iter_mut().for_each(|member| member.turn(now));
        self.count(now);
    }

    fn ready(&mut self, lane: usize, now: Instant) {
        self.at(now);
        self.with_lane(lane, |member, lane| member.ready(lane, now));
        self.count(now);
    }

    fn connect(&mut self, lane: usize, resolved: Result<Vec<Address>, String>, now: Instant) {
        self.with_lane(lane, |member, lane| member.connect(lane, resolved, now));
        self.count(now);
    }

    fn expire(&mut self, now: Instant) {
        self.at(now);
        self.members.iter_mut().for_each(|member| member.expire(now));
        self.expire_early(now);
        if self.votes.is_some() {
            self.with_quorum(now, |quorum, at| quorum.expire(at));
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let members = self.members.iter().filter_map(Driven::deadline);
        let due = self.votes.as_ref().and_then(|votes| votes.due()).map(|due| {
            let now = self.members[0].now();
            now.instant + (due - now.moment)
        });
        members.chain(due).chain(self.early.due()).min()
    }

    fn forgotten(&mut self, lane: usize, now: Instant) {
        self.with_lane(lane, |member, lane| member.forgotten(lane, now));
        self.count(now);
    }

    fn watched(&self) -> impl Iterator<Item = (usize, RawFd)> + '_ {
        let members = self.members.iter().enumerate();
        members.flat_map(|(index, member)| member.watched().map(move |(lane, fd)| (index * LANES + lane, fd)))
    }

    fn is_idle(&self) -> bool {
        self.early.is_empty()
            && self.members.iter().all(Client::is_idle)
            && self.votes.as_ref().is_none_or(|votes| votes.is_idle())
    }

    fn discard(&mut self) -> Vec<LockFinished<W, L>> {
        self.closed = true;
        self.members.iter_mut().for_each(|member| drop(member.discard()));
        Vec::new()
    }

    fn close(&mut self, now: Instant) {
        self.closed = true;
        let error = Error::new(Kind::Closed, &self.settings().server, "the client was closed");
        if self.votes.is_some() {
            self.with_quorum(now, |quorum, at| quorum.close(&error, at));
        }
        self.members.iter_mut().for_each(|member| member.close(now));
        self.count(now);
        self.close_early();
        self.registry.close();
    }
}

impl<W, L, P: Platform> Front<W, L, P> {
    /// Whether nothing is under way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.members.iter().all(Client::is_quiet)
    }

    /// The next pending order to the host. Take orders after every call.
    pub(crate) fn next_action(&mut self) -> Option<Action> {
        if let [alone] = &mut self.members[..] {
            return alone.next_action();
        }
        let next = |(index, member): (usize, &mut Asked<W, L, P>)| Some((index * LANES, member.next_action()?));
        let (base, action) = self.members.iter_mut().enumerate().find_map(next)?;
        Some(match action {
            Action::Resolve { lane, name, port } => Action::Resolve { lane: base + lane, name, port },
            Action::Watch { lane, fd, write } => Action::Watch { lane: base + lane, fd, write },
            Action::Forget { lane, fd } => Action::Forget { lane: base + lane, fd },
            other => other,
        })
    }
}

/// For threads that wait by themselves.
impl<W, L> Front<W, L> {
    pub(crate) fn in_time(&self, now: Instant, time: Duration) -> InTime {
        self.members[0].in_time(now, time)
    }

    pub(crate) fn is_due_before(&self, end: InTime) -> bool {
        let votes = self.votes.as_ref().is_some_and(|votes| end.is_after(votes.due()));
        let early = self.early.due().is_some_and(|due| end.is_after_instant(due));
        votes || early || self.members.iter().any(|member| member.is_due_before(end))
    }

    pub(crate) fn descriptors(&self) -> Vec<(usize, Arc<OwnedFd>, bool)> {
        let of = |(index, member): (usize, &Client<_>)| {
            let base = index * LANES;
            member.descriptors().into_iter().map(move |(lane, fd, write)| (base + lane, fd, write))
        };
        self.members.iter().enumerate().flat_map(of).collect()
    }

    /// The only thing to wait for, see [`Client::only_descriptor`]. Several members have several.
    pub(crate) fn only_descriptor(&self, now: Instant, timeout: Duration) -> Option<Arc<OwnedFd>> {
        if self.early.due().is_some_and(|due| due <= now + timeout) {
            return None;
        }
        match &self.members[..] {
            // The clocks were read when the operation began.
            [alone] if self.begun.instant == now => alone.only_descriptor(self.begun, timeout),
            [alone] => alone.only_descriptor(alone.at(now), timeout),
            _ => None,
        }
    }

    pub(crate) fn received(&mut self, fd: &Arc<OwnedFd>, received: io::Result<&[u8]>, now: Instant) {
        self.members[0].received(fd, received, now);
    }
}
