//! A cache as users of this front end see it. Each method makes an operation, lets a [`Way`] carry it out, and converts
//! the outcome.

use std::sync::Arc;
use std::time::Duration;

use pinyon_cache::dialect::{Dialect, Packing, Plain, INTEGER};
use pinyon_cache::directory::Directory;
use pinyon_cache::events::Event;
use pinyon_cache::metrics::ServerMetrics;
use pinyon_cache::operations::{
    self, Answer, AnyOperation, Beside, Bytes, Change, Changed, Compared, Direction, Everywhere, Fact, Failures, Fetch,
    FoundKey, Initial, Item, KeyRules, Keys, Mode, OwnedData, OwnedKey, Policy, Request, ServerCommand, ServerLines,
    Single, Unsuccessful, Win,
};
use pinyon_cache::settings::{CacheSettings, ViewSettings};
use pinyon_cache::ttl::Ttl;
use pinyon_net::settings::{Given, NamedSettings};
use pinyon_net::Error;

use crate::raised::Raised;

/// Any operation of this host. Values stay bytes until the operation is over: see [`Cache::read`].
pub type Operation = AnyOperation<OwnedKey, Block, operations::AsBytes>;

/// A value's bytes until they are sent: copied if this host may change or free its memory, shared otherwise.
pub type Block = OwnedData;

/// A command of a quiet batch that was not carried out.
pub type NotDone = Unsuccessful<OwnedKey>;

/// A command of a quiet batch.
pub struct Command {
    pub key: OwnedKey,
    pub request: Request,
    pub block: Block,
}

/// A way to carry out operations: by waiting, or in an event loop.
pub trait Way {
    fn carry_out(&mut self, operation: Operation) -> Operation;

    /// Carries out commands without individual replies. Returns those that failed.
    fn carry_out_quietly(&mut self, commands: Vec<Command>, policy: Policy) -> Result<Vec<NotDone>, Error>;

    /// Lets the caller pause for this time; others continue.
    fn rest(&mut self, time: Duration);

    fn close(&mut self);
}

pub struct Cache {
    directory: Arc<Directory>,
    pub keys: KeyRules,
    pub packing: Packing,
    pub policy: Policy,
    pub way: Box<dyn Way>,
}

impl Cache {
    /// `settings`: names and values. All values are text in this host. `make`: makes the way to carry out operations,
    /// with this many connections to each server.
    pub fn new(
        settings: &[(&str, &str)],
        make: impl FnOnce(Arc<Directory>, usize) -> Box<dyn Way>,
    ) -> Result<Self, Raised> {
        let mut known = CacheSettings::default();
        for (name, value) in settings {
            known.set(name, Given::Untyped(value))?;
        }
        let parts = known.build(true)?;
        let directory = Arc::new(parts.directory);
        let way = make(directory.clone(), parts.connections);
        let (packing, policy) = (parts.packing, parts.policy);
        Ok(Self { directory, keys: parts.keys, packing, policy, way })
    }

    /// Calls `look` with a view of this cache that has another policy.
    pub fn using<T>(&mut self, view: &[(&str, &str)], look: impl FnOnce(&mut Self) -> T) -> Result<T, Raised> {
        let mut settings = ViewSettings::default();
        for (name, value) in view {
            settings.set(name, Given::Untyped(value))?;
        }
        let own = self.policy;
        self.policy = settings.changed(own)?;
        let seen = look(self);
        self.policy = own;
        Ok(seen)
    }

    /// The values that were found, and the failure of each failed server.
    pub fn get_many(&mut self, keys: &[&str], cas: bool) -> Result<(Vec<FoundKey<Plain>>, Failures), Raised> {
        let fetch = Fetch::new(self.keys_of(keys)?, Request::Get(Beside::token(cas)), operations::AsBytes, self.policy);
        let Operation::Fetch(fetch) = self.way.carry_out(fetch.into()) else { unreachable!("it was a fetch") };
        let fetched = fetch.finish();
        let mut found = Vec::new();
        for FoundKey { index, value, cas } in fetched.found {
            found.push(FoundKey { index, value: self.read(value)?, cas });
        }
        Ok((found, fetched.failures))
    }

    pub fn set_many(&mut self, items: &[(&str, Plain)], ttl: i64) -> Result<Vec<bool>, Raised> {
        let keys: Vec<&str> = items.iter().map(|(key, _)| *key).collect();
        let mut blocks = Vec::new();
        for (_, value) in items {
            let (bytes, client_flags) = written(&self.packing, value)?;
            blocks.push(operations::DataBlock { size: bytes.len(), data: Block::Copied(bytes), client_flags });
        }
        self.change(Change::store(self.keys_of(&keys)?, blocks, sent(ttl), self.policy))
    }

    pub fn delete_many(&mut self, keys: &[&str]) -> Result<Vec<bool>, Raised> {
        self.change(Change::each(self.keys_of(keys)?, Request::Delete, self.policy))
    }

    /// Stores items without waiting for each answer. Returns those that were not stored.
    pub fn set_quietly(&mut self, mode: Mode, items: &[(&str, Plain)]) -> Result<Vec<(usize, String)>, Raised> {
        let mut commands = Vec::new();
        for (key, value) in items {
            let (bytes, client_flags) = written(&self.packing, value)?;
            let request = Store { mode, client_flags, ttl: 0, cas: None }.request(bytes.len());
            let key = OwnedKey::new(&self.keys, key.as_bytes())?;
            commands.push(Command { key, request, block: Block::Copied(bytes) });
        }
        let unsuccessful = self.way.carry_out_quietly(commands, self.policy)?;
        Ok(unsuccessful.into_iter().map(|one| (one.number, one.why.to_string())).collect())
    }

    /// Asks every server.
    pub fn everywhere(&mut self, command: ServerCommand) -> Result<ServerLines, Raised> {
        let asked = self.way.carry_out(Everywhere::new(command).into());
        let Operation::Everywhere(everywhere) = asked else { unreachable!("it was asked everywhere") };
        Ok(everywhere.finish()?)
    }

    /// The names of the servers that hold the key, in turn.
    pub fn servers_of(&self, key: &str) -> Vec<String> {
        let fleet = self.directory.known();
        let servers = fleet.candidates(&self.keys.routed(key.as_bytes()), self.policy.failover);
        fleet.names(servers)
    }

    pub fn metrics(&self) -> Vec<ServerMetrics> {
        self.directory.known().metrics().collect()
    }

    /// Takes note that the old value of a key stays in use.
    pub fn kept_stale(&self, key: &str, reason: &str) {
        self.directory.kept_stale(&self.keys.routed(key.as_bytes()), self.policy.failover, reason);
    }

    /// The events since the last call.
    pub fn events(&self) -> Vec<Event> {
        self.directory.take_events()
    }

    pub fn rest(&mut self, time: Duration) {
        self.way.rest(time);
    }

    pub fn close(&mut self) {
        self.way.close();
        self.directory.close();
    }

    fn change(&mut self, change: Change<Block>) -> Result<Vec<bool>, Raised> {
        let Operation::Change(change) = self.way.carry_out(change.into()) else { unreachable!("it was a change") };
        let Changed { done, mut failures } = change.finish();
        match failures.raised() {
            Some(error) => Err(error.into()),
            None => Ok(done),
        }
    }

    fn keys_of(&self, given: &[&str]) -> Result<Keys, Raised> {
        let mut keys = Keys::with_capacity(given.len());
        given.iter().try_for_each(|key| keys.push(&self.keys, key.as_bytes()))?;
        Ok(keys)
    }

    fn read(&self, bytes: Bytes) -> Result<Plain, Raised> {
        read(&self.packing, bytes)
    }
}

impl Calls for Cache {
    fn ask(&mut self, key: &str, request: Request, block: Block) -> Result<Answer<Plain>, Raised> {
        let key = OwnedKey::new(&self.keys, key.as_bytes())?;
        let single = Single::new(request, key, block, operations::AsBytes, self.policy);
        let Operation::Single(mut single) = self.way.carry_out(single.into()) else {
            unreachable!("it was about one key")
        };
        let passes_over = request.passes_over_unreadable(self.policy);
        single.take_answer()?.read(|bytes| match self.read(bytes) {
            Err(_) if passes_over => Ok(None),
            read => read.map(Some),
        })
    }

    fn packing(&self) -> &Packing {
        &self.packing
    }
}

/// The calls about one key, of one pool or of two that are [migrating](crate::migrating).
pub trait Calls {
    fn ask(&mut self, key: &str, request: Request, block: Block) -> Result<Answer<Plain>, Raised>;

    /// How values are written.
    fn packing(&self) -> &Packing;

    fn get(&mut self, key: &str) -> Result<Option<Plain>, Raised> {
        self.value(key, Request::Get(Beside::Nothing))
    }

    /// The value and its CAS token.
    fn gets(&mut self, key: &str) -> Result<Option<(Plain, u64)>, Raised> {
        self.value_and_cas(key, Request::Get(Beside::Cas))
    }

    fn get_and_touch(&mut self, key: &str, ttl: i64) -> Result<Option<Plain>, Raised> {
        self.value(key, Request::GetAndTouch { ttl: sent(ttl), cas: false })
    }

    fn gets_and_touch(&mut self, key: &str, ttl: i64) -> Result<Option<(Plain, u64)>, Raised> {
        self.value_and_cas(key, Request::GetAndTouch { ttl: sent(ttl), cas: true })
    }

    /// The value, and the seconds until it expires, if it does.
    fn get_with_ttl(&mut self, key: &str) -> Result<Option<(Plain, Option<u32>)>, Raised> {
        match self.ask(key, Request::Get(Beside::Ttl), Block::Nothing)? {
            Answer::ValueAnd(value, Fact::Ttl(ttl)) => Ok(Some((value, ttl))),
            _ => Ok(None),
        }
    }

    fn touch(&mut self, key: &str, ttl: i64) -> Result<bool, Raised> {
        self.is_done(key, Request::Touch { ttl: sent(ttl) })
    }

    /// Stores a value. `mode`: the condition.
    fn store(&mut self, mode: Mode, key: &str, value: &Plain, ttl: i64) -> Result<bool, Raised> {
        if let Mode::Append | Mode::Prepend = mode {
            self.packing().check_append()?;
        }
        let (bytes, client_flags) = written(self.packing(), value)?;
        let store = Store { mode, client_flags, ttl, cas: None };
        Ok(self.ask(key, store.request(bytes.len()), Block::Copied(bytes))? == Answer::Done(true))
    }

    fn set(&mut self, key: &str, value: &Plain, ttl: i64) -> Result<bool, Raised> {
        self.store(Mode::Set, key, value, ttl)
    }

    /// Stores bytes without copying them. They must not change meanwhile.
    fn set_pinned(&mut self, key: &str, bytes: Arc<Vec<u8>>) -> Result<bool, Raised> {
        let store = Store { mode: Mode::Set, client_flags: 0, ttl: 0, cas: None };
        Ok(self.ask(key, store.request(bytes.len()), Block::Shared(bytes))? == Answer::Done(true))
    }

    /// Stores a value if the item still has this token.
    fn compare_and_set(&mut self, key: &str, value: &Plain, cas: u64, ttl: i64) -> Result<Compared, Raised> {
        let (bytes, client_flags) = written(self.packing(), value)?;
        let store = Store { mode: Mode::Set, client_flags, ttl, cas: Some(cas) };
        match self.ask(key, store.request(bytes.len()), Block::Copied(bytes))? {
            Answer::Compared(compared) => Ok(compared),
            other => unreachable!("a store under a token comes to {other:?}"),
        }
    }

    fn delete(&mut self, key: &str) -> Result<bool, Raised> {
        self.is_done(key, Request::Delete)
    }

    /// Marks the value stale and keeps it for `ttl` seconds. The next caller that asks for a lease wins it.
    fn mark_stale(&mut self, key: &str, ttl: i64) -> Result<bool, Raised> {
        self.is_done(key, Request::MarkStale { ttl: Some(sent(ttl)), cas: None })
    }

    /// Adds to a number or subtracts from it. Creates a missing one with `initial`, if given.
    fn calculate(
        &mut self,
        direction: Direction,
        key: &str,
        delta: u64,
        initial: Option<u64>,
    ) -> Result<Option<u64>, Raised> {
        let request = Request::Arithmetic { direction, delta, initial: initial.map(beginning) };
        let answer = self.ask(key, request, Block::Nothing)?;
        Ok(if let Answer::Number(number) = answer { Some(number) } else { None })
    }

    fn metadata(&mut self, key: &str) -> Result<Option<Item>, Raised> {
        match self.ask(key, Request::Metadata, Block::Nothing)? {
            Answer::Metadata(item) => Ok(Some(*item)),
            _ => Ok(None),
        }
    }

    /// The value, and the lease if it was won. `lease`: its duration in seconds.
    fn lease(&mut self, key: &str, lease: i32) -> Result<(Option<Plain>, Option<Win>), Raised> {
        match self.ask(key, Request::Lease { lease, recache: 0 }, Block::Nothing)? {
            Answer::Lease(found) => {
                let win = found.win();
                Ok((found.value, win))
            }
            other => unreachable!("a lease comes to {other:?}"),
        }
    }

    fn give_back(&mut self, key: &str, win: Win) -> Result<bool, Raised> {
        self.is_done(key, Request::GiveBack(win))
    }

    fn value(&mut self, key: &str, request: Request) -> Result<Option<Plain>, Raised> {
        match self.ask(key, request, Block::Nothing)? {
            Answer::Value(value) => Ok(Some(value)),
            _ => Ok(None),
        }
    }

    fn value_and_cas(&mut self, key: &str, request: Request) -> Result<Option<(Plain, u64)>, Raised> {
        match self.ask(key, request, Block::Nothing)? {
            Answer::ValueAnd(value, Fact::Cas(cas)) => Ok(Some((value, cas))),
            _ => Ok(None),
        }
    }

    fn is_done(&mut self, key: &str, request: Request) -> Result<bool, Raised> {
        Ok(self.ask(key, request, Block::Nothing)? == Answer::Done(true))
    }
}

/// A store, apart from the size of its value.
struct Store {
    mode: Mode,
    client_flags: u32,
    ttl: i64,
    cas: Option<u64>,
}

impl Store {
    fn request(self, size: usize) -> Request {
        let Self { mode, client_flags, ttl, cas } = self;
        Request::Store { mode, size, client_flags, ttl: sent(ttl), cas, returns_cas: false }
    }
}

/// The bytes and client flags of a value.
pub fn written(packing: &Packing, value: &Plain) -> Result<(Vec<u8>, u32), Raised> {
    let (bytes, flags) = packing.dialect().encode(value)?;
    Ok(packing.pack(&bytes, flags)?.unwrap_or((bytes, flags)))
}

/// The value with these bytes and client flags.
pub fn read(packing: &Packing, Bytes { bytes, client_flags }: Bytes) -> Result<Plain, Raised> {
    let dialect: Dialect = packing.dialect();
    if !dialect.is_compressed(client_flags) {
        return Ok(dialect.decode(client_flags, &bytes)?);
    }
    let bytes = packing.unpack(client_flags, &bytes)?;
    Ok(dialect.decode(dialect.inside(client_flags), &bytes)?)
}

/// A ttl in seconds, converted for memcached.
pub fn sent(ttl: i64) -> i32 {
    Ttl::from_seconds(ttl).0
}

/// A counter that never expires and reads as an integer.
fn beginning(number: u64) -> Initial {
    Initial { number, ttl: 0, client_flags: INTEGER }
}
