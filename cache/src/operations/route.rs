//! The route of a request: which server it goes to, and whether it moves on after a failure.

use std::time::Instant;

use crate::fleet::{Choice, Fleet};
use pinyon_net::error::{Error, Sent};

/// Chooses the server for a key now. `earlier` is the failure that led to this retry. If no server is left, the request
/// fails with `earlier`, or with an error that says its server is down.
#[inline(always)]
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

/// Whether a failed request may be repeated: nothing of it was sent or it only reads, and another connection or server
/// may succeed.
pub(crate) fn may_go_on(error: &Error, is_idempotent: bool) -> bool {
    error.may_pass() && (error.sent == Sent::No || is_idempotent)
}

/// Completes the error of the last try: adds the command's name, and the most that earlier tries may have sent.
pub(crate) fn told(error: Error, name: &'static str, sent: Sent) -> Error {
    let command = if error.command.is_empty() { name } else { error.command };
    let sent = sent.max(error.sent);
    error.of(command, sent)
}

/// Chooses a server for each of many keys: each goes to `take`, or to `refuse` if its server cannot be asked. Returns one
/// error for each of those servers.
pub(super) fn choose_each<'k>(
    fleet: &Fleet,
    failover: bool,
    now: Instant,
    wanted: &[u32],
    key: impl Fn(u32) -> &'k [u8],
    mut take: impl FnMut(u32, Choice),
    mut refuse: impl FnMut(u32, &Error),
) -> Vec<Error> {
    let mut down: Vec<Error> = Vec::new();
    if fleet.has_one_server() {
        match fleet.choose(&[], failover, now) {
            Ok(choice) => wanted.iter().for_each(|index| take(*index, choice)),
            Err(error) => {
                wanted.iter().for_each(|index| refuse(*index, &error));
                down.extend((!wanted.is_empty()).then_some(error));
            }
        }
        return down;
    }
    for index in wanted {
        match fleet.choose(key(*index), failover, now) {
            Ok(choice) => take(*index, choice),
            Err(error) => {
                refuse(*index, &error);
                if down.iter().all(|known| known.server != error.server) {
                    down.push(error);
                }
            }
        }
    }
    down
}

/// Groups keys by server, as [`choose_each`] chooses them.
pub(super) fn by_server<'k>(
    fleet: &Fleet,
    failover: bool,
    now: Instant,
    wanted: Vec<u32>,
    key: impl Fn(u32) -> &'k [u8],
    mut refuse: impl FnMut(u32, &Error),
) -> (Vec<(Choice, Vec<u32>)>, Vec<Error>) {
    if fleet.has_one_server() {
        return match fleet.choose(&[], failover, now) {
            Ok(choice) => (vec![(choice, wanted)], Vec::new()),
            Err(error) => {
                wanted.iter().for_each(|index| refuse(*index, &error));
                (Vec::new(), vec![error])
            }
        };
    }
    let mut servers: Vec<(Choice, Vec<u32>)> = Vec::new();
    let take = |index, choice: Choice| match servers.iter_mut().find(|(of, _)| of.server == choice.server) {
        Some((of, keys)) => {
            of.probe |= choice.probe;
            keys.push(index);
        }
        None => servers.push((choice, vec![index])),
    };
    let down = choose_each(fleet, failover, now, &wanted, key, take, refuse);
    (servers, down)
}
