//! What `make install-c` puts where, and what the shared library shows of itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::build::{crate_folder, libraries, printed, with_runtime};
use crate::server::Memcached;

/// A folder that is removed with it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(program: &str, arguments: &[&str]) -> String {
    printed(Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}")))
}

#[test]
fn a_program_is_built_with_what_was_installed() {
    let root = Folder(std::env::temp_dir().join(format!("pinyon-installed-{}", std::process::id())));
    let made = Command::new("make")
        .args(["--no-print-directory", "install-c-built", "PREFIX=/usr", "LIBDIR=/usr/lib/x86_64-linux-gnu"])
        .arg(format!("DESTDIR={}", root.0.display()))
        .arg(format!("C_BUILT={}", libraries().display()))
        .current_dir(crate_folder().parent().unwrap())
        .output()
        .expect("make is installed");
    printed(made);
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", "pinyon"])
        .env("PKG_CONFIG_PATH", root.0.join("usr/lib/x86_64-linux-gnu/pkgconfig"))
        .env("PKG_CONFIG_SYSROOT_DIR", &root.0)
        .output()
        .expect("pkg-config is installed: apt install pkg-config, or make setup");
    let flags = printed(flags);
    let program = root.0.join("blocking");
    let example = crate_folder().join("examples/blocking.c");
    let mut arguments = vec![example.to_str().unwrap(), "-o", program.to_str().unwrap()];
    arguments.extend(flags.split_whitespace());
    run("gcc", &arguments);
    let server = Memcached::tcp();
    let output = with_runtime(&mut Command::new(&program))
        .arg(server.address().to_string())
        .env("LD_LIBRARY_PATH", root.0.join("usr/lib/x86_64-linux-gnu"))
        .output()
        .unwrap();
    assert!(printed(output).starts_with("user:1: Ada\n"));
}

#[test]
fn the_shared_library_exports_the_interface_and_nothing_else() {
    let library = libraries().join("libpinyon.so");
    let library = library.to_str().unwrap();
    let symbols = run("nm", &["-D", "--defined-only", library]);
    let exported: BTreeSet<&str> = symbols.lines().filter_map(|line| line.split_whitespace().last()).collect();
    let others: Vec<_> = exported.iter().filter(|name| !name.starts_with("pinyon_")).collect();
    assert_eq!(others, Vec::<&&str>::new());
    assert!(exported.contains("pinyon_run"));
    assert!(run("readelf", &["-d", library]).contains("[libpinyon.so.1]"), "it has a soname");
}

/// What a block without a `main` may use: clients, a host, and functions of the program.
const AROUND_A_BLOCK: &str = "#include <pinyon.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
void use(pinyon_bytes);
void begin(uint64_t token);
void end(uint64_t token);
void wait_for_signal(double seconds);
void block(pinyon_client *client, pinyon_locks *locks, pinyon_host host);
void block(pinyon_client *client, pinyon_locks *locks, pinyon_host host)
{
(void)client;
(void)locks;
(void)host;
";

#[test]
fn blocks_of_the_documentation_compile() {
    let page = crate_folder().parent().unwrap().join("docs/c.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```c\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut count = 0;
    for block in blocks {
        let source = match block.contains("int main(") {
            true => block.to_owned(),
            false => format!("{AROUND_A_BLOCK}{block}\n}}\n"),
        };
        compile(&source).unwrap_or_else(|errors| panic!("{block}\n{errors}"));
        count += 1;
    }
    assert!(count > 3, "the page has blocks");
}

fn compile(source: &str) -> Result<(), String> {
    use std::io::Write;
    let mut compiler = Command::new("gcc")
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c", "-I"])
        .arg(Path::new(crate_folder()).join("include"))
        .arg("-")
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("a C compiler is installed: apt install gcc, or make setup");
    compiler.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    let output = compiler.wait_with_output().unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}
