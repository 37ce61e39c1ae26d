//! Commands that concern servers, not keys: each is asked of every server.

use std::time::Instant;

use pinyon_core::blocking::{scatter, Timer, Work};
use pinyon_core::session::{Session, Ticket};
use pinyon_core::{Data, Error, Refused, Reply};
use pinyon_proto::{Command, StatsKind, Status};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::client::Client;
use crate::errors::{exception, from_core, usage};
use crate::host::PythonHost;

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
    fn everywhere(&self, py: Python<'_>, command: Command<'_>, take: impl FnMut(usize, Reply<'_>)) -> PyResult<()> {
        self.check_open(py)?;
        let servers: Vec<usize> = (0..self.fleet.servers().len()).collect();
        let mut timer = Timer::start(Instant::now(), self.fleet.options().timeout);
        let mut work = Everywhere { command, take, error: None };
        let failures = scatter(&self.fleet, &PythonHost(py), &servers, &mut timer, &mut work)
            .map_err(|failure| exception(py, failure))?;
        let unreached = failures.into_iter().map(|(_, error)| error);
        match work.error.into_iter().chain(unreached).next() {
            Some(error) => Err(from_core(py, &Error { command: command.name(), ..error })),
            None => Ok(()),
        }
    }

    fn name(&self, server: usize) -> &str {
        &self.fleet.servers()[server].name
    }

    pub(crate) fn flush_servers(&self, py: Python<'_>, delay: u32) -> PyResult<()> {
        self.everywhere(py, Command::FlushAll { delay }, |_, _| {})
    }

    pub(crate) fn server_versions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut lines = Vec::new();
        self.everywhere(py, Command::Version, |server, reply| lines.push((server, text(&reply))))?;
        lines.sort_unstable();
        let versions = PyDict::new(py);
        for (server, line) in lines {
            versions.set_item(self.name(server), line.trim_start_matches("VERSION "))?;
        }
        Ok(versions)
    }

    pub(crate) fn server_stats<'py>(&self, py: Python<'py>, kind: &str) -> PyResult<Bound<'py, PyDict>> {
        let command = StatsKind::new(kind).map(Command::Stats).ok_or_else(|| {
            usage(py, "UsageError", &format!("stats kind {kind:?}: only letters, digits, spaces and underscores"))
        })?;
        let mut lines = Vec::new();
        self.everywhere(py, command, |server, reply| {
            if reply.head.status == Status::Stat {
                lines.push((server, text(&reply)));
            }
        })?;
        let stats = PyDict::new(py);
        for server in self.fleet.servers() {
            stats.set_item(&*server.name, PyDict::new(py))?;
        }
        for (server, line) in lines {
            let mut words = line.splitn(3, ' ').skip(1);
            let (name, value) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            stats.as_any().get_item(self.name(server))?.set_item(name, value)?;
        }
        Ok(stats)
    }
}

fn text(reply: &Reply<'_>) -> String {
    String::from_utf8_lossy(reply.line).into_owned()
}
