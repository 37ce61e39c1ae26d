//! Points in time, as the machine knows them.

use std::ops::{Add, Sub};
use std::time::Duration;

/// The time since the computer was started, including suspend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub Duration);

impl Add<Duration> for Moment {
    type Output = Moment;
    fn add(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_add(duration))
    }
}

impl Moment {
    /// This long before.
    pub(super) fn before(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_sub(duration))
    }
}

impl Sub for Moment {
    type Output = Duration;
    fn sub(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}
