//! The core of Pinyon: the client itself. A front end for a language converts: its objects into settings, keys and data,
//! and answers into its objects. This page is the manual for whoever writes the next front end; `examples/host` is one in
//! plain Rust that does every operation of caches and locks, and is a test.
//!
//! # What to build, in this order
//!
//! **1. Settings.** Fill [`CacheSettings`](settings::CacheSettings) by the names that your users write, in whatever types
//! your language has ([`Given`](settings::Given)), and `build`. Names, defaults, checks and messages are the core's.
//!
//! ```
//! use pinyon_core::settings::{CacheSettings, Given, NamedSettings};
//!
//! let mut settings = CacheSettings::default();
//! settings.set("servers", Given::Text("cache1:11211,cache2:11211"))?;
//! settings.set("timeout", Given::Number(0.5))?;
//! let refused = settings.set("time_out", Given::Number(0.5)).unwrap_err();
//! assert_eq!(refused.message, "there is no setting \"time_out\"; did you mean \"timeout\"?");
//! let parts = settings.build(false)?;
//! # Ok::<(), pinyon_core::invalid::InvalidArgument>(())
//! ```
//!
//! Keep the parts: the [`Directory`](directory::Directory) (in an [`Arc`](std::sync::Arc)), the rules for keys, the policy and
//! the packing: the dialect of values, and how they are compressed. A view of a client is the same parts with another policy.
//!
//! **2. Errors.** Map [`ErrorKind`](error::kinds::ErrorKind) to your classes with one exhaustive `match`. Every error has a
//! kind, a message for people, and whether the request was [`Sent`]. A miss is no error.
//!
//! **3. One request, by waiting.** An operation is a value. Make it of a key and a request, run it, and ask what it came to:
//!
//! ```no_run
//! use pinyon_core::blocking::{run, NoHost};
//! use pinyon_core::operations::{Answer, Failed, OwnedKey, AsBytes, Request, Single};
//! # fn get(parts: &pinyon_core::settings::CacheParts) -> Result<Option<Vec<u8>>, Box<dyn std::error::Error>> {
//! let key = OwnedKey::new(&parts.keys, b"user:1")?;
//! let get = Request::Get { cas: false };
//! let mut single = Single::new(get, key, None::<Vec<u8>>, AsBytes, parts.policy);
//! let Ok(()) = run(&parts.directory, &NoHost, &mut single); // a host with signals may be interrupted here
//! match single.finish() {
//!     Ok(Answer::Value(value)) => Ok(Some(value.bytes)),
//!     Ok(_) => Ok(None),
//!     Err(Failed::Error(error)) => Err(error),
//!     Err(Failed::Unreadable { error, .. }) => match error {},
//! }
//! # }
//! ```
//!
//! [`Request`](operations::Request) is the list of all requests on one key; [`Answer`](operations::Answer) says what each
//! comes to.
//!
//! **4. Values.** [`Values`](operations::Values) makes your objects of bytes and client flags while a reply is read. Take
//! [`AsBytes`](operations::AsBytes), as above, where your runtime must not be entered then: it keeps the bytes, and you make
//! objects once the operation is over ([`Answer::read`](operations::Answer::read)). [`dialect`] says what flags mean,
//! compresses, and writes and reads portable values. [`assemble`](dialect::assemble) makes your objects of the parts of a
//! stored value.
//!
//! **5. Many keys, all servers, quiet batches.** [`Fetch`](operations::Fetch), [`Change`](operations::Change) and
//! [`Everywhere`](operations::Everywhere) are operations like the one above. A quiet batch is a
//! [`blocking::Batch`] in a thread, and a [`shared::Batch`] in an event loop.
//!
//! [`GetOrSet`](lease::GetOrSet) and [`Migration`](migration::Migration) lead one call through several operations, and never
//! wait. Do as each step says, and tell the machine the outcome. Callers of `get_or_set` follow each other if they share
//! the client's [`Flights`](lease::Flights) and the scope of their [`Place`](lease::Place): what callers have in common that can
//! wake each other. A caller that is cancelled says so ([`leave`](lease::GetOrSet::leave)). A client that migrates keeps
//! [`Counts`](migration::Counts), and two clients, each with its own dialect and keys: values cross as your objects.
//!
//! **6. An event loop.** [`Shared`](shared::Shared) has the operations under way on a loop, each with a
//! [`Waiter`](shared::Waiter): what you know the coroutine by. Choose who drives it. [`LoopMachine`](driven::LoopMachine) calls a
//! loop that watches descriptors and keeps alarms. [`Polled`](driven::Polled) calls nobody, and has one descriptor to wait for.
//! Operations of one loop have one type: [`AnyOperation`](operations::AnyOperation). What they send borrows nothing
//! ([`OwnedData`](operations::OwnedData)). Coroutines that wait by switching find their outcome in a [`Slot`](driven::Slot).
//!
//! ```no_run
//! # use std::{sync::Arc, time::Instant};
//! use pinyon_core::driven::{Polled, Wake};
//! use pinyon_core::operations::{AnyOperation, OwnedKey, AsBytes, Request, Single};
//! use pinyon_core::shared::{Shared, Waiter};
//!
//! struct Coroutine(usize);
//! impl Waiter for Coroutine {
//!     fn is_gone(&self) -> bool {
//!         false // it was not cancelled
//!     }
//! }
//!
//! # fn work(parts: pinyon_core::settings::CacheParts, until: Instant) -> Result<(), Box<dyn std::error::Error>> {
//! type Operation = AnyOperation<OwnedKey, Option<Vec<u8>>, AsBytes>;
//! let mut polled = Polled::new(Shared::<Operation, _>::new(Arc::new(parts.directory), parts.connections))?;
//! let key = OwnedKey::new(&parts.keys, b"user:1")?;
//! let single = Single::new(Request::Delete, key, None, AsBytes, parts.policy);
//! polled.begin(|machine, now| machine.start(single.into(), Coroutine(7), now))?;
//! while !polled.is_idle() && polled.wait(until)? != Wake::Deadline {
//!     while let Some(finished) = polled.next_finished() {
//!         let Coroutine(number) = finished.waiter; // resume it with what finished.operation came to
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! **7. Locks.** [`LockSettings`](settings::LockSettings) make a [`Setup`](locks::Setup). Threads share
//! [`ThreadLocks`](locks::ThreadLocks); an event loop drives a [`Front`](locks::Front) as it drives `Shared`. Both carry out the
//! same [`LockOperation`](locks::LockOperation)s, about [`Grant`](locks::Grant)s that know why they were lost. Names with hash
//! tags of their own get a client each ([`Branches`](locks::Branches)).
//!
//! ```no_run
//! # use std::{sync::Arc, time::Duration};
//! use pinyon_core::blocking::NoHost;
//! use pinyon_core::locks::{names, owners, Grant, LockOperation, LockOutcome, LockRequest, Notes, Renewal, ThreadLocks};
//!
//! # fn lock(setup: pinyon_core::locks::Setup) -> Result<(), Box<dyn std::error::Error>> {
//! let notes = Arc::<Notes<&str>>::default(); // a thread of yours takes notes, and tells whoever listens
//! let locks = ThreadLocks::new(setup, notes.clone());
//! let (names, ttl, wait) = (names(["report"])?, Duration::from_secs(10), Some(Duration::from_secs(5)));
//! let (owner, renewal) = (owners::this_thread(), Renewal::Always);
//! let grant = Grant::new(names.clone());
//! let request = LockRequest { names, owner, ttl, wait, renewal, reentrant: false };
//! let Ok(outcome) = locks.station()?.run(&NoHost, LockOperation::Acquire { grant: grant.clone(), request });
//! if let LockOutcome::Held { .. } = outcome {
//!     let Ok(_) = locks.station()?.run(&NoHost, LockOperation::Release { grant });
//! }
//! # Ok(())
//! # }
//! ```
//!
//! **8. Events and metrics.** After an operation, and in each turn of a loop, look at `directory.has_events()`, and tell
//! what `take_events` hands you when you hold no lock. `directory.known().metrics()` is a copy of what was counted.
//!
//! # Threads
//!
//! A `Directory`, and all that `build` returns, may be used by all threads at once. So may `ThreadLocks`, its stations, and
//! grants. An operation, a batch, a `Polled` and a `LoopMachine` belong to one thread at a time. The core starts threads
//! of its own in two places: the keeper renews locks, and names are resolved. They call no host and get no signals.
//!
//! The bell of a `Polled` ([`Doorbell`](driven::Doorbell)) may be rung by any thread, and ends its wait.
//!
//! # Waiting and signals
//!
//! A blocking driver waits in [`Host::unlocked`](blocking::Host::unlocked) alone. Give up your runtime's lock there. You may
//! refuse a wait before it begins, by an error. The core calls [`Host::interrupted`](blocking::Host::interrupted) after
//! each wait, a tenth of a second later at most: look for signals there. An error ends the operation, and the connections in use
//! are closed; a lock that was waited for is given up.
//!
//! # Forks
//!
//! Keep everything. A child gets pools, counters, events and stations of its own, and closes inherited connections without a
//! word on the wire. Locks of the parent are not held in the child ([`Loss::Forked`](locks::Loss::Forked)). A `Polled` of
//! the parent refuses every call in the child, and a `LoopMachine` is inert there: make new ones. A batch that was begun
//! before the fork refuses to go on. `fork::generation` says whether there was a fork.
//!
//! # Who owns which bytes
//!
//! What an operation is given must stay as it is until the operation is over. By waiting, that is the end of `run`; in an event
//! loop it is whenever its outcome is handed out, even if nobody waits any more.
//!
//! - Borrow ([`BorrowedKey`](operations::BorrowedKey), [`Data::Copied`] of a slice) for `run`, where your runtime cannot
//!   change or move the memory during a wait.
//! - Copy ([`OwnedKey`](operations::OwnedKey), `Option<Vec<u8>>`) where it can, or in an event loop.
//! - Pin ([`Data::Shared`]) what is large and stays as it is as long as it is referred to. It is sent from where it is. The
//!   reference may be dropped by any thread that drives the connection.
//!
//! What [`Values::read`](operations::Values::read) is given lies in the receive buffer: copy it before you return. Values of
//! [`LARGE`] bytes or more are received straight into the [`Destination`] that your `Values` made.
//!
//! # Who may call what when
//!
//! - `Values`, `Destination`, `SentKey`, `SentData` and `Waiter::is_gone` are called in the middle of the core's work. They must
//!   not wait, unwind, or use the client.
//! - `Host::unlocked` must run its closure, or refuse to, and must not unwind. `Host::interrupted` may run your
//!   language's code, which may use the client.
//! - [`LoopHost`](driven::LoopHost) is called while its machine is not borrowed, so it may begin operations.
//! - Events, notes and listeners are handed to you. Nothing of yours is called for them.
//! - Before your process or loop ends, `close` what drives it. Dropping closes connections too; it fails nobody who waits.
#![deny(unsafe_code)]

pub mod address;
pub mod blocking;
pub mod dialect;
pub mod directory;
pub mod driven;
pub mod error;
pub mod events;
pub mod fork;
pub mod invalid;
pub mod lease;
pub mod locks;
pub mod metrics;
pub mod migration;
pub mod operations;
pub mod settings;
pub mod shared;
pub mod spare;
pub mod tls;
pub mod ttl;

mod connection;
mod discovery;
mod doorbell;
mod fleet;
mod health;
mod login;
mod own_thread;
mod resolver;
mod ring;

// What this crate's own tests and fuzz targets look at, and no front end.
#[doc(hidden)]
pub mod compression;
#[doc(hidden)]
pub mod network;
#[doc(hidden)]
pub mod pool;
#[doc(hidden)]
pub mod redis;
#[doc(hidden)]
pub mod session;

pub use address::{Address, Endpoint};
pub use error::{Error, Kind, Sent};
#[doc(hidden)]
pub use session::{Completion, Limits, Outcome, Refused, Reply, Session, Ticket};
pub use session::{Data, Destination, SharedBytes, Value, LARGE};
