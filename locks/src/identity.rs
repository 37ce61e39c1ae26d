//! Names for clients, unique among all processes of all times.

use std::io;
use std::sync::Arc;

use pinyon_net::fork;

/// A new name: random, with the process id for people to read.
pub fn new_client() -> Arc<str> {
    let random = u64::from_ne_bytes(random_bytes().expect("the kernel has random bytes for a name"));
    format!("{random:016x}.{:x}.{:x}", std::process::id(), fork::generation()).into()
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn random_bytes() -> io::Result<[u8; 8]> {
    let mut random = [0; 8];
    match rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())? {
        8 => Ok(random),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn random_bytes() -> io::Result<[u8; 8]> {
    let mut random = [0; 8];
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut random)?;
    Ok(random)
}
