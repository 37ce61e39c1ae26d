//! The interface by which a host drives a client.

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::lane::{earlier, Lane};
use super::link::{COMMANDS, PUSHES};
use super::replicas::CONFIRMATIONS;
use super::sentinels::FIRST_LANE;
use super::{Client, Now, Platform, Report};
use crate::machine::Moment;
use pinyon_net::address::Address;
use pinyon_net::driven::{Action, Actions, Driven};
use pinyon_net::error::{Error, Kind};

impl<W, P: Platform> Driven for Client<W, P> {
    type Finished = Report<W>;

    fn take_actions(&mut self) -> Option<Actions> {
        (!self.actions.is_empty()).then(|| self.actions.drain(..).collect())
    }

    fn take_finished(&mut self) -> Vec<Report<W>> {
        self.finished.drain(..).collect()
    }

    fn open_connections(&self, _: usize) -> usize {
        self.link.lanes.iter().filter(|lane| lane.session.is_ready()).count()
    }

    fn turn(&mut self, now: Instant) {
        self.turn_is_due = false;
        self.pump(now);
        self.link.flush();
        self.sent(now);
        self.take_events();
        if self.replicas.is_some() {
            self.confirm_grants(now);
        }
    }

    fn ready(&mut self, lane: usize, now: Instant) {
        match self.link.lanes.get_mut(lane) {
            Some(lane) => {
                lane.session.poll(now);
                self.advance(now);
            }
            None if lane == CONFIRMATIONS => self.confirmations_ready(now),
            None => self.sentinel_ready(lane - FIRST_LANE, now),
        }
    }

    fn connect(&mut self, lane: usize, resolved: Result<Vec<Address>, String>, now: Instant) {
        match lane {
            COMMANDS | PUSHES => self.resolved(lane, resolved, now),
            CONFIRMATIONS => self.confirmations_resolved(resolved, now),
            lane => self.found_sentinel(lane - FIRST_LANE, resolved, now),
        }
    }

    fn expire(&mut self, now: Instant) {
        self.machine.expire(self.platform.boot_time());
        self.expire_commands(now);
        self.try_again(now);
        self.refresh_nodes(now);
        self.ask_again_for_slot(now);
        for lane in &mut self.link.lanes {
            lane.expire(now);
        }
        self.expire_sentinels(now);
        self.expire_confirmations(now);
        self.connect_if_wanted(now);
        self.advance(now);
    }

    fn deadline(&self) -> Option<Instant> {
        let link = self.connections_due();
        let Some(due) = self.due() else { return link };
        let (now, at) = (self.platform.now(), self.platform.boot_time());
        let due = if due > at { now + (due - at) } else { now.checked_sub(at - due).unwrap_or(now) };
        Some(link.map_or(due, |link| link.min(due)))
    }

    fn forgotten(&mut self, lane: usize, now: Instant) {
        match lane {
            COMMANDS | PUSHES => self.forgotten_lane(lane, now),
            CONFIRMATIONS => self.confirmations_forgotten(now),
            lane => self.sentinel_forgotten(lane - FIRST_LANE, now),
        }
    }

    fn watched(&self) -> impl Iterator<Item = (usize, RawFd)> + '_ {
        let sentinels = self.sentinels.iter().flat_map(|sentinels| sentinels.watched());
        let replicas = self.replicas.iter().filter_map(|replicas| replicas.lane().watched());
        self.link.watched().chain(replicas).chain(sentinels)
    }

    fn is_idle(&self) -> bool {
        Client::is_idle(self)
    }

    fn discard(&mut self) -> Vec<Report<W>> {
        self.closed = true;
        self.link.lanes.iter_mut().for_each(Lane::discard);
        self.sentinels.iter_mut().for_each(|sentinels| sentinels.discard());
        self.replicas.iter_mut().for_each(|replicas| replicas.discard());
        self.nodes.leave();
        Vec::new()
    }

    fn close(&mut self, now: Instant) {
        self.closed = true;
        let error = self.is_closed_error();
        self.close_confirmations(&error);
        self.machine.close(&error, self.platform.boot_time());
        self.send_last(now);
        self.sentinels.iter_mut().for_each(|sentinels| sentinels.close(&error, &mut self.actions));
        self.link.lanes[COMMANDS].session.fail(error.clone());
        self.advance(now);
        self.fail_commands(&error);
    }
}

impl<W, P: Platform> Client<W, P> {
    /// Sends the machine's last calls, as far as the connection takes them now. Then drops what has arrived, because a
    /// socket that is closed with unread bytes resets the connection, perhaps before the server has read these calls.
    fn send_last(&mut self, now: Instant) {
        if self.link.is_up() {
            self.pump(now);
            self.link.flush();
            self.link.lanes.iter_mut().for_each(|lane| lane.session.poll(now));
        }
    }

    /// The next pending order to the host. Take orders after every call.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When the machine is due, or a grant that does not count yet.
    fn due(&self) -> Option<Moment> {
        let held_back = self.replicas.as_ref().and_then(|replicas| replicas.due());
        earlier(self.machine.due(), held_back)
    }

    /// When a connection is due, to the server or to a Sentinel.
    fn connections_due(&self) -> Option<Instant> {
        let mut due = earlier(self.link.deadline(), self.nodes.again_at());
        if let Some(replicas) = &self.replicas {
            due = earlier(due, replicas.deadline());
        }
        if let Some(sentinels) = &self.sentinels {
            due = earlier(due, sentinels.deadline(!self.machine.is_idle()));
        }
        due
    }
}

/// A future time, by both clocks that a client uses.
#[derive(Clone, Copy, Debug)]
pub struct InTime {
    instant: Instant,
    moment: Moment,
}

impl InTime {
    pub(crate) fn is_after_instant(self, due: Instant) -> bool {
        due < self.instant
    }

    /// Whether it is later than this.
    pub(crate) fn is_after(self, due: Option<Moment>) -> bool {
        due.is_some_and(|due| due < self.moment)
    }
}

/// For threads that wait by themselves.
impl<W> Client<W> {
    /// The moment when `time` will have passed since `now`, which was read just now.
    pub fn in_time(&self, now: Instant, time: Duration) -> InTime {
        InTime { instant: now + time, moment: self.platform.boot_time() + time }
    }

    /// Whether [`Driven::deadline`] comes before `end`. Reads no clock.
    pub fn is_due_before(&self, end: InTime) -> bool {
        let link = self.connections_due().is_some_and(|due| due < end.instant);
        link || end.is_after(self.due())
    }

    /// The descriptors to wait for, and whether each waits to be writable. They are owned, since the client may close
    /// its own descriptors meanwhile.
    pub fn descriptors(&self) -> Vec<(usize, Arc<OwnedFd>, bool)> {
        let sentinels = self.sentinels.iter().flat_map(|sentinels| sentinels.lanes());
        let replicas = self.replicas.iter().map(|replicas| replicas.lane());
        self.link.lanes.iter().chain(replicas).chain(sentinels).filter_map(Lane::descriptor).collect()
    }

    /// The descriptor, if it is the only one, and only bytes are awaited until `timeout` has passed since `now`, which
    /// was read just now. A thread may then receive from it directly, for at most `timeout` at a time, and pass the
    /// bytes to [`Self::received`]. Only one thread may do so.
    pub fn only_descriptor(&self, now: Now, timeout: Duration) -> Option<Arc<OwnedFd>> {
        let [commands, pushes] = &self.link.lanes;
        let listens = self.sentinels.as_ref().is_some_and(|sentinels| sentinels.are_connected());
        let is_only = self.link.is_up()
            && self.replicas.is_none()
            && pushes.session.is_closed()
            && !commands.session.wants_to_write()
            && !listens
            && !self.is_due_before(InTime { instant: now.instant + timeout, moment: now.moment + timeout });
        let socket = commands.session.stream().filter(|_| is_only)?;
        socket.let_wait(|| timeout).is_ok().then(|| socket.descriptor())
    }

    /// Takes the result of receiving on a descriptor. Ignores it if the connection has changed.
    pub fn received(&mut self, fd: &Arc<OwnedFd>, received: io::Result<&[u8]>, now: Instant) {
        let mut received = Some(received);
        while let Some(outcome) = received.take() {
            let session = &mut self.link.lanes[COMMANDS].session;
            if session.stream().is_none_or(|socket| !Arc::ptr_eq(&socket.descriptor(), fd)) {
                return;
            }
            let before = outcome.as_ref().map_or(0, |bytes| bytes.len());
            let rest = session.take_in(outcome);
            if !rest.is_empty() && rest.len() == before {
                let message = "more arrived than there is room for";
                session.fail(Error::new(Kind::Protocol, &self.settings.server, message));
            }
            received = (!rest.is_empty()).then_some(Ok(rest));
            self.advance(now);
        }
    }
}
