//! Wishes: what C asks of locks. A thread waits for their replies.

pub mod permits;
pub mod wanted;

use pinyon_locks::common_tag;
use pinyon_net::invalid::InvalidArgument;

use crate::errors::{Error, Failure};
use crate::exported::exported;
use crate::guard::with;
use crate::host::{Host, Interrupted};
use crate::locks::client::Locks;
use crate::locks::lock::Driver;
use crate::replies::replied;
use crate::status::Status;
use crate::structs::{self, given, missing, names_of, Bytes, Reply};
use wanted::{About, Wanted, Wish};

/// Carries out a wish, and waits for its reply.
fn run(locks: &Locks, wanted: Wanted<'_>, reply: &mut Reply, host: &Host) -> Result<Status, Error> {
    let Wanted { operation, becomes, about } = wanted;
    let (drivers, station) = match about {
        About::All(wait) => {
            return Ok(match locks.clients().release_all(host, wait) {
                Ok(released) => {
                    reply.number = released as u64;
                    reply.finish(Status::Done)
                }
                Err(Interrupted) => reply.finish(Status::Interrupted),
            })
        }
        About::Names(tag) => {
            let drivers = locks.of_tag(tag.as_deref())?;
            let station = drivers.station()?;
            (Some(drivers), station)
        }
        About::Lock(lock) => match lock.held(locks)?.driver() {
            Driver::Threads(station) => (None, station.clone()),
            Driver::Loop(_) => {
                return Err(Failure::usage("this lock is an event loop's: begin the wish there (pinyon_lock_begin)"))
            }
        },
    };
    match station.run(host, operation) {
        Ok(outcome) => Ok(becomes.fill(reply, outcome, locks, || (Driver::Threads(station), drivers))),
        Err(Interrupted) => Ok(reply.finish(Status::Interrupted)),
    }
}

exported! {
    fn pinyon_lock_run(locks: *const Locks, wish: *const Wish, reply: *mut Reply, host: *const structs::Host) -> i32 {
        replied(reply, |reply| with(locks, |locks| {
            let wish = given(wish)?;
            reply.begin(wish.context);
            run(locks, Wanted::of(locks, &wish)?, reply, &Host::new(host)?)
        }))
    }

    fn pinyon_common_tag(names: *const Bytes, count: usize, tag: *mut Bytes) -> Result<i32> {
        if tag.is_null() {
            return Err(missing("pinyon_bytes for the tag"));
        }
        let common = common_tag(&names_of(names, count)?).map_err(InvalidArgument::from)?;
        tag.write(common.map_or(Bytes::NONE, Bytes::of));
        Ok(Status::Done)
    }
}
