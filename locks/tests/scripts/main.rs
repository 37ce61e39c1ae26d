//! The locks' scripts on a real Redis, as functions and as separate scripts, and their model. All three get the same
//! calls, and must answer and publish the same.

mod conditions;
mod declared;
mod lab;
mod limits;
mod nesting;
mod older;
mod order;
mod rates;
mod redis;
mod refusals;
mod repeats;
mod sharing;
mod traces;

use pinyon_locks::{call, claim, Rate, RateAnswer};

#[allow(dead_code)]
#[path = "../../src/tests/model/mod.rs"]
mod model;

#[path = "../../src/tests/rate_vectors.rs"]
mod rate_vectors;
