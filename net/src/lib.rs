//! The ground of Pinyon's clients: connections, TLS, addresses, the resolving of names, the drivers of event loops, forks,
//! threads of its own, errors, and the table of settings. [`pinyon-cache`] and [`pinyon-locks`] stand on it side by side:
//! neither names the other.
//!
//! A front end for a language converts: its objects into settings, keys and data, and answers into its objects. This
//! page and the first pages of those two crates are the manual for its author. `examples/host` is a complete front end
//! in plain Rust. It runs every operation of caches and locks, in threads and in an event loop, and it is also a test.
//!
//! [`pinyon-cache`]: https://docs.rs/pinyon-cache
//! [`pinyon-locks`]: https://docs.rs/pinyon-locks
//!
//! # What to build first
//!
//! **Settings.** Fill `CacheSettings` or `LockSettings` by name, with values of whatever types your language has
//! ([`Given`](settings::Given)), then call `build`. The crates own the names, defaults, checks and messages
//! ([`NamedSettings`](settings::NamedSettings)). [`Words`](settings::Words) gives messages the names of your language's
//! types.
//!
//! **Errors.** Map [`ErrorKind`](error::kinds::ErrorKind) to your classes with one exhaustive `match`. Every error
//! has a kind, a message for people, and [`Sent`], which says whether the request was sent. A miss is not an error.
//!
//! **An event loop.** A machine holds what is under way on a loop: `Shared` for caches, `Front` for locks. Both are
//! [`Driven`](driven::Driven). Choose one of three drivers:
//!
//! - [`LoopMachine`](driven::LoopMachine) calls your event loop, which watches descriptors and keeps timers.
//! - [`Stepwise`](driven::Stepwise) is for the same loops, but calls nothing of yours: you ask for its orders.
//! - [`Polled`](driven::Polled) calls nothing of yours. You wait for its one descriptor, then take what has finished.
//!   A [`Keeper`](driven::Keeper) renews the locks of a `Polled` whose host may be held up.
//!
//! If your coroutines switch to each other while they wait, each finds its outcome in a [`Slot`](driven::Slot).
//!
//! # Threads
//!
//! All threads may use a `Directory`, and everything else that `build` returns, at the same time. The same holds for
//! `Drivers` of locks, their stations, and `Held`s. Only one thread at a time may use an operation, a batch, a `Polled`, a
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
//! A blocking driver waits only in [`Host::unlocked`](host::Host::unlocked). Release your runtime's lock there. To
//! refuse a wait, return an error before it begins.
//!
//! The core calls [`Host::interrupted`](host::Host::interrupted) after each wait, at most a tenth of a second
//! apart. Handle signals there. If it returns an error, the operation ends, its connections are closed, and a lock it
//! was waiting for is given up.
//!
//! # Forks
//!
//! Nothing needs to be torn down before a fork. In the child:
//!
//! - Pools, counters, events and stations are new. Inherited connections are closed without sending anything.
//! - The parent's locks are not held (`Loss::Forked`).
//! - A `Polled` from the parent refuses every call. A `LoopMachine` or a `Stepwise` from the parent does nothing. Make
//!   new ones.
//! - A batch that was begun before the fork refuses to continue.
//! - An event loop of the host's may share the system's watch list with the parent's: epoll sets are inherited. Tell that
//!   loop of the fork, in its own way, before the child watches or forgets anything in it.
//!
//! `fork::generation` tells whether the process has forked.
//!
//! # What may be called when
//!
//! - The core calls the `Values`, `Destination`, `SentKey`, `SentData` and `Waiter` of a cache in the middle of its work.
//!   They must not wait, unwind, or use the client.
//! - `Host::unlocked` must run its closure or return an error, and must not unwind. `Host::interrupted` may run code of
//!   your language, and that code may use the client.
//! - [`LoopHost`](driven::LoopHost) is called while its machine is not borrowed, so it may begin operations.
//! - You fetch events and notes, and the listeners that notes contain. The core never calls them.
//! - Before your process or loop ends, call `close` on whatever drives it: this fails every caller that still waits.
//!   Dropping it closes the connections too, but leaves these callers without an answer.
#![deny(unsafe_code)]

pub mod address;
pub mod credentials;
pub mod driven;
pub mod error;
pub mod events;
#[cfg(any(test, feature = "testing"))]
pub mod fake_clock;
pub mod fork;
pub mod host;
pub mod invalid;
pub mod latencies;
pub mod settings;
pub mod tls;

// For the crates that stand on this one; front ends do not use these.
#[doc(hidden)]
pub mod connection;
#[doc(hidden)]
pub mod doorbell;
#[doc(hidden)]
pub mod json;
#[doc(hidden)]
pub mod network;
#[doc(hidden)]
pub mod own_thread;
pub mod random;
#[doc(hidden)]
pub mod resolver;
#[doc(hidden)]
pub mod shown;
#[doc(hidden)]
pub mod sync;
#[doc(hidden)]
pub mod worded;
#[doc(hidden)]
pub mod words;

pub use address::{Address, Endpoint, SentinelService};
pub use error::{Error, Kind, Sent};
