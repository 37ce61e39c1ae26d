//! Programs that check what the header says, one for each of its chapters.

use crate::build::{sanitized, Linked, Program};
use crate::redis::Redis;
use crate::server::Memcached;

fn check(source: &str) {
    let servers = [Memcached::tcp(), Memcached::tcp()];
    let addresses = servers.each_ref().map(|server| server.address().to_string());
    let program =
        Program::compile(&["gcc", "-std=gnu11", "-O1"], &format!("tests/programs/c/{source}.c"), Linked::Shared);
    program.run(&[&addresses.join(","), &addresses[0]]);
}

#[test]
fn requests_one_by_one() {
    check("requests");
}

#[test]
fn many_requests_at_once() {
    check("many");
}

#[test]
fn batches() {
    check("batches");
}

#[test]
fn leases_and_values_made_once() {
    check("leases");
}

#[test]
fn values_with_tags() {
    check("tags");
}

#[test]
fn values_part_by_part() {
    check("values");
}

#[test]
fn options_errors_and_misuse() {
    check("misuse");
}

#[test]
fn a_program_that_closes_the_library() {
    // Linked with nothing of it, so that it is there only while it is open.
    let compiler = ["gcc", "-std=gnu11", "-O1", "-Wl,--as-needed"];
    let program = Program::compile(&compiler, "tests/programs/c/unloading.c", Linked::Shared);
    program.run(&[program.path().with_file_name("libpinyon.so.1").to_str().unwrap()]);
}

#[test]
fn errors_that_are_overwritten_are_freed() {
    let server = Memcached::tcp();
    // AddressSanitizer, which refuses to be with it, finds leaks as well.
    let leaks: &[&str] = if sanitized() { &[] } else { &["-fsanitize=leak"] };
    let compiler = [&["gcc", "-std=gnu11", "-O1"], leaks].concat();
    let program = Program::compile(&compiler, "tests/programs/c/misuse.c", Linked::Static);
    let address = server.address().to_string();
    program.run(&[&address, &address]);
}

#[test]
fn credentials_that_a_function_returns() {
    check("credentials");
}

#[test]
fn hosts_interrupt_waits_and_place_values() {
    check("hosts");
}

#[test]
fn event_loops() {
    check("loops");
}

#[test]
fn batches_in_event_loops() {
    check("loop_batches");
}

#[test]
fn many_keys_in_event_loops() {
    check("readings");
}

#[test]
fn migrating() {
    check("migrating");
}

fn check_locks(source: &str) {
    let server = Redis::start("");
    let program =
        Program::compile(&["gcc", "-std=gnu11", "-O1"], &format!("tests/programs/c/{source}.c"), Linked::Shared);
    program.run(&[&format!("unix://{}", server.address())]);
}

#[test]
fn locks_in_threads() {
    check_locks("locks");
}

#[test]
fn readers_writers_and_permits() {
    check_locks("sharing");
}

#[test]
fn locks_in_event_loops() {
    check_locks("lock_loops");
}
