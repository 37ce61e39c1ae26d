//! The header is written by hand, and Rust follows it. Here the C compiler compares the two: it reads the header, then the
//! prototypes, layouts and numbers that Rust has. Where they differ, it refuses.

mod rust_side;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use regex_lite::Regex;

/// The header, and its chapters that are files of their own.
const FILES: [(&str, &str); 4] = [
    ("pinyon.h", include_str!("../../include/pinyon.h")),
    ("pinyon/values.h", include_str!("../../include/pinyon/values.h")),
    ("pinyon/locks.h", include_str!("../../include/pinyon/locks.h")),
    ("pinyon/loops.h", include_str!("../../include/pinyon/loops.h")),
];

/// The header as the compiler reads it.
fn header() -> String {
    let [(_, main), chapters @ ..] = FILES;
    chapters.into_iter().fold(main.to_owned(), |header, (name, text)| {
        let included = format!("#include \"{name}\"\n");
        assert!(header.contains(&included));
        header.replace(&included, text)
    })
}

/// Runs a compiler over the header and what is behind it. Returns its complaints.
fn compiled(compiler: &[&str], header: &str, behind: &str) -> Result<(), String> {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let directory = std::env::temp_dir().join(format!("pinyon-header-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("pinyon.h"), header).unwrap();
    let source = directory.join("source.c");
    std::fs::write(&source, format!("#include \"pinyon.h\"\n{behind}\n")).unwrap();
    let output = Command::new(compiler[0])
        .args(&compiler[1..])
        .args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"])
        .arg(&source)
        .output()
        .expect("a C compiler is installed: apt install gcc g++, or make setup");
    std::fs::remove_dir_all(&directory).unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

const C99: &[&str] = &["gcc", "-std=c99"];
/// Of what compares the two sides: an enum is an integer on Rust's.
const C11: &[&str] = &["gcc", "-std=c11", "-Wno-enum-int-mismatch"];
const C23: &[&str] = &["gcc", "-std=c2x"];
const CXX: &[&str] = &["g++", "-std=c++11", "-x", "c++"];

fn sources() -> Vec<String> {
    fn add(folder: &Path, all: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => add(&entry.path(), all),
                false => all.push(std::fs::read_to_string(entry.path()).unwrap()),
            }
        }
    }
    let mut all = Vec::new();
    add(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut all);
    all
}

fn exported() -> Vec<rust_side::Function> {
    sources().iter().flat_map(|source| rust_side::functions(source)).collect()
}

#[test]
fn the_header_is_c99_c23_and_cpp11() {
    for compiler in [C99, C23] {
        compiled(compiler, &header(), "int main(void) { return pinyon_abi() != PINYON_ABI; }").unwrap();
    }
    compiled(CXX, &header(), "int main() { pinyon_request get = {}; return pinyon_abi() != get.size; }").unwrap();
}

#[test]
fn each_file_of_the_header_may_be_included_by_itself_and_twice() {
    for compiler in [C99, CXX] {
        for (name, _) in FILES {
            let folder = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
            let compiler: Vec<&str> = compiler.iter().copied().chain([folder]).collect();
            let twice = format!("#include <{name}>\n#include <{name}>\npinyon_loop *loop;\npinyon_locks *locks;");
            compiled(&compiler, "", &twice).unwrap();
        }
    }
}

#[test]
fn the_compiler_finds_no_difference() {
    compiled(C11, &header(), &rust_side::checks(&exported())).unwrap();
}

#[test]
fn the_compiler_finds_each_kind_of_difference() {
    let behind = rust_side::checks(&exported());
    for (from, to) in [
        (
            "pinyon_kind pinyon_error_kind(const pinyon_error *error);",
            "pinyon_kind pinyon_error_kind(pinyon_error *error);",
        ),
        ("void  pinyon_text_free(char *text);", "int pinyon_text_free(char *text);"),
        (
            "size_t count,\n                                   pinyon_error **error);",
            "int count, pinyon_error **error);",
        ),
        ("    uint64_t     cas;\n", "    uint32_t     cas;\n"),
        ("    PINYON_DECR      = 10,", "    PINYON_DECR      = 30,"),
        ("PINYON_E_CLOSED            = 19", "PINYON_E_CLOSED            = 119"),
        ("    PINYON_RAW           = 0x100,", "    PINYON_RAW           = 0x1000,"),
        ("#define PINYON_ABI 1", "#define PINYON_ABI 2"),
        ("    int64_t      recache; /*", "    uint64_t     added;\n    int64_t      recache; /*"),
    ] {
        let changed = header().replacen(from, to, 1);
        assert!(changed != header(), "the header no longer has {from:?}");
        assert!(compiled(C11, &changed, &behind).is_err(), "{to:?} is not noticed");
    }
}

#[test]
fn what_the_header_declares_is_exported_and_nothing_else() {
    let declared = Regex::new(r"(?m)^[a-z][a-z0-9_ *]*?\b\*?(pinyon_[a-z_]+)\(").unwrap();
    let header = header();
    let declared: BTreeSet<&str> = declared
        .captures_iter(&header)
        .map(|found| found.get(1).unwrap().as_str())
        .filter(|name| *name != "pinyon_text")
        .collect();
    let exported = exported();
    let exported: BTreeSet<&str> = exported.iter().map(|function| function.name.as_str()).collect();
    assert_eq!(exported.difference(&declared).collect::<Vec<_>>(), Vec::<&&str>::new());
    let absent: Vec<_> = declared.difference(&exported).collect();
    assert_eq!(absent, Vec::<&&str>::new());
}
