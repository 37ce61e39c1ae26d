//! Event loops by the functions of the header, on real servers.

#[path = "../../../core/tests/real_server/server.rs"]
#[allow(dead_code)]
mod memcached;

mod compiled;

use memcached::Memcached;

#[test]
fn a_program_with_poll_runs_a_hundred_chains() {
    let servers = [(); 2].map(|()| Memcached::tcp());
    let names = servers.each_ref().map(|server| server.address().to_string()).join(",");
    let program = compiled::compile("poll");
    let said = compiled::run(&program, &[&names, "100", "20"]);
    assert_eq!(said, "4000 operations\n");
    std::fs::remove_file(program).unwrap();
}
