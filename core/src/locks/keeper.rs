//! The thread that renews what threads hold, while they do other things. It calls no host: it leaves notes.
//!
//! It is started when something is first acquired, in a forked child anew, and ends when its client is closed. A process
//! that exits does not wait for it.

use std::io;
use std::sync::Arc;

use super::station::Station;
use crate::blocking::NoHost;
use crate::own_thread;

/// Starts the keeper of a station.
pub(super) fn start<L: Send + 'static>(station: Arc<Station<L>>) -> io::Result<()> {
    own_thread::start("pinyon-locks", move || while station.keep(&NoHost) {})
}
