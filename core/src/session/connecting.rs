//! How a session comes to be ready: once it is connected it logs in, where that is wanted, and the server's version says
//! what may be sent.

use std::time::{Duration, Instant};

use pinyon_proto::{Capabilities, Decoded, Form, Malformed, ReplyReader, ServerVersion, Status};

use super::Session;
use crate::address::Address;
use crate::connection::{Incoming, Outgoing, RECEIVE_BUFFER};
use crate::error::{Error, Kind};
use crate::metrics::Meter;
use crate::network::Network;

/// How a server that speaks TLS begins when it is spoken to without.
const ALERT: [u8; 2] = [0x15, 0x03];

impl<N: Network> Session<N> {
    /// Begins to connect, to the first of `addresses` that answers, with `timeout` for all of it. A session whose
    /// connection broke starts anew; take what was in flight from [`Session::next`] before.
    pub fn connect(&mut self, addresses: Vec<Address>, now: Instant, timeout: Duration) {
        assert!(self.queue.is_empty(), "what was in flight has not been taken");
        self.meter.iter_mut().for_each(Meter::begin);
        self.outgoing = Outgoing::default();
        self.incoming = Incoming::new(RECEIVE_BUFFER);
        self.reader = ReplyReader::default();
        self.awaits_login = false;
        self.current = None;
        self.receiving = None;
        self.silent = 0;
        self.unattributed = None;
        self.quiet_run = 0;
        self.forget_joined();
        self.connection.connect(addresses, now, timeout);
        self.advance_connection(now);
    }

    /// Until when the connection must stand.
    pub fn connection_deadline(&self) -> Option<Instant> {
        self.connection.deadline()
    }

    /// Goes on connecting as far as it can without waiting.
    pub(super) fn advance_connection(&mut self, now: Instant) {
        match self.connection.advance(now) {
            Ok(true) => self.greet(),
            Ok(false) => {}
            Err(error) => self.fail(error),
        }
    }

    /// Gives up connecting once its time is over, after what has come was read.
    pub(super) fn check_connecting_time(&mut self, now: Instant) {
        let awaited = if self.awaits_login { "the login" } else { "version" };
        if let Err(error) = self.connection.check_time(now, awaited) {
            self.fail(error);
        }
    }

    /// The login and the version probe leave in one send.
    fn greet(&mut self) {
        let mut requests = Vec::new();
        if let Some(login) = &self.login {
            login.write(&mut requests);
            self.awaits_login = true;
        }
        requests.extend_from_slice(b"version\r\n");
        self.outgoing.append_bytes(&requests);
    }

    /// Reads the answers to the greeting, if that is what has come; the last of them makes the session ready.
    #[inline]
    pub(super) fn read_greeting(&mut self) {
        if self.connection.is_greeting() {
            self.read_answers_to_greeting();
        }
    }

    fn read_answers_to_greeting(&mut self) {
        if self.incoming.bytes().starts_with(&ALERT) {
            self.refuse(Kind::Connect, "the server speaks TLS on this port: set \"tls\"");
        }
        if self.connection.is_greeting() && self.awaits_login {
            self.read_login();
        }
        if self.connection.is_greeting() && !self.awaits_login {
            self.read_version();
        }
    }

    fn read_login(&mut self) {
        match self.reader.read(self.incoming.bytes(), Form::ClassicStore) {
            Ok(Decoded::Head { head, consumed, .. }) if head.status == Status::Done => {
                self.awaits_login = false;
                self.incoming.consume(consumed);
            }
            Ok(Decoded::Head { line, .. }) => {
                let said = self.redacted(line);
                let user = self.login.as_ref().map_or("", |login| &login.user).escape_debug().to_string();
                let why = format!(
                    "the server refused the login of user \"{user}\": correct \"username\" and \"password\" (it answered \
                     \"{said}\")"
                );
                self.refuse(Kind::Connect, &why);
            }
            Ok(Decoded::Partial | Decoded::Value { .. }) => {}
            Err(malformed) => self.is_no_memcached(&malformed),
        }
    }

    /// Reads the answer to the version probe.
    fn read_version(&mut self) {
        let (kind, why) = match self.reader.read(self.incoming.bytes(), Form::Version) {
            Ok(Decoded::Head { head, line, consumed, .. }) if head.status == Status::Version => {
                let version = line.strip_prefix(b"VERSION ").and_then(ServerVersion::parse);
                self.capabilities = Capabilities::of(version);
                self.incoming.consume(consumed);
                if self.incoming.is_empty() {
                    self.meter.iter().for_each(|meter| meter.connected(true));
                    return self.connection.ready();
                }
                (Kind::Protocol, "the server sent more than the answer to \"version\"".into())
            }
            Ok(Decoded::Head { line, .. }) if line.ends_with(b"unauthenticated") => {
                let why = match &self.login {
                    Some(login) => {
                        format!("another login than that of user \"{}\": correct", login.user.escape_debug())
                    }
                    None => "a login: set".into(),
                };
                let said = self.redacted(line);
                let why = format!("the server wants {why} \"username\" and \"password\" (it answered \"{said}\")");
                (Kind::Connect, why)
            }
            Ok(Decoded::Head { line, .. }) => {
                (Kind::Protocol, format!("the server answered \"version\" with \"{}\"", self.redacted(line)))
            }
            Ok(Decoded::Partial | Decoded::Value { .. }) => return,
            Err(malformed) => return self.is_no_memcached(&malformed),
        };
        self.refuse(kind, &why);
    }

    fn is_no_memcached(&mut self, malformed: &Malformed) {
        let bytes = self.incoming.bytes();
        let (what, said) = (malformed.what, self.redacted(&bytes[..bytes.len().min(60)]));
        self.refuse(Kind::Protocol, &format!("this is not a memcached server: {what}: received \"{said}\""));
    }

    /// What the server said, without the password.
    pub(super) fn redacted(&self, said: &[u8]) -> String {
        match &self.login {
            Some(login) => login.password.redact(said),
            None => said.escape_ascii().to_string(),
        }
    }

    /// What was wrong with a reply, without what may have the password in it.
    pub(super) fn explained(&self, malformed: &Malformed) -> String {
        match &self.login {
            Some(_) => malformed.what.to_owned(),
            None => malformed.to_string(),
        }
    }

    fn refuse(&mut self, kind: Kind, why: &str) {
        self.fail(Error::new(kind, self.server(), format!("cannot connect: {why}")));
    }
}
