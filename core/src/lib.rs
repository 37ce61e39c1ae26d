//! The core of Pinyon: the client itself, for caches and for locks. It makes every system call and applies every rule.
//! A front end for a language converts: its objects into settings, keys and data, and answers into its objects.
//!
//! This page is the manual for the author of a new front end. `examples/host` is a complete one in plain Rust. It runs
//! every operation of caches and locks, in threads and in an event loop, and it is also a test.
//!
//! # What to build, in this order
//!
//! **1. Settings.** Fill [`CacheSettings`](settings::CacheSettings) by name, with values of whatever types your
//! language has ([`Given`](settings::Given)), then call `build`. The core owns the names, defaults, checks and
//! messages.
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
//! Keep all the parts: the [`Directory`](directory::Directory) of servers (in an [`Arc`](std::sync::Arc)), the rules
//! for keys, the policy for failures, and the packing (the dialect of values and their compression). A view of a client
//! is made of the same parts with another policy.
//!
//! **2. Errors.** Map [`ErrorKind`](error::kinds::ErrorKind) to your classes with one exhaustive `match`. Every error
//! has a kind, a message for people, and [`Sent`], which says whether the request was sent. A miss is not an error.
//!
//! **3. One request, in a thread.** An operation is a value. Make one from a key and a request, run it, and take its
//! answer:
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
//! [`Request`](operations::Request) lists all requests on one key. [`Answer`](operations::Answer) lists the answers.
//!
//! **4. Values.** [`Values`](operations::Values) turns bytes and client flags into your objects while a reply is read.
//! If the core must not enter your runtime at that moment, use [`AsBytes`](operations::AsBytes) as above. It keeps the
//! bytes, and you make objects after the operation ([`Answer::read`](operations::Answer::read)). The module [`dialect`]
//! says what the flags mean, compresses, and reads and writes portable values. [`assemble`](dialect::assemble) builds
//! your lists and maps from the parts of a stored value.
//!
//! **5. Many keys, all servers, quiet batches.** [`Fetch`](operations::Fetch), [`Change`](operations::Change) and
//! [`Everywhere`](operations::Everywhere) are operations like the one above. For quiet batches, use [`blocking::Batch`]
//! in a thread and [`shared::Batch`] in an event loop.
//!
//! [`GetOrSet`](lease::GetOrSet) and [`Migration`](migration::Migration) are machines that lead one call through
//! several operations. They never wait: carry out each step, and tell the machine the outcome.
//!
//! - Callers of `get_or_set` share one lookup if they share the client's [`Flights`](lease::Flights) and the scope of
//!   their [`Place`](lease::Place). Give callers that can wake each other the same scope. A cancelled caller calls
//!   [`leave`](lease::GetOrSet::leave).
//! - A migrating client consists of two clients and one [`Counts`](migration::Counts). Each client has its own dialect
//!   and key rules; values pass from one to the other as your objects.
//!
//! **6. An event loop.** [`Shared`](shared::Shared) keeps the operations that are under way on a loop, each with a
//! [`Waiter`](shared::Waiter) that identifies your coroutine. Choose one of three drivers:
//!
//! - [`LoopMachine`](driven::LoopMachine) calls your event loop, which watches descriptors and keeps timers.
//! - [`Stepwise`](driven::Stepwise) is for the same loops, but calls nothing of yours: you ask for its orders.
//! - [`Polled`](driven::Polled) calls nothing of yours. You wait for its one descriptor, then take what has finished.
//!
//! All operations of one loop have the same type, [`AnyOperation`](operations::AnyOperation), and own what they send
//! ([`OwnedData`](operations::OwnedData)). If your coroutines switch to each other while they wait, each finds its
//! outcome in a [`Slot`](driven::Slot).
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
//!         let Coroutine(number) = finished.waiter; // resume it with the outcome of finished.operation
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! **7. Locks.** [`LockSettings`](settings::LockSettings) builds a [`Setup`](locks::Setup). Threads share one
//! [`ThreadLocks`](locks::ThreadLocks). An event loop drives a [`Front`](locks::Front) just as it drives `Shared`. Both
//! carry out [`LockOperation`](locks::LockOperation)s on [`Grant`](locks::Grant)s. A grant is a lock that was asked
//! for; if the lock is lost, the grant knows why. A [`Keeper`](driven::Keeper) renews the locks of a `Polled` whose host
//! may be held up. [`Branches`](locks::Branches) keeps one client for each hash tag, for
//! clusters whose lock names carry tags of their own.
//!
//! ```no_run
//! # use std::{sync::Arc, time::Duration};
//! use pinyon_core::blocking::NoHost;
//! use pinyon_core::locks::{names, owners, Grant, LockOperation, LockOutcome, LockRequest, Notes, Renewal, ThreadLocks};
//!
//! # fn lock(setup: pinyon_core::locks::Setup) -> Result<(), Box<dyn std::error::Error>> {
//! let notes = Arc::<Notes<&str>>::default(); // a thread of yours takes notes, and tells the listeners
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
//! **8. Events and metrics.** After every operation, and in every turn of a loop, check `directory.has_events()`. If it
//! is true, call `take_events` and deliver the events while you hold no lock. `directory.known().metrics()` returns a
//! copy of the counters.
//!
//! # Threads
//!
//! All threads may use a `Directory`, and everything else that `build` returns, at the same time. The same holds for
//! `ThreadLocks`, its stations, and grants. Only one thread at a time may use an operation, a batch, a `Polled`, a
//! `Stepwise` or a `LoopMachine`.
//!
//! Any thread may ring the [`Doorbell`](driven::Doorbell) of a `Polled`, which ends its wait.
//!
//! The core starts threads of its own for three purposes: keepers renew locks, and short-lived threads resolve names or
//! call a host's function for [credentials], if the host wants it called there. These threads never call the host
//! otherwise, and they block all signals.
//!
//! # Waiting and signals
//!
//! A blocking driver waits only in [`Host::unlocked`](blocking::Host::unlocked). Release your runtime's lock there. To
//! refuse a wait, return an error before it begins.
//!
//! The core calls [`Host::interrupted`](blocking::Host::interrupted) after each wait, at most a tenth of a second
//! apart. Handle signals there. If it returns an error, the operation ends, its connections are closed, and a lock it
//! was waiting for is given up.
//!
//! # Forks
//!
//! Nothing needs to be torn down before a fork. In the child:
//!
//! - Pools, counters, events and stations are new. Inherited connections are closed without sending anything.
//! - The parent's locks are not held ([`Loss::Forked`](locks::Loss::Forked)).
//! - A `Polled` from the parent refuses every call. A `LoopMachine` or a `Stepwise` from the parent does nothing. Make
//!   new ones.
//! - A batch that was begun before the fork refuses to continue.
//! - An event loop of the host's may share the system's watch list with the parent's: epoll sets are inherited. Tell that
//!   loop of the fork, in its own way, before the child watches or forgets anything in it.
//!
//! `fork::generation` tells whether the process has forked.
//!
//! # Who owns which bytes
//!
//! Everything you pass to an operation must stay unchanged until the operation is over. In a thread, the operation is
//! over when `run` returns. In an event loop, it is over when the driver hands out its outcome, even if its caller was
//! cancelled before.
//!
//! - Borrow ([`BorrowedKey`](operations::BorrowedKey), [`Data::Copied`] of a slice) for `run`, if your runtime cannot
//!   change or move the memory during a wait.
//! - Copy ([`OwnedKey`](operations::OwnedKey), `Option<Vec<u8>>`) if it can, and always in an event loop.
//! - Pin ([`Data::Shared`]) large data that does not change while you hold a reference. The core sends it without a
//!   copy. Any thread that drives the connection may drop the reference.
//!
//! The bytes passed to [`Values::read`](operations::Values::read) lie in the receive buffer: copy them before you
//! return. Values of [`LARGE`] bytes or more are received straight into the [`Destination`] that your `Values` made.
//!
//! # What may be called when
//!
//! - The core calls `Values`, `Destination`, `SentKey`, `SentData` and `Waiter::is_gone` in the middle of its work.
//!   They must not wait, unwind, or use the client.
//! - `Host::unlocked` must run its closure or return an error, and must not unwind. `Host::interrupted` may run code of
//!   your language, and that code may use the client.
//! - [`LoopHost`](driven::LoopHost) is called while its machine is not borrowed, so it may begin operations.
//! - You fetch events and notes, and the listeners that notes contain. The core never calls them.
//! - Before your process or loop ends, call `close` on whatever drives it: this fails every caller that still waits.
//!   Dropping it closes the connections too, but leaves these callers without an answer.
#![deny(unsafe_code)]

pub mod address;
pub mod blocking;
pub mod credentials;
pub mod dialect;
pub mod directory;
pub mod driven;
pub mod error;
pub mod events;
pub mod fork;
pub mod invalid;
pub mod json;
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
mod own_thread;
mod resolver;
mod ring;
mod shown;
mod words;

// For this crate's own tests and fuzz targets only; front ends do not use these.
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

pub use address::{Address, Endpoint, SentinelService};
pub use error::{Error, Kind, Sent};
#[doc(hidden)]
pub use session::{Completion, Limits, Outcome, Refused, Reply, Session, Ticket};
pub use session::{Data, Destination, SharedBytes, Value, LARGE};
