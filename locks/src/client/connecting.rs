//! Making connections when they are needed.

use std::time::Instant;

use super::lane::Lane;
use super::link::{Phase, COMMANDS};
use super::{Client, Platform};
use pinyon_net::address::Address;
use pinyon_net::error::{Error, Kind};

impl<W, P: Platform> Client<W, P> {
    /// Begins to connect, if a connection is needed and no pause forbids it.
    pub(super) fn connect_if_wanted(&mut self, now: Instant) {
        let wanted = self.is_connection_wanted();
        let link = &mut self.link;
        let waits = !link.lanes[COMMANDS].may_try(now) || link.lanes.iter().any(Lane::waits_for_host);
        if self.closed || !wanted || waits || link.phase != Phase::Down {
            return;
        }
        link.phase = Phase::Rising;
        match self.sentinels {
            None => {
                self.begin_to_ask();
                self.connect_lane(COMMANDS, now);
            }
            Some(_) => self.find_primary(now),
        }
    }

    /// Whether anything is held, awaited or to be sent.
    pub(super) fn is_connection_wanted(&self) -> bool {
        !self.machine.is_idle() || self.link.has_waiting()
    }

    pub(super) fn connect_lane(&mut self, lane: usize, now: Instant) {
        self.renew_certificates(self.settings.login.tls.clone().as_ref());
        if let Some(tls) = &self.settings.login.tls {
            match tls.moved_to(&self.endpoint) {
                Ok(tls) => self.link.lanes[lane].session.set_tls(Some(tls)),
                Err(error) => {
                    let message = format!("cannot connect: {error}");
                    self.link.lanes[lane].session.fail(Error::new(Kind::Refused, &self.settings.server, message));
                    return self.advance(now);
                }
            }
        }
        if let Some(addresses) = self.link.lanes[lane].look_up(&self.endpoint, &mut self.actions) {
            self.resolved(lane, Ok(addresses), now);
        }
    }

    pub(super) fn resolved(&mut self, lane: usize, resolved: Result<Vec<Address>, String>, now: Instant) {
        if !self.link.lanes[lane].resolved() || self.closed {
            return;
        }
        let timeout = self.nodes.connect_timeout(&self.endpoint, self.settings.connect_timeout);
        self.link.lanes[lane].connect(resolved, now, timeout);
        self.advance(now);
    }

    /// Marks the connection ready: pushes arrive from now on, so everything may be asked.
    pub(super) fn rise(&mut self, now: Instant) {
        self.report_connected(now);
        let link = &mut self.link;
        (link.phase, link.down_since, link.has_been_up) = (Phase::Up, None, true);
        link.lanes[COMMANDS].failures = 0;
        self.nodes.rise(now);
        self.machine.connected(self.platform.boot_time());
        self.pump(now);
    }

    pub(super) fn forgotten_lane(&mut self, lane: usize, now: Instant) {
        self.link.lanes[lane].release();
        self.connect_if_wanted(now);
    }
}
