//! The settings of a session: login, database and bounds.

use std::sync::Arc;

use pinyon_proto::resp;

use super::info::Protocol;
pub use pinyon_net::credentials::Password;
use pinyon_net::credentials::{printable, Credentials};
use pinyon_net::tls::ServerTls;

/// How to greet a server.
#[derive(Clone, Debug, Default)]
pub struct SessionSettings {
    /// The user to log in as, if the server has users (Redis 6 and newer). With only a password, it is `default`. A
    /// user needs no password.
    pub user: Option<String>,
    pub password: Option<Password>,
    /// Whom to ask for both before each connection, and again before they end.
    pub credentials: Option<Arc<Credentials>>,
    /// The database to select. Clusters have only database 0.
    pub database: u32,
    /// TLS, if enabled.
    pub tls: Option<ServerTls>,
    /// The only protocol to use. Without it, RESP3, or RESP2 if the server has no RESP3.
    pub protocol: Option<Protocol>,
    pub limits: RespLimits,
}

/// Bounds on a session's memory.
#[derive(Clone, Copy, Debug)]
pub struct RespLimits {
    /// The most exchanges in flight.
    pub exchanges: usize,
    /// The most unsent bytes. Beyond them, the session takes nothing more.
    pub unsent: usize,
    /// The most bytes of one command, all parts together.
    pub command: usize,
    /// The limits of one reply or push.
    pub reply: resp::Limits,
}

impl Default for RespLimits {
    fn default() -> Self {
        Self { exchanges: 4096, unsent: 64 * 1024, command: 64 << 20, reply: resp::Limits::default() }
    }
}

impl SessionSettings {
    pub(super) fn logs_in(&self) -> bool {
        self.user.is_some() || self.password.is_some()
    }

    /// A server's words, printable and without the password, which some servers repeat.
    pub(super) fn redact(&self, said: &[u8]) -> String {
        match &self.password {
            Some(password) => password.redact(said),
            None => printable(said),
        }
    }
}
