//! Making connections when they are needed.

use std::time::Instant;

use super::lane::Lane;
use super::link::{Phase, COMMANDS};
use super::{Client, Platform};
use pinyon_net::address::Address;
use pinyon_net::driven::Action;
use pinyon_net::error::{Error, Kind};

impl<W, P: Platform> Client<W, P> {
    /// Begins to connect, if a connection is needed and no pause forbids it.
    pub(super) fn connect_if_wanted(&mut self, now: Instant) {
        let wanted = self.is_connection_wanted();
        let link = &mut self.link;
        let waits = link.resolving || link.lanes.iter().any(Lane::is_forgotten);
        link.retry_at = link.retry_at.filter(|at| *at > now);
        if self.closed || !wanted || waits || link.retry_at.is_some() || link.phase != Phase::Down {
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
        match self.endpoint.addresses() {
            Ok(addresses) => self.resolved(lane, Ok(addresses), now),
            Err((name, port)) => {
                self.link.resolving = true;
                self.actions.push_back(Action::Resolve { lane, name: name.to_owned(), port });
            }
        }
    }

    pub(super) fn resolved(&mut self, lane: usize, resolved: Result<Vec<Address>, String>, now: Instant) {
        self.link.resolving = false;
        if self.closed || !self.link.lanes[lane].session.is_closed() {
            return;
        }
        let timeout = self.nodes.connect_timeout(&self.endpoint, self.settings.connect_timeout);
        let session = &mut self.link.lanes[lane].session;
        match resolved {
            Ok(addresses) => session.connect(addresses, now, timeout),
            Err(why) => session.fail(Error::unresolved(Kind::Connect, &self.settings.server, &why)),
        }
        self.advance(now);
    }

    /// Marks the connection ready: pushes arrive from now on, so everything may be asked.
    pub(super) fn rise(&mut self, now: Instant) {
        self.report_connected(now);
        let link = &mut self.link;
        (link.phase, link.failures, link.down_since, link.has_been_up) = (Phase::Up, 0, None, true);
        self.nodes.rise(now);
        self.machine.connected(self.platform.boot_time());
        self.pump(now);
    }

    pub(super) fn forgotten_lane(&mut self, lane: usize, now: Instant) {
        self.link.lanes[lane].release();
        self.connect_if_wanted(now);
    }
}
