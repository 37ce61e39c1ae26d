//! The session in memory: a scripted peer instead of a network, and an instant instead of a clock.

mod bounds;
mod deadlines;
mod exchanges;
mod failures;
mod greeting;
mod host;
mod model;
mod pushes;
mod refusals;
mod renewing;
