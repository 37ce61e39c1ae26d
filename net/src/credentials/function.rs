//! A function of the host's, and what it returns.

use std::any::Any;
use std::time::Duration;

use super::{Answer, Part, Question};
use crate::credentials::Password;

/// A function of the host's that returns credentials, as the value of a setting.
pub trait Function: Send + Sync + 'static {
    /// Has the function called soon, in any thread, and [answers](Question::answer) with what it returned. It must not
    /// wait for that, and not call the function itself: something of the core may be locked.
    fn ask(&self, question: Question);

    /// The function itself, for a host that calls it in an event loop.
    fn as_any(&self) -> &dyn Any;
}

/// What a function returned: the text of its own part, or more.
#[derive(Clone, Default)]
pub struct Told {
    /// The text of the part that the function was given as.
    pub own: Option<Vec<u8>>,
    pub username: Option<Vec<u8>>,
    pub password: Option<Vec<u8>>,
    /// For how many seconds they last. Without it, they are not replaced while a connection lives.
    pub lifetime: Option<f64>,
}

impl Told {
    /// Adds this to what is known. The error says what is wrong, without secrets.
    pub(super) fn add_to(self, answer: &mut Answer, part: Part) -> Result<(), String> {
        let (own_username, own_password) = match part {
            Part::Username => (self.own, None),
            Part::Password => (None, self.own),
        };
        if let Some(username) = self.username.or(own_username) {
            let text = String::from_utf8(username).map_err(|_| "it returned a username that is not UTF-8")?;
            answer.username = Some(text);
        }
        if let Some(password) = self.password.or(own_password) {
            answer.password = Some(Password::from(password));
        }
        if let Some(seconds) = self.lifetime {
            let lifetime = Duration::try_from_secs_f64(seconds).ok().filter(|lifetime| !lifetime.is_zero());
            let lifetime = lifetime.ok_or("it returned a lifetime that is not a positive number of seconds")?;
            answer.lifetime = Some(answer.lifetime.map_or(lifetime, |known| known.min(lifetime)));
        }
        let has_own = match part {
            Part::Username => answer.username.is_some(),
            Part::Password => answer.password.is_some(),
        };
        match has_own {
            true => Ok(()),
            false => Err(format!("it returned no {}", part.name())),
        }
    }
}

/// Secrets are not shown.
impl std::fmt::Debug for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Told(lifetime: {:?})", self.lifetime)
    }
}
