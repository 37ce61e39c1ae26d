//! Reading certificates and keys again once their files have changed.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::ClientConfig;

use super::{resuming_anew, TlsError, TlsSettings};

/// What connections use, made of the files as they were at some time.
#[derive(Debug)]
pub(super) struct Renewing(Mutex<Current>);

#[derive(Clone, Debug)]
struct Current {
    config: Arc<ClientConfig>,
    /// The files that were looked at last, whether or not they could be used.
    seen: Stamps,
}

/// What tells a file from a newer one with the same name. None if it cannot be looked at.
type Stamp = Option<(u64, u64, i64, i64)>;
type Stamps = [Stamp; 3];

/// What came of files that have changed. It is told once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// They are used from now on.
    Read,
    /// They cannot be used, so those read last stay in use.
    Kept(TlsError),
}

impl Renewing {
    /// `seen`: the files as they were before the configuration was read.
    pub(super) fn new(config: ClientConfig, seen: Stamps) -> Self {
        Self(Mutex::new(Current { config: Arc::new(config), seen }))
    }

    /// The same in a forked child, which has TLS sessions of its own: the parent's mutexes may stay locked there forever.
    /// If this one is, the files are read again.
    pub(super) fn inherited(parents: &Self, settings: &TlsSettings) -> Self {
        let known = parents.0.try_lock().ok().map(|current| current.clone());
        let seen = stamps(settings);
        match known {
            Some(Current { config, seen }) => Self::new(resuming_anew(&config), seen),
            None => match super::configure(settings) {
                Ok(config) => Self::new(config, seen),
                // Connections fail until the files can be used.
                Err(_) => Self::new(super::trusting_nobody(), [None; 3]),
            },
        }
    }

    pub(super) fn config(&self) -> Arc<ClientConfig> {
        self.wait().config.clone()
    }

    /// Reads the files again if they have changed.
    pub(super) fn look(&self, settings: &TlsSettings) -> Option<Renewed> {
        let found = stamps(settings);
        let mut current = self.wait();
        if current.seen == found {
            return None;
        }
        current.seen = found;
        match super::configure(settings) {
            Ok(config) => {
                current.config = Arc::new(config);
                Some(Renewed::Read)
            }
            Err(why) => Some(Renewed::Kept(why)),
        }
    }

    fn wait(&self) -> MutexGuard<'_, Current> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How the files of these settings look now.
pub(super) fn stamps(settings: &TlsSettings) -> Stamps {
    [&settings.ca, &settings.certificate, &settings.key].map(|path| stamp(path.as_deref()?))
}

fn stamp(path: &Path) -> Stamp {
    let about = std::fs::metadata(path).ok()?;
    Some((about.ino(), about.size(), about.mtime(), about.mtime_nsec()))
}
