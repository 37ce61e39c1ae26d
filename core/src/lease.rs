//! Who makes a value, who waits for it, and who takes the one there is: what `get_or_set` does after each answer.
//!
//! The machine never waits and asks nobody: its host does as each [`Step`] says, and tells what came of it.

use std::time::{Duration, Instant};

use pinyon_proto::Head;

/// How long a caller waits before it asks again for a value that somebody else makes; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// The end of a placeholder's life, which the server counts in whole seconds, and one more question after it.
const SLACK: Duration = Duration::from_secs(2);

/// What a caller wants, in whole seconds where the server counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The item is stored with this ttl; 0 for no end.
    pub ttl: i64,
    /// How long one caller alone may make a value that is missing.
    pub lease: i32,
    /// It is made anew once it has fewer seconds left than this; 0 for never.
    pub recache: i32,
    /// How long to wait for a value that somebody else makes.
    pub wait: Duration,
}

impl Terms {
    /// Of a value that is fresh for `ttl` seconds (0: for ever), is handed out for another `stale` while one caller makes it
    /// anew, and may be made anew from `early` before it is stale. Without `wait` it is long enough for a maker that dies
    /// and for the next one.
    pub fn new(ttl: i64, stale: i32, early: i32, lease: i32, wait: Option<Duration>) -> Result<Self, &'static str> {
        if ttl < 0 {
            return Err("ttl must be positive, or 0 for a value without end");
        }
        if ttl == 0 && (stale > 0 || early > 0) {
            return Err("stale and early count from the end of a ttl; with ttl=0 there is none");
        }
        if early > 0 && i64::from(early) >= ttl {
            return Err("early must be less than ttl: the value would be made anew all the time");
        }
        let recache = stale.checked_add(early).filter(|recache| *recache <= MOST_RECACHE);
        let recache = recache.ok_or("stale and early together must be at most 30 days")?;
        let patience = 2 * Duration::from_secs(lease.max(0) as u64) + SLACK;
        Ok(Self { ttl: ttl.saturating_add(stale.into()), lease, recache, wait: wait.unwrap_or(patience) })
    }
}

/// Above it memcached takes a number of seconds for a Unix time.
const MOST_RECACHE: i32 = 30 * 24 * 60 * 60;

/// What the server said of an item when a lease was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A fresh value.
    Hit,
    /// A value that is stale, or soon will be, and that somebody else makes anew.
    Stale,
    /// The caller is to make the value.
    Won(Option<Win>),
    /// Somebody else makes the value, and there is none yet.
    Filling,
}

/// The right to store under a token. Without one a value may be made, and not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Win {
    pub cas: u64,
    /// The item has a value already, which stays when the win is given back.
    pub keep: bool,
}

impl Finding {
    /// Of the reply to a [`Lease`](pinyon_proto::Command::Lease) that found an item or made a placeholder.
    pub fn of(head: &Head) -> Self {
        let is_placeholder = head.is_placeholder();
        match &head.item {
            item if item.won => Finding::Won(item.cas.map(|cas| Win { cas, keep: !is_placeholder })),
            _ if is_placeholder => Finding::Filling,
            item if item.already_won || item.stale => Finding::Stale,
            _ => Finding::Hit,
        }
    }
}

/// What the host is to do next, and which call tells the machine that it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask for a lease: [`Machine::found`].
    Ask,
    /// Let so much time pass: [`Machine::waited`].
    Wait(Duration),
    /// Make the value: [`Machine::made`] or [`Machine::failed`].
    Make,
    /// Store what was made, if the item still has this token: [`Machine::stored`], [`Machine::failed`] where the value is
    /// what was wrong, or [`Machine::lost`] where the server failed.
    Store { cas: u64 },
    /// Let others make it, whatever comes of that: [`Machine::gave_back`].
    GiveBack(Win),
    /// Nothing; what was found is the answer.
    Take,
    /// Nothing; what was made is the answer, or what went wrong with it.
    Done,
    /// Nothing; somebody else has been making it for longer than the caller waits.
    GiveUp,
}

/// One caller's way to a value.
#[derive(Clone, Debug)]
pub struct Machine {
    give_up: Instant,
    pause: Duration,
    chance: u64,
    win: Option<Win>,
}

impl Machine {
    /// Begin with [`Step::Ask`]. `chance`: any number, other ones for other callers, so that they do not all ask at once.
    pub fn new(terms: &Terms, chance: u64, now: Instant) -> Self {
        Self { give_up: now + terms.wait, pause: FIRST_PAUSE, chance: chance | 1, win: None }
    }

    /// How long this caller still waits for somebody else.
    pub fn patience(&self, now: Instant) -> Duration {
        self.give_up.saturating_duration_since(now)
    }

    /// What is to be given back if the caller goes away now.
    pub fn win(&self) -> Option<Win> {
        self.win
    }

    pub fn found(&mut self, finding: Finding, now: Instant) -> Step {
        match finding {
            Finding::Hit | Finding::Stale => Step::Take,
            Finding::Won(win) => {
                self.win = win;
                Step::Make
            }
            Finding::Filling if now >= self.give_up => Step::GiveUp,
            Finding::Filling => Step::Wait(self.next_pause().min(self.patience(now))),
        }
    }

    pub fn waited(&mut self) -> Step {
        Step::Ask
    }

    pub fn made(&mut self) -> Step {
        self.win.map_or(Step::Done, |win| Step::Store { cas: win.cas })
    }

    /// There is no value, or none that can be stored.
    pub fn failed(&mut self) -> Step {
        self.win.take().map_or(Step::Done, Step::GiveBack)
    }

    /// It is stored; or it is not, as somebody else has written or deleted the item meanwhile.
    pub fn stored(&mut self) -> Step {
        self.win = None;
        Step::Done
    }

    /// The server failed, and would not take back what it gave.
    pub fn lost(&mut self) -> Step {
        self.stored()
    }

    pub fn gave_back(&mut self) -> Step {
        Step::Done
    }

    /// Between a half and the whole of one that doubles.
    fn next_pause(&mut self) -> Duration {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        pause / 2 + pause.mul_f64((self.chance % 1024) as f64 / 2048.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinyon_proto::{Item, Status};

    const WIN: Win = Win { cas: 7, keep: false };

    fn terms() -> Terms {
        Terms::new(60, 30, 10, 5, None).unwrap()
    }

    /// Asks until the machine does anything but wait; `finding` by the time since the beginning. Returns that step, when
    /// it came, and how often it was asked.
    fn run(machine: &mut Machine, begun: Instant, finding: impl Fn(Duration) -> Finding) -> (Step, Duration, u32) {
        let (mut elapsed, mut asked) = (Duration::ZERO, 0);
        loop {
            asked += 1;
            match machine.found(finding(elapsed), begun + elapsed) {
                Step::Wait(pause) => {
                    elapsed += pause;
                    assert_eq!(machine.waited(), Step::Ask);
                }
                step => return (step, elapsed, asked),
            }
        }
    }

    #[test]
    fn terms_become_what_the_server_counts() {
        assert_eq!(terms(), Terms { ttl: 90, lease: 5, recache: 40, wait: Duration::from_secs(12) });
        assert_eq!(Terms::new(0, 0, 0, 5, Some(Duration::ZERO)).unwrap().ttl, 0);
        for (ttl, stale, early) in [(-1, 0, 0), (0, 1, 0), (0, 0, 1), (9, 0, 9), (i64::MAX, MOST_RECACHE, 1)] {
            assert!(Terms::new(ttl, stale, early, 5, None).is_err());
        }
        assert!(Terms::new(i64::MAX, i32::MAX, i32::MAX, 5, None).is_err());
    }

    #[test]
    fn replies_are_told_apart() {
        let of = |size: usize, client_flags: u32, marks: &str| {
            let [won, stale, already_won] = ["W", "X", "Z"].map(|mark| marks.contains(mark));
            let item = Item { client_flags, cas: Some(7), won, stale, already_won, ..Item::default() };
            Finding::of(&Head { size: Some(size), item, ..Head::of(Status::Hit) })
        };
        assert_eq!(of(0, 0, "W"), Finding::Won(Some(WIN)));
        assert_eq!(of(0, 0, "XW"), Finding::Won(Some(WIN)));
        assert_eq!(of(0, 0, "Z"), Finding::Filling);
        assert_eq!(of(0, 0, "ZX"), Finding::Filling);
        assert_eq!(of(0, 0, ""), Finding::Hit);
        assert_eq!(of(0, 16, "Z"), Finding::Stale);
        assert_eq!(of(2, 0, "W"), Finding::Won(Some(Win { cas: 7, keep: true })));
        assert_eq!(of(2, 0, "Z"), Finding::Stale);
        assert_eq!(of(2, 0, "ZX"), Finding::Stale);
        assert_eq!(of(2, 0, ""), Finding::Hit);
    }

    #[test]
    fn what_is_there_is_taken_at_once() {
        let now = Instant::now();
        for finding in [Finding::Hit, Finding::Stale] {
            assert_eq!(Machine::new(&terms(), 1, now).found(finding, now), Step::Take);
        }
    }

    #[test]
    fn a_winner_makes_and_stores_under_its_token() {
        let now = Instant::now();
        let mut machine = Machine::new(&terms(), 1, now);
        assert_eq!(machine.found(Finding::Won(Some(WIN)), now), Step::Make);
        assert_eq!((machine.win(), machine.made()), (Some(WIN), Step::Store { cas: 7 }));
        assert_eq!(machine.win(), Some(WIN), "as long as it is not known to be stored");
        assert_eq!((machine.stored(), machine.win()), (Step::Done, None));
    }

    #[test]
    fn a_winner_that_fails_gives_back_once() {
        let now = Instant::now();
        let mut machine = Machine::new(&terms(), 1, now);
        machine.found(Finding::Won(Some(WIN)), now);
        assert_eq!((machine.failed(), machine.win()), (Step::GiveBack(WIN), None));
        assert_eq!(machine.gave_back(), Step::Done);
        machine.found(Finding::Won(Some(WIN)), now);
        machine.made();
        assert_eq!((machine.lost(), machine.failed()), (Step::Done, Step::Done));
    }

    #[test]
    fn without_a_token_a_value_is_made_and_neither_stored_nor_given_back() {
        let now = Instant::now();
        for end in [Machine::made, Machine::failed] {
            let mut machine = Machine::new(&terms(), 1, now);
            assert_eq!(machine.found(Finding::Won(None), now), Step::Make);
            assert_eq!(end(&mut machine), Step::Done);
        }
    }

    #[test]
    fn a_value_that_comes_is_taken_soon() {
        for chance in 0..100 {
            let now = Instant::now();
            let come = Duration::from_secs(3);
            let finding = |elapsed| if elapsed < come { Finding::Filling } else { Finding::Hit };
            let (step, elapsed, asked) = run(&mut Machine::new(&terms(), chance, now), now, finding);
            assert_eq!(step, Step::Take);
            assert!(elapsed < come + LONGEST_PAUSE && asked < 25, "{elapsed:?}, {asked}");
        }
    }

    #[test]
    fn the_lease_of_a_maker_that_died_is_won_by_one_that_waits() {
        let now = Instant::now();
        let ends = Duration::from_secs(6);
        let finding = |elapsed| if elapsed < ends { Finding::Filling } else { Finding::Won(Some(WIN)) };
        let (step, elapsed, _) = run(&mut Machine::new(&terms(), 1, now), now, finding);
        assert!(step == Step::Make && elapsed < ends + LONGEST_PAUSE);
    }

    #[test]
    fn nobody_waits_for_longer_than_it_wants() {
        let now = Instant::now();
        for wait in [Duration::ZERO, Duration::from_millis(1), Duration::from_secs(3)] {
            let terms = Terms { wait, ..terms() };
            let (step, elapsed, _) = run(&mut Machine::new(&terms, 1, now), now, |_| Finding::Filling);
            assert_eq!((step, elapsed), (Step::GiveUp, wait), "it asks once more at the end");
        }
    }

    #[test]
    fn callers_do_not_ask_in_step() {
        let now = Instant::now();
        let first = |chance| Machine::new(&terms(), chance, now).found(Finding::Filling, now);
        let pauses: std::collections::HashSet<String> =
            (1..50).map(|chance| format!("{:?}", first(chance * 977))).collect();
        assert!(pauses.len() > 20, "{pauses:?}");
    }
}
