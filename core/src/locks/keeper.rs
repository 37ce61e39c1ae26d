//! The thread that renews the locks of other threads in the background. It never calls the host, but leaves notes.
//!
//! It starts at the first acquisition in a process, also in a forked child, and ends when its client is closed. A
//! process can exit without waiting for it.

use std::io;
use std::sync::Arc;

use super::station::Station;
use crate::blocking::NoHost;
use crate::own_thread;

/// Starts a station's keeper.
pub(super) fn start<L: Send + 'static>(station: Arc<Station<L>>) -> io::Result<()> {
    own_thread::start("pinyon-locks", move || while station.keep(&NoHost) {})
}
