//! What a machine asks of its host.

use std::iter::Chain;
use std::os::fd::RawFd;
use std::{option, vec};

use crate::credentials::Question;

/// An order to the host's event loop.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Resolve the name and call [`Driven::connect`](super::Driven::connect).
    Resolve { lane: usize, name: String, port: u16 },
    /// Call [`Driven::ready`](super::Driven::ready) when the descriptor is readable, and also when it is writable if
    /// `write`. This replaces the previous request for the descriptor.
    Watch { lane: usize, fd: RawFd, write: bool },
    /// Stop watching the descriptor, then call [`Driven::forgotten`](super::Driven::forgotten), which closes it.
    Forget { lane: usize, fd: RawFd },
    /// Have the question for credentials answered, then call [`Driven::expire`](super::Driven::expire).
    Ask(Question),
    /// Call [`Driven::turn`](super::Driven::turn) at the end of this turn.
    EndTurn,
}

impl Action {
    /// The orders that watch a connection's current descriptor. A connection that moves to its next address has a new
    /// descriptor.
    pub fn watch_instead(
        lane: usize,
        before: Option<(RawFd, bool)>,
        (fd, write): (RawFd, bool),
    ) -> impl Iterator<Item = Self> {
        let other = before.filter(|(other, _)| *other != fd);
        let forget = other.map(|(fd, _)| Self::Forget { lane, fd });
        forget.into_iter().chain([Self::Watch { lane, fd, write }])
    }
}

/// Orders to the host's event loop.
///
/// That it is to end the turn is nearly always the only one, so this order takes no memory. It comes last.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Actions {
    end_turn: bool,
    others: Vec<Action>,
}

impl Actions {
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.end_turn && self.others.is_empty()
    }

    /// Takes all of them, if there are any.
    #[inline]
    pub fn take(&mut self) -> Option<Self> {
        (!self.is_empty()).then(|| std::mem::take(self))
    }

    /// Whether the turn is to be ended. The other orders remain.
    #[inline]
    pub fn take_end_of_turn(&mut self) -> bool {
        std::mem::take(&mut self.end_turn)
    }

    #[inline]
    pub fn push(&mut self, action: Action) {
        match action {
            Action::EndTurn => self.end_turn = true,
            other => self.others.push(other),
        }
    }
}

impl Extend<Action> for Actions {
    fn extend<I: IntoIterator<Item = Action>>(&mut self, actions: I) {
        actions.into_iter().for_each(|action| self.push(action));
    }
}

impl FromIterator<Action> for Actions {
    fn from_iter<I: IntoIterator<Item = Action>>(actions: I) -> Self {
        let mut all = Self::default();
        all.extend(actions);
        all
    }
}

impl IntoIterator for Actions {
    type Item = Action;
    type IntoIter = Chain<vec::IntoIter<Action>, option::IntoIter<Action>>;

    fn into_iter(self) -> Self::IntoIter {
        self.others.into_iter().chain(self.end_turn.then_some(Action::EndTurn))
    }
}
