//! What a client asks on a new connection before it locks anything: the subscription, and the kind of server.

use std::time::Instant;

use pinyon_proto::resp::{Command, ServerError, Value};

use super::link::{About, COMMANDS, PUSHES};
use super::{Client, Platform, Report, Voting};
use crate::handler::Redirection;
use crate::redis::{Protocol, Refusal};
use crate::script::{self, ScriptError};
use pinyon_net::address::Endpoint;
use pinyon_net::error::{Error, Kind};

/// How a server refuses commands on a connection that has subscribed.
const ONLY_SUBSCRIBES: &str = "allowed in this context";

impl<W, P: Platform> Client<W, P> {
    /// Continues once the connection is logged in.
    pub(super) fn greeted(&mut self, lane: usize, now: Instant) {
        if lane == PUSHES {
            return self.subscribe(PUSHES, now);
        }
        let server = self.link.lanes[COMMANDS].session.server().clone();
        self.link.handler.meet(&server);
        match &*server.mode {
            "cluster" => self.ask_for_slot(now),
            _ if !self.settings.other_nodes.is_empty() => {
                self.refuse_server("it is no node of a cluster: write redis:// and one server");
            }
            "sentinel" => {
                let message = "this is a Sentinel, which keeps no locks: write redis+sentinel://host,host,host/service";
                self.refuse_server(message);
            }
            _ if &*server.role == "replica" && self.sentinels.is_some() => {
                self.not_now("it is a replica, although its Sentinels name it as the primary: a failover is under way");
            }
            _ if &*server.role == "replica" => self.submit_first(&[b"ROLE"], About::Role, now),
            _ => self.subscribe_somewhere(now),
        }
    }

    /// Follows a replica to its primary. A server that has been promoted meanwhile is used itself.
    pub(super) fn told_role(&mut self, reply: &Value, now: Instant) {
        match (reply, self.link.is_up()) {
            (Value::Array(role), _) if is(role.first(), b"slave") && self.sentinels.is_some() => {
                self.moved(format!("{} has become a replica", self.endpoint));
            }
            (Value::Array(role), _) if is(role.first(), b"slave") => match primary_of(role) {
                Some(primary) => self.follow(primary),
                None => self.refuse_server("it is a replica, and names no primary: name the primary"),
            },
            (Value::Array(role), false) if is(role.first(), b"master") => self.subscribe_somewhere(now),
            (Value::Error(error), false) if Refusal::passes(error) => self.not_now(&error.to_string()),
            (Value::Error(error), false) => self.refuse_server(&format!(
                "it is a replica, and does not say of which primary ({error}): name the primary, or permit ROLE"
            )),
            (_, false) => self.refuse_server("it is a replica, and does not say of which primary: name the primary"),
            (_, true) => self.refuse_read_only(),
        }
    }

    pub(super) fn told_slot(&mut self, reply: Value, now: Instant) {
        match reply {
            Value::Error(error) => match ScriptError::of(error) {
                ScriptError::Moved { slot, address, asking: false } => {
                    let redirection = Redirection { slot, address };
                    if !self.stays(&redirection, now) {
                        self.sent_on(redirection);
                    }
                }
                error @ ScriptError::ClusterDown(_) => {
                    let words = error.to_string();
                    if !self.stays_unserved(&words, now) {
                        self.not_served(words);
                    }
                }
                // The slot is about to move, but is here.
                ScriptError::Moved { .. } | ScriptError::TryAgain(_) => self.subscribe_somewhere(now),
                error if error.class() == Refusal::Passing => self.not_now(&error.to_string()),
                error => self.refuse_server(&error.to_string()),
            },
            _ => self.subscribe_somewhere(now),
        }
    }

    fn subscribe_somewhere(&mut self, now: Instant) {
        match self.link.lanes[COMMANDS].session.server().protocol {
            Protocol::Resp3 => self.subscribe(COMMANDS, now),
            Protocol::Resp2 => self.connect_lane(PUSHES, now),
        }
    }

    fn subscribe(&mut self, lane: usize, now: Instant) {
        let keys = &self.settings.keys;
        let (own, freed) = (keys.channel(self.machine.client()), keys.freed());
        let command: [&[u8]; 3] = [b"SUBSCRIBE", &own, &freed];
        match lane {
            COMMANDS => self.submit_first(&command, About::Subscription, now),
            _ => {
                let submitted = self.link.lanes[lane].session.submit(&command, now + self.settings.options.patience);
                submitted.expect("a new connection has room");
                self.link.fresh = true;
            }
        }
    }

    /// Takes the reply to the subscription: pushes arrive from now on, or never.
    pub(super) fn subscribed(&mut self, lane: usize, reply: Value, now: Instant) {
        let carries_both = lane == PUSHES || !self.link.lanes[COMMANDS].session.is_subscriber_only();
        match reply {
            _ if !carries_both => self.fall_back("it confirms subscriptions as in RESP2, although it accepted RESP3"),
            Value::Error(error) => self.subscription_refused(&error),
            _ => {
                let deadline = now + self.settings.options.patience;
                if matches!(self.settings.voting, Voting::Member { .. }) {
                    // Answered before any grant on this connection.
                    self.link.push(Command::of(["INFO", "server"]), About::Info, deadline);
                }
                self.link.push(Command::of(["INFO", "memory"]), About::Info, deadline);
                self.rise(now);
            }
        }
    }

    fn subscription_refused(&mut self, error: &ServerError) {
        let prefix = self.settings.keys.prefix().escape_ascii();
        match Refusal::of(error) {
            Refusal::Passing => self.not_now(&format!("it takes no subscriptions now ({error})")),
            Refusal::Permission => self.refuse_server(&format!(
                "it does not let this user subscribe to the channels of the locks, which tell a waiter that it has its \
                 lock ({error}); permit SUBSCRIBE and the channels &{prefix}*"
            )),
            _ => self.refuse_server(&format!(
                "it refused the subscription to the channels of the locks, which tell a waiter that it has its lock \
                 ({error}); if it is a proxy without SUBSCRIBE, connect to the server itself"
            )),
        }
    }

    /// Connects again in RESP2, with a connection of its own for pushes.
    fn fall_back(&mut self, why: &str) {
        let [commands, pushes] = &mut self.link.lanes;
        let falls_back = commands.session.fall_back() | pushes.session.fall_back();
        match falls_back {
            true => {
                self.link.moved = true;
                commands.session.fail(Error::new(Kind::Closed, &self.settings.server, why));
            }
            false => self.refuse_server(&format!("{why}: leave out \"protocol\", or set it to 2")),
        }
    }

    /// Takes a pushed message.
    pub(super) fn pushed(&mut self, push: &[Value]) {
        if let Some(pushed) = script::pushed(&self.settings.keys, push) {
            self.machine.pushed(pushed, self.platform.boot_time());
        }
    }

    pub(super) fn submit_first(&mut self, parts: &[&[u8]], about: About<W>, now: Instant) {
        let deadline = now + self.settings.options.patience;
        self.link.submit_first(parts, about, deadline);
    }

    /// Checks the server's eviction policy: it must not evict locks to make room for other keys.
    pub(super) fn informed(&mut self, info: &Value) {
        if matches!(info, Value::Error(error) if error.message.contains(ONLY_SUBSCRIBES)) {
            return self
                .fall_back("it takes no commands on a connection that has subscribed, although it accepted RESP3");
        }
        let Value::Bytes(text) = info else { return };
        let text = String::from_utf8_lossy(text);
        self.told_standing(&text);
        let Some(policy) = text.lines().find_map(|line| line.strip_prefix("maxmemory_policy:")) else { return };
        if policy != "noeviction" && !std::mem::replace(&mut self.warned_of_policy, true) {
            self.finished.push_back(Report::Warning(format!(
                "{}: maxmemory-policy is {policy}: the server may throw out locks that are held when its memory is full; \
                 set maxmemory-policy noeviction, or keep locks on a server of their own",
                self.settings.server
            )));
        }
    }

    fn refuse_server(&mut self, why: &str) {
        self.leave_server(Kind::Refused, &format!("cannot use this server: {why}"));
    }

    /// Leaves a server that may serve this client later.
    fn not_now(&mut self, why: &str) {
        self.leave_server(Kind::Connect, &format!("cannot use this server now: {why}"));
    }

    fn leave_server(&mut self, kind: Kind, why: &str) {
        self.link.lanes[COMMANDS].session.fail(Error::new(kind, &self.settings.server, why));
    }
}

fn is(value: Option<&Value>, word: &[u8]) -> bool {
    matches!(value, Some(Value::Bytes(bytes)) if **bytes == *word)
}

/// The primary that a replica's answer to `ROLE` names. A primary on a Unix socket has no port.
fn primary_of(role: &[Value]) -> Option<Endpoint> {
    let [_, Value::Bytes(host), Value::Integer(port), ..] = role else { return None };
    let host = String::from_utf8(host.to_vec()).ok().filter(|host| !host.is_empty())?;
    let port = u16::try_from(*port).ok().filter(|port| *port > 0)?;
    Some(Endpoint::Tcp { host, port })
}
