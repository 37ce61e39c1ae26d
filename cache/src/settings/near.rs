//! The store of hot keys as users set it: on, off, or by a settings object.

use std::sync::Arc;
use std::time::Duration;

use crate::near::Limits;
use pinyon_net::error::kinds::ErrorKind;
use pinyon_net::invalid::InvalidArgument;
use pinyon_net::settings;
use pinyon_net::settings::{positive, refused, seconds, Given, Setting, Words};
use pinyon_net::words::words;

settings! {
    /// How a process keeps hot keys in memory.
    pub struct NearSettings {
        /// The bytes of all keys and values in memory, with what it takes to keep them. Values that do not fit are not kept.
        max_bytes: i64 = 32 * 1024 * 1024,
        /// How old a value in memory may be that is returned without asking the server, in seconds.
        fresh: f64 = 1.0,
    }
}

impl NearSettings {
    /// Checks all settings. `timeout`: the client's.
    pub(super) fn limits(&self, timeout: Duration) -> Result<Limits, InvalidArgument> {
        Ok(Limits {
            bytes: positive("max_bytes", self.max_bytes)?,
            fresh: seconds("fresh", self.fresh)?,
            grace: timeout,
        })
    }

    /// Checks all settings.
    pub fn check(&self) -> Result<(), InvalidArgument> {
        self.limits(Duration::ZERO).map(drop)
    }
}

/// Whether to keep hot keys, and how.
#[derive(Clone, Debug)]
pub enum NearChoice {
    Off,
    Usual,
    Own(Arc<NearSettings>),
}

impl NearChoice {
    pub(super) fn settings(&self) -> Option<Arc<NearSettings>> {
        match self {
            NearChoice::Off => None,
            NearChoice::Usual => Some(Arc::default()),
            NearChoice::Own(settings) => Some(settings.clone()),
        }
    }
}

impl Setting for NearChoice {
    fn read(name: &str, given: Given<'_>) -> Result<Self, InvalidArgument> {
        match given {
            Given::Flag(_) | Given::Untyped(_) => {
                Ok(if bool::read(name, given)? { NearChoice::Usual } else { NearChoice::Off })
            }
            Given::Near(settings) => match settings.downcast() {
                Ok(settings) => Ok(Self::Own(settings)),
                Err(_) => unreachable!("hot keys have one type of settings"),
            },
            other => {
                let Words { yes, no, near, .. } = words();
                refused(ErrorKind::UsageError, name, &format!("{yes}, {no} or {near}"), &other)
            }
        }
    }

    fn given(&self) -> Given<'_> {
        match self {
            NearChoice::Off => Given::Flag(false),
            NearChoice::Usual => Given::Flag(true),
            NearChoice::Own(settings) => Given::Near(settings.clone()),
        }
    }
}
