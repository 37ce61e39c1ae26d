//! Programs in C, compiled against the header and linked with the library that these tests are built with.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Compiles a program of `capi/examples` strictly.
pub fn compile(program: &str) -> PathBuf {
    let capi = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = capi.join("examples").join(program).with_extension("c");
    let test = std::env::current_exe().unwrap();
    let compiled = test.with_file_name(format!("{program}-{}", std::process::id()));
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c99", "-D_XOPEN_SOURCE=700", "-Wall", "-Wextra", "-pedantic", "-Werror", "-g", "-O1", "-I"]);
    compiler.arg(capi.join("include")).arg(source).arg("-o").arg(&compiled).arg(library(&test));
    compiler.args(["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-lc"]);
    let done = compiler.output().expect("a C compiler is installed: apt install gcc, or make setup");
    assert!(done.status.success(), "{program}.c: {}", String::from_utf8_lossy(&done.stderr));
    compiled
}

/// Runs a compiled program. Returns what it printed.
pub fn run(program: &Path, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = Command::new(program).args(arguments).output().unwrap();
    let [said, complained] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(status.success(), "{}: {status}: {complained}{said}", program.display());
    said
}

/// The static library: cargo builds it beside the tests.
fn library(test: &Path) -> PathBuf {
    test.with_file_name("libpinyon.a")
}
