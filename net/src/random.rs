//! Random bytes of the kernel, for names and numbers that must not occur twice.

use std::io;

/// Eight random bytes. Forked processes get different ones.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn bytes() -> io::Result<[u8; 8]> {
    let mut random = [0; 8];
    match rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())? {
        8 => Ok(random),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Eight random bytes. Forked processes get different ones.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn bytes() -> io::Result<[u8; 8]> {
    let mut random = [0; 8];
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut random)?;
    Ok(random)
}
