//! Runs operations for the client: by waiting, or in the event loop of the calling coroutine.

use pinyon_cache::operations::{
    Answer, AnyOperation, Beside, BorrowedKey, Everywhere, Initial, Operation, Request, SentData, SentKey,
    ServerCommand, Single, Tagging,
};
use pinyon_cache::spare::Reused;
use pinyon_cache::{blocking, Data};
use pinyon_proto::{Direction, Mode};
use pyo3::prelude::*;

use super::{Client, Returned};
use crate::answers::{failed, leased, of_servers, read};
use crate::callers::Unseen;
use crate::errors::{checked, exception, ErrorKind};
use crate::host::PythonHost;
use crate::keys::{sent, Scratch};
use crate::loops::Caller;
use crate::reading::Reader;
use crate::shared::{Awaited, Becomes, Driver};
use crate::stored::Stored;
use crate::supplied::{KeptKey, LoopOperation, LoopValues, ThreadValues};
use crate::tags::tagging;
use crate::ttl::StoredTtl;
use crate::value_bytes::{Encoded, Kept};
use crate::waiter::Waiter;

/// A request about a key, with the value to send and the default to return instead of a miss.
pub(super) struct Call<'c, 'py> {
    pub(super) key: &'c Bound<'py, PyAny>,
    pub(super) request: Request,
    pub(super) value: Option<&'c Encoded<'c>>,
    pub(super) default: Option<&'c Bound<'py, PyAny>>,
    /// The tags of the value that is stored, or made.
    pub(super) tags: Option<Tagging>,
}

/// A request that has been begun.
pub(super) enum Begun<'py> {
    /// Its result.
    Over(Bound<'py, PyAny>),
    Waits(Caller<'py, Driver>, Waiter),
}

impl<'py> Begun<'py> {
    /// Returns the result, or what a coroutine must await.
    #[inline(always)]
    pub(super) fn end(self) -> Returned<'py> {
        match self {
            Self::Over(answer) => Ok(answer),
            Self::Waits(caller, waiter) => caller.wait(waiter),
        }
    }
}

impl Client {
    /// Runs a request about a key. Returns its result, or what a coroutine must await.
    pub(super) fn run<'py>(&self, call: Call<'_, 'py>) -> Returned<'py> {
        self.begin(&call)?.end()
    }

    pub(super) fn get_from_server<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<&Bound<'py, PyAny>>,
    ) -> Returned<'py> {
        self.run(Call { key, request: Request::Get(Beside::Nothing), value: None, default, tags: None })
    }

    /// Runs a request without a data block.
    pub(crate) fn ask<'py>(&self, key: &Bound<'py, PyAny>, request: Request) -> Returned<'py> {
        self.run(Call { key, request, value: None, default: None, tags: None })
    }

    #[cold]
    fn initial(&self, py: Python<'_>, number: u64, ttl: StoredTtl<'_, '_>) -> PyResult<Initial> {
        let (ttl, client_flags) = (ttl.or(self.default_ttl)?, self.codec.counter_flags(py, number)?);
        Ok(Initial { number, ttl, client_flags })
    }

    /// Has a frame of its own, like everything before a wait, because a waiting greenlet keeps a copy of the stack
    /// below it.
    #[inline(never)]
    fn begin<'py>(&self, call: &Call<'_, 'py>) -> PyResult<Begun<'py>> {
        self.check_open(call.key.py())?;
        if self.both.is_some() {
            return self.begin_on_both(call);
        }
        match self.loops.get(call.key.py())? {
            None => self.execute(call).map(Begun::Over),
            Some(_) => self.submit(call),
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_on_both<'py>(&self, call: &Call<'_, 'py>) -> PyResult<Begun<'py>> {
        let Some(both) = &self.both else { unreachable!("this client serves one pool") };
        both.ask(call).map(Begun::Over)
    }

    #[inline(never)]
    pub(super) fn begin_store<'py>(
        &self,
        mode: Mode,
        key: &Bound<'py, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: StoredTtl<'_, '_>,
        cas: Option<u64>,
        tags: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Begun<'py>> {
        let ttl = ttl.or(self.default_ttl)?;
        let (encoded, client_flags) = self.codec.encode_for(mode, value)?;
        let request = Request::Store { mode, size: encoded.bytes()?.len(), client_flags, ttl, cas, returns_cas: false };
        let tags = match tags {
            None => None,
            Some(tags) => tagging(&self.directory, tags)?,
        };
        self.begin(&Call { key, request, value: Some(&encoded), default: None, tags })
    }

    /// Begins to add to an integer, or to subtract from it. Creates it if it is missing and `initial` is given.
    #[inline(never)]
    pub(super) fn begin_calculation<'py>(
        &self,
        direction: Direction,
        key: &Bound<'py, PyAny>,
        delta: i128,
        initial: Option<u64>,
        ttl: StoredTtl<'_, '_>,
    ) -> PyResult<Begun<'py>> {
        let initial = match initial {
            Some(initial) => Some(self.initial(key.py(), initial, ttl)?),
            None => ttl.check().map(|()| None)?,
        };
        let request = checked(key.py(), Request::arithmetic(direction, delta, initial))?;
        self.begin(&Call { key, request, value: None, default: None, tags: None })
    }

    #[inline(never)]
    fn execute<'py>(&self, &Call { key, request, value, default, ref tags }: &Call<'_, 'py>) -> Returned<'py> {
        let py = key.py();
        let mut scratch = Scratch::default();
        let sent = sent(&self.keys, self.routing, key, &mut scratch)?;
        let data = value.map_or(Ok(Data::None), Encoded::data)?;
        let values = ThreadValues { py, codec: &self.codec };
        let mut single = Single::new(request, sent, data, values, self.policy);
        if tags.is_some() {
            single.tag(tags.clone());
        }
        self.carry_out(py, &mut single)?;
        match single.take_answer() {
            Ok(Answer::Lease(found)) => {
                let unseen = Unseen::new(&found, &self.directory, self.policy, || single.key().owned());
                leased(py, *found, unseen, |stored| self.finish(&single, stored, key))
            }
            Ok(answer) => read(py, answer, default, |stored| match stored {
                Stored::Made(value) => Ok(Some(value)),
                rest => self.finish(&single, rest, key),
            }),
            Err(why) => Err(failed(py, why)),
        }
    }

    /// Makes the value of a request that is over.
    #[cold]
    fn finish<D: SentData>(
        &self,
        single: &Single<BorrowedKey<'_>, D, ThreadValues<'_, '_>>,
        rest: Stored,
        key: &Bound<'_, PyAny>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let passes_over = single.request().passes_over_unreadable(self.policy);
        let value = self.reader(single.name(), passes_over).read(rest, key);
        self.watcher.tell(key.py(), &self.directory)?;
        value
    }

    /// What makes the values of an operation that is over.
    pub(crate) fn reader(&self, command: &'static str, passes_over: bool) -> Reader<'_> {
        Reader { codec: &self.codec, directory: &self.directory, command, passes_over }
    }

    fn submit<'py>(&self, &Call { key, request, value, default, ref tags }: &Call<'_, 'py>) -> PyResult<Begun<'py>> {
        let py = key.py();
        let kept = self.with_key(key, |sent| KeptKey::new(*sent, key))?;
        let data = value.map_or(Ok(Kept::Nothing), Encoded::keep)?;
        let caller = self.caller(py)?;
        let waiter = caller.waiter()?;
        let memory = caller.driver.get().spare().take();
        let mut single =
            Reused::new(Single::new(request, kept, data, LoopValues(self.codec.clone()), self.policy), memory);
        if tags.is_some() {
            single.tag(tags.clone());
        }
        let becomes = Becomes::Answer { default: default.map(|default| default.clone().unbind()) };
        start(py, caller, AnyOperation::Single(single), becomes, waiter)
    }

    /// Passes the key, as it is sent, to `work`.
    #[inline(always)]
    pub(crate) fn with_key<T>(
        &self,
        key: &Bound<'_, PyAny>,
        work: impl FnOnce(&BorrowedKey<'_>) -> PyResult<T>,
    ) -> PyResult<T> {
        let mut scratch = Scratch::default();
        work(&sent(&self.keys, self.routing, key, &mut scratch)?)
    }

    fn caller<'py>(&self, py: Python<'py>) -> PyResult<Caller<'py, Driver>> {
        let Some(loops) = self.loops.known() else { unreachable!("clients that wait by themselves have no driver") };
        loops.caller(py)
    }

    /// Checks what would make a call fail before it has taken keys from an iterable.
    pub(crate) fn check_usable(&self, py: Python<'_>) -> PyResult<()> {
        self.check_open(py)?;
        self.loops.get(py)?.map_or(Ok(()), |loops| loops.caller(py).map(drop))
    }

    /// The calling coroutine, which must be in the loop of this driver.
    pub(crate) fn caller_of<'py>(&self, driver: &Bound<'py, Driver>) -> PyResult<Caller<'py, Driver>> {
        let caller = self.caller(driver.py())?;
        match caller.driver.is(driver) {
            true => Ok(caller),
            false => {
                let other = "the batch was opened in another event loop; open one in each loop";
                Err(exception(driver.py(), ErrorKind::UsageError, other))
            }
        }
    }

    /// Whether its methods return what coroutines must await.
    pub(crate) fn is_awaited(&self) -> bool {
        self.loops.known().is_some()
    }

    /// Runs an operation by waiting.
    #[inline]
    pub(crate) fn carry_out(&self, py: Python<'_>, operation: &mut impl Operation) -> PyResult<()> {
        let ran = blocking::run(&self.directory, &PythonHost(py), operation);
        self.watcher.tell(py, &self.directory)?;
        ran
    }

    /// Runs an operation in the event loop of the calling coroutine. Returns what the coroutine must await.
    pub(crate) fn run_in_loop<'py>(
        &self,
        py: Python<'py>,
        operation: LoopOperation,
        becomes: Becomes,
    ) -> Returned<'py> {
        let caller = self.caller(py)?;
        let waiter = caller.waiter()?;
        start(py, caller, operation, becomes, waiter)?.end()
    }

    /// Asks every server.
    pub(crate) fn ask_servers<'py>(&self, py: Python<'py>, command: ServerCommand) -> Returned<'py> {
        self.check_open(py)?;
        if let Some(both) = &self.both {
            return both.ask_servers(py, command);
        }
        let mut everywhere = Everywhere::new(command);
        if self.loops.get(py)?.is_some() {
            return self.run_in_loop(py, everywhere.into(), Becomes::OfServers);
        }
        self.carry_out(py, &mut everywhere)?;
        of_servers(py, everywhere)
    }
}

fn start<'py>(
    py: Python<'py>,
    caller: Caller<'py, Driver>,
    operation: LoopOperation,
    becomes: Becomes,
    waiter: Waiter,
) -> PyResult<Begun<'py>> {
    caller.driver.get().start(py, operation, Awaited::Outcome { waiter: waiter.clone_ref(py), becomes })?;
    Ok(Begun::Waits(caller, waiter))
}
