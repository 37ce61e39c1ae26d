//! A candidate, and a host that takes its steps: it begins what they say, and looks now and then what came of it.

use std::ffi::{CStr, CString};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use pinyon::locks::leader::{
    self, pinyon_candidate_free, pinyon_candidate_is_stopping, pinyon_candidate_new, pinyon_candidate_next,
    pinyon_candidate_resign, pinyon_candidate_state, pinyon_candidate_step_line, pinyon_candidate_step_seconds,
    pinyon_candidate_step_token, pinyon_candidate_stop, pinyon_candidate_token, pinyon_leader_report_named,
    pinyon_leader_step_name,
};
use pinyon::structs::Bytes;
use pinyon_locks::settings::UsualLock;
use pinyon_net::error::kinds::ErrorKind;
use serde_json::Value;

use crate::call::{self, Held, Over};
use crate::drivers::GivesUp;

/// What the host is doing.
enum Doing {
    /// It waits for the lock, by the number of the wish.
    Asks(usize),
    Leads(Instant),
    Releases(usize),
    Pauses(Instant),
    Nothing,
}

/// What became of a step: the word of the report, and its token or its reason.
struct Report(&'static str, u64, String);

const DONE: Report = Report("done", 0, String::new());

pub struct Candidate {
    candidate: *mut leader::Candidate,
    name: String,
    /// The callbacks that fail, by their names.
    fails: Value,
    held: Option<Held>,
    doing: Doing,
    /// Whether it is woken.
    is_woken: bool,
    /// The callbacks that were called, with their tokens.
    pub called: Vec<(&'static str, u64)>,
    /// What it has told the operators.
    pub told: Vec<String>,
}

impl Candidate {
    pub fn new(name: &str, fails: &Value) -> Self {
        let mut error = null_mut();
        // SAFETY: as the header says.
        let candidate = unsafe { pinyon_candidate_new(Bytes::of(name.as_bytes()), &mut error) };
        assert!(!candidate.is_null() && error.is_null());
        Self {
            candidate,
            name: name.to_owned(),
            fails: fails.clone(),
            held: None,
            doing: Doing::Nothing,
            is_woken: false,
            called: Vec::new(),
            told: Vec::new(),
        }
    }

    pub fn start(&mut self, client: &mut impl GivesUp, usual: &UsualLock) {
        self.take_steps(DONE, client, usual);
    }

    /// Takes the steps that are due.
    pub fn go_on(&mut self, client: &mut impl GivesUp, usual: &UsualLock) {
        let is_woken = std::mem::take(&mut self.is_woken);
        let report = match self.doing {
            Doing::Nothing => None,
            Doing::Asks(number) => client.outcome(number).map(|over| self.asked(over)),
            Doing::Releases(number) => client.outcome(number).map(released),
            Doing::Leads(until) => {
                let is_lost = self.held.as_ref().is_none_or(|held| held.remaining().is_none());
                let is_over = is_woken || Instant::now() >= until;
                (is_lost || is_over).then(|| if is_lost { Report("lock_lost", 0, String::new()) } else { DONE })
            }
            Doing::Pauses(until) => (self.is_stopping() || Instant::now() >= until).then_some(DONE),
        };
        if let Some(report) = report {
            self.take_steps(report, client, usual);
        }
    }

    /// Takes steps until one has to wait.
    fn take_steps(&mut self, mut report: Report, client: &mut impl GivesUp, usual: &UsualLock) {
        loop {
            let step = self.next(&report);
            report = match &*step {
                "over" => return self.doing = Doing::Nothing,
                "ask" => {
                    let (lock, asked) = call::acquire_at_last(&self.name, usual);
                    self.held = Some(lock.held);
                    return self.doing = Doing::Asks(client.begin(asked));
                }
                "elected" => self.call_back("elected"),
                "lead" => return self.doing = Doing::Leads(Instant::now() + self.time()),
                "lost" => self.call_back("lost"),
                "release" => {
                    let lock = call::Lock { held: self.held.take().expect("it has led") };
                    let asked = call::with(&lock, "release", &[]).unwrap_or_else(|_| panic!("it can be released"));
                    return self.doing = Doing::Releases(client.begin(asked));
                }
                "pause" => return self.doing = Doing::Pauses(Instant::now() + self.time()),
                "warn" => {
                    // SAFETY: as the header says.
                    let line = unsafe { CStr::from_ptr(pinyon_candidate_step_line(self.candidate)) };
                    self.told.push(line.to_str().expect("it is text").to_owned());
                    DONE
                }
                other => panic!("the step {other}"),
            };
        }
    }

    fn next(&self, Report(word, token, why): &Report) -> String {
        let (word, mut report, mut error) = (CString::new(*word).unwrap(), u32::MAX, null_mut());
        // SAFETY: as the header says.
        unsafe {
            assert!(pinyon_leader_report_named(word.as_ptr(), &mut report), "{word:?}");
            let step = pinyon_candidate_next(self.candidate, report, *token, Bytes::of(why.as_bytes()), &mut error);
            assert!(error.is_null());
            CStr::from_ptr(pinyon_leader_step_name(step)).to_str().unwrap().to_owned()
        }
    }

    fn asked(&mut self, over: Over) -> Report {
        match over {
            Ok(is_held) if is_held == true => {
                Report("granted", self.held.as_ref().expect("it asked").token(), String::new())
            }
            Ok(_) => DONE,
            Err(failure) if failure.kind == ErrorKind::Closed => Report("closed", 0, String::new()),
            Err(failure) => Report("failed", 0, failure.message),
        }
    }

    fn call_back(&mut self, which: &'static str) -> Report {
        // SAFETY: as the header says.
        self.called.push((which, unsafe { pinyon_candidate_step_token(self.candidate) }));
        match self.fails[format!("on_{which}")].is_null() {
            true => DONE,
            false => Report("failed", 0, "the test wants it".to_owned()),
        }
    }

    fn time(&self) -> Duration {
        // SAFETY: as the header says.
        Duration::from_secs_f64(unsafe { pinyon_candidate_step_seconds(self.candidate) })
    }

    fn is_stopping(&self) -> bool {
        // SAFETY: as the header says.
        unsafe { pinyon_candidate_is_stopping(self.candidate) }
    }

    /// The token with which it leads, or 0.
    pub fn token(&self) -> u64 {
        let is_held = self.held.as_ref().is_some_and(|held| held.remaining().is_some());
        // SAFETY: as the header says.
        unsafe { pinyon_candidate_token(self.candidate) * u64::from(is_held) }
    }

    pub fn state(&self) -> &str {
        // SAFETY: as the header says.
        unsafe { CStr::from_ptr(pinyon_candidate_state(self.candidate)) }.to_str().unwrap()
    }

    pub fn resign(&mut self) -> bool {
        self.is_woken = true;
        // SAFETY: as the header says.
        unsafe { pinyon_candidate_resign(self.candidate) }
    }

    /// Has it end, soon.
    pub fn stop(&mut self, client: &mut impl GivesUp) {
        self.is_woken = true;
        // SAFETY: as the header says.
        unsafe { pinyon_candidate_stop(self.candidate) };
        if let Doing::Asks(number) = self.doing {
            client.give_up(number);
        }
    }

    /// The tokens with which it was elected. Each was told of its end, the last one perhaps not.
    pub fn tokens(&self) -> Vec<u64> {
        let of = |which| self.called.iter().filter(|(called, _)| *called == which).map(|(_, token)| *token).collect();
        let (elected, lost): (Vec<u64>, Vec<u64>) = (of("elected"), of("lost"));
        let in_turn = self.called.iter().enumerate().all(|(at, (which, _))| *which == ["elected", "lost"][at % 2]);
        let is_so = in_turn && elected.starts_with(&lost) && elected.len() - lost.len() <= 1;
        assert!(is_so && elected.is_sorted_by(|one, next| one < next), "{:?}", self.called);
        elected
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        // SAFETY: it is not used afterwards.
        unsafe { pinyon_candidate_free(self.candidate) }
    }
}

fn released(over: Over) -> Report {
    match over {
        Ok(_) => DONE,
        Err(failure) if failure.kind == ErrorKind::Closed => Report("closed", 0, String::new()),
        Err(failure) => Report("failed", 0, failure.message),
    }
}
