//! Commands that concern servers, not keys: each is asked of every server.

use std::sync::Arc;
use std::time::Instant;

use pinyon_core::blocking::{known, scatter, Timer, Work};
use pinyon_core::fleet::{Choice, Fleet};
use pinyon_core::session::{Session, Ticket};
use pinyon_core::{Data, Error, Refused, Reply};
use pinyon_proto::{Command, StatsKind, Status};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::client::Client;
use crate::errors::{exception, from_core, usage};
use crate::host::PythonHost;
use crate::operations::About;

/// One command for every server; `take` is given each line of the replies.
struct Everywhere<'w, T> {
    command: Command<'w>,
    take: T,
    error: Option<Error>,
}

impl<T: FnMut(usize, Reply<'_>)> Work for Everywhere<'_, T> {
    fn submit(&mut self, _server: usize, session: &mut Session, deadline: Instant) -> Result<(), Refused> {
        session.submit(&self.command, Data::None, deadline).map(drop)
    }

    fn reply(&mut self, server: usize, _ticket: Ticket, reply: Reply<'_>) {
        (self.take)(server, reply);
    }

    fn failed(&mut self, _server: usize, _ticket: Ticket, error: Error) {
        self.error.get_or_insert(error);
    }
}

impl Client {
    fn everywhere(
        &self,
        py: Python<'_>,
        fleet: &Fleet,
        command: Command<'_>,
        take: impl FnMut(usize, Reply<'_>),
    ) -> PyResult<()> {
        let mut servers: Vec<_> = fleet.members().map(Choice::regardless).collect();
        servers.sort_unstable_by_key(|choice| choice.server);
        let mut timer = Timer::start(Instant::now(), fleet.options().timeout);
        let mut work = Everywhere { command, take, error: None };
        let failures = scatter(fleet, &PythonHost(py), &servers, command.name(), &mut timer, &mut work);
        self.watcher.tell(py, &self.directory)?;
        let failures = failures.map_err(|failure| exception(py, failure))?;
        let unreached = failures.into_iter().map(|(_, error)| error);
        match work.error.into_iter().chain(unreached).next() {
            Some(error) => Err(from_core(py, &Error { command: command.name(), ..error })),
            None => Ok(()),
        }
    }

    fn lines_everywhere(&self, py: Python<'_>, command: Command<'_>) -> PyResult<ServerLines> {
        let fleet = self.servers_now(py, command.name())?;
        let mut lines: Vec<(usize, Vec<String>)> = fleet.members().map(|server| (server, Vec::new())).collect();
        self.everywhere(py, &fleet, command, |server, reply| {
            let of_server = lines.iter_mut().find(|(of, _)| *of == server);
            if let (Some((_, lines)), Status::Version | Status::Stat) = (of_server, reply.head.status) {
                lines.push(text(&reply));
            }
        })?;
        Ok(lines.into_iter().map(|(server, lines)| (fleet.servers()[server].name.clone(), lines)).collect())
    }

    fn servers_now(&self, py: Python<'_>, command: &'static str) -> PyResult<Arc<Fleet>> {
        self.check_open(py)?;
        known(&self.directory, &PythonHost(py)).map_err(|failure| exception(py, failure.before(command)))
    }

    pub(crate) fn flush_servers<'py>(&self, py: Python<'py>, delay: u32) -> PyResult<Bound<'py, PyAny>> {
        if self.loops.get().is_some() {
            return self.gather_everywhere(py, "flush_all", &About::FlushAll { delay });
        }
        let command = Command::FlushAll { delay };
        let fleet = self.servers_now(py, command.name())?;
        self.everywhere(py, &fleet, command, |_, _| {})?;
        Ok(py.None().into_bound(py))
    }

    pub(crate) fn server_versions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.loops.get().is_some() {
            return self.gather_everywhere(py, "version", &About::Version);
        }
        Ok(versions(py, self.lines_everywhere(py, Command::Version)?)?.into_any())
    }

    pub(crate) fn server_stats<'py>(&self, py: Python<'py>, kind: &str) -> PyResult<Bound<'py, PyAny>> {
        let command = StatsKind::new(kind).map(Command::Stats).ok_or_else(|| {
            usage(
                py,
                "UsageError",
                &format!("stats kind {kind:?}: only letters, digits, spaces and underscores, 250 at most"),
            )
        })?;
        if self.loops.get().is_some() {
            return self.gather_everywhere(py, "stats", &About::Stats(kind.to_owned()));
        }
        Ok(statistics(py, self.lines_everywhere(py, command)?)?.into_any())
    }
}

/// Lines of replies, by the server's name.
pub(crate) type ServerLines = Vec<(Arc<str>, Vec<String>)>;

/// A dict of versions by server.
pub(crate) fn versions(py: Python<'_>, servers: ServerLines) -> PyResult<Bound<'_, PyDict>> {
    let versions = PyDict::new(py);
    for (name, lines) in servers {
        let version = lines.first().map_or("", |line| line.trim_start_matches("VERSION "));
        versions.set_item(&*name, version)?;
    }
    Ok(versions)
}

/// A dict of statistics by server, each a dict by name.
pub(crate) fn statistics(py: Python<'_>, servers: ServerLines) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for (name, lines) in servers {
        let statistics = PyDict::new(py);
        for line in &lines {
            let mut words = line.splitn(3, ' ').skip(1);
            statistics.set_item(words.next().unwrap_or_default(), words.next().unwrap_or_default())?;
        }
        all.set_item(&*name, statistics)?;
    }
    Ok(all)
}

fn text(reply: &Reply<'_>) -> String {
    String::from_utf8_lossy(reply.line).into_owned()
}
