//! The alarm of a host that asks for its orders.

use std::time::{Duration, Instant};

use super::Order;

/// The one alarm of a host, for one machine or for several.
#[derive(Debug, Default)]
pub struct HostAlarm {
    /// When the host was told to expire.
    set_for: Option<Instant>,
    /// Whether a machine's deadline may have become earlier.
    is_old: bool,
}

impl HostAlarm {
    /// Notes that a deadline may have become earlier.
    #[inline]
    pub fn outdate(&mut self) {
        self.is_old = true;
    }

    /// Notes that the host has expired its machines.
    pub fn went_off(&mut self) {
        *self = Self { set_for: None, is_old: true };
    }

    /// The order to the host, if the earliest deadline of the machines comes before its alarm.
    #[inline]
    pub fn next_order(&mut self, deadline: impl FnOnce() -> Option<Instant>) -> Option<Order> {
        if !std::mem::take(&mut self.is_old) {
            return None;
        }
        let due = deadline().filter(|due| self.set_for.is_none_or(|alarm| alarm > *due))?;
        self.set_for = Some(due);
        Some(Order::Alarm(due.checked_duration_since(Instant::now()).unwrap_or(Duration::ZERO)))
    }
}
