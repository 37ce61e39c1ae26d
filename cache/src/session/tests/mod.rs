//! The session in memory: a scripted peer instead of a network, and an instant instead of a clock.

mod abandoning;
mod asking;
mod bounds;
mod clearing_model;
mod deadlines;
mod faults;
mod generations;
mod guard;
mod handshake;
mod host;
mod joined;
mod large;
pub(crate) mod memcached;
mod model;
mod quiet;
mod rest_check;
mod script;
mod secured;
mod server;
mod terminator;
mod verifying;
mod writing;

use pinyon_net::connection::peer;
