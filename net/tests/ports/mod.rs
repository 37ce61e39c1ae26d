//! TCP ports for the servers that the tests start.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::OnceLock;

/// Below the system's range for outgoing connections, so that none of them takes the port of a server that restarts.
const FIRST: u16 = 12_000;
/// Each process owns so many ports, and listens on the first of them to reserve them all. Python's tests do the same.
const PER_PROCESS: u16 = 100;
const PROCESSES: u16 = 100;

/// Returns a port that is free. Other processes of tests leave it alone.
pub fn free_port() -> u16 {
    static RESERVATION: OnceLock<TcpListener> = OnceLock::new();
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = RESERVATION.get_or_init(reserve).local_addr().unwrap().port();
    let own = std::iter::from_fn(|| Some(first + 1 + NEXT.fetch_add(1, Ordering::Relaxed) % (PER_PROCESS - 1)));
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).is_ok();
    own.take(PER_PROCESS.into()).find(is_free).expect("one of its own ports is free")
}

fn reserve() -> TcpListener {
    let chance = (std::process::id() % u32::from(PROCESSES)) as u16;
    (0..PROCESSES)
        .map(|number| FIRST + (chance + number) % PROCESSES * PER_PROCESS)
        .find_map(|first| TcpListener::bind((Ipv4Addr::LOCALHOST, first)).ok())
        .expect("fewer processes have servers at once")
}
