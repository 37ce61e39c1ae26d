//! The clock that validity is reckoned by: it goes on while the machine is suspended, and nobody can set it.

use std::time::Duration;

use super::machine::Moment;

#[cfg(not(target_vendor = "apple"))]
const CLOCK: libc::clockid_t = libc::CLOCK_BOOTTIME;
/// It goes on during sleep there.
#[cfg(target_vendor = "apple")]
const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;

/// Time since the computer was started.
#[allow(unsafe_code)]
pub fn boot_time() -> Moment {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to the timespec it is given and to nothing else. It fails for unknown clocks alone, and
    // Linux has this one since 2.6.39.
    let failed = unsafe { libc::clock_gettime(CLOCK, &mut time) };
    assert_eq!(failed, 0, "the kernel has a boot-time clock");
    Moment(Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32))
}
