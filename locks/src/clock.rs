//! The clock for the validity of locks. It continues during suspend, and cannot be set.

use std::time::Duration;

use crate::machine::Moment;

#[cfg(not(target_vendor = "apple"))]
const CLOCK: libc::clockid_t = libc::CLOCK_BOOTTIME;
/// On this system it continues during sleep.
#[cfg(target_vendor = "apple")]
const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;

/// The time since the computer was started.
#[allow(unsafe_code)]
pub fn boot_time() -> Moment {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes only to the timespec it is given. It fails only for unknown clocks; Linux has had this
    // one since 2.6.39.
    let failed = unsafe { libc::clock_gettime(CLOCK, &mut time) };
    assert_eq!(failed, 0, "the kernel has a boot-time clock");
    Moment(Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32))
}
