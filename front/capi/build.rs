//! Names the shared library as programs look for it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        // Raised when a program that was linked before could no longer work.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libondol.so.0");
    }
}
