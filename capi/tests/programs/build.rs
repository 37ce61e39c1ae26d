//! Compiles programs in C against the library that Cargo has just built.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How a program has the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linked {
    Shared,
    Static,
}

/// A compiled program. Its folder is removed with it.
pub struct Program {
    folder: PathBuf,
}

pub fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder with `libpinyon.so` and `libpinyon.a`, in which Cargo puts tests, too.
pub fn libraries() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().expect("it is in a folder").to_owned()
}

/// Whether the library has what AddressSanitizer adds to it, so that programs need its runtime: see `tools/sanitize`.
pub fn sanitized() -> bool {
    std::env::var_os("PINYON_SANITIZED").is_some()
}

/// For programs that were not compiled here: the runtime comes first, and their own leaks do not matter.
pub fn with_runtime(command: &mut Command) -> &mut Command {
    if let Some(runtime) = std::env::var_os("PINYON_SANITIZED") {
        command.env("LD_PRELOAD", runtime).env("ASAN_OPTIONS", "detect_leaks=0");
    }
    command
}

impl Program {
    pub fn compile(compiler: &[&str], source: &str, linked: Linked) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("pinyon-program-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let program = Self { folder };
        let mut command = Command::new(compiler[0]);
        command.args(&compiler[1..]).args(["-g", "-Wall", "-Wextra", "-pedantic", "-Werror", "-o"]);
        command.arg(program.path()).arg("-I").arg(crate_folder().join("include"));
        command.args(["-Wno-missing-field-initializers"]).arg(crate_folder().join(source));
        if sanitized() {
            command.args([
                "-fno-omit-frame-pointer",
                "-fsanitize=address,undefined",
                "-fno-sanitize-recover=undefined",
            ]);
            // With checks between its calls, gcc no longer knows how long a text is.
            command.arg("-Wno-format-truncation");
        }
        match linked {
            Linked::Shared => {
                let libraries = libraries();
                // Cargo names it without the number of the interface.
                let _ =
                    std::os::unix::fs::symlink(libraries.join("libpinyon.so"), program.folder.join("libpinyon.so.1"));
                command.arg("-L").arg(&libraries).arg("-lpinyon");
                command.arg(format!("-Wl,-rpath,{}", program.folder.display()));
            }
            Linked::Static => {
                command.arg(libraries().join("libpinyon.a"));
                // Debug information of the whole library would take a debugger half a minute to read.
                command.arg("-Wl,--strip-debug").args(["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-lc"]);
            }
        }
        let output = command.output().expect("a C compiler is installed: apt install gcc g++, or make setup");
        assert!(output.status.success(), "{source}:\n{}", String::from_utf8_lossy(&output.stderr));
        program
    }

    pub fn path(&self) -> PathBuf {
        self.folder.join("program")
    }

    /// Runs it. Returns what it printed, if it succeeded.
    pub fn run(&self, arguments: &[&str]) -> String {
        printed(Command::new(self.path()).args(arguments).output().unwrap())
    }
}

/// What a program printed. It must have succeeded.
pub fn printed(Output { status, stdout, stderr }: Output) -> String {
    let (out, errors) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{status}\n{out}\n{errors}");
    out.into_owned()
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
