//! The quorum over real machines and model servers. A seed decides the order of everything that can happen to them.

mod breaking;
mod member;
mod polls;
mod progress;
mod schedules;
mod stories;
mod world;
