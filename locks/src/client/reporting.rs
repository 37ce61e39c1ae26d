//! Events of the servers: what is reported when, and how often.

use std::sync::Arc;
use std::time::Instant;

use super::{Client, Platform, Report};
use crate::observed::{LockEvent, LockEventKind};
use pinyon_net::error::Error;
use pinyon_net::tls::ServerTls;

/// How many nodes that cannot be reached are remembered.
const MOST_AWAY: usize = 64;

impl<W, P: Platform> Client<W, P> {
    /// Reports an event of the servers, and counts it.
    pub(super) fn report(&mut self, event: LockEvent) {
        let counts = self.settings.options.observed.counts();
        match event.kind {
            LockEventKind::Disconnected => counts.disconnects.add(1),
            LockEventKind::Switched => counts.switches.add(1),
            _ => {}
        }
        self.finished.push_back(Report::Event(event.into()));
    }

    /// Reports that a connection could not log in anew, which it tries again.
    pub(super) fn report_trouble(&mut self, error: &Error) {
        self.finished.push_back(Report::Warning(format!("{error}; it is tried again until then")));
    }

    /// Reads the files of TLS again if they have changed, and reports what came of it.
    pub(super) fn renew_certificates(&mut self, tls: Option<&ServerTls>) {
        if let Some(renewed) = tls.and_then(ServerTls::renew) {
            self.report(LockEvent::certificates(&self.settings.server.clone(), &renewed));
        }
    }

    /// Reports that one of several nodes cannot be reached, once.
    pub(super) fn report_node_away(&mut self, error: &Error, now: Instant) {
        let is_only = self.settings.other_nodes.is_empty() && self.endpoint == self.settings.endpoint;
        let (node, away) = (self.node(), &mut self.link.away);
        let is_known = away.len() >= MOST_AWAY || away.iter().any(|(other, _)| *other == node);
        if !is_only && self.sentinels.is_none() && !is_known && !self.closed {
            away.push((node.clone(), now));
            self.report(LockEvent::down(&node, error));
        }
    }

    /// Reports that the connection stands, and a switch of the primary. With Sentinels, a switch was reported when they
    /// told of it.
    pub(super) fn report_connected(&mut self, now: Instant) {
        self.settings.options.observed.counts().connects.add(1);
        let node = self.node();
        let before = self.link.served_by.replace(self.endpoint.clone());
        if let Some(before) = before.filter(|before| self.sentinels.is_none() && *before != self.endpoint) {
            let (whose, before) = (self.settings.server.clone(), before.to_string().into());
            self.report(LockEvent::switched(&whose, &node, &before));
        }
        let was_down = std::mem::take(&mut self.link.told_down);
        let down_since = self.link.down_since.filter(|_| was_down);
        let away = self.link.away.iter().position(|(other, _)| *other == node);
        let mut since = away.map(|place| self.link.away.swap_remove(place).1);
        match down_since {
            Some(down_since) if node != self.settings.server => {
                let server = self.settings.server.clone();
                self.report(LockEvent::up(&server, now.saturating_duration_since(down_since)));
            }
            _ => since = down_since.or(since),
        }
        let down_for = since.map(|since| now.saturating_duration_since(since));
        self.report(LockEvent::connected(&node, down_for));
        self.report_gone(now);
    }

    /// Reports nodes that were away and that nobody names any more.
    pub(super) fn report_gone(&mut self, now: Instant) {
        if self.link.away.is_empty() {
            return;
        }
        let is_named = |node: &str| self.nodes.is_given(node) || self.settings.slots.contains(node);
        let (named, gone) = std::mem::take(&mut self.link.away).into_iter().partition(|(node, _)| is_named(node));
        self.link.away = named;
        let gone: Vec<(Arc<str>, Instant)> = gone;
        for (node, since) in gone {
            self.report(LockEvent::gone(&node, now.saturating_duration_since(since)));
        }
    }

    /// The server that is connected, or that the client turns to.
    pub(super) fn node(&self) -> Arc<str> {
        match self.endpoint == self.settings.endpoint {
            true if self.settings.other_nodes.is_empty() && self.sentinels.is_none() => self.settings.server.clone(),
            _ => self.endpoint.to_string().into(),
        }
    }
}
