//! Pinyon's client for memcached: sessions, servers' health, rings, operations, values. It applies every rule of caches.
//!
//! This page continues the manual for the author of a front end, which begins with [`pinyon_net`].
//!
//! # What to build, in this order
//!
//! **1. Settings.** Fill [`CacheSettings`](settings::CacheSettings) by name, with values of whatever types your
//! language has ([`Given`](pinyon_net::settings::Given)), then call `build`. The crate owns the names, defaults, checks and
//! messages.
//!
//! ```
//! use pinyon_cache::settings::CacheSettings;
//! use pinyon_net::settings::{Given, NamedSettings};
//!
//! let mut settings = CacheSettings::default();
//! settings.set("servers", Given::Text("cache1:11211,cache2:11211"))?;
//! settings.set("timeout", Given::Number(0.5))?;
//! let refused = settings.set("time_out", Given::Number(0.5)).unwrap_err();
//! assert_eq!(refused.message, "there is no setting \"time_out\"; did you mean \"timeout\"?");
//! let parts = settings.build(false)?;
//! # Ok::<(), pinyon_net::invalid::InvalidArgument>(())
//! ```
//!
//! Keep all the parts: the [`Directory`](directory::Directory) of servers (in an [`Arc`](std::sync::Arc)), the rules
//! for keys, the policy for failures, and the packing (the dialect of values and their compression). A view of a client
//! is made of the same parts with another policy.
//!
//! **2. One request, in a thread.** An operation is a value. Make one from a key and a request, run it, and take its
//! answer:
//!
//! ```no_run
//! use pinyon_cache::blocking::run;
//! use pinyon_net::host::NoHost;
//! use pinyon_cache::operations::{Answer, AsBytes, Beside, Failed, OwnedKey, Request, Single};
//! # fn get(parts: &pinyon_cache::settings::CacheParts) -> Result<Option<Vec<u8>>, Box<dyn std::error::Error>> {
//! let key = OwnedKey::new(&parts.keys, b"user:1")?;
//! let get = Request::Get(Beside::Nothing);
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
//! **3. Values.** [`Values`](operations::Values) turns bytes and client flags into your objects while a reply is read.
//! If the crate must not enter your runtime at that moment, use [`AsBytes`](operations::AsBytes) as above. It keeps the
//! bytes, and you make objects after the operation ([`Answer::read`](operations::Answer::read)). The module [`dialect`]
//! says what the flags mean, compresses, and reads and writes portable values. [`assemble`](dialect::assemble) builds
//! your lists and maps from the parts of a stored value.
//!
//! **4. Many keys, all servers, quiet batches.** [`Fetch`](operations::Fetch), [`Change`](operations::Change) and
//! [`Everywhere`](operations::Everywhere) are operations like the one above. For quiet batches, use [`blocking::Batch`]
//! in a thread and [`shared::Batch`] in an event loop.
//!
//! [`GetOrSet`](lease::GetOrSet) is a machine that leads one call through several operations. It never waits: carry out each
//! step, and tell the machine the outcome.
//!
//! - Callers of `get_or_set` share one lookup if they share the client's [`Flights`](lease::Flights) and the scope of
//!   their [`FlightKey`](lease::FlightKey). Give callers that can wake each other the same scope. A cancelled caller calls
//!   [`leave`](lease::GetOrSet::leave).
//! - A migrating client consists of the parts of two clients and one [`Counts`](migration::Counts). Each request is a
//!   [`Crossing`](migration::Crossing), which [`blocking::run_on_both`] runs. Your [`Pools`](migration::Pools) supply keys and
//!   values by each client's rules, and convert values that are moved.
//!
//! **5. An event loop.** [`Shared`](shared::Shared) keeps the operations that are under way on a loop, each with a
//! [`Waiter`](shared::Waiter) that identifies your coroutine. One of the three [drivers](pinyon_net::driven) waits for it.
//!
//! All operations of one loop have the same type, [`AnyOperation`](operations::AnyOperation), and own what they send
//! ([`OwnedData`](operations::OwnedData)). If your coroutines switch to each other while they wait, each finds its
//! outcome in a [`Slot`](pinyon_net::driven::Slot).
//!
//! ```no_run
//! # use std::{sync::Arc, time::Instant};
//! use pinyon_net::driven::{Polled, Wake};
//! use pinyon_cache::operations::{AnyOperation, OwnedKey, AsBytes, Request, Single};
//! use pinyon_cache::shared::{Shared, Waiter};
//!
//! struct Coroutine(usize);
//! impl Waiter for Coroutine {
//!     fn is_gone(&self) -> bool {
//!         false // it was not cancelled
//!     }
//! }
//!
//! # fn work(parts: pinyon_cache::settings::CacheParts, until: Instant) -> Result<(), Box<dyn std::error::Error>> {
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
//! **6. Events and metrics.** After every operation, and in every turn of a loop, check `directory.has_events()`. If it
//! is true, call `take_events` and deliver the events while you hold no lock. `directory.known().metrics()` returns a
//! copy of the counters.
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
#![deny(unsafe_code)]

pub mod blocking;
pub mod calls;
pub mod dialect;
pub mod directory;
pub mod events;
pub mod lease;
pub mod metrics;
pub mod migration;
pub mod near;
pub mod operations;
pub mod settings;
pub mod shared;
pub mod spare;
pub mod tags;
pub mod ttl;

mod discovery;
mod fleet;
mod generation;
mod health;
mod ring;

// For this crate's own tests and fuzz targets only; front ends do not use these.
#[doc(hidden)]
pub mod compression;
#[doc(hidden)]
pub mod pool;
#[doc(hidden)]
pub mod session;

#[doc(hidden)]
pub use session::{Completion, Limits, Outcome, Refused, Reply, Session, Ticket};
pub use session::{Data, Destination, SharedBytes, Value, LARGE};
