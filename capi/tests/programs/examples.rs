//! The programs of the documentation.

use std::process::Command;

use crate::build::{crate_folder, libraries, printed, sanitized, with_runtime, Linked, Program};
use crate::server::Memcached;

const PRINTED: &str = "user:1: Ada\nuser:2: no such user\nvisits: 2\nuser:1: Ada\nvisits: 2\npage: <p>Hello\n";

#[test]
fn the_blocking_program_runs_with_either_library() {
    for (compiler, linked) in [
        (&["gcc", "-std=c99"][..], Linked::Shared),
        (&["gcc", "-std=c99"][..], Linked::Static),
        (&["gcc", "-std=c11"][..], Linked::Static),
        (&["gcc", "-std=c2x"][..], Linked::Shared),
    ] {
        let server = Memcached::tcp();
        let program = Program::compile(compiler, "examples/blocking.c", linked);
        assert_eq!(program.run(&[&server.address().to_string()]), PRINTED, "{compiler:?} {linked:?}");
    }
}

#[test]
fn it_says_why_a_server_cannot_be_reached() {
    let mut server = Memcached::tcp();
    let address = server.address().to_string();
    server.stop();
    let program = Program::compile(&["gcc", "-std=c99"], "examples/blocking.c", Linked::Shared);
    let output = Command::new(program.path()).arg(&address).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.starts_with(&format!("the request failed: {address}: set: ")), "{message}");
}

#[test]
fn the_program_with_poll_runs_a_hundred_chains_on_two_servers() {
    let servers = [(); 2].map(|()| Memcached::tcp());
    let names = servers.each_ref().map(|server| server.address().to_string()).join(",");
    let program = Program::compile(&["gcc", "-std=c99"], "examples/poll.c", Linked::Shared);
    assert_eq!(program.run(&[&names, "100", "20"]), "4000 operations\n");
}

#[test]
fn memcheck_finds_nothing() {
    // Valgrind cannot run what AddressSanitizer has changed.
    if sanitized() {
        return;
    }
    let server = Memcached::tcp();
    let address = server.address().to_string();
    for (source, arguments, said) in [
        ("examples/blocking.c", &[address.as_str()][..], PRINTED),
        ("examples/poll.c", &[&address, "100", "3"], "600 operations\n"),
    ] {
        let program = Program::compile(&["gcc", "-std=c99"], source, Linked::Static);
        let output = Command::new("valgrind")
            .args(["-q", "--error-exitcode=9", "--leak-check=full"])
            .args(["--errors-for-leak-kinds=definite,indirect,possible"])
            .arg(program.path())
            .args(arguments)
            .output()
            .expect("valgrind is installed: apt install valgrind, or make setup");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(printed(output), said);
        assert_eq!(errors, "");
    }
}

#[test]
fn a_language_without_a_compiler_reads_the_header_itself() {
    let server = Memcached::tcp();
    let output = with_runtime(&mut Command::new("luajit"))
        .arg(crate_folder().join("examples/blocking.lua"))
        .arg(server.address().to_string())
        .env("PINYON_HEADER", crate_folder().join("include/pinyon.h"))
        .env("PINYON_LIBRARY", libraries().join("libpinyon.so"))
        .output()
        .expect("luajit is installed: apt install luajit, or make setup");
    let lines = printed(output);
    let expected = "user:1: Ada\nuser:2: nil\nvisits: 2\n";
    let refused = "there is no setting \"time_out\"; did you mean \"timeout\"?\n";
    assert!(lines.starts_with(expected) && lines.ends_with(refused), "{lines}");
}
