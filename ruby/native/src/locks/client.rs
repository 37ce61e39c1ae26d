//! `Pinyon::Locks`' native half.

use std::sync::Arc;

use magnus::value::ReprValue;
use magnus::{
    function, method, Error, Integer, Module, Object, RArray, RHash, RModule, RString, Ruby, Symbol, TryConvert, Value,
};
use pinyon_locks::settings::{LockParts, LockSettings, LockTerms, OnFailure, UsualLock};
use pinyon_locks::{Asked, ByTag, Grant, LockOperation, LockRequest, Names, RedisCommand, StatusQuestion, Ticket};
use pinyon_net::settings::waiting_time;

use super::answers;
use super::drivers::{self, Caller, Driver, Drivers};
use super::held::Held;
use super::rate::Rate;
use super::wanted::Wanted;
use crate::define_class;
use crate::errors::{checked, unsupported};
use crate::events::Listener;
use crate::host::RubyHost;
use crate::keys::with_bytes;
use crate::objects::truth;
use crate::settings::changed;
use crate::ttl::seconds;

/// Locks on one Redis or Valkey server.
#[magnus::wrap(class = "Pinyon::Native::Locks", free_immediately, frozen_shareable)]
pub(crate) struct Locks {
    clients: ByTag<Drivers>,
    usual: UsualLock,
}

pub(super) fn define(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    let class = define_class::<Locks>(ruby, native, "Locks")?;
    class.define_singleton_method("new", function!(Locks::new, 1))?;
    class.define_method("ask", method!(Locks::ask, 3))?;
    class.define_method("adopt", method!(Locks::adopt, 2))?;
    class.define_method("release_all", method!(Locks::release_all, 1))?;
    class.define_method("release_at_exit", method!(Locks::release_at_exit, 0))?;
    class.define_method("tell_limit", method!(Locks::tell_limit, 3))?;
    class.define_method("permits_taken", method!(Locks::permits_taken, 1))?;
    class.define_method("inspect_names", method!(Locks::inspect_names, 2))?;
    class.define_method("force_release", method!(Locks::force_release, 2))?;
    class.define_method("rate", method!(Locks::rate, 4))?;
    class.define_method("execute", method!(Locks::execute, 1))?;
    class.define_method("warn", method!(Locks::warn, 1))?;
    class.define_method("metrics", method!(Locks::metrics, 0))?;
    class.define_method("source", method!(Locks::source, 0))?;
    class.define_method("server", method!(Locks::server, 0))?;
    class.define_method("prefix", method!(Locks::prefix, 0))?;
    class.define_method("hash_tags", method!(Locks::hash_tags, 0))?;
    class.define_method("closed?", method!(Locks::is_closed, 0))?;
    class.define_method("close", method!(Locks::close, 0))
}

impl Locks {
    fn new(ruby: &Ruby, settings: RHash) -> Result<Self, Error> {
        let settings = changed(ruby, LockSettings::default(), settings)?;
        let LockParts { setup, usual, names_have_tags } = checked(ruby, settings.build())?;
        Ok(Self { clients: ByTag::new(drivers::new(setup), names_have_tags), usual })
    }

    /// A Hash with Symbols as keys.
    fn metrics(ruby: &Ruby, this: &Self) -> Result<RHash, Error> {
        answers::metrics(ruby, &this.clients.main().settings().options.observed.metrics())
    }

    /// Which events are this client's.
    fn source(&self) -> u64 {
        self.clients.main().settings().options.observed.source()
    }

    /// Makes what acquires names. Its holder has it before they are granted, so no interrupt can come between.
    /// `shared`: what it does not write, as [`Wanted::of`] takes it.
    fn ask(ruby: &Ruby, this: &Self, given: RArray, shared: Option<RArray>, terms: RArray) -> Result<Held, Error> {
        let (names, client) = match shared {
            None => (lock_names(ruby, given)?, this.of(ruby, given)?),
            Some(shared) => {
                let wanted = Wanted::of(ruby, given, shared)?;
                (
                    wanted.names(ruby, this.clients.limits())?,
                    this.with_tag(|| tag_of(ruby, &wanted.given().collect::<Vec<_>>()))?,
                )
            }
        };
        let note = note_in(ruby, terms)?;
        asking(ruby, client, checked(ruby, this.terms(ruby, terms, note.as_deref())?.request(names))?)
    }

    /// Makes what takes over a lock that was handed over. Returns its names, too.
    fn adopt(ruby: &Ruby, this: &Self, ticket: RString, terms: RArray) -> Result<(RArray, Held), Error> {
        let ticket = with_bytes(ruby, ticket.as_value(), "a ticket is a String", Ticket::parse)?;
        let ticket = checked(ruby, ticket)?;
        let names = ruby.ary_from_iter(ticket.names.iter().map(|name| ruby.enc_str_new(&**name, ruby.utf8_encoding())));
        let client = this.of(ruby, names)?;
        let note = note_in(ruby, terms)?;
        let request = checked(ruby, this.terms(ruby, terms, note.as_deref())?.adopting(&ticket, client.settings()))?;
        Ok((names, asking(ruby, client, request)?))
    }

    /// Releases what the threads of this process hold, or the fibers of the caller's scheduler. Returns how many locks.
    fn release_all(ruby: &Ruby, this: &Self, timeout: Value) -> Result<usize, Error> {
        let wait = waiting(ruby, timeout)?;
        if matches!(drivers::caller(ruby, this.clients.main())?.driver, Driver::Threads(_)) {
            return this.clients.release_all(&RubyHost, wait);
        }
        let mut all = 0;
        for client in this.clients.all() {
            let driver = drivers::caller(ruby, &client)?.driver;
            all += usize::try_convert(drivers::run(ruby, &driver, LockOperation::ReleaseAll { wait })?)?;
        }
        Ok(all)
    }

    /// Releases what the threads of this process hold, at its end.
    fn release_at_exit(ruby: &Ruby, this: &Self) -> Result<usize, Error> {
        let _ = ruby;
        this.clients.release_all(&RubyHost, None)
    }

    /// Answers a question about names: `:each`, `:is_locked`, `:first_owner` or `:waiting`.
    fn inspect_names(ruby: &Ruby, this: &Self, given: RArray, question: Symbol) -> Result<Value, Error> {
        let question = checked(ruby, StatusQuestion::named(&question.name()?))?;
        let asked = checked(ruby, Asked::new(&texts(ruby, given)?))?;
        this.run(ruby, given, LockOperation::Inspect { asked, question })
    }

    /// Remembers how many permits a pool has.
    fn tell_limit(ruby: &Ruby, this: &Self, pool: Value, count: Value, limit: Value) -> Result<(), Error> {
        Wanted::of_pool(ruby, pool, count, limit)?.names(ruby, this.clients.limits()).map(drop)
    }

    /// How many permits of a pool are taken, and its limit; nil if none is taken.
    fn permits_taken(ruby: &Ruby, this: &Self, pool: Value) -> Result<Value, Error> {
        let pool = name_bytes(ruby, pool)?;
        let asked = checked(ruby, Asked::pool(&pool))?;
        let client = this.with_tag(|| tag_of(ruby, &[&pool]))?;
        let operation = LockOperation::Inspect { asked, question: StatusQuestion::Permits };
        drivers::run(ruby, &drivers::caller(ruby, &client)?.driver, operation)
    }

    /// Takes the names away from their holders. Returns how many were held.
    fn force_release(ruby: &Ruby, this: &Self, given: RArray, token: Option<u64>) -> Result<Value, Error> {
        this.run(ruby, given, LockOperation::ForceRelease { names: lock_names(ruby, given)?, token })
    }

    /// Makes a rate of a name. A `burst` of nil is the limit.
    fn rate(ruby: &Ruby, this: &Self, name: Value, limit: Value, per: Value, burst: Value) -> Result<Rate, Error> {
        let client = this.of(ruby, ruby.ary_new_from_values(&[name]))?;
        Rate::new(ruby, &name_bytes(ruby, name)?, [limit, per, burst], client, this.usual.timeout)
    }

    /// Sends a command on the connection of the locks, and returns what the server answers.
    fn execute(ruby: &Ruby, this: &Self, parts: RArray) -> Result<Value, Error> {
        let mut command = RedisCommand::default();
        for part in parts {
            push_part(ruby, &mut command, part)?;
        }
        this.run(ruby, ruby.ary_new(), LockOperation::Execute { command })
    }

    /// Leaves a warning about these locks, as an event.
    fn warn(&self, line: String) {
        self.clients.main().warn(&line);
    }

    fn server(&self) -> String {
        self.clients.main().settings().server.to_string()
    }

    fn prefix(ruby: &Ruby, this: &Self) -> RString {
        ruby.str_from_slice(this.clients.main().settings().keys.prefix())
    }

    fn hash_tags(ruby: &Ruby, this: &Self) -> Symbol {
        ruby.to_symbol(if this.clients.names_have_tags() { "names" } else { "namespace" })
    }

    fn is_closed(&self) -> bool {
        self.clients.main().is_closed()
    }

    fn close(&self) {
        self.clients.close().iter().for_each(|client| drivers::close(client));
    }
}

impl Locks {
    fn run(&self, ruby: &Ruby, names: RArray, operation: LockOperation<Listener>) -> Result<Value, Error> {
        drivers::run(ruby, &drivers::caller(ruby, &*self.of(ruby, names)?)?.driver, operation)
    }

    /// The client of these names: this one, or that of the names' own hash tag.
    fn of(&self, ruby: &Ruby, names: RArray) -> Result<Arc<Drivers>, Error> {
        let tag = || {
            let names = texts(ruby, names)?;
            tag_of(ruby, &names.iter().map(Vec::as_slice).collect::<Vec<_>>())
        };
        self.with_tag(tag)
    }

    fn with_tag(&self, tag: impl FnOnce() -> Result<Option<Vec<u8>>, Error>) -> Result<Arc<Drivers>, Error> {
        self.clients.of(tag, |main, tag| drivers::new(main.settings().tagged(tag)))
    }

    /// The terms of one lock: its ttl, timeout, renew, max_hold and reentrant. nil is what is usual. Few have at_least and
    /// on_failure, too.
    fn terms<'n>(&self, ruby: &Ruby, given: RArray, note: Option<&'n str>) -> Result<LockTerms<'n>, Error> {
        let rare = given.len() > 5;
        let on_failure: Option<Value> = if rare { given.pop()? } else { None };
        let at_least: Option<Value> = if rare { given.pop()? } else { None };
        let [ttl, timeout, renew, max_hold, reentrant] = given.to_array::<Option<Value>, 5>()?;
        let time = |given: Option<Value>| given.map(|given| seconds(ruby, given)).transpose();
        let flag = |given: Option<Value>, usual: bool| given.map_or(usual, |given| truth(given) != Some(false));
        Ok(LockTerms {
            ttl: time(ttl)?.unwrap_or(self.usual.ttl),
            timeout: time(timeout)?.unwrap_or(self.usual.timeout),
            renew: flag(renew, true),
            max_hold: time(max_hold)?,
            reentrant: flag(reentrant, self.usual.reentrant),
            at_least: time(at_least)?,
            on_failure: on_failure.map_or(Ok(OnFailure::Raise), |word| failing(ruby, word))?,
            note,
        })
    }
}

/// What becomes of a caller while the servers are away: a Symbol.
fn failing(ruby: &Ruby, word: Value) -> Result<OnFailure, Error> {
    match Symbol::from_value(word) {
        Some(word) => checked(ruby, OnFailure::named(&word.name()?)),
        None => Err(unsupported(ruby, "on_failure is :raise or :proceed", word)),
    }
}

/// What acquires the names of a request for the calling thread or fiber.
fn asking(ruby: &Ruby, client: Arc<Drivers>, mut request: LockRequest) -> Result<Held, Error> {
    let Caller { driver, owner } = drivers::caller(ruby, &client)?;
    request.owner = owner;
    let (relock, grant) = (request.wait.unwrap_or_default(), Grant::of(&request));
    Ok(Held::new(pinyon_locks::Held::new(grant, driver, relock, client), request))
}

/// Takes the note from the terms of a lock, whose last it is. Few have one.
fn note_in(ruby: &Ruby, terms: RArray) -> Result<Option<String>, Error> {
    let note: Option<Value> = if terms.len() > 5 { terms.pop()? } else { None };
    let Some(note) = note else { return Ok(None) };
    let text = RString::from_value(note).ok_or_else(|| unsupported(ruby, "a note is a String", note))?;
    Ok(Some(text.conv_enc(ruby.utf8_encoding())?.to_string()?))
}

/// How long to wait; `None` for ever.
pub(super) fn waiting(ruby: &Ruby, timeout: Value) -> Result<Option<std::time::Duration>, Error> {
    match timeout.is_nil() {
        true => Ok(None),
        false => checked(ruby, waiting_time("timeout", seconds(ruby, timeout)?)).map(Some),
    }
}

fn lock_names(ruby: &Ruby, given: RArray) -> Result<Names, Error> {
    checked(ruby, pinyon_locks::names(texts(ruby, given)?))
}

fn tag_of(ruby: &Ruby, names: &[&[u8]]) -> Result<Option<Vec<u8>>, Error> {
    Ok(checked(ruby, pinyon_locks::common_tag(names))?.map(<[u8]>::to_vec))
}

pub(super) fn texts(ruby: &Ruby, given: RArray) -> Result<Vec<Vec<u8>>, Error> {
    given.into_iter().map(|name| name_bytes(ruby, name)).collect()
}

pub(super) fn name_bytes(ruby: &Ruby, name: Value) -> Result<Vec<u8>, Error> {
    with_bytes(ruby, name, "names of locks are Strings or Symbols", <[u8]>::to_vec)
}

/// Adds text, bytes or a number in Redis's notation.
fn push_part(ruby: &Ruby, command: &mut RedisCommand, part: Value) -> Result<(), Error> {
    let number = Integer::from_value(part).is_some() || magnus::Float::from_value(part).is_some();
    match number {
        true => command.push(part.to_r_string()?.to_string()?),
        false => command.push(name_bytes(ruby, part)?),
    };
    Ok(())
}
