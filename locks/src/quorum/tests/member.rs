//! A member that is a machine, with the wires to its server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::call::{Call, Pushed, ScriptAnswer};
use crate::claim::Claim;
use crate::client::{Member, Now, Outcome, Report, Standing};
use crate::machine::{Awaited, LockOptions, LockRequest, Machine, MachineEvent, Renewal};
use crate::quorum::Waiter;
use pinyon_net::error::{Error, Kind};

pub(super) enum Said {
    Answer(u64, ScriptAnswer),
    Push(Pushed),
}

pub(super) struct Wired {
    pub(super) machine: Machine,
    name: Arc<str>,
    pub(super) standing: Option<Standing>,
    /// Messages under way, on this connection and to the server on earlier ones.
    pub(super) to_server: VecDeque<(u64, Call)>,
    pub(super) to_client: VecDeque<Said>,
    pub(super) astray: VecDeque<Call>,
    waiting: BTreeMap<(u64, Awaited), VecDeque<Waiter<u64>>>,
    reports: VecDeque<Report<Waiter<u64>>>,
    contested: Vec<u64>,
}

impl Wired {
    pub(super) fn new(client: &Arc<str>, index: usize, options: LockOptions) -> Self {
        Self {
            machine: Machine::new(client.clone(), options),
            name: format!("server{index}").into(),
            standing: None,
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            astray: VecDeque::new(),
            waiting: BTreeMap::new(),
            reports: VecDeque::new(),
            contested: Vec::new(),
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.standing.is_some()
    }

    pub(super) fn connect(&mut self, standing: Standing, now: Now) {
        self.standing = Some(standing);
        self.machine.connected(now.moment);
        self.pump();
    }

    /// Breaks the connection. What was under way may still reach the server, if `astray`.
    pub(super) fn cut(&mut self, astray: bool, now: Now) {
        let lost = std::mem::take(&mut self.to_server);
        if astray {
            self.astray.extend(lost.into_iter().map(|(_, call)| call));
        }
        self.to_client.clear();
        self.standing = None;
        let error = Error::new(Kind::Closed, &"".into(), "cut");
        self.machine.disconnected(&error, false, now.moment);
        self.pump();
    }

    pub(super) fn close(&mut self, error: &Error, now: Now) {
        self.machine.close(error, now.moment);
        self.pump();
    }

    /// An attempt to connect fails.
    pub(super) fn refuse(&mut self, now: Now) {
        let error = Error::new(Kind::Connect, &"".into(), "refused");
        self.machine.unreachable(&error, now.moment);
        self.pump();
    }

    pub(super) fn hear(&mut self, now: Now) -> bool {
        let Some(said) = self.to_client.pop_front() else { return false };
        match said {
            Said::Answer(id, answer) => self.machine.answer(id, Ok(answer), now.moment),
            Said::Push(pushed) => self.machine.pushed(pushed, now.moment),
        }
        self.pump();
        true
    }

    pub(super) fn expire(&mut self, now: Now) {
        self.machine.expire(now.moment);
        self.pump();
    }

    fn pump(&mut self) {
        if self.is_up() {
            self.to_server.extend(std::iter::from_fn(|| self.machine.next_call()));
        }
        while let Some(event) = self.machine.next_event() {
            let (number, awaited, outcome) = match event {
                MachineEvent::Done { number, awaited, outcome } => (number, awaited, outcome),
                MachineEvent::Lost { number, loss } => {
                    self.reports.push_back(Report::Lost { number, loss });
                    continue;
                }
                MachineEvent::Contested { number } => {
                    self.contested.push(number);
                    continue;
                }
                MachineEvent::RenewalRefused { .. } => continue,
            };
            let Some(waiting) = self.waiting.get_mut(&(number, awaited)) else { continue };
            self.reports.extend(waiting.pop_front().map(|waiter| Report::Done { waiter, outcome }));
            if waiting.is_empty() {
                self.waiting.remove(&(number, awaited));
            }
        }
    }
}

impl Wired {
    fn started(&mut self, begun: Result<u64, Outcome>, awaited: Awaited, waiter: Waiter<u64>) {
        match begun {
            Ok(number) => self.waiting.entry((number, awaited)).or_default().push_back(waiter),
            Err(outcome) => self.reports.push_back(Report::Done { waiter, outcome }),
        }
        self.pump();
    }
}

impl Member for Wired {
    type Waiter = Waiter<u64>;

    fn lock(&mut self, request: LockRequest, claim: Option<Claim>, waiter: Waiter<u64>, now: Now) -> Option<u64> {
        let claim = claim.expect("a quorum always claims");
        let begun = self.machine.claim(request, claim, now.moment);
        let number = begun.as_ref().ok().copied();
        self.started(begun.map_err(Outcome::Failed), Awaited::Grant, waiter);
        number
    }

    fn release(&mut self, number: u64, waiter: Waiter<u64>, now: Now) {
        let released = self.machine.release(number, now.moment).map(|()| number);
        self.started(released.map_err(|_| Outcome::Released { held: false }), Awaited::Release, waiter);
    }

    fn extend(&mut self, number: u64, ttl: Duration, waiter: Waiter<u64>, now: Now) {
        let extended = self.machine.extend(number, ttl, now.moment).map(|()| number);
        self.started(extended.map_err(|_| Outcome::Extended { held: false }), Awaited::Extension, waiter);
    }

    fn raise(&mut self, number: u64, floor: u64, waiter: Waiter<u64>, now: Now) {
        let raised = self.machine.raise(number, floor, now.moment).map(|()| number);
        self.started(raised.map_err(|_| Outcome::Extended { held: false }), Awaited::Extension, waiter);
    }

    fn ask(&mut self, call: Call, waiter: Waiter<u64>, now: Now) {
        let question = self.machine.question(call, now.moment);
        self.started(Ok(question), Awaited::Answer, waiter);
    }

    fn cancel(&mut self, number: u64, now: Now) {
        self.waiting.remove(&(number, Awaited::Grant));
        self.machine.cancel(number, now.moment);
        self.pump();
    }

    fn forsake(&mut self, number: u64) {
        self.machine.forsake(number);
    }

    fn set_renewal(&mut self, number: u64, renewal: Renewal, now: Now) {
        self.machine.set_renewal(number, renewal, now.moment);
        self.pump();
    }

    fn held(&self, number: u64, now: Now) -> Option<Duration> {
        self.machine.held(number, now.moment).map(|(_, remaining)| remaining)
    }

    fn trouble(&self) -> Option<&Error> {
        self.machine.trouble()
    }

    fn next_report(&mut self) -> Option<Report<Waiter<u64>>> {
        self.reports.pop_front()
    }

    fn next_contested(&mut self) -> Option<u64> {
        self.contested.pop()
    }

    fn standing(&self) -> Option<&Standing> {
        self.standing.as_ref()
    }

    fn name(&self) -> &Arc<str> {
        &self.name
    }
}
