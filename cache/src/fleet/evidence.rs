//! What answers and failures say about a server's health, and what they do not.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{Choice, Fleet};
use crate::events::EventKind;
use pinyon_net::error::{Error, Kind};

impl Fleet {
    /// Updates the server's health after an answer.
    pub(crate) fn succeeded(&self, choice: Choice) {
        if !self.servers[choice.server].health.is_spotless() {
            self.mended(choice);
        }
    }

    #[cold]
    fn mended(&self, choice: Choice) {
        if let Some(down) = self.servers[choice.server].health.succeeded(choice.probe, Instant::now()) {
            self.note(EventKind::Up, &self.servers[choice.server].name, "", None, Some(down));
        }
    }

    /// Updates the server's health after a failed operation or connection attempt. If the server is marked down, its
    /// idle connections are no longer trusted.
    pub(crate) fn failed(&self, choice: Choice, error: &Error) {
        let answers =
            [Kind::Server, Kind::OutOfMemory, Kind::TooLarge, Kind::Unsupported, Kind::Crowded, Kind::Outdated];
        if answers.contains(&error.kind) {
            return self.succeeded(choice);
        }
        let server = choice.server;
        let health = &self.servers[server].health;
        self.counted(server, error, error.blames_server() && health.failed(error, choice.probe, Instant::now()));
    }

    /// The same for an operation whose failure may be its own. `heard`: whether the server sent replies meanwhile, to this
    /// operation or to others. Then a server is well that did not answer in time.
    #[cold]
    pub(crate) fn judge(&self, choice: Choice, error: &Error, heard: impl FnOnce() -> bool) {
        match error.kind == Kind::Timeout && heard() {
            true => self.succeeded(choice),
            false => self.failed(choice, error),
        }
    }

    /// Whether so much time would have been enough to answer. A timeout after less says nothing.
    pub(crate) fn is_enough(&self, time: Duration) -> bool {
        time >= self.options.timeout.min(self.options.connect_timeout) / 2
    }

    /// How many bytes of replies this process has received from a server.
    pub(crate) fn heard(&self, server: usize) -> u64 {
        self.pool(server).metrics.heard()
    }

    /// The failure of a connection attempt. If other connections work, the server is well, and takes no further one:
    /// callers share those that work. `works`: whether the caller knows of one.
    #[cold]
    pub(crate) fn unconnected(&self, server: usize, error: Error, works: bool) -> Error {
        let (pool, now) = (self.pool(server), Instant::now());
        let works = works || pool.proven() > 0;
        let refusal = match error.kind {
            Kind::Timeout if !works => pool.refusal_within(self.options.timeout, now),
            _ => None,
        };
        if let Some(message) = refusal {
            return Error { kind: Kind::Crowded, message, ..error };
        }
        if error.kind == Kind::Lost || error.kind != Kind::Crowded && !works {
            return error;
        }
        let error = Error { kind: Kind::Crowded, ..error };
        let news = pool.refused(&error.message, now);
        if news {
            let (working, most) = (pool.metrics.connections(), self.options.max_connections);
            let message = format!(
                "this process has {working} connections and can make no further one: raise the server's option -c, or \
                 lower max_connections ({most}); {}",
                error.message
            );
            let told = Error { message, ..error.clone() };
            self.note(EventKind::Crowded, &self.servers[server].name, "", Some(&told), None);
        }
        error
    }

    /// The same for a timeout that may not be the server's fault.
    pub(crate) fn doubted(&self, server: usize, error: &Error) {
        self.counted(server, error, self.servers[server].health.doubted(error, Instant::now()));
    }

    fn counted(&self, server: usize, error: &Error, marked_down: bool) {
        if marked_down {
            self.shaken.store(true, Ordering::Relaxed);
            self.note(EventKind::Down, &self.servers[server].name, "", Some(error), None);
        }
        if marked_down || error.kind == Kind::Closed {
            self.pool(server).drop_idle();
        }
        if error.kind == Kind::Lost {
            self.pool(server).drop_rested(Instant::now());
        }
    }
}
