//! How a request on both pools ends: with operations that are over, and have its outcome.

use super::crossing::{Crossing, FailedOf, Failing, Next, OnePool, Read, Wanted};
use super::pools::{Pools, ValueOf};
use super::{Returned, Side};
use crate::operations::{Answer, Change, Failed, Fetch, Request, Single, Unanswered, Unreadable};
use pinyon_net::error::{Error, Kind};

impl<P: Pools> Crossing<P> {
    /// Keeps the failure of a key that could not be moved or deleted.
    pub(super) fn tell(&mut self, error: FailedOf<P>) {
        let Failed::Error(error) = error else { unreachable!("it is an outage") };
        match self.wanted {
            Wanted::GetMany { failing: Failing::OfKeys, .. } => {
                self.unanswered.push(Unanswered { keys: vec![self.key() as u32], error: *error });
            }
            _ => self.beside.push(*error),
        }
    }

    pub(super) fn returned(&mut self, returned: Returned<Read, OnePool<P>>) -> Next<P> {
        let (side, answer) = match returned {
            Returned::Answer(operation) => return self.ends([(Side::New, operation)]),
            Returned::Values if matches!(self.wanted, Wanted::ChangeMany(_)) => return self.has_changed(None),
            Returned::Values => return self.has_read(None),
            Returned::Value(value) => match self.values[value].take() {
                Some((value, side)) => (side, Some(Answer::Value(value))),
                None => unreachable!("it was read"),
            },
            Returned::Missing => (Side::New, None),
            Returned::Done(_) if matches!(self.wanted, Wanted::ChangeMany(_)) => return self.has_changed(None),
            Returned::Done(done) => (Side::New, Some(Answer::Done(done))),
        };
        self.answers(side, Ok(answer))
    }

    pub(super) fn raise(&mut self, error: FailedOf<P>) -> Next<P> {
        match (&self.wanted, error) {
            (Wanted::One(_), error) => self.answers(Side::New, Err(error)),
            (Wanted::GetMany { .. }, Failed::Error(error)) => self.has_read(Some(*error)),
            (_, Failed::Error(error)) => self.has_changed(Some(*error)),
            (Wanted::ChangeMany(_), Failed::Unreadable { .. }) => {
                let why = "the old client cannot read a value that is to be moved";
                self.has_changed(Some(Error::new(Kind::Usage, &"".into(), why)))
            }
            (_, Failed::Unreadable { error, .. }) => {
                let index = self.key();
                self.unreadable[Side::New as usize].get_or_insert(Unreadable { index, error });
                self.has_read(None)
            }
        }
    }

    /// Ends with the keys that were changed, or what was in the way of storing or changing.
    fn has_changed(&mut self, error: Option<Error>) -> Next<P> {
        let (keys, policy) = (self.all_keys(Side::New), self.policy(Side::New));
        let each = if let Wanted::ChangeMany(each) = self.wanted { each } else { Request::Delete };
        let change = Change::over(keys, each, std::mem::take(&mut self.done), error, policy);
        self.ends([(Side::New, change.into())])
    }

    /// Ends with an answer to the user's request, whose value is a pool's. Without one, nothing was found.
    fn answers(&mut self, side: Side, answered: Result<Option<Answer<ValueOf<P>>>, FailedOf<P>>) -> Next<P> {
        let Wanted::One(request) = self.wanted else { unreachable!("it is about one key") };
        let (values, policy) = (self.pools.values(side), self.policy(Side::New));
        let mut single = Single::new(request, self.pools.key(Side::New, 0), P::Data::default(), values, policy);
        single.end(answered.map(|answer| answer.unwrap_or_else(|| request.lost())));
        self.ends([(side, single.into())])
    }

    /// Ends with the values of many keys.
    fn has_read(&mut self, mut error: Option<Error>) -> Next<P> {
        let [mut old, mut new] = std::mem::take(&mut self.found);
        let mut unanswered = std::mem::take(&mut self.unanswered);
        let Wanted::GetMany { each, failing } = self.wanted else { unreachable!("it reads many keys") };
        if failing == Failing::OfKeys {
            let mut is_found = vec![false; self.keys];
            old.iter().chain(&new).for_each(|one| is_found[one.index] = true);
            unanswered.iter_mut().for_each(|one| one.keys.retain(|key| !is_found[*key as usize]));
            if let Some(error) = error.take() {
                let failed = self.key();
                [&mut old, &mut new].into_iter().for_each(|found| found.retain(|one| one.index != failed));
                unanswered.push(Unanswered { keys: vec![failed as u32], error });
            }
        }
        let mut over = |side, found| {
            let (keys, values, policy) = (self.all_keys(side), self.pools.values(side), self.policy(side));
            let unreadable = self.unreadable[side as usize].take();
            self.named(Fetch::over(keys, each, values, policy, found).with_unreadable(unreadable))
        };
        let (old, new) = (over(Side::Old, old), over(Side::New, new));
        let new = new.failing(std::mem::take(&mut self.beside), error, unanswered);
        self.ends([(Side::Old, old.into()), (Side::New, new.into())])
    }

    fn ends<const COUNT: usize>(&mut self, over: [(Side, OnePool<P>); COUNT]) -> Next<P> {
        self.over.extend(over);
        Next::Over
    }
}
