//! Candidates, whose steps the test carries out: tokens, states, and the lines of warnings.

use std::ptr::null_mut;

use pinyon::locks::leader::*;
use pinyon::structs::Bytes;
use pinyon_locks::{LeaderReportKind, LeaderStepKind};

use crate::c::{text, Owned};

fn candidate(name: &[u8]) -> Result<Owned<Candidate>, String> {
    // SAFETY: the name lives.
    Owned::new(|error| unsafe { pinyon_candidate_new(Bytes::of(name), error) }, pinyon_candidate_free)
}

/// Reports what became of the last step. Returns the next one.
fn next(candidate: &Owned<Candidate>, report: LeaderReportKind, token: u64, why: &[u8]) -> LeaderStepKind {
    // SAFETY: all live.
    let step = unsafe { pinyon_candidate_next(candidate.0, report as u32, token, Bytes::of(why), null_mut()) };
    LeaderStepKind::ALL[step as usize]
}

fn state(candidate: &Owned<Candidate>) -> String {
    // SAFETY: it lives.
    unsafe { text(pinyon_candidate_state(candidate.0)) }
}

#[test]
fn a_candidate_is_elected_leads_and_resigns() {
    use LeaderReportKind::*;
    let candidate = candidate(b"report").unwrap();
    assert_eq!((next(&candidate, Done, 0, b""), state(&candidate)), (LeaderStepKind::Ask, "candidate".to_owned()));
    assert_eq!(next(&candidate, Granted, 7, b""), LeaderStepKind::Elected);
    // SAFETY: it lives.
    unsafe {
        assert_eq!((pinyon_candidate_step_token(candidate.0), pinyon_candidate_token(candidate.0)), (7, 7));
        assert_eq!(next(&candidate, Done, 0, b""), LeaderStepKind::Lead);
        assert!(pinyon_candidate_step_seconds(candidate.0) > 0.0);
        assert!(pinyon_candidate_resign(candidate.0) && !pinyon_candidate_resign(candidate.0));
        assert_eq!((next(&candidate, Done, 0, b""), state(&candidate)), (LeaderStepKind::Lost, "resigning".to_owned()));
        assert_eq!(next(&candidate, Done, 0, b""), LeaderStepKind::Release);
        pinyon_candidate_stop(candidate.0);
        assert!(pinyon_candidate_is_stopping(candidate.0));
        assert_eq!((next(&candidate, Done, 0, b""), state(&candidate)), (LeaderStepKind::Over, "stopped".to_owned()));
    }
}

#[test]
fn the_line_of_a_warning_is_there_until_the_next_step() {
    use LeaderReportKind::*;
    let candidate = candidate(b"report").unwrap();
    next(&candidate, Done, 0, b"");
    assert_eq!(next(&candidate, Failed, 0, b"the server \xff is away"), LeaderStepKind::Warn);
    // SAFETY: it lives.
    unsafe {
        let line = pinyon_candidate_step_line(candidate.0);
        assert!(text(line).contains("is away"));
        assert_eq!(next(&candidate, Done, 0, b""), LeaderStepKind::Pause);
        assert_eq!(text(pinyon_candidate_step_line(candidate.0)), "");
    }
}

#[test]
fn what_is_no_candidate_is_refused() {
    assert!(candidate(b"").is_err());
    // SAFETY: none is there.
    unsafe {
        let mut error = null_mut();
        let lost = Bytes { start: std::ptr::null(), size: 2 };
        assert!(pinyon_candidate_new(lost, &mut error).is_null());
        assert!(crate::c::message(error).contains("size of 2"));
        assert_eq!(pinyon_candidate_next(null_mut(), 0, 0, Bytes::NONE, &mut error), 0);
        assert!(crate::c::message(error).contains("pinyon_candidate is missing"));
        assert!(!pinyon_candidate_resign(null_mut()) && !pinyon_candidate_is_stopping(null_mut()));
        assert_eq!((text(pinyon_candidate_state(null_mut())), pinyon_candidate_token(null_mut())), (String::new(), 0));
        pinyon_candidate_stop(null_mut());
        pinyon_candidate_free(null_mut());
    }
    let candidate = candidate(b"a").unwrap();
    let mut error = null_mut();
    // SAFETY: it lives.
    assert_eq!(unsafe { pinyon_candidate_next(candidate.0, 99, 0, Bytes::NONE, &mut error) }, 0);
    assert!(crate::c::message(error).contains("pinyon_leader_report"));
}
