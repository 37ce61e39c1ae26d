//! What the C interface does without a connection: handles, errors, values, settings, names, vectors of keys, and the steps
//! of makers and candidates. `make miri` runs these tests in miri, which sees undefined behaviour that no processor shows.
//!
//! No server listens where these clients look, and none is asked.

mod c;
mod errors;
mod handles;
mod keys;
mod leaders;
mod locks;
mod loops;
mod making;
#[path = "../vectors/through_c.rs"]
#[allow(dead_code)] // only requests to a server are left out
mod through_c;
mod values;
