//! Names the shared library for the linker.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The number of the interface, `PINYON_ABI`.
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpinyon.so.1");
    }
}
