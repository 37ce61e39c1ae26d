//! The locks' scripts on a real Redis, as functions and as single scripts, and the model of them: all three are asked
//! the same, and answer and publish the same.

mod conditions;
mod lab;
mod limits;
mod nesting;
mod order;
mod redis;
mod refusals;
mod repeats;
mod traces;

use pinyon_core::locks::call;

#[allow(dead_code)]
#[path = "../../src/locks/model.rs"]
mod model;
