//! Commands on one key: driven by waiting, or given to the event loop's driver.

use pinyon_core::blocking::{execute, known, Failure, Receive};
use pinyon_core::session::Destination;
use pinyon_core::{Data, Reply};
use pinyon_proto::{Head, Mode};
use pyo3::prelude::*;

use crate::client::Client;
use crate::errors::{exception, invalid_key, stored_under};
use crate::host::PythonHost;
use crate::keys::key_bytes;
use crate::loops::Caller;
use crate::operations::{SentKey, Single, Target};
use crate::requests::{Answer, Request, Shape};
use crate::shared::Driver;
use crate::ttl::Ttl;
use crate::values::{destination, Codec, Encoded, Kept};
use crate::waiter::Waiter;

struct Receiver<'c, 'py> {
    py: Python<'py>,
    codec: &'c Codec,
    answer: Answer,
}

impl Receive for Receiver<'_, '_> {
    fn reply(&mut self, reply: Reply<'_>) {
        self.answer.take(self.py, self.codec, reply);
    }

    fn destination(&mut self, head: &Head) -> Box<dyn Destination> {
        destination(self.py, self.codec, head)
    }
}

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
        shape: Shape,
        value: Option<&Encoded<'_>>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let begun = self.begin(key, request, shape, value, default)?;
        self.end(begun)
    }

    /// In a frame of its own, and so is all that is done before a wait: a greenlet that waits keeps a copy of the stack
    /// below it.
    #[inline(never)]
    fn begin<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        request: Request,
        shape: Shape,
        value: Option<&Encoded<'_>>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Begun<'py>> {
        self.check_open(key.py())?;
        match self.loops.get() {
            None => self.execute(key, request, shape, value, default).map(Begun::Over),
            Some(_) => self.submit(key, request, shape, value, default),
        }
    }

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
        shape: Shape,
        value: Option<&Encoded<'_>>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = key.py();
        let bytes = key_bytes(key)?;
        let mut scratch = Vec::new();
        let wire = self.keys.wire(bytes, &mut scratch).map_err(|error| invalid_key(py, &error))?;
        let data = value.map_or(Ok(Data::None), Encoded::data)?;
        let mut receiver = Receiver { py, codec: &self.codec, answer: Answer::new(shape) };
        let command = request.command(wire);
        let routed = self.routing.key(key, bytes)?;
        let host = PythonHost(py);
        let executed = known(&self.directory, &host)
            .map_err(|failure| failure.before(command.name()))
            .and_then(|fleet| execute(&fleet, &host, &routed, self.policy.failover, &command, &data, &mut receiver));
        self.watcher.tell(py, &self.directory)?;
        match executed {
            Ok(()) => {
                let answer = receiver.answer.finish(py, default);
                answer.map_err(|error| stored_under(py, error, command.name(), key))
            }
            Err(Failure::Error(error)) if self.policy.forgives(&error) => Answer::lost(shape).finish(py, default),
            Err(failure) => Err(exception(py, failure)),
        }
    }

    fn submit<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        request: Request,
        shape: Shape,
        value: Option<&Encoded<'_>>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Begun<'py>> {
        let py = key.py();
        let caller = self.caller(py)?;
        let mut scratch = Vec::new();
        let bytes = key_bytes(key)?;
        let wire = self.keys.wire(bytes, &mut scratch).map_err(|error| invalid_key(py, &error))?;
        let waiter = caller.waiter()?;
        let single = Single {
            codec: self.codec.clone(),
            key: SentKey::new(wire.wire(), wire.is_base64(), key, &self.routing.key(key, bytes)?)?,
            request,
            data: value.map_or(Ok(Kept::Nothing), Encoded::keep)?,
            alone: false,
            answer: Answer::new(shape),
            policy: self.policy,
            longest_ttl: None,
            default: default.map(Bound::unbind),
            target: Target::Waiter(waiter.clone_ref(py)),
        };
        caller.driver.get().start(py, single)?;
        Ok(Begun::Waits(caller, waiter))
    }

    /// Runs a request without a data block.
    pub(crate) fn ask<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        request: Request,
        shape: Shape,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.run(key, request, shape, None, None)
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
        let shape = if cas.is_some() { Shape::Compared } else { Shape::Done };
        self.begin(key, request, shape, Some(&encoded), None)
    }
}
