//! Attempts whose time is up: which holder blocks them, and which failure they get.

use super::entry::Stage;
use super::remarks::{remark_of, remarks_of};
use super::{About, Blocker, Call, Machine, MachineFailure, Moment};
use crate::call::{Inspected, Names};
use pinyon_net::error::Sent;

/// The names in questions under way. Attempts that wait for the same names share a question.
#[derive(Default)]
pub(super) struct Looks(Vec<Names>);

impl Machine {
    /// Asks for the holder of an attempt's names, shortly before its time is up.
    pub(super) fn look(&mut self, number: u64, now: Moment) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        entry.looked = true;
        let names = entry.names.clone();
        self.look_for(names, now);
    }

    pub(super) fn look_for(&mut self, names: Names, now: Moment) {
        if !self.connected || self.looks.0.contains(&names) {
            return;
        }
        self.looks.0.push(names.clone());
        self.send(About::Look(names.clone()), Call::Inspect { names, remarks: false }, now);
    }

    /// Takes the answer, which is empty if the server refused the question. The failure then names no holder.
    pub(super) fn looked(&mut self, names: &Names, inspected: &[Inspected], now: Moment) {
        self.looks.0.retain(|looked| looked != names);
        let changes: Vec<u64> =
            self.entries.keys().copied().filter(|number| self.waits_to_write(*number, names)).collect();
        changes.into_iter().for_each(|number| self.looked_for_change(number, inspected));
        let Some(blocker) = inspected.iter().find_map(held_by) else { return };
        for entry in self.entries.values_mut() {
            let waits = matches!(entry.stage, Stage::Lined | Stage::Queued { .. } | Stage::Refused { .. });
            if waits && entry.names == *names {
                entry.blocker = Some((blocker.clone(), now).into());
            }
        }
        if !blocker.holder.is_foreign() {
            self.send(About::LookCloser(names.clone()), remarks_of(&blocker), now);
        }
    }

    /// Takes what the holder of the names says.
    pub(super) fn looked_closer(&mut self, names: &Names, inspected: &[Inspected]) {
        let wanting = self.entries.values_mut().filter(|entry| entry.names == *names);
        for (blocker, _) in wanting.filter_map(|entry| entry.blocker.as_deref_mut()) {
            blocker.remark = remark_of(inspected, blocker);
        }
    }

    /// Forgets questions that no server will answer.
    pub(super) fn end_looks(&mut self) {
        self.looks.0.clear();
    }

    /// The failure of an attempt whose time is up: that the names are taken, if the server or this process has said so,
    /// or else the problem with the server.
    pub(super) fn out_of_time(&self, number: u64, now: Moment) -> MachineFailure {
        let entry = &self.entries[&number];
        if let Some(trouble) = &entry.trouble {
            return MachineFailure::from(trouble.error.clone());
        }
        let looked = entry
            .blocker
            .as_deref()
            .cloned()
            .map(|(blocker, at)| Blocker { held_for: blocker.held_for.map(|age| age + (now - at)), ..blocker });
        let blocker = looked.or_else(|| self.holder_here(&entry.names, now));
        let was_answered = match entry.stage {
            Stage::Lined => {
                let wait = entry.wait.filter(|wait| !wait.is_zero()).unwrap_or(self.options.patience);
                self.heard.is_some_and(|heard| heard >= entry.deadline.before(wait))
            }
            _ => entry.refused,
        };
        if blocker.is_none() && !was_answered {
            let mut error = self.trouble.clone().unwrap_or_else(|| self.unanswered());
            if matches!(entry.stage, Stage::Asking(Some(_))) {
                error.sent = Sent::Maybe;
            }
            return MachineFailure::from(error);
        }
        MachineFailure::timeout(entry.wait.unwrap_or_default(), blocker)
    }

    /// The attempt of this process that holds one of the names.
    pub(super) fn holder_here(&self, names: &Names, now: Moment) -> Option<Blocker> {
        let (number, granted, remark) = self.entries.iter().find_map(|(number, entry)| match &entry.stage {
            Stage::Held(held) if held.until > now && entry.names.iter().any(|name| names.contains(name)) => {
                Some((*number, held.granted, entry.remark().cloned()))
            }
            _ => None,
        })?;
        Some(Blocker { holder: self.attempt(number), held_for: Some(now - granted), remark })
    }
}

fn held_by(name: &Inspected) -> Option<Blocker> {
    let holder = name.holder.as_ref()?.attempt.clone();
    Some(Blocker { holder, held_for: name.age, remark: None })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::call::{Attempt, FirstHolder, Holder, Said, ScriptAnswer};
    use crate::machine::{LockOptions, LockRequest, MachineEvent, Outcome, Renewal};
    use pinyon_net::error::kinds::ErrorKind;
    use pinyon_net::error::{Error, Kind};

    const SECOND: Duration = Duration::from_secs(1);

    fn at(milliseconds: u64) -> Moment {
        Moment(Duration::from_millis(milliseconds))
    }

    fn machine() -> Machine {
        let mut machine = Machine::new("me".into(), LockOptions::default());
        machine.connected(at(0));
        machine
    }

    fn request(owner: u64, wait: Option<Duration>) -> LockRequest {
        let (names, renewal) = (Names::from([b"a"[..].into()]), Renewal::Never);
        LockRequest { names, owner, ttl: 10 * SECOND, wait, renewal, reentrant: false, rare: None }
    }

    fn other() -> Attempt {
        Attempt { client: "other".into(), owner: 1, number: 7 }
    }

    /// The calls to send, without the one for a new connection.
    fn calls(machine: &mut Machine) -> Vec<(u64, Call)> {
        std::iter::from_fn(|| machine.next_call()).filter(|(_, call)| !matches!(call, Call::Open { .. })).collect()
    }

    fn answer(machine: &mut Machine, answer: ScriptAnswer, now: Moment) {
        let [(call, _)] = calls(machine)[..] else { panic!("not one call") };
        machine.answer(call, Ok(answer), now);
    }

    fn failure(machine: &mut Machine) -> Option<MachineFailure> {
        match machine.next_event()? {
            MachineEvent::Done { outcome: Outcome::Failed(failure), .. } => Some(failure),
            other => panic!("{other:?}"),
        }
    }

    fn blocker(machine: &mut Machine) -> Option<Blocker> {
        let Some(MachineFailure::Timeout { waited, blocker }) = failure(machine) else { panic!("not late") };
        assert_eq!(waited, SECOND);
        blocker.map(|blocker| *blocker)
    }

    fn held_for(seconds: u64) -> ScriptAnswer {
        let holder = Some(Holder { attempt: other(), token: Some(5) });
        let (pttl, age) = (Some(SECOND), Some(Duration::from_secs(seconds)));
        ScriptAnswer::Inspected(vec![Inspected {
            holder,
            sharing: Vec::new(),
            permits: None,
            pttl,
            age,
            waiting: Vec::new(),
            ..Inspected::default()
        }])
    }

    #[test]
    fn shortly_before_its_end_a_waiter_looks_who_is_in_the_way() {
        let mut machine = machine();
        machine.lock(request(1, Some(SECOND)), at(0)).unwrap();
        answer(&mut machine, ScriptAnswer::Queued { pttl: None }, at(1));
        machine.expire(at(749));
        assert!(calls(&mut machine).is_empty());
        assert_eq!(machine.due(), Some(at(750)));
        machine.expire(at(750));
        answer(&mut machine, held_for(12), at(800));
        machine.expire(at(1000));
        let held_for = Some(Duration::from_millis(12_200));
        assert_eq!(blocker(&mut machine), Some(Blocker { holder: other(), held_for, remark: None }));
    }

    #[test]
    fn those_who_wait_here_for_the_same_names_share_a_look() {
        let mut machine = machine();
        for owner in 1..=3 {
            machine.lock(request(owner, Some(SECOND)), at(0)).unwrap();
        }
        answer(&mut machine, ScriptAnswer::Queued { pttl: None }, at(1));
        machine.expire(at(750));
        answer(&mut machine, held_for(3), at(760));
        machine.expire(at(1000));
        for _ in 1..=3 {
            assert_eq!(blocker(&mut machine).unwrap().holder, other());
        }
    }

    #[test]
    fn a_holder_of_this_process_needs_no_look() {
        let mut machine = machine();
        let number = machine.lock(request(1, Some(SECOND)), at(0)).unwrap();
        answer(&mut machine, ScriptAnswer::Granted { token: 9 }, at(1));
        machine.next_event();
        let refused = machine.lock(request(2, Some(Duration::ZERO)), at(501)).unwrap_err();
        let MachineFailure::Timeout { blocker: Some(blocker), .. } = refused else { panic!("{refused:?}") };
        let held_for = Some(Duration::from_millis(500));
        assert_eq!(*blocker, Blocker { holder: machine.attempt(number), held_for, remark: None });
    }

    #[test]
    fn what_the_server_refuses_at_once_says_who_holds_it() {
        let mut machine = machine();
        machine.lock(request(1, Some(Duration::ZERO)), at(0)).unwrap();
        let holder = Holder { attempt: other(), token: Some(5) };
        let first = Some(FirstHolder { holder, age: Some(SECOND), said: Said::Untold }.into());
        answer(&mut machine, ScriptAnswer::Busy { pttl: None, first }, at(1));
        answer(&mut machine, ScriptAnswer::Inspected(Vec::new()), at(1));
        let Some(MachineFailure::Timeout { waited, blocker }) = failure(&mut machine) else { panic!("not late") };
        assert_eq!(
            (waited, blocker),
            (Duration::ZERO, Some(Blocker { holder: other(), held_for: Some(SECOND), remark: None }.into()))
        );
    }

    #[test]
    fn a_server_that_never_answered_is_not_contention() {
        for wait in [None, Some(Duration::ZERO), Some(SECOND)] {
            let mut machine = machine();
            machine.lock(request(1, wait), at(0)).unwrap();
            machine.lock(request(2, Some(SECOND)), at(0)).ok();
            machine.expire(at(2000));
            for failure in std::iter::from_fn(|| failure(&mut machine)) {
                let MachineFailure::Server(error) = failure else { panic!("{wait:?}: {failure:?}") };
                assert_eq!(error.kind, Kind::Timeout);
            }
        }
    }

    #[test]
    fn why_there_is_no_connection_is_told() {
        let mut machine = machine();
        machine.lock(request(1, Some(SECOND)), at(0)).unwrap();
        let refused = Error::new(Kind::Connect, &"redis:6379".into(), "cannot connect");
        machine.disconnected(&refused, false, at(1));
        machine.expire(at(1000));
        let Some(MachineFailure::Server(error)) = failure(&mut machine) else { panic!("not the server") };
        assert_eq!((ErrorKind::from(error.kind), error.sent), (ErrorKind::ConnectError, Sent::Maybe));
    }

    #[test]
    fn one_that_was_queued_is_late_whatever_becomes_of_the_server() {
        let mut machine = machine();
        machine.lock(request(1, Some(SECOND)), at(0)).unwrap();
        answer(&mut machine, ScriptAnswer::Queued { pttl: None }, at(1));
        machine.disconnected(&Error::new(Kind::Closed, &"".into(), "gone"), false, at(2));
        machine.expire(at(1000));
        assert_eq!(blocker(&mut machine), None);
    }
}
