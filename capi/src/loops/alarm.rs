//! The one alarm of a host for several machines.

use std::time::{Duration, Instant};

use pinyon_core::driven::Order;

#[derive(Default)]
pub struct Alarm {
    /// When the host was told to expire.
    set_for: Option<Instant>,
    /// Whether a machine's deadline may have become earlier.
    is_old: bool,
}

impl Alarm {
    pub fn outdate(&mut self) {
        self.is_old = true;
    }

    pub fn went_off(&mut self) {
        *self = Self { set_for: None, is_old: true };
    }

    pub fn is_old(&self) -> bool {
        self.is_old
    }

    /// The order to the host, if the earliest deadline of the machines comes before its alarm.
    pub fn set(&mut self, due: Option<Instant>) -> Option<Order> {
        self.is_old = false;
        let due = due.filter(|due| self.set_for.is_none_or(|alarm| alarm > *due))?;
        self.set_for = Some(due);
        Some(Order::Alarm(due.checked_duration_since(Instant::now()).unwrap_or(Duration::ZERO)))
    }
}
