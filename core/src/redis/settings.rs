//! What a session is told about its server: as whom to speak, to which database, and within which bounds.

use pinyon_proto::resp;

/// How to greet a server.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// As whom to log in, where the server has users (Redis 6 and newer): `default` if there is a password alone.
    pub user: Option<String>,
    pub password: Option<Password>,
    /// The database to select; clusters have 0 alone.
    pub database: u32,
    pub limits: Limits,
}

/// What bounds a session's memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Exchanges in flight.
    pub exchanges: usize,
    /// Bytes submitted and not yet sent, beyond which nothing more is taken.
    pub unsent: usize,
    /// The bytes of one command's parts together.
    pub command: usize,
    /// One reply, or one push.
    pub reply: resp::Limits,
}

impl Default for Limits {
    fn default() -> Self {
        Self { exchanges: 4096, unsent: 64 * 1024, command: 64 << 20, reply: resp::Limits::default() }
    }
}

/// A password: no text or message ever shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Box<[u8]>);

impl Password {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl<T: AsRef<[u8]>> From<T> for Password {
    fn from(password: T) -> Self {
        Self(password.as_ref().into())
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(hidden)")
    }
}

/// What stands in a message where the password stood.
const HIDDEN: &[u8] = b"(hidden)";

/// So much of the password at the end of a text is taken for it: the text may have been cut there.
const TELLING: usize = 3;

impl Settings {
    /// What a server said, printable and without the password, which some repeat.
    pub(super) fn redact(&self, said: &[u8]) -> String {
        let Some(password) = self.password.as_ref().map(Password::bytes).filter(|bytes| !bytes.is_empty()) else {
            return printable(said);
        };
        let mut shown = Vec::new();
        let mut rest = said;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix(password) {
                shown.extend_from_slice(HIDDEN);
                rest = after;
            } else if rest.len() >= TELLING && password.starts_with(rest) {
                shown.extend_from_slice(HIDDEN);
                rest = &[];
            } else {
                shown.push(rest[0]);
                rest = &rest[1..];
            }
        }
        printable(&shown)
    }
}

fn printable(text: &[u8]) -> String {
    text.escape_ascii().to_string().replace("\\'", "'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_in_no_text() {
        let settings = Settings { password: Some("secret".into()), ..Settings::default() };
        assert!(!format!("{settings:?}").contains("secret"));
        assert_eq!(settings.redact(b"a 'secret' and secretsecret\r\n"), "a '(hidden)' and (hidden)(hidden)\\r\\n");
        assert_eq!(settings.redact(b"cut: secre"), "cut: (hidden)");
        assert_eq!(settings.redact(b"no less, se"), "no less, se");
        let none = Settings { password: Some("".into()), ..Settings::default() };
        assert_eq!(none.redact(b"x"), "x");
    }
}
