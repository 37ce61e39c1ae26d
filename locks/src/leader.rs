//! Leaders: what a candidate for a name does, and when.
//!
//! A candidate asks for the lock on its name for ever, first come, first served. Whoever has the lock leads. A host
//! drives a candidate in the background: it does what each [`Step`] says, and reports what became of it. All decisions
//! are here, so that they are the same in every language.
//!
//! | state | step | what follows |
//! |---|---|---|
//! | candidate | `Ask` | elected; a pause if the server refuses; the end if it is to stop, or the client was closed |
//! | leader | `Elected`, then `Lead` again and again | the end of its leadership: the lock is lost, it resigns or stops, or a callback failed |
//! | resigning | `Lost`, then `Release` | the lock is released after `on_lost` has returned, so that the old leader has ended before the next begins |
//! | paused | `Pause` | a candidate again |
//! | stopped | `Over` | nothing |
//!
//! Each `Elected` is followed by one `Lost` with the same token. A failed callback ends the leadership, so that another
//! candidate may do better, and the candidate pauses. Pauses double up to [`LONGEST_PAUSE`]. They begin anew after a
//! leadership without a failure, or one that was longer than the longest pause.
//!
//! What takes the steps may be ended in the middle of one: a thread or a greenlet is killed, a task is cancelled, the
//! program exits. Then the candidate stops. It resigns first if it leads.

mod words;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::jitter::Jitter;
use pinyon_net::fork;
use pinyon_net::shown::shown;
pub use words::{LeaderState, ReportKind, StepKind};

/// The first pause after a failure.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

pub const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// How often a leader looks whether it has its lock, beside being told. Threads are told late of a release by force.
const LOOK: Duration = Duration::from_secs(1);

/// What the host does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask for the lock, without a limit of time. [`Report::Granted`], [`Report::Failed`] or [`Report::Closed`];
    /// [`Report::Done`] if the wait was ended because the candidate is to stop.
    Ask,
    /// Call `on_elected`. [`Report::Done`] or [`Report::Failed`].
    Elected { token: u64 },
    /// If the lock is not held: [`Report::LockLost`]. Otherwise wait until woken, for at most so long: [`Report::Done`],
    /// or [`Report::Failed`] if what `on_elected` began has failed.
    Lead { look_in: Duration },
    /// Call `on_lost`. [`Report::Done`] or [`Report::Failed`].
    Lost { token: u64 },
    /// Release the lock, which may be lost. [`Report::Done`] or [`Report::Failed`].
    Release,
    /// Wait for so long, or until woken: [`Report::Done`].
    Pause { time: Duration },
    /// Report this line as a warning: [`Report::Done`].
    Warn { line: String },
    /// The candidate has ended.
    Over,
}

/// What became of a step. [`Report::Interrupted`] may follow each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    Done,
    /// The lock was granted, with this token.
    Granted {
        token: u64,
    },
    LockLost,
    /// It failed, for this reason.
    Failed {
        why: String,
    },
    /// The client was closed.
    Closed,
    /// What takes the steps was ended meanwhile, for this reason. The candidate is to stop.
    Interrupted {
        why: String,
    },
}

impl Step {
    pub fn kind(&self) -> StepKind {
        match self {
            Self::Ask => StepKind::Ask,
            Self::Elected { .. } => StepKind::Elected,
            Self::Lead { .. } => StepKind::Lead,
            Self::Lost { .. } => StepKind::Lost,
            Self::Release => StepKind::Release,
            Self::Pause { .. } => StepKind::Pause,
            Self::Warn { .. } => StepKind::Warn,
            Self::Over => StepKind::Over,
        }
    }
}

impl Report {
    /// A report of this kind. `token`, `why`: what the host says about it, which only some kinds take.
    pub fn of<E>(
        kind: ReportKind,
        token: impl FnOnce() -> Result<u64, E>,
        why: impl FnOnce() -> Result<String, E>,
    ) -> Result<Self, E> {
        Ok(match kind {
            ReportKind::Done => Self::Done,
            ReportKind::Granted => Self::Granted { token: token()? },
            ReportKind::LockLost => Self::LockLost,
            ReportKind::Failed => Self::Failed { why: why()? },
            ReportKind::Closed => Self::Closed,
            ReportKind::Interrupted => Self::Interrupted { why: why()? },
        })
    }
}

/// A candidate that any thread may ask to resign or to stop, while the host drives it in the background. A forked child
/// does not go on with it.
pub struct Candidate {
    generation: u64,
    campaign: Mutex<Campaign>,
}

impl Candidate {
    /// `name`: for messages.
    pub fn new(name: &[u8]) -> Self {
        let campaign = Campaign::new(shown(name), Jitter::new());
        Self { generation: fork::generation(), campaign: Mutex::new(campaign) }
    }

    /// The next step. `report`: what became of the last one; at first [`Report::Done`], or [`Report::Closed`] for one
    /// that was never started.
    pub fn next(&self, report: Report, now: Instant) -> Step {
        match self.is_inherited() {
            true => Step::Over,
            false => self.campaign().next(report, now),
        }
    }

    /// Gives the leadership up. Returns whether it led; then the host is to wake what drives it.
    pub fn resign(&self) -> bool {
        !self.is_inherited() && self.campaign().resign()
    }

    /// Ends the candidate. The host is to wake what drives it, and to end a wait for the lock.
    pub fn stop(&self) {
        self.campaign().stopping = true;
    }

    pub fn is_stopping(&self) -> bool {
        self.campaign().stopping
    }

    pub fn state(&self) -> LeaderState {
        match self.is_inherited() {
            true => LeaderState::Stopped,
            false => self.campaign().state(),
        }
    }

    /// The token with which it leads. The host also asks whether the lock is held.
    pub fn token(&self) -> Option<u64> {
        match self.state() {
            LeaderState::Leader => self.campaign().token,
            _ => None,
        }
    }

    fn is_inherited(&self) -> bool {
        self.generation != fork::generation()
    }

    fn campaign(&self) -> MutexGuard<'_, Campaign> {
        self.campaign.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    New,
    Asking,
    /// `on_elected` is being called.
    Electing,
    Leading,
    /// `on_lost` is being called.
    Ending,
    Releasing,
    Pausing,
    Over,
}

/// One candidate, without clocks and threads.
struct Campaign {
    name: String,
    stage: Stage,
    jitter: Jitter,
    token: Option<u64>,
    /// When it was elected.
    since: Option<Instant>,
    resigning: bool,
    stopping: bool,
    /// Whether this leadership has failed.
    has_failed: bool,
    /// How often it has failed in a row.
    failures: u32,
    /// Why it could not ask last, so that the same is not reported again and again.
    told: Option<String>,
    /// What follows a warning.
    after_warning: Option<Step>,
}

impl Campaign {
    fn new(name: String, jitter: Jitter) -> Self {
        Self {
            name,
            stage: Stage::New,
            jitter,
            token: None,
            since: None,
            resigning: false,
            stopping: false,
            has_failed: false,
            failures: 0,
            told: None,
            after_warning: None,
        }
    }

    fn next(&mut self, report: Report, now: Instant) -> Step {
        let report = match report {
            Report::Interrupted { why } => self.interrupted(why),
            report => report,
        };
        if let Some(step) = self.after_warning.take() {
            return step;
        }
        match (self.stage, report) {
            (Stage::Asking, Report::Granted { token }) => self.elected(token, now),
            (Stage::New | Stage::Asking | Stage::Releasing, Report::Closed) => self.over(),
            (Stage::Asking, Report::Failed { why }) => self.refused(why),
            (Stage::Electing | Stage::Leading, Report::Failed { why }) => {
                let then = match self.stopping {
                    true => "it resigns",
                    false => "it resigns, and is a candidate again after a pause",
                };
                let line = format!("on_elected of the leader {} failed: {why}; {then}", self.name);
                self.has_failed = true;
                let step = self.end();
                self.warn(line, step)
            }
            (Stage::Electing | Stage::Leading, Report::LockLost | Report::Closed) => self.end(),
            (Stage::Electing | Stage::Leading, _) if self.resigning || self.stopping => self.end(),
            (Stage::Electing | Stage::Leading, _) => {
                self.stage = Stage::Leading;
                Step::Lead { look_in: LOOK }
            }
            (Stage::Ending, Report::Failed { why }) => {
                let line = format!("on_lost of the leader {} failed: {why}", self.name);
                self.has_failed = true;
                let step = self.release();
                self.warn(line, step)
            }
            (Stage::Ending, _) => self.release(),
            (Stage::Releasing, Report::Failed { why }) => {
                let line = format!("the leader {} has resigned, but its lock is not released yet: {why}", self.name);
                self.has_failed = true;
                let step = self.released(now);
                self.warn(line, step)
            }
            (Stage::Releasing, _) => self.released(now),
            (Stage::New | Stage::Asking | Stage::Pausing, _) => self.ask(),
            (Stage::Over, _) => Step::Over,
        }
    }

    /// What an interruption means for the step that it ended: a failure of those that were calling back, asking or
    /// releasing. The others cannot fail.
    fn interrupted(&mut self, why: String) -> Report {
        self.stopping = true;
        match self.stage {
            Stage::Asking | Stage::Electing | Stage::Ending | Stage::Releasing => Report::Failed { why },
            Stage::New | Stage::Leading | Stage::Pausing | Stage::Over => Report::Done,
        }
    }

    fn ask(&mut self) -> Step {
        if self.stopping {
            return self.over();
        }
        (self.stage, self.resigning) = (Stage::Asking, false);
        Step::Ask
    }

    fn elected(&mut self, token: u64, now: Instant) -> Step {
        (self.token, self.since, self.told, self.has_failed) = (Some(token), Some(now), None, false);
        if self.stopping {
            return self.release();
        }
        self.stage = Stage::Electing;
        Step::Elected { token }
    }

    /// The server, or the connection, has refused to tell whether it leads.
    fn refused(&mut self, why: String) -> Step {
        if self.stopping {
            return self.over();
        }
        let pause = self.pause();
        if self.told.as_ref() == Some(&why) {
            return pause;
        }
        let line = format!("the candidate {} cannot be elected now, and goes on asking: {why}", self.name);
        self.told = Some(why);
        self.warn(line, pause)
    }

    fn end(&mut self) -> Step {
        self.stage = Stage::Ending;
        Step::Lost { token: self.token.unwrap_or_default() }
    }

    fn release(&mut self) -> Step {
        self.stage = Stage::Releasing;
        Step::Release
    }

    fn released(&mut self, now: Instant) -> Step {
        let led = self.since.take().map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        self.token = None;
        if !self.has_failed || led > LONGEST_PAUSE {
            self.failures = 0;
        }
        match self.has_failed && !self.stopping {
            true => self.pause(),
            false => self.ask(),
        }
    }

    /// Pauses, for between half of the pause and all of it.
    fn pause(&mut self) -> Step {
        self.stage = Stage::Pausing;
        let most = FIRST_PAUSE.saturating_mul(2u32.saturating_pow(self.failures)).min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        let half = most / 2;
        Step::Pause { time: half + Duration::from_millis(self.jitter.below(half.as_millis() as u64 + 1)) }
    }

    fn over(&mut self) -> Step {
        (self.stage, self.token) = (Stage::Over, None);
        Step::Over
    }

    fn warn(&mut self, line: String, step: Step) -> Step {
        self.after_warning = Some(step);
        Step::Warn { line }
    }

    fn resign(&mut self) -> bool {
        let leads = self.state() == LeaderState::Leader;
        self.resigning |= leads;
        leads
    }

    fn state(&self) -> LeaderState {
        match self.stage {
            Stage::New | Stage::Asking => LeaderState::Candidate,
            Stage::Electing | Stage::Leading if !self.resigning && !self.stopping => LeaderState::Leader,
            Stage::Electing | Stage::Leading | Stage::Ending | Stage::Releasing => LeaderState::Resigning,
            Stage::Pausing => LeaderState::Paused,
            Stage::Over => LeaderState::Stopped,
        }
    }
}

#[cfg(test)]
mod tests;
