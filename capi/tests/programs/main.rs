//! Programs in C that use the library, on servers of their own. Those in the folder `c` check what the header says; those
//! in `examples` are in the documentation, too.

#[path = "../../../cache/tests/real_server/server.rs"]
#[allow(dead_code)]
mod server;

#[path = "../../../locks/tests/real_redis/server.rs"]
#[allow(dead_code)]
mod redis;

mod build;
mod cases;
mod examples;
mod installed;
