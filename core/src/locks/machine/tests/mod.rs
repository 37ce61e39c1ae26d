//! The machine against the model of the server, in a world where everything that can happen to them does, in an order
//! that a seed decides.

mod parking;
mod schedules;
mod world;
