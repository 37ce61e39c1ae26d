//! The session in memory: a scripted peer instead of a network, and an instant instead of a clock.

mod abandoning;
mod asking;
mod bounds;
mod deadlines;
mod faults;
mod guard;
mod handshake;
mod host;
mod joined;
mod large;
mod model;

mod quiet;
mod rest_check;
mod script;
mod secured;
mod server;
mod terminator;
mod verifying;

use pinyon_net::connection::peer;
