//! The C interface of Pinyon. `include/pinyon.h` is its manual: what a function does, and who owns what, is said there.
//!
//! A function here checks its pointers, converts, and calls a safe function of its module. A panic ends the call and
//! poisons the handle, never the process. One macro, `exported!`, writes that.
//!
//! C has no exceptions, and hosts of other languages may jump out of a callback. So the library calls the host back
//! for two things only: where to put a value, and whether to go on. The host asks for everything else. One request
//! struct and one reply struct serve threads and event loops, and the same code converts them (`requests`, `replies`).
//!
//! Many gets at once are one operation, which reports each key's failure (`many/reading.rs`, `loops/reading.rs`).
//! Other requests at once are [`Several`](pinyon_cache::operations::Several) single ones, which the session joins.
//!
//! Each room imports only from rooms on floors below its own; `net/tests/floors.rs` compares this drawing with the imports.
//!
//! <!-- floors of capi -->
//! ```text
//! batch making                                   commands that nobody waits for one by one; get_or_set
//! loops run                                      a request in an event loop; a request of a thread that waits
//! migrating wishes                               a client of two pools; what is asked of locks
//! awaited                                        callers of event loops, who may leave
//! commands many near single                        many requests on one pool; one that memory answers; one
//! replies submitted                              the core's answers as replies; commands of batches
//! locks                                          a client of locks, held locks, notes
//! tags                                           tags of values
//! events requests values                         what happens by itself; requests as the core's; values part by part
//! client                                         a client, and views of it
//! options                                        settings
//! answers credentials error_fields               rows of many servers; sources of credentials; what C asks of errors
//! exported                                       the functions that C calls
//! guard host placing                             handles and panics; what a wait asks the host; where values go
//! flights structs                                callers that share a value; the structs of the header
//! errors metrics status                          what went wrong; metrics as JSON; how calls went
//! ```

pub mod answers;
pub mod awaited;
pub mod batch;
pub mod client;
pub mod commands;
pub mod credentials;
pub mod error_fields;
pub mod errors;
pub mod events;
mod exported;
mod flights;
pub mod guard;
pub mod host;
pub mod locks;
pub mod loops;
pub mod making;
pub mod many;
mod metrics;
pub mod migrating;
mod near;
pub mod options;
pub mod placing;
pub mod replies;
pub mod requests;
pub mod run;
mod single;
pub mod status;
pub mod structs;
mod submitted;
pub mod tags;
pub mod values;
pub mod wishes;

use std::ffi::{c_char, CStr};

use exported::exported;
use locks::structs::Note;
use loops::structs::{Action, Reading};
use structs::{
    Answer, Bytes, Command, Credentials, CredentialsSource, Event, Found, Host, HowMade, Layout, Migration, NamedText,
    NearFigures, Part, Progress, Reply, Request, Step, Terms,
};
use wishes::permits::Permits;
use wishes::wanted::{GivenRate, Wish};

/// The number of this interface.
pub const ABI: u32 = 1;

/// The layouts of all structs of the header.
pub const LAYOUTS: [Layout; 24] = [
    Bytes::LAYOUT,
    NamedText::LAYOUT,
    CredentialsSource::LAYOUT,
    Credentials::LAYOUT,
    Command::LAYOUT,
    Request::LAYOUT,
    Reply::LAYOUT,
    Found::LAYOUT,
    Answer::LAYOUT,
    Host::LAYOUT,
    Event::LAYOUT,
    Terms::LAYOUT,
    HowMade::LAYOUT,
    Step::LAYOUT,
    Part::LAYOUT,
    Migration::LAYOUT,
    Progress::LAYOUT,
    NearFigures::LAYOUT,
    Wish::LAYOUT,
    GivenRate::LAYOUT,
    Permits::LAYOUT,
    Note::LAYOUT,
    Action::LAYOUT,
    Reading::LAYOUT,
];

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("a version has no NUL"),
};

exported! {
    fn pinyon_abi() -> u32 { ABI }

    fn pinyon_version() -> *const c_char { VERSION.as_ptr() }
}
