//! The way of a request through the servers: which one it goes to, and whether a failure sends it on to another.

use std::time::Instant;

use crate::error::{Error, Sent};
use crate::fleet::{Choice, Fleet};

/// The server for a key now. `earlier` is the failure after which it is tried again. Where no server is left the request
/// fails with that, or else because its server is down.
#[inline]
pub(crate) fn choose(
    fleet: &Fleet,
    key: &[u8],
    failover: bool,
    now: Instant,
    name: impl FnOnce() -> &'static str,
    earlier: Option<&Error>,
) -> Result<Choice, Box<Error>> {
    match fleet.choose(key, failover, now) {
        Ok(choice) => {
            earlier.into_iter().for_each(|error| fleet.retrying(error, error.command));
            Ok(choice)
        }
        Err(down) => Err(refused(fleet, down, name(), earlier)),
    }
}

#[cold]
fn refused(fleet: &Fleet, down: Error, name: &'static str, earlier: Option<&Error>) -> Box<Error> {
    if let Some(error) = earlier {
        return error.clone().into();
    }
    fleet.unsubmitted(&down, name);
    down.of(name, Sent::No).into()
}

/// Whether a request that failed may be asked again: nothing of it was sent, or it only reads, and another connection or
/// server may do better.
pub(crate) fn may_go_on(error: &Error, is_idempotent: bool) -> bool {
    error.may_pass() && (error.sent == Sent::No || is_idempotent)
}

/// The failure of this try, as it is told: with what became of the tries before it, and with the command's name.
pub(crate) fn told(error: Error, name: &'static str, sent: Sent) -> Error {
    let command = if error.command.is_empty() { name } else { error.command };
    let sent = sent.max(error.sent);
    error.of(command, sent)
}

/// Chooses a server for each of many keys. Returns what to ask, and why nobody can be asked, one error for each server.
pub(super) fn choose_each<'k>(
    fleet: &Fleet,
    failover: bool,
    now: Instant,
    wanted: &[u32],
    key: impl Fn(u32) -> &'k [u8],
    mut take: impl FnMut(u32, Choice),
) -> Vec<Error> {
    let mut down: Vec<Error> = Vec::new();
    if fleet.has_one_server() {
        match fleet.choose(&[], failover, now) {
            Ok(choice) => wanted.iter().for_each(|index| take(*index, choice)),
            Err(error) => down.extend((!wanted.is_empty()).then_some(error)),
        }
        return down;
    }
    for index in wanted {
        match fleet.choose(key(*index), failover, now) {
            Ok(choice) => take(*index, choice),
            Err(error) if down.iter().all(|known| known.server != error.server) => down.push(error),
            Err(_) => {}
        }
    }
    down
}

/// Many keys with their servers, and why nobody can be asked for the others: one error for each server.
pub(super) fn by_server<'k>(
    fleet: &Fleet,
    failover: bool,
    now: Instant,
    wanted: Vec<u32>,
    key: impl Fn(u32) -> &'k [u8],
) -> (Vec<(Choice, Vec<u32>)>, Vec<Error>) {
    if fleet.has_one_server() {
        return match fleet.choose(&[], failover, now) {
            Ok(choice) => (vec![(choice, wanted)], Vec::new()),
            Err(error) => (Vec::new(), vec![error]),
        };
    }
    let mut servers: Vec<(Choice, Vec<u32>)> = Vec::new();
    let down = choose_each(fleet, failover, now, &wanted, key, |index, choice| {
        match servers.iter_mut().find(|(of, _)| of.server == choice.server) {
            Some((of, keys)) => {
                of.probe |= choice.probe;
                keys.push(index);
            }
            None => servers.push((choice, vec![index])),
        }
    });
    (servers, down)
}
