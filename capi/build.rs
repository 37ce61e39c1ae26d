//! Names the shared library for the linker, and has it stay in a process that closes it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    // The number of the interface, `PINYON_ABI`.
    let named = match &*target {
        "linux" | "freebsd" => "-soname,libpinyon.so.1",
        "macos" => "-install_name,@rpath/libpinyon.1.dylib",
        _ => return,
    };
    println!("cargo:rustc-cdylib-link-arg=-Wl,{named}");
    // Else what it has made once for all would be lost each time. macOS keeps each library that has variables of threads, as
    // Rust's all have.
    if target != "macos" {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
