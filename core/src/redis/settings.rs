//! What a session is told about its server: as whom to speak, to which database, and within which bounds.

use pinyon_proto::resp;

use crate::login::printable;
pub use crate::login::Password;
use crate::tls::ServerTls;

/// How to greet a server.
#[derive(Clone, Debug, Default)]
pub struct SessionSettings {
    /// As whom to log in, where the server has users (Redis 6 and newer): `default` if there is a password alone. A user
    /// alone needs none.
    pub user: Option<String>,
    pub password: Option<Password>,
    /// The database to select; clusters have 0 alone.
    pub database: u32,
    /// Speak TLS.
    pub tls: Option<ServerTls>,
    pub limits: RespLimits,
}

/// What bounds a session's memory.
#[derive(Clone, Copy, Debug)]
pub struct RespLimits {
    /// Exchanges in flight.
    pub exchanges: usize,
    /// Bytes submitted and not yet sent, beyond which nothing more is taken.
    pub unsent: usize,
    /// The bytes of one command's parts together.
    pub command: usize,
    /// One reply, or one push.
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

    /// What a server said, printable and without the password, which some repeat.
    pub(super) fn redact(&self, said: &[u8]) -> String {
        match &self.password {
            Some(password) => password.redact(said),
            None => printable(said),
        }
    }
}
