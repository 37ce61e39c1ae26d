//! Logins, and how passwords stay out of every text.

use std::sync::Arc;

use super::{Answer, Credentials};

/// A password: no text or message ever shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Box<[u8]>);

/// Replaces the password in messages.
const HIDDEN: &[u8] = b"(hidden)";

/// If a text ends with so many bytes of the password, they count as the password: the text may have been cut there.
const TELLING: usize = 3;

impl Password {
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// A server's words, printable and without the password, which some servers repeat.
    pub fn redact(&self, said: &[u8]) -> String {
        if self.0.is_empty() {
            return printable(said);
        }
        let mut shown = Vec::new();
        let mut rest = said;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix(&*self.0) {
                shown.extend_from_slice(HIDDEN);
                rest = after;
            } else if rest.len() >= TELLING && self.0.starts_with(rest) {
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

/// The user and password for memcached.
#[derive(Clone, Debug)]
pub struct Login {
    pub user: String,
    pub password: Password,
}

impl Login {
    /// The error says what is wrong with them. memcached takes two words of limited length.
    pub fn new(user: &str, password: Password) -> Result<Self, &'static str> {
        if !is_word(user.as_bytes()) {
            return Err("username must be 1 to 250 bytes without spaces and control characters");
        }
        if !is_word(password.bytes()) {
            return Err("password must be 1 to 250 bytes without spaces and control characters");
        }
        Ok(Self { user: user.to_owned(), password })
    }

    /// The login that a function returned.
    pub fn of(answer: Answer) -> Result<Self, &'static str> {
        match (answer.username, answer.password) {
            (Some(username), Some(password)) => Self::new(&username, password),
            (None, _) => Err("memcached requires a username, and none was given or returned"),
            (_, None) => Err("memcached requires a password, and none was given or returned"),
        }
    }

    /// Writes the login. A server without logins stores it as an item, so the item expires at once and can never be
    /// read.
    pub fn write(&self, out: &mut Vec<u8>) {
        let size = self.user.len() + 1 + self.password.bytes().len();
        out.extend_from_slice(format!("set auth 0 -1 {size}\r\n{} ", self.user).as_bytes());
        out.extend_from_slice(self.password.bytes());
        out.extend_from_slice(b"\r\n");
    }
}

/// How sessions with memcached log in.
#[derive(Clone, Debug)]
pub enum LoginBy {
    Fixed(Login),
    /// By what a function returns before each connection.
    Asking(Arc<Credentials>),
}

fn is_word(text: &[u8]) -> bool {
    (1..=250).contains(&text.len()) && text.iter().all(|byte| *byte > b' ' && *byte != 0x7f)
}

pub fn printable(text: &[u8]) -> String {
    text.escape_ascii().to_string().replace("\\'", "'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_in_no_text() {
        let password = Password::from("secret");
        assert!(!format!("{password:?}").contains("secret"));
        assert_eq!(password.redact(b"a 'secret' and secretsecret\r\n"), "a '(hidden)' and (hidden)(hidden)\\r\\n");
        assert_eq!(password.redact(b"cut: secre"), "cut: (hidden)");
        assert_eq!(password.redact(b"no less, se"), "no less, se");
        assert_eq!(Password::from("").redact(b"x"), "x");
    }

    #[test]
    fn a_login_that_could_break_out_of_its_line_is_refused() {
        for (user, password) in
            [("", "p"), ("u", ""), ("a b", "p"), ("u", "p\r\nflush_all"), ("u\0", "p"), ("u", "\x7f")]
        {
            let refused = Login::new(user, password.into()).unwrap_err();
            assert!(refused.contains("without spaces"), "{refused}");
        }
        let mut out = Vec::new();
        Login::new("app", "secret".into()).unwrap().write(&mut out);
        assert_eq!(out, b"set auth 0 -1 10\r\napp secret\r\n");
    }
}
