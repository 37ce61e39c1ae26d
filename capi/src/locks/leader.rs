//! Candidates for the leadership of a name. The core decides what they do; the host does it.

use std::ffi::{c_char, CString};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use pinyon_locks::{Candidate as InCore, LeaderReport, LeaderStep};
use pinyon_net::invalid::InvalidArgument;

use crate::errors::{c_string, Error, Failure};
use crate::exported::exported;
use crate::guard::{free, Handle, Poison};
use crate::status::numbered;
use crate::structs::Bytes;

numbered! {
    /// What a host does next.
    LeaderStepKind: u32 {
        Over = 0,
        Ask = 1,
        Elected = 2,
        Lead = 3,
        Lost = 4,
        Release = 5,
        Pause = 6,
        Warn = 7,
    }
}

numbered! {
    /// What became of it.
    LeaderReportKind: u32 {
        Done = 0,
        Granted = 1,
        LockLost = 2,
        Failed = 3,
        Closed = 4,
    }
}

pub struct Candidate {
    candidate: InCore,
    last: Mutex<Last>,
    poison: Poison,
}

/// What belongs to the last step.
#[derive(Default)]
struct Last {
    token: u64,
    seconds: f64,
    line: CString,
}

impl Handle for Candidate {
    const NAME: &'static str = "pinyon_candidate";

    fn poison(&self) -> &Poison {
        &self.poison
    }
}

impl Candidate {
    fn new(name: &[u8]) -> Result<Self, Error> {
        pinyon_locks::names([name]).map_err(InvalidArgument::from)?;
        Ok(Self { candidate: InCore::new(name), last: Mutex::default(), poison: Poison::default() })
    }

    fn next(&self, report: u32, token: u64, why: &[u8]) -> Result<u32, Error> {
        let Some(report) = LeaderReportKind::ALL.into_iter().find(|kind| *kind as u32 == report) else {
            return Err(Failure::usage("a candidate does not know this report: take one of pinyon_leader_report"));
        };
        let report = match report {
            LeaderReportKind::Done => LeaderReport::Done,
            LeaderReportKind::Granted => LeaderReport::Elected { token },
            LeaderReportKind::LockLost => LeaderReport::Lost,
            LeaderReportKind::Failed => LeaderReport::Failed { why: String::from_utf8_lossy(why).into_owned() },
            LeaderReportKind::Closed => LeaderReport::Closed,
        };
        let (kind, last) = match self.candidate.next(report, Instant::now()) {
            LeaderStep::Ask => (LeaderStepKind::Ask, Last::default()),
            LeaderStep::Elected { token } => (LeaderStepKind::Elected, Last { token, ..Last::default() }),
            LeaderStep::Lead { look_in } => {
                (LeaderStepKind::Lead, Last { seconds: look_in.as_secs_f64(), ..Last::default() })
            }
            LeaderStep::Lost { token } => (LeaderStepKind::Lost, Last { token, ..Last::default() }),
            LeaderStep::Release => (LeaderStepKind::Release, Last::default()),
            LeaderStep::Pause { time } => {
                (LeaderStepKind::Pause, Last { seconds: time.as_secs_f64(), ..Last::default() })
            }
            LeaderStep::Warn { line } => (LeaderStepKind::Warn, Last { line: c_string(&line), ..Last::default() }),
            LeaderStep::Over => (LeaderStepKind::Over, Last::default()),
        };
        *self.last() = last;
        Ok(kind as u32)
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

exported! {
    fn pinyon_candidate_new(name: Bytes) -> Result<*mut Candidate> {
        name.check("name")?;
        Candidate::new(name.slice())
    }

    fn pinyon_candidate_next(candidate: &Candidate, report: u32, token: u64, why: Bytes) -> Result<u32> {
        why.check("why")?;
        candidate.next(report, token, why.slice())
    }

    fn pinyon_candidate_step_token(candidate: &Candidate) -> u64 { candidate.last().token }

    fn pinyon_candidate_step_seconds(candidate: &Candidate) -> f64 { candidate.last().seconds }

    fn pinyon_candidate_step_line(candidate: &Candidate) -> *const c_char { candidate.last().line.as_ptr() }

    fn pinyon_candidate_resign(candidate: &Candidate) -> bool { candidate.candidate.resign() }

    fn pinyon_candidate_stop(candidate: &Candidate) { candidate.candidate.stop() }

    fn pinyon_candidate_is_stopping(candidate: &Candidate) -> bool { candidate.candidate.is_stopping() }

    fn pinyon_candidate_token(candidate: &Candidate) -> u64 { candidate.candidate.token().unwrap_or_default() }

    fn pinyon_candidate_state(candidate: &Candidate) -> *const c_char {
        match candidate.candidate.state().as_str() {
            "candidate" => c"candidate".as_ptr(),
            "leader" => c"leader".as_ptr(),
            "resigning" => c"resigning".as_ptr(),
            "paused" => c"paused".as_ptr(),
            _ => c"stopped".as_ptr(),
        }
    }

    fn pinyon_candidate_free(candidate: *mut Candidate) { free(candidate) }
}
