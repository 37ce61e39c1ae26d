//! Connects a machine of the core to an event loop's driver in Python, for clients whose coroutines share connections.

use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use pinyon_net::credentials::Question;
use pinyon_net::driven::{Driven, InUse, Lent, LoopHost, LoopMachine};
use pinyon_net::Address;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::pyclass::boolean_struct::True;
use pyo3::{PyClass, PyClassInitializer};

use crate::credentials::CredentialsQuestion;
use crate::errors::{exception, ErrorKind};
use crate::waiter::{Answer, Coroutines, Waiter, Waiting};

/// A machine whose outcomes coroutines wait for.
pub(crate) trait Machine: Driven + Send + Sized {
    /// What [`Self::settle`] needs besides the outcomes.
    type Context;

    /// Passes outcomes to [`LoopMachine::answered`]. Nothing is locked meanwhile.
    fn settle(event_loop: &EventLoop<Self>, py: Python<'_>, finished: Vec<Self::Finished>) -> PyResult<()>;

    /// The waiter for something that is over, if it is one coroutine.
    fn waiter(finished: &Self::Finished) -> Option<&Waiter>;

    /// The method of `pinyon.aio` that began it, for a warning; none if it need not be awaited.
    fn method(finished: &Self::Finished) -> Option<String>;

    fn traverse(context: &Self::Context, visit: &PyVisit<'_>) -> Result<(), PyTraverseError>;

    /// Reports events. Nothing is locked meanwhile.
    fn report(_event_loop: &EventLoop<Self>, _py: Python<'_>) -> PyResult<()> {
        Ok(())
    }
}

/// A machine, driven by one event loop.
pub(crate) struct EventLoop<M: Machine> {
    pub(crate) machine: LoopMachine<M, Waiter, Answer>,
    context: M::Context,
    methods: DriverMethods,
    coroutines: Coroutines,
}

/// The methods of a driver, as documented in `pinyon._loop_driver.LoopDriver`.
#[derive(FromPyObject)]
struct DriverMethods {
    end_turn: Py<PyAny>,
    end_turn_from_outside: Py<PyAny>,
    watch: Py<PyAny>,
    watch_anew: Py<PyAny>,
    forget: Py<PyAny>,
    forget_inherited: Py<PyAny>,
    resolve: Py<PyAny>,
    ask: Py<PyAny>,
    wake_in: Py<PyAny>,
}

impl<M: Machine> EventLoop<M> {
    /// `driver`: the driver in Python.
    pub(crate) fn new(driver: &Bound<'_, PyAny>, machine: M, context: M::Context) -> PyResult<Self> {
        let (methods, coroutines) = (driver.extract()?, Coroutines::new(driver)?);
        Ok(Self { machine: LoopMachine::new(machine), context, methods, coroutines })
    }

    pub(crate) fn host<'l, 'py>(&'l self, py: Python<'py>) -> Attached<'l, 'py, M> {
        Attached { event_loop: self, py }
    }

    /// Begins something for a coroutine. If it fails at once, the failure is reported at the end of the turn.
    pub(crate) fn begin<T>(&self, py: Python<'_>, begin: impl FnOnce(&mut M, Instant) -> T) -> PyResult<T> {
        let begun = self.machine.begin(&self.host(py), begin)?;
        if self.coroutines.may_nest(py)? && self.machine.is_resuming_here() {
            self.machine.leave_to_loop(&self.host(py))?;
        }
        Ok(begun)
    }

    /// Fails everything in flight. The loop resumes the waiting coroutines.
    pub(crate) fn shut(&self, py: Python<'_>) -> PyResult<()> {
        self.machine.shut(&self.host(py))
    }

    /// Closes the connections of a loop that has ended. No coroutine is resumed.
    pub(crate) fn discard(&self, py: Python<'_>) -> PyResult<()> {
        let unfinished = self.machine.discard(&self.host(py)).map_err(|InUse| in_use(py))?;
        unfinished.iter().for_each(|unfinished| self.warn_if_forgotten(py, unfinished));
        Ok(())
    }

    /// Warns if nobody awaits what is over, nor can any more.
    #[inline(always)]
    fn warn_if_forgotten(&self, py: Python<'_>, finished: &M::Finished) {
        let Some(waiter) = M::waiter(finished).filter(|waiter| waiter.is_dropped()) else { return };
        if let Some(method) = M::method(finished) {
            self.coroutines.warn_if_forgotten(py, waiter, &method);
        }
    }

    pub(crate) fn context(&self) -> &M::Context {
        &self.context
    }

    pub(crate) fn waiting(&self) -> Waiting<'_> {
        Waiting { coroutines: &self.coroutines, answered: self.machine.answered() }
    }

    /// Held while replies are read.
    pub(crate) fn lock(&self, py: Python<'_>) -> PyResult<Lent<'_, M>> {
        self.machine.machine(&self.host(py)).map_err(|InUse| in_use(py))
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        M::traverse(&self.context, visit)?;
        let DriverMethods {
            end_turn,
            end_turn_from_outside,
            watch,
            watch_anew,
            forget,
            forget_inherited,
            resolve,
            ask,
            wake_in,
        } = &self.methods;
        let watching = [watch, watch_anew, forget, forget_inherited];
        let methods = [end_turn, end_turn_from_outside, resolve, ask, wake_in];
        watching.into_iter().chain(methods).try_for_each(|method| visit.call(method))?;
        self.coroutines.traverse(visit)
    }
}

/// The class of a client's connections in one event loop, for a driver in Python.
pub(crate) trait LoopDriver: PyClass<Frozen = True> + Into<PyClassInitializer<Self>> + Sync {
    type Machine: Machine;

    fn event_loop(&self) -> &EventLoop<Self::Machine>;
}

/// Defines such a class for a machine. The driver in Python calls its methods.
macro_rules! driver {
    ($(#[$about:meta])* $driver:ident of $machine:ty) => {
        $(#[$about])*
        #[pyclass(frozen, module = "pinyon._native")]
        pub(crate) struct $driver(pub(crate) EventLoop<$machine>);

        impl $crate::driver::LoopDriver for $driver {
            type Machine = $machine;

            fn event_loop(&self) -> &EventLoop<$machine> {
                &self.0
            }
        }

        #[pymethods]
        impl $driver {
            fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
                self.0.traverse(&visit)
            }

            /// Ends the turn in which `end_turn` was called.
            fn turn(&self, py: Python<'_>) -> PyResult<()> {
                self.0.machine.turn(&self.0.host(py))
            }

            /// A watched descriptor is ready.
            fn ready(&self, py: Python<'_>, lane: usize) -> PyResult<()> {
                self.0.machine.ready(&self.0.host(py), lane)
            }

            /// The time given to `wake_in` has passed.
            fn woken(&self, py: Python<'_>) -> PyResult<()> {
                self.0.machine.woken(&self.0.host(py))
            }

            /// The loop has ended: its connections are closed, so that what its waiters wait for goes to others.
            fn ended(&self, py: Python<'_>) -> PyResult<()> {
                match self.0.machine.is_of_this_process() {
                    true => self.0.discard(py),
                    false => Ok(()),
                }
            }

            /// Takes the addresses of a name, as texts of IP addresses. If there are none, `why` says why.
            #[pyo3(signature = (lane, port, addresses, why = ""))]
            fn resolved(
                &self,
                py: Python<'_>,
                lane: usize,
                port: u16,
                addresses: Vec<String>,
                why: &str,
            ) -> PyResult<()> {
                let addresses = crate::driver::addresses(port, addresses, why);
                self.0.machine.resolved(&self.0.host(py), lane, addresses)
            }
        }
    };
}

pub(crate) use driver;

/// The addresses of a name, or the reason why there are none.
pub(crate) fn addresses(port: u16, texts: Vec<String>, why: &str) -> Result<Vec<Address>, String> {
    let addresses = texts.iter().filter_map(|text| text.parse().ok());
    match why {
        "" => Ok(addresses.map(|ip| Address::Tcp(SocketAddr::new(ip, port))).collect()),
        why => Err(why.to_owned()),
    }
}

/// An event loop in a thread that holds the GIL.
pub(crate) struct Attached<'l, 'py, M: Machine> {
    event_loop: &'l EventLoop<M>,
    py: Python<'py>,
}

impl<M: Machine> Attached<'_, '_, M> {
    fn methods(&self) -> &DriverMethods {
        &self.event_loop.methods
    }
}

impl<M: Machine> LoopHost<M, Waiter, Answer> for Attached<'_, '_, M> {
    type Error = PyErr;

    fn end_turn(&self) -> PyResult<()> {
        self.methods().end_turn.call0(self.py).map(drop)
    }

    fn end_turn_from_outside(&self) -> PyResult<()> {
        self.methods().end_turn_from_outside.call0(self.py).map(drop)
    }

    fn watch(&self, lane: usize, fd: RawFd, write: bool) -> PyResult<()> {
        self.methods().watch.call1(self.py, (lane, fd, write)).map(drop)
    }

    fn watch_anew(&self, lane: usize, fd: RawFd) -> PyResult<()> {
        self.methods().watch_anew.call1(self.py, (lane, fd)).map(drop)
    }

    fn forget(&self, lane: usize, fd: RawFd) -> PyResult<()> {
        self.methods().forget.call1(self.py, (lane, fd)).map(drop)
    }

    fn forget_inherited(&self, lane: usize, fd: RawFd) -> PyResult<()> {
        self.methods().forget_inherited.call1(self.py, (lane, fd)).map(drop)
    }

    fn resolve(&self, lane: usize, name: &str, port: u16) -> PyResult<()> {
        self.methods().resolve.call1(self.py, (lane, name, port)).map(drop)
    }

    fn ask(&self, question: Question) -> PyResult<()> {
        self.methods().ask.call1(self.py, (CredentialsQuestion::new(question),)).map(drop)
    }

    fn wake_in(&self, time: Duration) -> PyResult<()> {
        self.methods().wake_in.call1(self.py, (time.as_secs_f64(),)).map(drop)
    }

    fn settle(&self, finished: Vec<M::Finished>) -> PyResult<()> {
        finished.iter().for_each(|finished| self.event_loop.warn_if_forgotten(self.py, finished));
        M::settle(self.event_loop, self.py, finished)
    }

    fn report(&self) -> PyResult<()> {
        M::report(self.event_loop, self.py)
    }

    fn resume(&self, waiter: Waiter, answer: Answer) -> PyResult<()> {
        waiter.resume(self.event_loop.waiting(), self.py, answer)
    }

    fn unlocked(&self, wait: &(dyn Fn() + Sync)) {
        self.py.detach(wait);
    }

    fn in_use(&self) -> PyErr {
        in_use(self.py)
    }
}

fn in_use(py: Python<'_>) -> PyErr {
    let message = "the client is reading a reply: what Python runs meanwhile, such as a finalizer, cannot use it";
    exception(py, ErrorKind::UsageError, message)
}
