//! The state of names: the questions, and how to read the server's answers.

use std::collections::HashSet;

use crate::call::{Attempt, Inspected, Names};
use crate::identity::Who;
use crate::names::{self, NameError};
use pinyon_net::invalid::{choose, InvalidArgument};

/// The names of a question. The server is asked once for each; the answer follows the order of the question.
#[derive(Clone, Debug)]
pub struct Asked {
    names: Names,
    /// For each name of the question, its index in `names`.
    order: Vec<usize>,
}

/// A question about names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusQuestion {
    /// The state of each.
    Each,
    /// Whether any of them is locked.
    IsLocked,
    /// The holder of the first name that is held.
    FirstOwner,
    /// How many wait for any of them. A waiter for several of them counts once.
    Waiting,
    /// How many of a pool's permits are taken, and its limit. Of [`Asked::pool`].
    Permits,
}

impl StatusQuestion {
    /// The question with this word in the front ends.
    pub fn named(word: &str) -> Result<Self, InvalidArgument> {
        let words = [
            ("each", Self::Each),
            ("is_locked", Self::IsLocked),
            ("first_owner", Self::FirstOwner),
            ("waiting", Self::Waiting),
        ];
        choose("question", word, &words)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusAnswer {
    Each(Vec<Inspected>),
    IsLocked(bool),
    FirstOwner(Option<Attempt>),
    Waiting(usize),
    /// `None` if none is taken, and so the server knows no limit.
    Permits(Option<(u32, u32)>),
}

/// One that has a name, or waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known<'i> {
    pub attempt: &'i Attempt,
    pub who: Option<Who>,
    pub note: Option<&'i str>,
}

impl Inspected {
    /// All that have the name or wait for it, each once.
    pub fn known(&self) -> impl Iterator<Item = Known<'_>> {
        self.attempts().map(|attempt| self.known_of(attempt))
    }

    /// What is known of one of them.
    pub fn known_of<'i>(&'i self, attempt: &'i Attempt) -> Known<'i> {
        Known { attempt, who: attempt.who(), note: self.remarks.get(attempt).map(|remark| &**remark) }
    }
}

impl Asked {
    /// A question about a pool of permits.
    pub fn pool(given: &[u8]) -> Result<Self, NameError> {
        Ok(Self { names: [names::pool(given)?].into(), order: vec![0] })
    }

    pub fn new<N: AsRef<[u8]>>(given: &[N]) -> Result<Self, NameError> {
        let names = names::names(given)?;
        let place = |name: &N| names.binary_search_by(|known| (**known).cmp(name.as_ref())).unwrap_or_default();
        let order = given.iter().map(place).collect();
        Ok(Self { names, order })
    }

    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// `inspected`: the server's answer for each of the names.
    pub(super) fn answer(&self, question: StatusQuestion, inspected: &[Inspected]) -> StatusAnswer {
        let mut in_order = self.order.iter().filter_map(|at| inspected.get(*at));
        match question {
            StatusQuestion::Each => StatusAnswer::Each(in_order.cloned().collect()),
            StatusQuestion::IsLocked => StatusAnswer::IsLocked(in_order.any(|name| name.holder.is_some())),
            StatusQuestion::FirstOwner => {
                let holder = in_order.find_map(|name| name.holder.as_ref());
                StatusAnswer::FirstOwner(holder.map(|holder| holder.attempt.clone()))
            }
            StatusQuestion::Waiting => {
                let attempts: HashSet<&Attempt> = inspected.iter().flat_map(|name| &name.waiting).collect();
                StatusAnswer::Waiting(attempts.len())
            }
            StatusQuestion::Permits => StatusAnswer::Permits(in_order.find_map(|pool| pool.permits)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Holder;

    fn attempt(number: u64) -> Attempt {
        Attempt { client: "c".into(), owner: 1, number }
    }

    fn inspected(holder: Option<u64>, waiting: &[u64]) -> Inspected {
        Inspected {
            holder: holder.map(|number| Holder { attempt: attempt(number), token: None }),
            sharing: Vec::new(),
            permits: None,
            pttl: None,
            age: None,
            waiting: waiting.iter().copied().map(attempt).collect(),
            ..Inspected::default()
        }
    }

    #[test]
    fn an_answer_is_in_the_order_of_the_question() {
        let asked = Asked::new(&["b", "c", "a", "b"]).unwrap();
        assert_eq!(asked.names().len(), 3, "the server is asked for each once");
        let sorted = [inspected(Some(1), &[8, 9]), inspected(None, &[8]), inspected(Some(3), &[])];
        let [a, b, c] = sorted.clone();
        let answer = |question| asked.answer(question, &sorted);
        assert_eq!(answer(StatusQuestion::named("each").unwrap()), StatusAnswer::Each(vec![b.clone(), c, a, b]));
        assert_eq!(answer(StatusQuestion::named("is_locked").unwrap()), StatusAnswer::IsLocked(true));
        let first = StatusQuestion::named("first_owner").unwrap();
        assert_eq!(answer(first), StatusAnswer::FirstOwner(Some(attempt(3))));
        let waiting = StatusQuestion::named("waiting").unwrap();
        assert_eq!(answer(waiting), StatusAnswer::Waiting(2), "each attempt counts once");
        assert!(StatusQuestion::named("owner").is_err());
    }

    #[test]
    fn of_what_is_free_nobody_is_the_owner() {
        let asked = Asked::new(&["a"]).unwrap();
        let free = [inspected(None, &[])];
        assert_eq!(asked.answer(StatusQuestion::IsLocked, &free), StatusAnswer::IsLocked(false));
        assert_eq!(asked.answer(StatusQuestion::FirstOwner, &free), StatusAnswer::FirstOwner(None));
        assert_eq!(asked.answer(StatusQuestion::Waiting, &free), StatusAnswer::Waiting(0));
    }
}
