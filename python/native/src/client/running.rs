//! Runs operations for the client: by waiting, or in the event loop of the coroutine that asks.

use pinyon_core::blocking;
use pinyon_core::operations::{AnyOperation, BorrowedKey, Everywhere, Operation, Request, ServerCommand, Single};
use pinyon_core::spare::Reused;
use pinyon_core::Data;
use pinyon_proto::Mode;
use pyo3::prelude::*;

use super::Client;
use crate::answers::{answered, failed};
use crate::awaited::{Awaited, Becomes, LoopOperation};
use crate::encoded::{Encoded, Kept};
use crate::errors::checked;
use crate::host::PythonHost;
use crate::keys::key_bytes;
use crate::loops::Caller;
use crate::shared::Driver;
use crate::supplied::{KeptKey, LoopValues, ThreadValues};
use crate::ttl::Ttl;
use crate::waiter::Waiter;

/// A request that has been begun.
enum Begun<'py> {
    /// What it came to.
    Over(Bound<'py, PyAny>),
    Waits(Caller<'py, Driver>, Waiter),
}

impl Client {
    /// Runs a request about a key, and returns what it comes to in Python, or what a coroutine waits for.
    pub(crate) fn run<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        request: Request,
        value: Option<&Encoded<'_>>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let begun = self.begin(key, request, value, default)?;
        self.end(begun)
    }

    /// Runs a request without a data block.
    pub(crate) fn ask<'py>(&self, key: &Bound<'py, PyAny>, request: Request) -> PyResult<Bound<'py, PyAny>> {
        self.run(key, request, None, None)
    }

    pub(crate) fn store<'py>(
        &self,
        mode: Mode,
        key: &Bound<'py, PyAny>,
        value: &Bound<'_, PyAny>,
        Ttl(ttl): Ttl,
        cas: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let begun = self.begin_store(mode, key, value, ttl, cas)?;
        self.end(begun)
    }

    /// In a frame of its own, and so is all that is done before a wait: a greenlet that waits keeps a copy of the stack
    /// below it.
    #[inline(never)]
    fn begin<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        request: Request,
        value: Option<&Encoded<'_>>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Begun<'py>> {
        self.check_open(key.py())?;
        match self.loops.get() {
            None => self.execute(key, request, value, default).map(Begun::Over),
            Some(_) => self.submit(key, request, value, default),
        }
    }

    #[inline(never)]
    fn begin_store<'py>(
        &self,
        mode: Mode,
        key: &Bound<'py, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: i32,
        cas: Option<u64>,
    ) -> PyResult<Begun<'py>> {
        let (encoded, client_flags) = self.codec.encode_for(mode, value)?;
        let request = Request::Store { mode, size: encoded.bytes()?.len(), client_flags, ttl, cas };
        self.begin(key, request, Some(&encoded), None)
    }

    #[inline(always)]
    fn end<'py>(&self, begun: Begun<'py>) -> PyResult<Bound<'py, PyAny>> {
        match begun {
            Begun::Over(answer) => Ok(answer),
            Begun::Waits(caller, waiter) => caller.wait(waiter, self.submits_only),
        }
    }

    #[inline(never)]
    fn execute<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        request: Request,
        value: Option<&Encoded<'_>>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = key.py();
        let bytes = key_bytes(key)?;
        let mut scratch = Vec::new();
        let quoted = self.routing.quoted(key)?;
        let sent = checked(py, BorrowedKey::new(&self.keys, bytes, &mut scratch))?.asked_about(quoted.as_deref());
        let data = value.map_or(Ok(Data::None), Encoded::data)?;
        let values = ThreadValues { py, codec: &self.codec };
        let mut single = Single::new(request, sent, data, values, self.policy);
        self.carry_out(py, &mut single)?;
        match single.take_answer() {
            Ok(answer) => answered(py, answer, default),
            Err(why) => Err(failed(py, why, key)),
        }
    }

    fn submit<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        request: Request,
        value: Option<&Encoded<'_>>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Begun<'py>> {
        let py = key.py();
        let mut scratch = Vec::new();
        let bytes = key_bytes(key)?;
        let quoted = self.routing.quoted(key)?;
        let sent = checked(py, BorrowedKey::new(&self.keys, bytes, &mut scratch))?;
        let kept = KeptKey::new(sent.asked_about(quoted.as_deref()), key)?;
        let data = value.map_or(Ok(Kept::Nothing), Encoded::keep)?;
        let caller = self.caller(py)?;
        let single = Single::new(request, kept, data, LoopValues(self.codec.clone()), self.policy);
        let single = Reused::new(single, caller.driver.get().spare().take());
        let becomes = Becomes::Answer { default: default.map(Bound::unbind) };
        start(py, caller, AnyOperation::Single(single), becomes)
    }

    fn caller<'py>(&self, py: Python<'py>) -> PyResult<Caller<'py, Driver>> {
        let Some(loops) = self.loops.get() else { unreachable!("clients that wait by themselves have no driver") };
        loops.caller(py)
    }

    /// Runs an operation by waiting.
    #[inline]
    pub(crate) fn carry_out(&self, py: Python<'_>, operation: &mut impl Operation) -> PyResult<()> {
        let ran = blocking::run(&self.directory, &PythonHost(py), operation);
        self.watcher.tell(py, &self.directory)?;
        ran
    }

    /// Runs an operation in the event loop of the coroutine that asks: returns what it waits for.
    pub(crate) fn run_in_loop<'py>(
        &self,
        py: Python<'py>,
        operation: LoopOperation,
        becomes: Becomes,
    ) -> PyResult<Bound<'py, PyAny>> {
        let begun = start(py, self.caller(py)?, operation, becomes)?;
        self.end(begun)
    }

    /// Asks every server.
    pub(crate) fn ask_servers<'py>(&self, py: Python<'py>, command: ServerCommand) -> PyResult<Bound<'py, PyAny>> {
        self.check_open(py)?;
        let becomes = match command {
            ServerCommand::Version => Becomes::Versions,
            ServerCommand::Stats(_) => Becomes::Statistics,
            ServerCommand::FlushAll { .. } => Becomes::Nothing,
        };
        let mut everywhere = Everywhere::new(command);
        if self.loops.get().is_some() {
            return self.run_in_loop(py, AnyOperation::Everywhere(everywhere.into()), becomes);
        }
        self.carry_out(py, &mut everywhere)?;
        becomes.of_servers(py, everywhere)
    }

    /// Asks every server for its statistics of a kind.
    pub(crate) fn ask_statistics<'py>(&self, py: Python<'py>, kind: &str) -> PyResult<Bound<'py, PyAny>> {
        let command = checked(py, ServerCommand::stats(kind))?;
        self.ask_servers(py, command)
    }
}

fn start<'py>(
    py: Python<'py>,
    caller: Caller<'py, Driver>,
    operation: LoopOperation,
    becomes: Becomes,
) -> PyResult<Begun<'py>> {
    let waiter = caller.waiter()?;
    caller.driver.get().start(py, operation, Awaited { waiter: waiter.clone_ref(py), becomes })?;
    Ok(Begun::Waits(caller, waiter))
}
