//! Random calls and faults, from seeds. `SEED=… cargo test --test locks_scripts traces` repeats one; `SEEDS=…` runs
//! more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use pinyon_locks::call::{Attempt, Call, Holder, Mode, Name, Names, Pushed, ScriptAnswer};
use pinyon_locks::claim::Claim;
use pinyon_locks::keys::{self, LockKeys};

use crate::lab::{Lab, LONG};

const STEPS: usize = 400;
const POOLS: [&str; 2] = ["\0a", "\0p"];
const SHORT: Duration = Duration::from_millis(2);
/// After this time, everything short has expired.
const PAUSE: Duration = Duration::from_millis(12);

#[test]
fn the_model_and_the_scripts_agree() {
    let number = |variable| std::env::var(variable).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seeds = match number("SEED") {
        Some(seed) => seed..=seed,
        None => 1..=number("SEEDS").unwrap_or(50),
    };
    let mut lab = Lab::new();
    for seed in seeds {
        let trace = std::panic::AssertUnwindSafe(|| Trace::new(&mut lab, seed).run());
        if let Err(panic) = std::panic::catch_unwind(trace) {
            eprintln!("to see it again: SEED={seed} cargo test -p pinyon-locks --test scripts traces");
            std::panic::resume_unwind(panic);
        }
    }
    println!("{} calls", lab.calls);
}

struct Trace<'a> {
    lab: &'a mut Lab,
    random: Random,
    pool: Vec<Name>,
    known: BTreeMap<Attempt, Names>,
    /// Who has said something.
    remarked: BTreeSet<Attempt>,
    /// Those that wait to write what they read.
    upgrading: BTreeMap<Attempt, Names>,
    /// Names that stay locked although they were released.
    kept: Vec<Names>,
    next: u64,
    tokens: BTreeMap<Attempt, u64>,
    last_token: u64,
    faults: bool,
    /// Whether the attempts have places in the order of a quorum's servers.
    claims: bool,
    /// Whether some locks read names, or want permits.
    sharing: bool,
}

impl<'a> Trace<'a> {
    fn new(lab: &'a mut Lab, seed: u64) -> Self {
        let mut random = Random(seed);
        let pool = ["a", "ab", "b", "c\x01d", "c", "d"];
        let pool = pool[..2 + random.below(5)].iter().map(|name| name.as_bytes().into()).collect();
        let faults = random.one_in(2);
        let claims = random.one_in(3);
        let sharing = !claims && random.one_in(2);
        lab.throughput = random.one_in(4) && !claims;
        Self {
            lab,
            random,
            pool,
            known: BTreeMap::new(),
            remarked: BTreeSet::new(),
            upgrading: BTreeMap::new(),
            kept: Vec::new(),
            next: seed << 20,
            tokens: BTreeMap::new(),
            last_token: 0,
            faults,
            claims,
            sharing,
        }
    }

    fn run(mut self) {
        for _ in 0..STEPS {
            self.step();
            if self.random.one_in(8) {
                self.inspect();
            }
        }
        self.drain();
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..40 => self.lock(),
            40..65 => self.unlock(),
            65..75 => self.poll(),
            75..79 => self.again(),
            79..82 => self.extend(),
            82 => self.raise(),
            83..87 => self.park(),
            87..89 => self.unpark(),
            89..92 => self.notify(),
            92..94 => self.force_release(),
            94 => self.pure(),
            95 => self.adopt(),
            99 if self.sharing => {
                self.remark();
                (0..4).for_each(|_| self.change());
            }
            99 => self.remark(),
            96..98 if self.faults => self.fault(),
            98 if self.faults => self.short(),
            _ => {}
        }
    }

    fn call(&mut self, call: Call) -> ScriptAnswer {
        let (answer, pushes) = self.lab.call(&call);
        match &call {
            Call::Unlock { attempt, .. } | Call::Change { attempt, .. } => drop(self.upgrading.remove(attempt)),
            call if !matches!(answer, ScriptAnswer::Granted { .. }) => {
                asking(call).for_each(|attempt| drop(self.upgrading.remove(&attempt)));
            }
            _ => {}
        }
        let pushed = pushes.into_iter().filter_map(|pushed| match pushed {
            Pushed::Granted { attempt, token } => Some((attempt, token)),
            _ => None,
        });
        let mut granted: Vec<(Attempt, u64)> = pushed.collect();
        for (attempt, _) in &granted {
            if let Some(names) = self.upgrading.remove(attempt) {
                self.known.insert(attempt.clone(), names);
            }
        }
        // 0: it writes nothing.
        if let ScriptAnswer::Granted { token: token @ 1.. } = answer {
            let asking = asking(&call).filter(|attempt| attempt.client.as_ref() != "p");
            granted.extend(asking.map(|attempt| (attempt, token)));
        }
        let changes = matches!(call, Call::Change { .. }).then(|| asking(&call).next()).flatten();
        let writes = |attempt: &Attempt| {
            changes.as_ref() == Some(attempt) || self.known.get(attempt).is_none_or(Names::are_written)
        };
        // Locks that write nothing may have the token of the one before.
        let mut granted: Vec<(u64, bool, Attempt)> =
            granted.into_iter().map(|(attempt, token)| (token, !writes(&attempt), attempt)).collect();
        granted.sort();
        for (token, reads, attempt) in granted {
            self.check_token(attempt, token, reads);
        }
        answer
    }

    /// A grant's token must be known, or larger than all before. One that writes nothing has that of another.
    fn check_token(&mut self, attempt: Attempt, token: u64, reads: bool) {
        if self.tokens.get(&attempt) == Some(&token) {
            return;
        }
        let is_right = token > self.last_token || reads && token == self.last_token;
        assert!(is_right, "{attempt} {token} after {}", self.last_token);
        self.last_token = token;
        if !reads {
            self.tokens.insert(attempt, token);
        }
    }

    fn lock(&mut self) {
        let names = self.some_names();
        self.next += 1;
        let client: Arc<str> = ["x", "y", "z"][self.random.below(3)].into();
        let (wait, nested, ttl) = (!self.random.one_in(5), self.random.one_in(4), self.ttl());
        let attempt = Attempt { client, owner: self.random.below(3) as u64, number: self.number(nested) };
        self.known.insert(attempt.clone(), names.clone());
        self.call(Call::Lock { attempt, names, ttl, wait, nested });
    }

    /// The number of a new attempt. Those of claims do not grow.
    fn number(&mut self, nested: bool) -> u64 {
        match self.claims && !self.random.one_in(10) {
            true => Claim { nested, rank: (self.random.below(1 << 12) as u64) << 24 | self.next & 0xff_ffff, asked: 0 }
                .number(),
            false => self.next,
        }
    }

    /// The same lock again, as after a lost reply.
    fn again(&mut self) {
        let Some((attempt, names)) = self.someone() else { return };
        let (nested, ttl) = (self.random.one_in(4), self.ttl());
        self.call(Call::Lock { attempt, names, ttl, wait: true, nested });
    }

    fn unlock(&mut self) {
        let Some((attempt, names)) = self.someone() else { return };
        let tombstone = self.random.one_in(20);
        if !self.random.one_in(10) {
            self.known.remove(&attempt);
        }
        let rest = (attempt.owner > 0 && !names.are_shared() && self.random.one_in(8)).then_some(LONG);
        if rest.is_some() && self.model_holds(&attempt, &names) {
            self.kept.push(names.clone());
        }
        self.call(Call::Unlock { attempt, names, tombstone, rest });
        if self.random.one_in(3) {
            self.free_kept();
        }
    }

    /// Frees names that nobody holds, though they are locked.
    fn free_kept(&mut self) {
        if let Some(names) = self.kept.pop() {
            self.call(Call::ForceRelease { names, token: None });
        }
    }

    /// Takes a lock over, once or again as after a lost reply; or tries to, from an attempt that does not hold it.
    fn adopt(&mut self) {
        let holder = if self.random.one_in(4) { self.someone() } else { self.holder() };
        let Some((from, names)) = holder.filter(|(_, names)| !names.are_shared()) else { return };
        self.next += 1;
        let client: Arc<str> = ["x", "y", "z"][self.random.below(3)].into();
        let (attempt, ttl) = (Attempt { client, owner: self.random.below(3) as u64, number: self.next }, self.ttl());
        let held = self.model_holds(&from, &names);
        let call = Call::Adopt { attempt: attempt.clone(), names: names.clone(), ttl, from: from.clone().into() };
        let answer = self.call(call.clone());
        assert_eq!(matches!(answer, ScriptAnswer::Granted { .. }), held, "{call:?}: {answer:?}");
        if !held {
            return;
        }
        assert_eq!(self.lab.model.holding(&from), 0, "{from} was handed over");
        self.known.remove(&from);
        self.known.insert(attempt, names);
        if self.random.one_in(2) {
            assert_eq!(self.call(call), answer, "the same token");
        }
    }

    /// Gives a lock other modes, or asks again; or tries to, for an attempt that does not hold all names.
    fn change(&mut self) {
        let mut waiting = self.upgrading.keys().filter(|attempt| self.known.contains_key(attempt));
        let waiting = waiting.nth(self.random.below(4)).cloned();
        let holds = |(attempt, names): &(&Attempt, &Names)| self.model_holds(attempt, names);
        let holders: Vec<Attempt> = self.known.iter().filter(holds).map(|(attempt, _)| attempt.clone()).collect();
        let someone = self.someone().map(|(attempt, _)| attempt);
        let holder = holders.get(self.random.below(holders.len().max(1))).cloned();
        let attempt = if self.random.one_in(8) { someone } else { waiting.or(holder) };
        let Some(attempt) = attempt else { return };
        let before = self.known[&attempt].clone();
        let mut turn = |mode| match mode {
            Mode::Permits { .. } => mode,
            _ if self.random.one_in(2) => Mode::Write,
            _ => Mode::Read,
        };
        let names: Names = before.each().map(|(name, mode)| (name.clone(), turn(mode))).collect();
        let (wait, ttl, late) = (!self.random.one_in(4), self.ttl(), self.random.one_in(8));
        let call = Call::Change {
            attempt: attempt.clone(),
            names: names.clone(),
            ttl,
            wait,
            // Now and then, it was overtaken by a later one.
            seen: self.last_token - if late { 50 } else { 0 },
        };
        let lowered = |(name, mode): (&Name, Mode)| match names.mode_of(name) {
            Some(Mode::Read) => (name.clone(), Mode::Read),
            _ => (name.clone(), mode),
        };
        match self.call(call) {
            ScriptAnswer::NotHeld => {}
            ScriptAnswer::Granted { .. } => drop(self.known.insert(attempt, names)),
            answer => {
                if matches!(answer, ScriptAnswer::Queued { .. }) {
                    self.upgrading.insert(attempt.clone(), names.clone());
                }
                self.known.insert(attempt, before.each().map(lowered).collect());
            }
        }
    }

    fn poll(&mut self) {
        let Some((attempt, names)) = self.someone() else { return };
        let ttl = self.ttl();
        self.call(Call::Poll { attempt, names, ttl, nested: false });
    }

    fn extend(&mut self) {
        let held = (0..3).filter_map(|_| self.someone()).map(|(attempt, names)| (attempt, names, 3 * LONG)).collect();
        self.call(Call::Extend { held });
    }

    /// The counter, and what the others hold, follow the highest token that anybody was told.
    fn raise(&mut self) {
        let Some((attempt, names)) = self.someone().filter(|(_, names)| !names.are_shared()) else { return };
        let floor = self.last_token + self.random.below(50) as u64;
        let raised = Call::Raise { attempt: attempt.clone(), names, ttl: 3 * LONG, floor };
        if self.call(raised) == ScriptAnswer::Extended(vec![true]) && attempt.client.as_ref() != "p" {
            let token = self.tokens.entry(attempt).or_default();
            *token = floor.max(*token);
            self.last_token = self.last_token.max(floor);
        }
    }

    /// Says something about a lock, or no more. The lock need not be there.
    fn remark(&mut self) {
        let Some((attempt, _)) = self.someone() else { return };
        let remark = (!self.random.one_in(4)).then(|| format!("invoice {}", self.next).into());
        match remark {
            Some(_) => self.remarked.insert(attempt.clone()),
            None => self.remarked.remove(&attempt),
        };
        self.call(Call::Remark { attempt, remark, ttl: 3 * LONG });
    }

    /// Looks at everything, and at what those say who are there.
    fn inspect(&mut self) {
        let names = self.everything();
        let ScriptAnswer::Inspected(inspected) = self.call(Call::Inspect { names, remarks: true }) else {
            unreachable!()
        };
        if inspected.iter().any(|name| name.attempts().next().is_some()) {
            self.call(Call::Remarks { inspected });
        }
    }

    fn park(&mut self) {
        let Some((attempt, names)) = self.holder() else { return };
        let ttl = self.ttl();
        self.call(Call::Park { attempt, names, ttl });
    }

    fn unpark(&mut self) {
        let Some((attempt, names)) = self.someone().filter(|(_, names)| !names.are_shared()) else { return };
        let ttl = self.ttl();
        self.call(Call::Unpark { attempt, names, ttl });
    }

    fn notify(&mut self) {
        let Some((attempt, names)) = self.holder() else { return };
        let most = self.random.below(3) as u32;
        self.call(Call::Notify { attempt, names, most });
    }

    fn force_release(&mut self) {
        let names = self.some_names();
        let token = match self.random.below(3) {
            0 => None,
            1 => Some(self.last_token),
            _ => self.holders(&names).first().and_then(|holder| holder.token),
        };
        self.call(Call::ForceRelease { names, token });
    }

    fn pure(&mut self) {
        if self.random.one_in(2) {
            return self.lab.pure_waits();
        }
        let name = self.some_name();
        self.next += 1;
        let attempt = Attempt { client: "p".into(), owner: 0, number: self.next };
        if self.lab.set_nx(&name, &attempt, LONG) {
            self.known.insert(attempt, [name].into());
        }
    }

    fn fault(&mut self) {
        match self.random.below(9) {
            0 | 1 => {
                let name = self.some_name();
                self.lab.delete(&name);
            }
            2 | 3 => {
                if let Some((attempt, _)) = self.someone() {
                    self.lab.expire_waiter(&attempt);
                }
            }
            4 => self.lab.delete_queue(),
            5 => self.lab.delete_waiters(),
            6 => {
                let counter = self.lab.model.counter().unwrap() + 1000;
                self.lab.flush();
                self.lab.set_counter(counter);
            }
            _ => {
                let client: Arc<str> = ["x", "y", "z"][self.random.below(3)].into();
                match self.lab.is_connected(&client) {
                    true => self.lab.disconnect(&client),
                    false => self.lab.connect(&client),
                }
            }
        }
    }

    /// A lock or a waiter that expires soon, and time for it.
    fn short(&mut self) {
        let names = self.some_names();
        self.next += 1;
        let attempt = Attempt { client: "x".into(), owner: 7, number: self.next };
        self.known.insert(attempt.clone(), names.clone());
        if self.random.one_in(2) {
            self.call(Call::Lock { attempt, names, ttl: SHORT, wait: false, nested: false });
        } else {
            self.lab.waiter_ttl = SHORT;
            self.call(Call::Lock { attempt, names, ttl: LONG, wait: true, nested: false });
            self.lab.waiter_ttl = LONG;
        }
        std::thread::sleep(PAUSE);
    }

    /// Everyone releases what they hold. No one may wait forever, and nothing may be left.
    fn drain(&mut self) {
        for client in ["x", "y", "z"] {
            self.lab.connect(&client.into());
        }
        for (attempt, names) in self.known.clone() {
            match attempt.client.as_ref() == "p" || !self.random.one_in(6) {
                true => self.give_up(&attempt),
                false if names.are_shared() => {
                    drop(self.call(Call::Lock { attempt, names, ttl: LONG, wait: true, nested: false }));
                }
                false => drop(self.call(Call::Unpark { attempt, names, ttl: LONG })),
            }
        }
        while !self.kept.is_empty() {
            self.free_kept();
        }
        for attempt in std::mem::take(&mut self.remarked) {
            self.call(Call::Remark { attempt, remark: None, ttl: LONG });
        }
        let mut rounds = 0;
        while !self.known.is_empty() {
            rounds += 1;
            assert!(rounds < 200, "these wait for ever: {:?}", self.known);
            for (attempt, names) in self.known.clone() {
                let answer = self.call(Call::Poll { attempt: attempt.clone(), names, ttl: LONG, nested: false });
                if !matches!(answer, ScriptAnswer::Queued { .. }) {
                    self.give_up(&attempt);
                }
            }
        }
        for (world, key) in (0..self.lab.worlds.len()).flat_map(|world| ["#x:*", "#p"].map(|key| (world, key))) {
            let pattern = [self.lab.worlds[world].keys.prefix(), key.as_bytes()].concat();
            let script = b"for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end";
            self.lab.redis.run(&[b"EVAL", script, b"0", &pattern]);
        }
        let everything = self.everything();
        self.call(Call::ForceRelease { names: everything, token: None });
        if self.faults {
            // A waiter whose record was deleted may have left members for names that no call concerned since.
            self.lab.delete_queue();
            self.lab.delete_waiters();
            self.lab.each(LockKeys::parked, b"DEL", &[]);
            let counter = self.lab.model.counter().unwrap();
            self.lab.model.flush();
            self.lab.model.set_counter(counter);
        }
        self.lab.model.end_tombstones();
        self.lab.assert_nothing_left();
    }

    fn give_up(&mut self, attempt: &Attempt) {
        let names = self.known.remove(attempt).unwrap();
        self.call(Call::Unlock { attempt: attempt.clone(), names, tombstone: false, rest: None });
    }

    fn someone(&mut self) -> Option<(Attempt, Names)> {
        let at = self.random.below(self.known.len().max(1));
        self.known.iter().nth(at).map(|(attempt, names)| (attempt.clone(), names.clone()))
    }

    /// An attempt that has all its names alone, if there is one.
    fn holder(&mut self) -> Option<(Attempt, Names)> {
        for _ in 0..8 {
            let (attempt, names) = self.someone()?;
            if self.model_holds(&attempt, &names) && !names.are_shared() {
                return Some((attempt, names));
            }
        }
        None
    }

    fn model_holds(&self, attempt: &Attempt, names: &Names) -> bool {
        self.lab.model.holding(attempt) == names.len()
    }

    fn holders(&mut self, names: &Names) -> Vec<Holder> {
        let ScriptAnswer::Inspected(inspected) = self.call(Call::Inspect { names: names.clone(), remarks: false })
        else {
            unreachable!()
        };
        inspected.into_iter().filter_map(|name| name.holder).collect()
    }

    fn some_name(&mut self) -> Name {
        self.pool[self.random.below(self.pool.len())].clone()
    }

    fn some_names(&mut self) -> Names {
        let count = 1 + self.random.below(3);
        let mut some: Vec<Name> = (0..count).map(|_| self.some_name()).collect();
        if !self.sharing || self.random.one_in(4) {
            return keys::names(some).unwrap();
        }
        some.sort();
        some.dedup();
        let mut wanted: Vec<(Name, Mode)> = some.into_iter().map(|name| (name, self.mode())).collect();
        if self.random.one_in(3) {
            let pool = POOLS[self.random.below(POOLS.len())].as_bytes().into();
            let limit = 2 + self.random.below(8) as u32 / 7;
            let mode = Mode::Permits { count: 1 + self.random.below(2) as u32, limit };
            match self.random.one_in(2) {
                true => wanted = vec![(pool, mode)],
                false => wanted.insert(0, (pool, mode)),
            }
        }
        wanted.into_iter().collect()
    }

    fn mode(&mut self) -> Mode {
        if self.random.one_in(3) {
            Mode::Write
        } else {
            Mode::Read
        }
    }

    fn everything(&self) -> Names {
        let pools = POOLS.iter().map(|pool| Name::from(pool.as_bytes()));
        pools.chain(self.pool.iter().cloned()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn ttl(&mut self) -> Duration {
        [LONG, 2 * LONG, 3 * LONG][self.random.below(3)]
    }
}

/// The attempts that a call may grant.
fn asking(call: &Call) -> impl Iterator<Item = Attempt> {
    match call {
        Call::Lock { attempt, .. }
        | Call::Poll { attempt, .. }
        | Call::Unpark { attempt, .. }
        | Call::Change { attempt, .. }
        | Call::Adopt { attempt, .. } => Some(attempt.clone()),
        _ => None,
    }
    .into_iter()
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}
