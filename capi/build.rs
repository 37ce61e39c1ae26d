//! Names the shared library for the linker.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The number of the interface, `PINYON_ABI`.
    let named = match std::env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("linux" | "freebsd") => "-soname,libpinyon.so.1",
        Ok("macos") => "-install_name,@rpath/libpinyon.1.dylib",
        _ => return,
    };
    println!("cargo:rustc-cdylib-link-arg=-Wl,{named}");
}
