//! The machine against the model of the server. A seed decides the order of everything that can happen to them.

mod changes;
mod ends;
mod faults;
mod parking;
mod proceeding;
mod reconnecting;
mod refusals;
mod remarks;
mod schedules;
mod tokens;
mod world;
