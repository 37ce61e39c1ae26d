//! Candidates for the leadership of a name. The core decides what they do; the host does it.

use std::convert::Infallible;
use std::ffi::{c_char, CStr, CString};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use pinyon_locks::{Candidate as InCore, LeaderReport, LeaderReportKind, LeaderStep, LeaderStepKind};
use pinyon_net::invalid::InvalidArgument;

use crate::errors::{c_string, Error, Failure};
use crate::exported::exported;
use crate::guard::{free, Handle, Poison};
use crate::structs::Bytes;

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
        let Some(kind) = LeaderReportKind::ALL.get(report as usize) else {
            return Err(Failure::usage("a candidate does not know this report: take one of pinyon_leader_report"));
        };
        let Ok(report) =
            LeaderReport::of::<Infallible>(*kind, || Ok(token), || Ok(String::from_utf8_lossy(why).into_owned()));
        let step = self.candidate.next(report, Instant::now());
        let kind = step.kind() as u32;
        *self.last() = match step {
            LeaderStep::Elected { token } | LeaderStep::Lost { token } => Last { token, ..Last::default() },
            LeaderStep::Lead { look_in: time } | LeaderStep::Pause { time } => {
                Last { seconds: time.as_secs_f64(), ..Last::default() }
            }
            LeaderStep::Warn { line } => Last { line: c_string(&line), ..Last::default() },
            LeaderStep::Ask | LeaderStep::Release | LeaderStep::Over => Last::default(),
        };
        Ok(kind)
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

exported! {
    fn pinyon_leader_step_name(step: u32) -> *const c_char {
        LeaderStepKind::ALL.get(step as usize).map_or(c"", |step| step.c_word()).as_ptr()
    }

    fn pinyon_leader_report_named(name: *const c_char, report: *mut u32) -> bool {
        if name.is_null() || report.is_null() {
            return false;
        }
        let found = CStr::from_ptr(name).to_str().ok().and_then(LeaderReportKind::named);
        let Some(found) = found else { return false };
        *report = found as u32;
        true
    }

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
        candidate.candidate.state().c_word().as_ptr()
    }

    fn pinyon_candidate_free(candidate: *mut Candidate) { free(candidate) }
}
