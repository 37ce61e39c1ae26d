//! Making a session ready: it logs in, learns what the server is, and checks that the server is ready.
//!
//! All commands of a greeting leave in one send. The first greeting uses RESP3. If the server refuses `HELLO`, in whatever
//! words, the remaining replies are skipped, and a greeting in RESP2 follows.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pinyon_proto::resp::{encode, Decoded, Reader, ServerError, Value};

use super::info::{Protocol, ServerInfo};
use super::settings::{Password, SessionSettings};
use super::RespSession;
use pinyon_net::address::Address;
use pinyon_net::connection::{Incoming, Outgoing, LEAST_ROOM, RECEIVE_BUFFER};
use pinyon_net::error::Error;
use pinyon_net::network::Network;

/// What may be wrong if a server closes the connection instead of answering the first `HELLO`.
const AT_HELLO: &str =
    ", as it was asked HELLO: is it a proxy that does not know HELLO, set \"protocol\" to 2 (locks need \
                        a proxy with pub/sub); should it speak TLS on this port, set \"tls\"";

/// A question of the greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Hello,
    Auth,
    /// The kind of server.
    Info,
    /// Whether it is a replica.
    Role,
    Select,
    /// Whether it is ready: while it loads its data, it answers only the earlier questions.
    Ping,
}

impl Question {
    pub(super) fn name(self) -> &'static str {
        match self {
            Question::Hello => "HELLO",
            Question::Auth => "AUTH",
            Question::Info | Question::Role => "INFO",
            Question::Select => "SELECT",
            Question::Ping => "PING",
        }
    }
}

/// The awaited replies.
#[derive(Default)]
pub(super) struct Greeting {
    questions: VecDeque<Question>,
    /// Whether `HELLO` was refused. The remaining replies have no meaning then.
    falls_back: bool,
}

impl Greeting {
    fn resp3(settings: &SessionSettings) -> Self {
        let selects = (settings.database != 0).then_some(Question::Select);
        let questions = [Some(Question::Hello), selects, Some(Question::Ping)];
        Self { questions: questions.into_iter().flatten().collect(), falls_back: false }
    }

    fn resp2(settings: &SessionSettings) -> Self {
        let logs_in = settings.logs_in().then_some(Question::Auth);
        let selects = (settings.database != 0).then_some(Question::Select);
        let questions = [logs_in, Some(Question::Info), Some(Question::Role), selects, Some(Question::Ping)];
        Self { questions: questions.into_iter().flatten().collect(), falls_back: false }
    }

    fn write(&self, settings: &SessionSettings, out: &mut Vec<u8>) {
        let password = settings.password.as_ref().map(Password::bytes).unwrap_or_default();
        let user = settings.user.as_deref().map(str::as_bytes);
        for question in &self.questions {
            match (question, user) {
                (Question::Hello, _) if !settings.logs_in() => encode(&[b"HELLO", b"3"], out),
                (Question::Hello, _) => encode(&[b"HELLO", b"3", b"AUTH", user.unwrap_or(b"default"), password], out),
                (Question::Auth, Some(user)) => encode(&[b"AUTH", user, password], out),
                (Question::Auth, None) => encode(&[b"AUTH", password], out),
                (Question::Info, _) => encode(&[b"INFO", b"server"], out),
                (Question::Role, _) => encode(&[b"INFO", b"replication"], out),
                (Question::Select, _) => encode(&[b"SELECT", settings.database.to_string().as_bytes()], out),
                (Question::Ping, _) => encode(&[b"PING"], out),
            }
        }
    }

    /// What the server must answer next.
    pub(super) fn awaited(&self) -> &'static str {
        self.questions.front().map_or("", |question| question.name())
    }
}

impl<N: Network> RespSession<N> {
    /// Begins to connect to the first of `addresses` that answers, within `timeout` overall. A session whose connection
    /// broke starts anew; before that, take what was in flight from [`RespSession::next`].
    pub fn connect(&mut self, addresses: Vec<Address>, now: Instant, timeout: Duration) {
        assert!(self.queue.is_empty(), "what was in flight has not been taken");
        self.outgoing = Outgoing::default();
        self.incoming = Incoming::new(RECEIVE_BUFFER);
        self.reader = Reader::new(self.settings.limits.reply);
        self.arrived = None;
        self.announced = false;
        self.subscribed = false;
        self.renewal = None;
        self.info = ServerInfo::default();
        self.connection.connect(addresses, now, timeout);
        self.advance_connection(now);
    }

    /// Continues to connect, as far as possible without waiting.
    pub(super) fn advance_connection(&mut self, now: Instant) {
        match self.connection.advance(now) {
            Ok(true) => {
                self.adopt_answer();
                let speaks_resp2 = self.only_resp2 || self.settings.protocol == Some(Protocol::Resp2);
                if !speaks_resp2 {
                    self.connection.advise(AT_HELLO);
                }
                self.greet(match speaks_resp2 {
                    true => Greeting::resp2(&self.settings),
                    false => Greeting::resp3(&self.settings),
                });
            }
            Ok(false) => {}
            Err(error) => self.fail(error),
        }
    }

    /// Gives up connecting once the time is up, after reading what has arrived.
    pub(super) fn check_connecting_time(&mut self, now: Instant) {
        if let Err(error) = self.connection.check_time(now, self.greeting.awaited()) {
            self.fail(error);
        }
    }

    fn greet(&mut self, greeting: Greeting) {
        let mut requests = Vec::new();
        greeting.write(&self.settings, &mut requests);
        self.outgoing.append_bytes(&requests);
        self.greeting = greeting;
    }

    /// Reads answers to the greeting; the last one makes the session ready. An incomplete answer stays in the receive
    /// buffer, so that a message can quote it.
    pub(super) fn read_greeting(&mut self) {
        while self.connection.is_greeting() {
            let mut reader = Reader::new(self.settings.limits.reply);
            let outcome = match reader.read(self.incoming.bytes()) {
                Ok((_, None)) if self.incoming.room().len() < LEAST_ROOM => Err(self.answers_too_much()),
                Ok((_, None)) => return,
                Ok((consumed, Some(decoded))) => {
                    self.incoming.consume(consumed);
                    match decoded {
                        Decoded::Reply(reply) => self.answered(&reply),
                        Decoded::Push(_) => Ok(()), // nothing was subscribed to, so no one awaits it
                    }
                }
                Err(malformed) => Err(self.is_no_redis(malformed.what)),
            };
            if let Err(error) = outcome {
                return self.fail(error);
            }
        }
    }

    fn answered(&mut self, reply: &Value) -> Result<(), Error> {
        let Some(question) = self.greeting.questions.pop_front() else { return Err(self.answers_too_much()) };
        if !self.greeting.falls_back {
            self.take_answer(question, reply)?;
        }
        if !self.greeting.questions.is_empty() {
            return Ok(());
        }
        if self.greeting.falls_back {
            self.greet(Greeting::resp2(&self.settings));
            self.flush();
            return Ok(());
        }
        if !matches!(self.incoming.bytes(), [] | [b'>', ..]) {
            return Err(self.answers_too_much());
        }
        self.connection.ready();
        Ok(())
    }

    fn take_answer(&mut self, question: Question, reply: &Value) -> Result<(), Error> {
        match (question, reply) {
            (Question::Hello, Value::Error(error)) if self.may_do_without_hello(error) => {
                self.greeting.falls_back = true;
            }
            (Question::Info | Question::Role | Question::Ping, Value::Error(error)) if !is_fatal(error) => {}
            (_, Value::Error(error)) => return Err(self.refused(question, error)),
            (Question::Hello, reply) => {
                self.info = ServerInfo::of_hello(reply).ok_or_else(|| self.answers_oddly(question))?;
            }
            (Question::Info | Question::Role, reply) => self.info.learn_from(reply),
            (Question::Ping, _) | (_, Value::Status(_)) => {}
            _ => return Err(self.answers_oddly(question)),
        }
        Ok(())
    }

    /// Whether a greeting without `HELLO` may succeed, or says better why not. A wrong password would only be refused
    /// twice.
    fn may_do_without_hello(&self, error: &ServerError) -> bool {
        let lacks_password = &*error.code == "NOAUTH" && !self.settings.logs_in();
        let serves_nobody =
            is_fatal(error) && &*error.code != "NOAUTH" || error.message.contains("max number of clients");
        self.settings.protocol.is_none() && !(lacks_password || serves_nobody || &*error.code == "WRONGPASS")
    }
}

/// Whether the error means that the server serves nothing, rather than refusing information about itself.
fn is_fatal(error: &ServerError) -> bool {
    matches!(&*error.code, "NOAUTH" | "DENIED" | "LOADING" | "MASTERDOWN")
}
