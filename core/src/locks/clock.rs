//! The clock that validity is reckoned by: it goes on while the machine is suspended, and nobody can set it.

use std::time::Duration;

use rustix::time::{clock_gettime, ClockId};

use super::machine::Moment;

/// Time since the computer was started.
pub fn boot_time() -> Moment {
    let time = clock_gettime(ClockId::Boottime);
    Moment(Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32))
}
