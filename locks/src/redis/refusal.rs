//! Why a server cannot be used, and what to do about it. Quotes from servers never contain the password.

use pinyon_proto::resp::ServerError;

use super::classes::Refusal;
use super::greeting::Question;
use super::RespSession;
use pinyon_net::error::{Error, Kind};
use pinyon_net::network::Network;

/// The most characters quoted from a server: enough for every message of Redis.
const LONGEST_QUOTE: usize = 1200;

impl<N: Network> RespSession<N> {
    /// The error for a question of the greeting that the server answered with an error.
    pub(super) fn refused(&self, question: Question, error: &ServerError) -> Error {
        let why = match &*error.code {
            "WRONGPASS" => self.wrong_password(),
            "NOAUTH" if self.settings.password.is_none() => "the server requires a password: set \"password\"".into(),
            "DENIED" => {
                "the server is in protected mode and serves its own machine only: set a password for its default \
                         user, or \"protected-mode no\" where its network is safe"
                    .into()
            }
            "LOADING" => "the server is loading its data into memory: try again when it has".into(),
            "MASTERDOWN" => {
                "the server is a replica without a link to its master, and serves nothing until it has one: \
                             connect to the master"
                    .into()
            }
            "NOPERM" if error.message.contains("access database") => {
                let (user, database) = (self.user(), self.settings.database);
                format!(
                    "the user {user} may not use database {database}: allow it in the server's ACL, or name another"
                )
            }
            "NOPERM" if question != Question::Hello => {
                format!("the user {} may not use {}: allow it in the server's ACL", self.user(), question.name())
            }
            _ => self.refused_in_words(question, &error.message),
        };
        let kind = if Refusal::passes(error) { Kind::Connect } else { Kind::Refused };
        self.cannot_connect(kind, format!("{why} (it answered \"{}\")", self.quote(error)))
    }

    /// The message for errors without a code of their own.
    fn refused_in_words(&self, question: Question, message: &str) -> String {
        let says = |words: &str| message.contains(words);
        let database = self.settings.database;
        match question {
            Question::Select if says("cluster mode") => {
                format!(
                    "the server is part of a cluster, which has database 0 alone: database {database} was asked for"
                )
            }
            Question::Select => format!("the server has no database {database}: correct it in the URL"),
            Question::Auth if says("wrong number of arguments") => {
                "the server has no users, which Redis 6 introduced: leave out \"username\"".into()
            }
            Question::Auth if says("invalid password") => self.wrong_password(),
            Question::Hello | Question::Auth if says("without any password") || says("no password is set") => {
                "the server has no password: leave out \"password\"".into()
            }
            _ if says("max number of clients") => "the server accepts no more clients: raise its \"maxclients\", \
                                                   or look for clients that leave connections open"
                .into(),
            Question::Hello => "the server refused HELLO 3: leave out \"protocol\", or set it to 2".into(),
            _ => format!("the server refused {}", question.name()),
        }
    }

    fn wrong_password(&self) -> String {
        let user = self.user();
        format!(
            "the server refused the password of user {user}, or has no such user: correct \"username\" and \"password\""
        )
    }

    fn user(&self) -> String {
        format!("\"{}\"", self.settings.user.as_deref().unwrap_or("default").escape_debug())
    }

    /// The error for an answer that no question can have.
    pub(super) fn answers_oddly(&self, question: Question) -> Error {
        self.cannot_connect(Kind::Refused, format!("the server's answer to {} is not one of Redis", question.name()))
    }

    pub(super) fn answers_too_much(&self) -> Error {
        self.cannot_connect(Kind::Refused, "the server sent more than the answers to the greeting".into())
    }

    /// The error for bytes that are not RESP.
    pub(super) fn is_no_redis(&self, what: &str) -> Error {
        let bytes = self.incoming.bytes();
        let instead = match bytes {
            [0x15, 0x03, ..] => {
                return self.cannot_connect(
                    Kind::Refused,
                    "the server speaks TLS on this port: begin its URL with rediss://, or set \"tls\"".into(),
                )
            }
            _ if bytes.starts_with(b"HTTP/") => ", as HTTP does",
            _ if bytes.starts_with(b"ERROR\r\n") || bytes.starts_with(b"CLIENT_ERROR") => ", as memcached does",
            _ => "",
        };
        let said: String = self.settings.redact(&bytes[..bytes.len().min(4096)]).chars().take(80).collect();
        self.cannot_connect(
            Kind::Refused,
            format!("this is not a Redis server: {what}: it answered \"{said}\"{instead}"),
        )
    }

    fn cannot_connect(&self, kind: Kind, why: String) -> Error {
        Error::new(kind, self.connection.server(), format!("cannot connect: {why}"))
    }

    /// The server's words, without the arguments that it repeats: one of them is the password.
    fn quote(&self, error: &ServerError) -> String {
        let said = error.to_string();
        let said = said.split(", with args beginning with").next().unwrap_or_default();
        self.settings.redact(said.as_bytes()).chars().take(LONGEST_QUOTE).collect()
    }
}
