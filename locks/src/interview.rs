//! Questions to one server or Sentinel, as it is: nobody is followed elsewhere. For commands that show the servers.

use std::convert::Infallible;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinyon_proto::resp::{Command, Value};
use rustix::event::{PollFd, PollFlags};

use crate::client::{Setup, Voting};
use crate::redis::{RespEvent, RespSession, SessionSettings};
use pinyon_net::address::{Address, Endpoint};
use pinyon_net::doorbell::wait_for;
use pinyon_net::error::{Error, Kind};
use pinyon_net::host::{resolve, NoHost, Unresolved};
use pinyon_net::network::System;

/// How long to wait for a function that returns credentials, before the next look.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Who is asked. Sentinels have a login of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    Server,
    Sentinel,
}

impl Setup {
    /// Asks a server or Sentinel on a connection of its own, and waits for the answers. An answer may be the server's
    /// error.
    pub fn ask(&self, asks: Asks, place: &Endpoint, commands: &[Command]) -> Result<Vec<Value>, Error> {
        if let Some(member) = self.members().iter().find(|member| member.endpoint == *place) {
            return member.ask(asks, place, commands);
        }
        let name: Arc<str> = place.to_string().into();
        let login = match (asks, &self.sentinels) {
            (Asks::Sentinel, Some(sentinels)) => sentinels.login.clone(),
            _ => self.login.clone(),
        };
        let failed = |why: String| Error::new(Kind::Connect, &name, format!("cannot connect: {why}"));
        let tls = login.tls.as_ref().map(|tls| tls.moved_to(place)).transpose();
        let tls = tls.map_err(|error| failed(error.to_string()))?;
        let addresses = self.addresses(place).map_err(|why| Error::unresolved(Kind::Connect, &name, &why))?;
        let mut session =
            RespSession::new(name, System { keepalive: self.keepalive }, SessionSettings { tls, ..login });
        session.connect(addresses, Instant::now(), self.connect_timeout);
        session.take_question().into_iter().for_each(|question| question.put(|| ()));
        let mut answers = Vec::new();
        while answers.len() < commands.len() {
            let now = Instant::now();
            session.poll(now);
            while let Some(event) = session.next() {
                match event {
                    RespEvent::Ready => {
                        for command in commands {
                            let submitted = session.submit_command(command, now + self.options.patience);
                            submitted.map_err(|refused| refused.into_error(session.name(), ""))?;
                        }
                    }
                    RespEvent::Reply(_, answer) => answers.push(answer),
                    RespEvent::Failed(_, error) => return Err(session.failure().cloned().unwrap_or(error)),
                    RespEvent::Pushed(_) | RespEvent::Troubled(_) => {}
                }
            }
            if let Some(error) = session.failure() {
                return Err(error.clone());
            }
            session.flush();
            if answers.len() < commands.len() {
                wait(&session, now);
            }
        }
        session.close();
        Ok(answers)
    }

    fn addresses(&self, place: &Endpoint) -> Result<Vec<Address>, String> {
        let (name, port) = match place.addresses() {
            Ok(addresses) => return Ok(addresses),
            Err(unresolved) => unresolved,
        };
        match resolve(&NoHost, name, port, Instant::now() + self.connect_timeout) {
            Ok(addresses) => Ok(addresses.into_iter().map(Address::Tcp).collect()),
            Err(Unresolved::Failed(why)) => Err(why),
            Err(Unresolved::<Infallible>::Interrupted(never)) => match never {},
        }
    }

    /// The servers that the settings name, and the Sentinels.
    pub fn places(&self) -> Vec<(Asks, &Endpoint)> {
        if !self.members().is_empty() {
            return self.members().iter().map(|member| (Asks::Server, &member.endpoint)).collect();
        }
        match &self.sentinels {
            Some(sentinels) => sentinels.service.sentinels.iter().map(|place| (Asks::Sentinel, place)).collect(),
            None => [&self.endpoint].into_iter().chain(&self.other_nodes).map(|place| (Asks::Server, place)).collect(),
        }
    }
}

impl Setup {
    /// The servers of a quorum.
    fn members(&self) -> &[Setup] {
        match &self.voting {
            Voting::Quorum(quorum) => &quorum.members,
            Voting::Alone | Voting::Member { .. } => &[],
        }
    }
}

fn wait(session: &RespSession, now: Instant) {
    let wants = session.wants();
    if session.is_asking() {
        return std::thread::sleep(LOOK_AGAIN);
    }
    let Some(stream) = session.stream() else { return };
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, wants.read);
    flags.set(PollFlags::OUT, wants.write);
    let until = [wants.until, session.deadline()].into_iter().flatten().min();
    let mut descriptor = [PollFd::from_borrowed_fd(stream.as_fd(), flags)];
    wait_for(&mut descriptor, until.unwrap_or(now + pinyon_net::doorbell::LONGEST_SLEEP));
}

/// The place that servers write as `host:port` or as a path.
pub fn place(text: &str) -> Option<Endpoint> {
    if text.starts_with('/') {
        return Some(Endpoint::Unix(text.into()));
    }
    let (host, port) = text.rsplit_once(':')?;
    let host = host.trim_matches(['[', ']']);
    (!host.is_empty()).then_some(())?;
    Some(Endpoint::Tcp { host: host.to_owned(), port: port.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_servers_write_them() {
        let tcp = |host: &str, port| Some(Endpoint::Tcp { host: host.into(), port });
        assert_eq!(place("10.0.0.1:6379"), tcp("10.0.0.1", 6379));
        assert_eq!(place("[::1]:7000"), tcp("::1", 7000));
        assert_eq!(place("::1:7000"), tcp("::1", 7000));
        assert_eq!(place("/run/redis"), Some(Endpoint::Unix("/run/redis".into())));
        for wrong in ["", ":6379", "host", "host:x", "host:70000"] {
            assert_eq!(place(wrong), None, "{wrong}");
        }
    }
}
