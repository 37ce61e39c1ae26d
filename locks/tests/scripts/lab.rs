//! The functions, the scripts and the model, side by side.
//!
//! In the tests, `x`, `y` and so on are clients; `x2` is owner 2 of `x`, and `x.5` is its attempt 5.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pinyon_locks::call::{Attempt, Call, FirstHolder, Mode, Name, Names, Pushed, ScriptAnswer};
use pinyon_locks::keys::{self, Declared, LockKeys};
use pinyon_locks::script::{self, ScriptError, Via};
use pinyon_proto::resp::{Command, Value};

use crate::model::Model;
use crate::redis::{Connection, Monitor, Redis};

pub const LONG: Duration = Duration::from_secs(100);
/// What passes while a test waits, but not before that on a busy machine.
pub const SHORT: Duration = Duration::from_secs(3);
/// How much the times of two servers may differ.
const TOLERANCE: Duration = Duration::from_secs(5);
const BEGINNING_OF_2024: Duration = Duration::from_secs(1_704_067_200);

/// Waits until what lasts for [`SHORT`] is over, also by the servers' clocks.
pub fn outlast_short() {
    std::thread::sleep(SHORT + SHORT / 4);
}

pub struct Lab {
    pub redis: Connection,
    pub model: Model,
    pub worlds: Vec<World>,
    pub waiter_ttl: Duration,
    pub throughput: bool,
    pub calls: usize,
    started: (Instant, Duration),
    connected: BTreeMap<Arc<str>, bool>,
    asked: BTreeMap<Attempt, Names>,
    server: Redis,
}

/// A namespace, and the way its functions are called.
pub struct World {
    pub keys: LockKeys,
    pub via: Via,
}

impl Lab {
    pub fn new() -> Self {
        let server = Redis::start();
        let mut redis = server.connect();
        let loaded = redis.run(&script::loading_functions().slices());
        assert!(!matches!(loaded, Value::Error(_)), "{loaded:?}");
        let scripts = script::loading_scripts();
        let replies = redis.run_all(&scripts.iter().map(Command::slices).collect::<Vec<_>>());
        let shas = Via::scripts(&replies).unwrap();
        let worlds = [
            ("functions", Via::functions(), Declared::Few),
            ("scripts", shas.clone(), Declared::Few),
            ("functions-declared", Via::functions(), Declared::All),
            ("scripts-declared", shas, Declared::All),
        ];
        let worlds = worlds.map(|(namespace, via, declared)| {
            let keys = LockKeys::new(namespace).unwrap().declaring(declared);
            World { keys, via }
        });
        let since_2024 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() - BEGINNING_OF_2024;
        let mut lab = Self {
            redis,
            model: Model::new(LONG, false),
            worlds: worlds.into(),
            waiter_ttl: LONG,
            throughput: false,
            calls: 0,
            started: (Instant::now(), since_2024),
            connected: BTreeMap::new(),
            asked: BTreeMap::new(),
            server,
        };
        lab.subscribe(b"SUBSCRIBE", LockKeys::freed);
        lab.set_counter(u64::try_from(since_2024.as_millis()).unwrap() * 4096 + (1 << 40));
        lab
    }

    /// Declares keys so from now on, in every world.
    pub fn declare(&mut self, declared: Declared) {
        self.worlds.iter_mut().for_each(|world| world.keys = world.keys.declaring(declared));
    }

    pub fn monitor(&self) -> Monitor {
        self.server.monitor()
    }

    /// The servers' clock: the time since the beginning of 2024.
    pub fn now(&self) -> Duration {
        self.started.1 + self.started.0.elapsed()
    }

    /// Asks the servers as a user with all permissions except those that these ACL rules remove.
    pub fn call_restricted(&mut self, rules: &[&[u8]], call: &Call) -> Vec<Result<ScriptAnswer, ScriptError>> {
        let user: [&[u8]; 8] = [b"ACL", b"SETUSER", b"user", b"on", b">password", b"~*", b"&*", b"+@all"];
        self.redis.run(&[&user, rules].concat());
        let mut restricted = self.server.connect();
        restricted.run(&[b"AUTH", b"user", b"password"]);
        let unrestricted = std::mem::replace(&mut self.redis, restricted);
        let (answers, _) = self.call_servers(call);
        self.redis = unrestricted;
        answers
    }

    /// Asks all three. Returns their answer and pushes, which must agree.
    pub fn call(&mut self, call: &Call) -> (ScriptAnswer, Vec<Pushed>) {
        self.calls += 1;
        if let Call::Lock { attempt, names, .. }
        | Call::Park { attempt, names, .. }
        | Call::Unpark { attempt, names, .. } = call
        {
            self.asked.insert(attempt.clone(), names.clone());
            if !self.connected.contains_key(&attempt.client) {
                self.connect(&attempt.client);
            }
        }
        let (answers, pushes) = self.call_servers(call);
        (self.model.waiter_ttl, self.model.throughput) = (self.waiter_ttl, self.throughput);
        let expected = self.model.call(self.now(), call);
        let expected_pushes = in_order(self.model.take_pushes().into_iter().map(|push| push.pushed));
        for (index, answer) in answers.into_iter().enumerate() {
            let answer = answer.unwrap_or_else(|error| panic!("{call:?}: {error}"));
            assert!(alike(&answer, &expected), "{call:?}\nworld {index}: {answer:?}\nmodel: {expected:?}");
            assert_eq!(in_order(pushes[index].clone()), expected_pushes, "{call:?}, world {index}");
        }
        self.check_grants(&expected_pushes);
        (expected, expected_pushes)
    }

    pub fn call_servers(&mut self, call: &Call) -> (Vec<Result<ScriptAnswer, ScriptError>>, Vec<Vec<Pushed>>) {
        let mut commands = Vec::new();
        for world in &self.worlds {
            let mut command = Command::default();
            script::encode(call, &world.keys, self.waiter_ttl, self.throughput, &world.via, &mut command);
            commands.push(command);
        }
        let replies = self.redis.run_all(&commands.iter().map(Command::slices).collect::<Vec<_>>());
        let answers = replies.into_iter().map(|reply| script::decode(call, reply)).collect();
        (answers, self.take_pushes())
    }

    fn take_pushes(&mut self) -> Vec<Vec<Pushed>> {
        let mut pushes = vec![Vec::new(); self.worlds.len()];
        for push in self.redis.pushes.drain(..) {
            for (world, pushes) in self.worlds.iter().zip(&mut pushes) {
                pushes.extend(script::pushed(&world.keys, &push));
            }
        }
        pushes
    }

    /// Checks that each pushed grant comes with all of the requested names and the same token.
    fn check_grants(&mut self, pushes: &[Pushed]) {
        for pushed in pushes {
            let Pushed::Granted { attempt, token } = pushed else { continue };
            let value = format!("{attempt} {token} ");
            let is_it = |held: &Value| matches!(held, Value::Bytes(held) if held.starts_with(value.as_bytes()));
            let names = self.asked[attempt].clone();
            for values in self.values(&names) {
                let mut written = names.each().zip(&values).filter(|((_, mode), _)| *mode == Mode::Write);
                assert!(written.all(|(_, value)| is_it(value)), "{attempt} {token} does not hold all: {values:?}");
            }
            for (name, mode) in names.each().filter(|(_, mode)| *mode != Mode::Write) {
                let parts: Vec<String> = match mode {
                    Mode::Permits { count, .. } => (1..=count).map(|part| format!("{attempt} {part}")).collect(),
                    _ => vec![attempt.to_string()],
                };
                for part in parts {
                    let scores = self.each(|keys| keys.lock(name), b"ZSCORE", &[part.as_bytes()]);
                    assert!(!scores.contains(&Value::Null), "{attempt} {token} does not share all: {names:?}");
                }
            }
        }
    }

    /// The values of the names in each world.
    pub fn values(&mut self, names: &Names) -> Vec<Vec<Value>> {
        let keys = |world: &World| names.iter().map(|name| world.keys.lock(name)).collect::<Vec<_>>();
        let keys: Vec<Vec<Vec<u8>>> = self.worlds.iter().map(keys).collect();
        let command = |keys: &'_ Vec<Vec<u8>>| -> Vec<Vec<u8>> { [&[b"MGET".to_vec()], &keys[..]].concat() };
        let commands: Vec<Vec<Vec<u8>>> = keys.iter().map(command).collect();
        let slices: Vec<Vec<&[u8]>> =
            commands.iter().map(|parts| parts.iter().map(|part| &part[..]).collect()).collect();
        let array = |reply| match reply {
            Value::Array(values) => values,
            other => panic!("{other:?}"),
        };
        self.redis.run_all(&slices).into_iter().map(array).collect()
    }

    pub fn all_keys(&mut self, world: usize) -> Vec<Vec<u8>> {
        let pattern = [self.worlds[world].keys.prefix(), b"*"].concat();
        match self.redis.run(&[b"KEYS", &pattern]) {
            Value::Array(keys) => keys.into_iter().map(|key| bytes(key).expect("a key")).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// Runs a command in each world. Its second word is a key of that world.
    pub fn each(&mut self, key: impl Fn(&LockKeys) -> Vec<u8>, command: &[u8], arguments: &[&[u8]]) -> Vec<Value> {
        let keys: Vec<Vec<u8>> = self.worlds.iter().map(|world| key(&world.keys)).collect();
        keys.iter().map(|key| self.redis.run(&[&[command, key], arguments].concat())).collect()
    }

    /// Subscribes. The answers to these commands are pushes.
    fn subscribe(&mut self, command: &[u8], channel: impl Fn(&LockKeys) -> Vec<u8>) {
        for world in &self.worlds {
            self.redis.run_all(&[vec![command, &channel(&world.keys)]]);
        }
        self.redis.pushes.clear();
    }

    pub fn connect(&mut self, client: &Arc<str>) {
        self.connected.insert(client.clone(), true);
        self.model.connect(client);
        self.subscribe(b"SUBSCRIBE", |keys| keys.channel(client));
    }

    pub fn disconnect(&mut self, client: &Arc<str>) {
        self.connected.insert(client.clone(), false);
        self.model.disconnect(client);
        self.subscribe(b"UNSUBSCRIBE", |keys| keys.channel(client));
    }

    pub fn is_connected(&self, client: &Arc<str>) -> bool {
        self.connected.get(client).copied().unwrap_or(false)
    }

    pub fn set_counter(&mut self, counter: u64) {
        self.model.set_counter(counter);
        self.each(LockKeys::counter, b"SET", &[counter.to_string().as_bytes()]);
    }

    pub fn delete(&mut self, name: &Name) {
        self.model.delete(name);
        self.each(|keys| keys.lock(name), b"DEL", &[]);
    }

    pub fn delete_queue(&mut self) {
        self.model.delete_queue();
        self.each(LockKeys::queue, b"DEL", &[]);
    }

    pub fn delete_waiters(&mut self) {
        self.model.delete_waiters();
        self.each(LockKeys::waiters, b"DEL", &[]);
    }

    pub fn flush(&mut self) {
        self.model.flush();
        self.redis.run(&[b"FLUSHALL"]);
    }

    /// Ends a waiter's ttl.
    pub fn expire_waiter(&mut self, attempt: &Attempt) {
        self.model.expire_waiter(attempt);
        let field = attempt.to_string().into_bytes();
        let records = self.each(LockKeys::waiters, b"HGET", &[&field]);
        for (world, record) in records.into_iter().enumerate() {
            let Some(mut record) = bytes(record) else { continue };
            record[..16].fill(b'0');
            let key = self.worlds[world].keys.waiters();
            self.redis.run(&[b"HSET", &key, &field, &record]);
        }
    }

    /// Takes a name like a client of the pure handler.
    pub fn set_nx(&mut self, name: &Name, attempt: &Attempt, ttl: Duration) -> bool {
        let taken = self.model.set_nx(self.now(), name, attempt, ttl);
        let (value, ttl) = (attempt.to_string(), ttl.as_millis().to_string());
        let arguments: [&[u8]; 4] = [value.as_bytes(), b"NX", b"PX", ttl.as_bytes()];
        for reply in self.each(|keys| keys.lock(name), b"SET", &arguments) {
            assert_eq!(reply != Value::Null, taken);
        }
        taken
    }

    pub fn pure_waits(&mut self) {
        self.model.pure_waits(self.now(), LONG);
        self.each(LockKeys::pure_waiters, b"SET", &[b"1", b"PX", b"100000"]);
    }

    /// Checks that only the counter is left, in the model too.
    pub fn assert_nothing_left(&mut self) {
        assert!(self.model.is_idle() && self.model.remarked() == 0, "{:?}", self.model);
        for world in 0..self.worlds.len() {
            let counter = self.worlds[world].keys.counter();
            assert_eq!(self.all_keys(world).iter().map(|key| shown(key)).collect::<Vec<_>>(), [shown(&counter)]);
        }
    }

    pub fn lock(&mut self, who: &str, on: &str) -> ScriptAnswer {
        self.call(&lock(who, on, true, false)).0
    }

    pub fn nested(&mut self, who: &str, on: &str) -> ScriptAnswer {
        self.call(&lock(who, on, true, true)).0
    }

    pub fn try_lock(&mut self, who: &str, on: &str) -> ScriptAnswer {
        self.call(&lock(who, on, false, false)).0
    }

    /// Unlocks. Returns the attempts that were pushed a grant.
    pub fn unlock(&mut self, who: &str, on: &str) -> Vec<String> {
        let call = Call::Unlock { attempt: attempt(who), names: names(on), tombstone: false, rest: None };
        woken(&self.call(&call).1)
    }

    pub fn poll(&mut self, who: &str, on: &str) -> ScriptAnswer {
        self.call(&Call::Poll { attempt: attempt(who), names: names(on), ttl: LONG, nested: false }).0
    }

    /// The holder of the name.
    pub fn holder(&mut self, name: &str) -> String {
        let ScriptAnswer::Inspected(names) = self.call(&Call::Inspect { names: names(name), remarks: false }).0 else {
            unreachable!()
        };
        names[0].holder.as_ref().map_or(String::new(), |holder| who(&holder.attempt))
    }

    /// The waiters for the name, in order.
    pub fn waiting(&mut self, name: &str) -> Vec<String> {
        let ScriptAnswer::Inspected(names) = self.call(&Call::Inspect { names: names(name), remarks: false }).0 else {
            unreachable!()
        };
        names[0].waiting.iter().map(who).collect()
    }
}

pub fn lock(who: &str, on: &str, wait: bool, nested: bool) -> Call {
    Call::Lock { attempt: attempt(who), names: names(on), ttl: LONG, wait, nested }
}

/// `x` is the client `x` with owner 0, `x2` the same with owner 2. `x2.5` is its attempt 5; the default is 1.
pub fn attempt(who: &str) -> Attempt {
    let (owner, number) = who.split_once('.').unwrap_or((who, "1"));
    let (client, owner) = owner.split_at(1);
    Attempt { client: client.into(), owner: owner.parse().unwrap_or(0), number: number.parse().unwrap() }
}

pub fn who(attempt: &Attempt) -> String {
    let owner = if attempt.owner == 0 { String::new() } else { attempt.owner.to_string() };
    let number = if attempt.number == 1 { String::new() } else { format!(".{}", attempt.number) };
    format!("{}{owner}{number}", attempt.client)
}

/// `a` is written, `r:a` is read, and `1/3:a` is one of three permits.
pub fn names(words: &str) -> Names {
    if !words.contains(':') {
        return keys::names(words.split(' ')).unwrap();
    }
    let one = |word: &str| match word.split_once(':') {
        None => (word.as_bytes().into(), Mode::Write),
        Some(("r", name)) => (name.as_bytes().into(), Mode::Read),
        Some((permits, name)) => {
            let (count, limit) = permits.split_once('/').expect("a count and a limit");
            let mode = Mode::Permits { count: count.parse().unwrap(), limit: limit.parse().unwrap() };
            (pinyon_locks::pool(name.as_bytes()).unwrap(), mode)
        }
    };
    let mut wanted: Vec<(Name, Mode)> = words.split(' ').map(one).collect();
    wanted.sort();
    wanted.into_iter().collect()
}

pub fn woken(pushes: &[Pushed]) -> Vec<String> {
    let granted = |pushed: &Pushed| match pushed {
        Pushed::Granted { attempt, .. } => Some(who(attempt)),
        _ => None,
    };
    pushes.iter().filter_map(granted).collect()
}

pub fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::Bytes(bytes) => Some(bytes.into()),
        _ => None,
    }
}

fn shown(key: &[u8]) -> String {
    key.escape_ascii().to_string()
}

pub fn is_granted(answer: &ScriptAnswer) -> bool {
    matches!(answer, ScriptAnswer::Granted { .. })
}

pub fn is_queued(answer: &ScriptAnswer) -> bool {
    matches!(answer, ScriptAnswer::Queued { .. })
}

pub fn token(answer: ScriptAnswer) -> u64 {
    match answer {
        ScriptAnswer::Granted { token } => token,
        other => panic!("not granted: {other:?}"),
    }
}

fn alike_holders(one: Option<&FirstHolder>, other: Option<&FirstHolder>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return one.is_none() == other.is_none() };
    // Who shares a name may end at the same time as another.
    let share = one.holder.token.is_none() && other.holder.token.is_none();
    near(&one.age, &other.age) && (one.holder == other.holder || share)
}

/// Whether two answers agree, except for a small difference in time.
fn alike(one: &ScriptAnswer, other: &ScriptAnswer) -> bool {
    match (one, other) {
        (ScriptAnswer::Queued { pttl: one }, ScriptAnswer::Queued { pttl: other }) => near(one, other),
        (ScriptAnswer::Busy { pttl: one, first }, ScriptAnswer::Busy { pttl: other, first: by }) => {
            near(one, other) && alike_holders(first.as_deref(), by.as_deref())
        }
        (ScriptAnswer::Inspected(one), ScriptAnswer::Inspected(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|(one, other)| {
                    near(&one.pttl, &other.pttl)
                        && near(&one.age, &other.age)
                        && (one.holder == other.holder || !one.sharing.is_empty())
                        && sorted(&one.sharing) == sorted(&other.sharing)
                        && one.waiting == other.waiting
                        && one.permits == other.permits
                })
        }
        _ => one == other,
    }
}

/// Those who shared a name that was released by force are told in any order.
fn in_order(pushes: impl IntoIterator<Item = Pushed>) -> Vec<Pushed> {
    let mut pushes: Vec<Pushed> = pushes.into_iter().collect();
    pushes.sort_by_key(|pushed| match pushed {
        Pushed::ForceReleased { attempt } => (false, Some(attempt.clone())),
        _ => (true, None),
    });
    pushes
}

fn sorted(attempts: &[Attempt]) -> Vec<&Attempt> {
    let mut sorted: Vec<_> = attempts.iter().collect();
    sorted.sort();
    sorted
}

fn near(one: &Option<Duration>, other: &Option<Duration>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.abs_diff(*other) < TOLERANCE,
        _ => one == other,
    }
}
