use super::*;

use std::collections::HashSet;

fn campaign() -> Campaign {
    Campaign::new("\"a\"".to_owned(), Jitter::of("tests"))
}

fn failed(why: &str) -> Report {
    Report::Failed { why: why.to_owned() }
}

fn elected(token: u64) -> Report {
    Report::Granted { token }
}

/// A candidate that leads with this token.
fn leading(token: u64, now: Instant) -> Campaign {
    let mut campaign = campaign();
    assert_eq!(campaign.next(Report::Done, now), Step::Ask);
    assert_eq!(campaign.next(elected(token), now), Step::Elected { token });
    assert_eq!(campaign.next(Report::Done, now), Step::Lead { look_in: LOOK });
    campaign
}

/// The pause that a step is, after the warning before it.
fn pause(campaign: &mut Campaign, report: Report, now: Instant) -> Duration {
    let step = match campaign.next(report, now) {
        Step::Warn { .. } => campaign.next(Report::Done, now),
        step => step,
    };
    let Step::Pause { time } = step else { panic!("{step:?} is no pause") };
    time
}

#[test]
fn a_leader_that_resigns_releases_after_on_lost_and_asks_again() {
    let now = Instant::now();
    let mut campaign = leading(7, now);
    assert_eq!(campaign.next(Report::Done, now), Step::Lead { look_in: LOOK });
    assert!(campaign.resign() && !campaign.resign(), "it leads no more once it has resigned");
    assert_eq!(campaign.state(), LeaderState::Resigning);
    assert_eq!(campaign.next(Report::Done, now), Step::Lost { token: 7 });
    assert_eq!(campaign.next(Report::Done, now), Step::Release);
    assert_eq!(campaign.next(Report::Done, now), Step::Ask);
    assert_eq!(campaign.next(elected(9), now), Step::Elected { token: 9 });
    assert_eq!(campaign.next(Report::Done, now), Step::Lead { look_in: LOOK }, "it resigned from the other leadership");
}

#[test]
fn a_candidate_cannot_resign() {
    let mut campaign = campaign();
    assert!(!campaign.resign());
    campaign.next(Report::Done, Instant::now());
    assert!(!campaign.resign());
}

#[test]
fn a_lost_lock_ends_the_leadership_and_the_candidate_asks_again() {
    let now = Instant::now();
    let mut campaign = leading(7, now);
    assert_eq!(campaign.next(Report::LockLost, now), Step::Lost { token: 7 });
    assert_eq!(campaign.next(Report::Done, now), Step::Release);
    assert_eq!(campaign.next(Report::Done, now), Step::Ask);
}

#[test]
fn a_failed_callback_is_told_and_the_candidate_pauses_longer_and_longer() {
    let now = Instant::now();
    let mut campaign = campaign();
    campaign.next(Report::Done, now);
    let mut longest = Duration::ZERO;
    for round in 0..10 {
        campaign.next(elected(round), now);
        let Step::Warn { line } = campaign.next(failed("no database"), now) else { panic!("it is not told") };
        assert!(line.contains("on_elected of the leader \"a\" failed: no database"), "{line}");
        assert_eq!(campaign.next(Report::Done, now), Step::Lost { token: round });
        assert_eq!(campaign.next(Report::Done, now), Step::Release);
        let paused = pause(&mut campaign, Report::Done, now);
        assert!(paused >= FIRST_PAUSE / 2 && paused <= LONGEST_PAUSE);
        longest = longest.max(paused);
        assert_eq!(campaign.state(), LeaderState::Paused);
        assert_eq!(campaign.next(Report::Done, now), Step::Ask);
    }
    assert!(longest >= LONGEST_PAUSE / 2);
    campaign.next(elected(10), now);
    campaign.next(Report::Done, now);
    let later = now + LONGEST_PAUSE + LOOK;
    campaign.next(failed("a task"), later);
    campaign.next(Report::Done, later);
    campaign.next(Report::Done, later);
    assert!(pause(&mut campaign, Report::Done, later) <= FIRST_PAUSE, "it led for long before it failed");
}

#[test]
fn a_failed_on_lost_is_told_and_the_lock_is_released() {
    let now = Instant::now();
    let mut campaign = leading(7, now);
    campaign.resign();
    campaign.next(Report::Done, now);
    assert!(matches!(campaign.next(failed("x"), now), Step::Warn { line } if line.contains("on_lost")));
    assert_eq!(campaign.next(Report::Done, now), Step::Release);
    assert!(matches!(campaign.next(Report::Done, now), Step::Pause { .. }));
}

#[test]
fn a_server_that_fails_is_asked_again_and_the_same_failure_is_told_once() {
    let now = Instant::now();
    let mut campaign = campaign();
    campaign.next(Report::Done, now);
    assert!(matches!(campaign.next(failed("down"), now), Step::Warn { line } if line.ends_with("asking: down")));
    assert!(matches!(campaign.next(Report::Done, now), Step::Pause { .. }));
    campaign.next(Report::Done, now);
    assert!(matches!(campaign.next(failed("down"), now), Step::Pause { .. }));
    campaign.next(Report::Done, now);
    assert!(matches!(campaign.next(failed("another"), now), Step::Warn { .. }));
    campaign.next(Report::Done, now);
    campaign.next(Report::Done, now);
    campaign.next(elected(1), now);
    campaign.next(Report::LockLost, now);
    campaign.next(Report::Done, now);
    campaign.next(Report::Done, now);
    assert!(matches!(campaign.next(failed("another"), now), Step::Warn { .. }), "it has led since");
    assert!(pause(&mut campaign, Report::Done, now) <= FIRST_PAUSE);
}

#[test]
fn one_that_is_to_stop_while_it_asks_is_not_told_that_it_was_elected() {
    let now = Instant::now();
    let mut campaign = campaign();
    campaign.next(Report::Done, now);
    campaign.stopping = true;
    assert_eq!(campaign.next(elected(7), now), Step::Release);
    assert_eq!(campaign.next(Report::Done, now), Step::Over);
    assert_eq!(campaign.next(Report::Done, now), Step::Over);
}

#[test]
fn a_closed_client_ends_it() {
    let now = Instant::now();
    let mut campaign = leading(7, now);
    assert_eq!(campaign.next(Report::LockLost, now), Step::Lost { token: 7 });
    assert_eq!(campaign.next(Report::Done, now), Step::Release);
    assert_eq!(campaign.next(Report::Done, now), Step::Ask);
    assert_eq!(campaign.next(Report::Closed, now), Step::Over);
}

fn interrupted() -> Report {
    Report::Interrupted { why: "killed".to_owned() }
}

/// The steps that follow an interruption.
fn after_interruption(mut campaign: Campaign) -> Vec<Step> {
    let now = Instant::now();
    let first = campaign.next(interrupted(), now);
    assert!(campaign.stopping);
    let rest = std::iter::repeat_with(|| campaign.next(Report::Done, now)).take_while(|step| *step != Step::Over);
    std::iter::once(first).chain(rest).collect()
}

#[test]
fn an_interruption_is_a_failure_of_a_callback_and_of_the_release_and_of_nothing_else() {
    let now = Instant::now();
    let at = |reports: &[Report]| {
        let mut campaign = campaign();
        reports.iter().for_each(|report| drop(campaign.next(report.clone(), now)));
        campaign
    };
    let warned = |line: &str| Step::Warn { line: line.to_owned() };
    let (lost, token) = (Step::Lost { token: 7 }, elected(7));
    let (asks, is_elected) = ([Report::Done], [Report::Done, token.clone()]);
    assert_eq!(after_interruption(at(&asks)), [Step::Over]);
    assert_eq!(
        after_interruption(at(&is_elected)),
        [warned("on_elected of the leader \"a\" failed: killed; it resigns"), lost.clone(), Step::Release]
    );
    assert_eq!(after_interruption(leading(7, now)), [lost, Step::Release], "on_elected has not failed");
    let ends = [Report::Done, token.clone(), Report::LockLost];
    assert_eq!(after_interruption(at(&ends)), [warned("on_lost of the leader \"a\" failed: killed"), Step::Release]);
    let releases = [Report::Done, token, Report::LockLost, Report::Done];
    let line = "the leader \"a\" has resigned, but its lock is not released yet: killed";
    assert_eq!(after_interruption(at(&releases)), [warned(line)]);
    assert!(matches!(&after_interruption(at(&[Report::Done, failed("down")]))[..], [Step::Pause { .. }]), "it warned");
    assert_eq!(after_interruption(at(&[Report::Done, failed("down"), Report::Done])), [Step::Over], "it paused");
}

#[test]
fn steps_reports_and_states_have_words() {
    fn check<T: PartialEq + std::fmt::Debug + Copy>(all: &[T], word: fn(T) -> &'static str, of: fn(&str) -> Option<T>) {
        assert!(all.iter().all(|one| of(word(*one)) == Some(*one)), "{all:?}");
        assert_eq!(of("another"), None);
    }
    check(&StepKind::ALL, StepKind::word, StepKind::named);
    check(&ReportKind::ALL, ReportKind::word, ReportKind::named);
    check(&LeaderState::ALL, LeaderState::word, LeaderState::named);
    let report = |word| Report::of(ReportKind::named(word).unwrap(), || Ok::<_, ()>(7), || Ok("x".to_owned())).unwrap();
    assert_eq!((report("done"), report("granted"), report("lock_lost")), (Report::Done, elected(7), Report::LockLost));
    assert_eq!((report("failed"), report("closed")), (failed("x"), Report::Closed));
    assert_eq!(report("interrupted"), Report::Interrupted { why: "x".to_owned() });
    assert_eq!(Report::of(ReportKind::Granted, || Err("no token"), || Ok(String::new())), Err("no token"));
}

#[test]
fn pauses_vary() {
    let now = Instant::now();
    let pauses = (0..50).map(|seed| {
        let mut campaign = Campaign::new(String::new(), Jitter::of(&format!("client {seed}")));
        campaign.next(Report::Done, now);
        pause(&mut campaign, failed("x"), now)
    });
    assert!(pauses.collect::<HashSet<_>>().len() > 20);
}

/// What a host has seen of one candidate. Each report of each step, and each wish at each time, up to a depth.
#[derive(Clone, Default)]
struct Seen {
    has_lock: bool,
    /// The token of the last `on_elected` without an `on_lost`.
    believes: Option<u64>,
    tokens: u64,
    was_interrupted: bool,
    steps: Vec<Step>,
}

/// Plays all histories of this length.
fn play(campaign: &mut dyn FnMut() -> Campaign, path: &mut Vec<usize>, depth: usize) -> usize {
    let choices = follow(campaign(), path);
    if path.len() == depth {
        return 1;
    }
    let mut played = 0;
    for choice in 0..choices {
        path.push(choice);
        played += play(campaign, path, depth);
        path.pop();
    }
    played
}

/// Replays one history, checks what must always be true, and returns how many continuations there are.
fn follow(mut campaign: Campaign, path: &[usize]) -> usize {
    let now = Instant::now();
    let (mut seen, mut step) = (Seen::default(), campaign.next(Report::Done, now));
    for choice in path {
        seen.steps.push(step.clone());
        step = take(&mut campaign, &mut seen, &step, *choice, now);
    }
    if step == Step::Over {
        assert!(!seen.has_lock && seen.believes.is_none(), "it ended with the lock: {:?}", seen.steps);
    }
    // The last choice is an interruption, of which one is enough.
    choices(&step) + usize::from(!seen.was_interrupted)
}

fn choices(step: &Step) -> usize {
    match step {
        Step::Over => 1,
        Step::Ask => 5,
        Step::Lead { .. } => 5,
        Step::Elected { .. } | Step::Lost { .. } | Step::Release => 4,
        Step::Pause { .. } | Step::Warn { .. } => 2,
    }
}

/// Does one step in the way of this choice. The wishes come before the report.
fn take(campaign: &mut Campaign, seen: &mut Seen, step: &Step, choice: usize, now: Instant) -> Step {
    let whole = format!("{:?}", seen.steps);
    let is_interrupted = choice == choices(step);
    let choice = match step {
        Step::Ask if is_interrupted => 1,
        _ if is_interrupted => 0,
        _ => choice,
    };
    let report = match (step, choice) {
        (Step::Ask, 0) => {
            assert!(!seen.has_lock && seen.believes.is_none(), "{whole}");
            (seen.has_lock, seen.tokens) = (true, seen.tokens + 1);
            elected(seen.tokens)
        }
        (Step::Ask, 1) => failed("server"),
        (Step::Ask, 2) => Report::Closed,
        (Step::Ask, 3) => {
            campaign.stopping = true;
            Report::Done
        }
        (Step::Ask, _) => {
            campaign.stopping = true;
            (seen.has_lock, seen.tokens) = (true, seen.tokens + 1);
            elected(seen.tokens)
        }
        (Step::Elected { token }, _) => {
            assert!(seen.has_lock && seen.believes.is_none() && *token == seen.tokens, "{whole}");
            seen.believes = Some(*token);
            match choice {
                0 => Report::Done,
                1 => failed("callback"),
                2 => {
                    assert!(campaign.resign(), "{whole}");
                    Report::Done
                }
                _ => {
                    campaign.stopping = true;
                    failed("callback")
                }
            }
        }
        (Step::Lead { look_in }, _) => {
            assert!(seen.believes.is_some() && *look_in <= LOOK, "{whole}");
            match choice {
                0 => Report::Done,
                1 => {
                    seen.has_lock = false;
                    Report::LockLost
                }
                2 => {
                    campaign.resign();
                    Report::Done
                }
                3 => {
                    campaign.stopping = true;
                    Report::Done
                }
                _ => failed("task"),
            }
        }
        (Step::Lost { token }, _) => {
            assert_eq!(seen.believes.take(), Some(*token), "{whole}");
            match choice {
                0 => Report::Done,
                1 => failed("callback"),
                2 => {
                    seen.has_lock = false;
                    Report::Done
                }
                _ => {
                    campaign.stopping = true;
                    Report::Done
                }
            }
        }
        (Step::Release, _) => {
            assert!(seen.believes.is_none(), "it releases before on_lost: {whole}");
            seen.has_lock = false;
            match choice {
                0 => Report::Done,
                1 => failed("release"),
                2 => Report::Closed,
                _ => {
                    campaign.stopping = true;
                    Report::Done
                }
            }
        }
        (Step::Pause { time }, _) => {
            assert!(*time <= LONGEST_PAUSE && !seen.has_lock, "{whole}");
            campaign.stopping |= choice == 1;
            Report::Done
        }
        (Step::Warn { line }, _) => {
            assert!(line.contains("\"a\""), "{line}");
            campaign.stopping |= choice == 1;
            Report::Done
        }
        (Step::Over, _) => Report::Done,
    };
    seen.was_interrupted |= is_interrupted;
    let report = if is_interrupted { interrupted() } else { report };
    let next = campaign.next(report, now);
    assert!(!seen.was_interrupted || next != Step::Ask, "it goes on without what takes its steps: {whole}");
    if campaign.state() == LeaderState::Leader {
        assert!(seen.has_lock || matches!(step, Step::Lead { .. }), "it believes without a lock: {whole}");
    }
    next
}

#[test]
fn in_all_short_histories_a_leader_has_its_lock_and_each_election_ends_once() {
    let played = play(&mut campaign, &mut Vec::new(), 12);
    assert!(played > 10_000, "{played} histories");
}

#[test]
fn a_candidate_says_what_it_does() {
    let candidate = Candidate::new(b"a");
    assert_eq!((candidate.state().word(), candidate.token()), ("candidate", None));
    let now = Instant::now();
    assert_eq!(Candidate::new(b"a").next(Report::Closed, now), Step::Over);
    candidate.next(Report::Done, now);
    candidate.next(elected(7), now);
    assert_eq!((candidate.state(), candidate.token()), (LeaderState::Leader, Some(7)));
    assert!(candidate.resign() && !candidate.resign() && !candidate.is_stopping());
    assert_eq!((candidate.state(), candidate.token()), (LeaderState::Resigning, None));
    candidate.stop();
    assert!(candidate.is_stopping());
}
