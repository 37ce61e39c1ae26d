//! Making a session ready: it connects, logs in if needed, and learns from the server's version which commands it may
//! send.

use std::time::{Duration, Instant};

use pinyon_proto::{Decoded, Form, Malformed, ReplyReader, ServerVersion, Status};

use super::exchange::Exchange;
use super::protocol::Probe;
use super::Session;
use crate::metrics::{Counted, Meter};
use pinyon_net::address::Address;
use pinyon_net::connection::{Incoming, Outgoing, RECEIVE_BUFFER};
use pinyon_net::credentials::{Login, Question};
use pinyon_net::error::{Error, Kind, Sent};
use pinyon_net::network::{Network, Stream};

/// The next answer that the greeting awaits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    Login,
    Version,
    /// The answer to a meta no-op.
    NoOp,
    /// Any answer, on a connection that had rested.
    SignOfLife(Form),
    Nothing,
}

impl Awaited {
    /// The name of the request, for messages.
    fn as_str(self) -> &'static str {
        match self {
            Awaited::Login => "the login",
            _ => "version",
        }
    }
}

/// The first bytes from a server that expects TLS when the client does not speak it.
const ALERT: [u8; 2] = [0x15, 0x03];

/// What memcached says on a connection beyond the number of its option `-c`, before it closes it.
const TOO_MANY: &[u8] = b"ERROR Too many open connections";

impl<N: Network> Session<N> {
    /// Begins to connect to the first of `addresses` that answers, within `timeout` overall. A session whose connection
    /// broke starts anew; before that, take what was in flight from [`Session::next`].
    pub fn connect(&mut self, addresses: Vec<Address>, now: Instant, timeout: Duration) {
        assert!(self.queue.is_empty(), "what was in flight has not been taken");
        self.meter.iter_mut().for_each(Meter::begin);
        self.outgoing = Outgoing::default();
        self.incoming = Incoming::new(RECEIVE_BUFFER);
        self.reader = ReplyReader::default();
        self.awaits = Awaited::Version;
        self.probe = self.manner.probe();
        self.current = None;
        self.receiving = None;
        self.silent = 0;
        self.unattributed = None;
        self.quiet_run = 0;
        self.held = None;
        self.connected = None;
        self.forget_joined();
        self.connection.connect(addresses, now, timeout);
        self.advance_connection(now);
    }

    /// The deadline for connecting.
    pub fn connection_deadline(&self) -> Option<Instant> {
        self.connection.deadline()
    }

    /// Whether it awaits credentials before it connects.
    pub(crate) fn is_asking(&self) -> bool {
        self.connection.is_asking()
    }

    /// A question for credentials, once. Drivers look for it after they began to connect.
    pub(crate) fn take_question(&mut self) -> Option<Question> {
        self.connection.take_question()
    }

    /// The error if the credentials do not come in time.
    pub(crate) fn late_credentials(&self) -> Error {
        self.connection.unanswered_credentials()
    }

    /// Continues to connect, as far as possible without waiting.
    pub(super) fn advance_connection(&mut self, now: Instant) {
        let connected = self.connection.advance(now);
        self.advanced(connected);
    }

    fn advanced(&mut self, connected: Result<bool, Error>) {
        match connected {
            Ok(true) => self.log_in(),
            Ok(false) => {}
            Err(error) => self.fail_to_connect(error),
        }
    }

    /// Gives up connecting once the time is up, after reading what has arrived.
    pub(super) fn check_connecting_time(&mut self, now: Instant) {
        if let Err(error) = self.connection.check_time(now, self.awaits.as_str()) {
            self.fail_to_connect(error);
        }
    }

    /// Handles a broken connection. If the server closed it instead of answering a meta command of the greeting, greets
    /// the server more carefully on a new connection.
    #[cold]
    pub(super) fn broke(&mut self, error: Error) {
        let was_cut_off = error.kind == Kind::Closed && self.incoming.is_empty();
        if !self.connection.is_greeting() {
            self.doubt_command(was_cut_off);
            return self.fail(error);
        }
        match self.probe {
            _ if matches!(self.awaits, Awaited::SignOfLife(_)) => self.lose(),
            Probe::AtOnce if was_cut_off => self.greet_anew(Probe::AfterVersion),
            Probe::AfterVersion if was_cut_off && self.awaits == Awaited::NoOp => self.greet_anew(Probe::Never),
            _ => self.fail_to_connect(error),
        }
    }

    /// Handles a connection that broke while sending. A server that takes no further connection says so, and closes it
    /// without reading the greeting.
    #[cold]
    pub(super) fn broke_sending(&mut self, error: Error) {
        let said_why = self.connection.is_greeting()
            && matches!(self.fill_with(Stream::receive), Ok(1..))
            && !self.connection.is_greeting();
        if said_why {
            return;
        }
        if self.failure().is_none() {
            self.broke(error);
        }
    }

    /// Greets the server on another connection.
    fn greet_anew(&mut self, probe: Probe) {
        self.outgoing = Outgoing::default();
        self.incoming = Incoming::new(RECEIVE_BUFFER);
        self.reader = ReplyReader::default();
        self.probe = probe;
        let connected = self.connection.connect_anew();
        self.advanced(connected);
    }

    /// Blames the meta command rather than the server: a proxy that speaks only classic text closes the connection on a
    /// command it does not know.
    fn doubt_command(&mut self, was_cut_off: bool) {
        let is_doubtful = |exchange: &Exchange| {
            let rare =
                [Counted::GetAndTouch, Counted::Stats, Counted::FlushAll, Counted::Version, Counted::ClusterConfig];
            rare.contains(&exchange.command) && !exchange.abandoned && exchange.begin < self.outgoing.position()
        };
        let Some(first) = self.queue.front().filter(|first| was_cut_off && is_doubtful(first)) else { return };
        if !self.capabilities.is_classic() || self.current.is_some() {
            return;
        }
        let command = first.command.as_str();
        let why = format!("the connection was closed on it: a proxy that does not know \"{command}\" does so");
        let error = Error::new(Kind::Unsupported, self.server(), why).of(command, Sent::Maybe);
        self.ended.push_back((first.ticket, Err(error)));
        self.queue.pop_front();
    }

    fn fail_to_connect(&mut self, error: Error) {
        if matches!(self.awaits, Awaited::SignOfLife(_)) {
            return self.lose();
        }
        self.manner.forget();
        self.fail(error);
    }

    /// Greets the server, with the credentials that a function has returned, if one was asked.
    fn log_in(&mut self) {
        match self.connection.take_answer().map(Login::of) {
            None => self.greet(),
            Some(Ok(login)) => {
                self.login = Some(login);
                self.greet();
            }
            Some(Err(why)) => {
                let error = self.connection.without_credentials(why);
                self.fail_to_connect(error);
            }
        }
    }

    /// Submits the requests of the greeting. They leave in one send.
    fn greet(&mut self) {
        let mut requests = Vec::new();
        if let Some(login) = &self.login {
            login.write(&mut requests);
        }
        if self.manner.asks_version() {
            requests.extend_from_slice(b"version\r\n");
        }
        if self.probe == Probe::AtOnce {
            requests.extend_from_slice(b"mn\r\n");
        }
        self.outgoing.append_bytes(&requests);
        match self.login {
            Some(_) => self.awaits = Awaited::Login,
            None => self.await_version(),
        }
    }

    fn await_version(&mut self) {
        if self.manner.asks_version() {
            self.awaits = Awaited::Version;
            return;
        }
        self.capabilities = self.manner.capabilities(None);
        self.be_ready();
    }

    fn await_no_op(&mut self, version: Option<ServerVersion>) {
        let was_cut_off = self.probe == Probe::Never && self.manner.probe() != Probe::Never;
        if was_cut_off {
            self.manner.refuses_meta(self.connection.server());
        }
        self.capabilities = self.manner.capabilities(version);
        match self.probe {
            Probe::Never => return self.be_ready(),
            Probe::AtOnce => {}
            Probe::AfterVersion => self.outgoing.append_bytes(b"mn\r\n"),
        }
        self.awaits = Awaited::NoOp;
    }

    /// Marks the session ready, once the whole greeting is answered.
    pub(super) fn be_ready(&mut self) {
        self.awaits = Awaited::Nothing;
        if !self.incoming.is_empty() {
            return self.refuse(Kind::Protocol, "the server sent more than it was asked for");
        }
        self.meter.iter().for_each(|meter| meter.connected(true));
        self.connection.ready();
    }

    /// Reads answers to the greeting, if they have arrived. The last one makes the session ready.
    #[inline]
    pub(super) fn read_greeting(&mut self) {
        if self.connection.is_greeting() {
            self.read_answers_to_greeting();
        }
    }

    #[cold]
    fn read_answers_to_greeting(&mut self) {
        if self.incoming.bytes().starts_with(&ALERT) {
            return self.refuse(Kind::Connect, "the server speaks TLS on this port: set \"tls\"");
        }
        if self.incoming.bytes().starts_with(TOO_MANY) {
            let why =
                "the server has reached its limit of connections (option -c): raise it, or lower \"max_connections\"";
            return self.refuse(Kind::Crowded, why);
        }
        while self.connection.is_greeting() {
            let awaited = self.awaits;
            match awaited {
                Awaited::Login => self.read_login(),
                Awaited::Version => self.read_version(),
                Awaited::NoOp => self.read_no_op(),
                Awaited::SignOfLife(form) => self.read_sign_of_life(form),
                Awaited::Nothing => {}
            }
            if self.awaits == awaited {
                return;
            }
        }
    }

    fn read_login(&mut self) {
        match self.reader.read(self.incoming.bytes(), Form::ClassicStore) {
            Ok(Decoded::Head { consumed, .. }) if self.reader.head().status == Status::Done => {
                self.incoming.consume(consumed);
                self.await_version();
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

    /// Reads the answer to `version`.
    fn read_version(&mut self) {
        let (kind, why) = match self.reader.read(self.incoming.bytes(), Form::Version) {
            Ok(Decoded::Head { line, consumed, .. }) if self.reader.head().status == Status::Version => {
                let version = line.strip_prefix(b"VERSION ").and_then(ServerVersion::parse);
                self.incoming.consume(consumed);
                return self.await_no_op(version);
            }
            Ok(Decoded::Head { line: b"ERROR", consumed, .. }) => {
                self.incoming.consume(consumed);
                return self.await_no_op(None);
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

    /// Reads the answer to the meta no-op. After an error the session connects again, because mcrouter closes the
    /// connection. Only the "ERROR" of an old memcached leaves it open.
    fn read_no_op(&mut self) {
        match self.reader.read(self.incoming.bytes(), Form::NoOp) {
            Ok(Decoded::Head { line, consumed, .. }) => {
                let version = self.capabilities.version();
                let is_old_memcached = line == b"ERROR" && version.is_some() && !self.capabilities.meta();
                if self.reader.head().status.is_error() && !is_old_memcached {
                    self.manner.refuses_meta(self.connection.server());
                    return self.greet_anew(Probe::Never);
                }
                self.incoming.consume(consumed);
                self.manner.answers_meta();
                self.be_ready();
            }
            Ok(Decoded::Partial | Decoded::Value { .. }) => {}
            Err(malformed) => self.is_no_memcached(&malformed),
        }
    }

    pub(super) fn is_no_memcached(&mut self, malformed: &Malformed) {
        let bytes = self.incoming.bytes();
        let (what, said) = (malformed.what, self.redacted(&bytes[..bytes.len().min(60)]));
        let instead = match bytes {
            _ if bytes.starts_with(b"-ERR ") || bytes.starts_with(b"-NOAUTH ") => ", as Redis does",
            _ if bytes.starts_with(b"HTTP/") => ", as HTTP does",
            _ => "",
        };
        self.refuse(Kind::Protocol, &format!("this is not a memcached server: {what}: received \"{said}\"{instead}"));
    }

    /// The server's words, without the password.
    pub(super) fn redacted(&self, said: &[u8]) -> String {
        match &self.login {
            Some(login) => login.password.redact(said),
            None => said.escape_ascii().to_string(),
        }
    }

    /// What was wrong with a reply, without anything that may contain the password.
    pub(super) fn explained(&self, malformed: &Malformed) -> String {
        match &self.login {
            Some(_) => malformed.what.to_owned(),
            None => malformed.to_string(),
        }
    }

    fn refuse(&mut self, kind: Kind, why: &str) {
        self.fail_to_connect(Error::new(kind, self.server(), format!("cannot connect: {why}")));
    }
}
