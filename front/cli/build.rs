//! Builds the library that `ondol run` preloads, which the program carries inside.
//!
//! A shared library cannot be an ordinary dependency: linked into the program, its `write` would be the program's own,
//! and cargo's artifact dependencies are not stable. So this calls cargo once more for that one package, with a target
//! directory of its own (the other one is locked). `cargo install` from a checkout or a git repository goes this way,
//! too, and nothing has to be installed beside the program.
#![forbid(unsafe_code)]

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const LIBRARY: &str = "libondol_preload.so";

fn main() {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../..");
    for part in ["front/preload", "crates/run-log", "crates/medium", "crates/env", "crates/power"] {
        for below in ["src", "Cargo.toml"] {
            println!("cargo::rerun-if-changed={}", root.join(part).join(below).display());
        }
    }
    println!("cargo::rerun-if-changed={}", root.join("Cargo.lock").display());
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(variable("OUT_DIR"));
    let library = out.join(LIBRARY);
    let is_made = variable("CARGO_CFG_TARGET_OS") == "linux" && variable("CARGO_CFG_TARGET_POINTER_WIDTH") == "64";
    // Where the compiler itself is linked with musl, there is no glibc to build against.
    if is_made && !variable("HOST").ends_with("-musl") {
        // Beside the results of all builds, which have it in common: OUT_DIR is `PROFILE/build/PACKAGE/out` there.
        let mut above = out.ancestors().skip(3);
        let directory = above
            .next()
            .and_then(Path::file_name)
            .and_then(|name| name.to_str())
            .expect("OUT_DIR is below that of a profile");
        let built = build(&root, directory, &above.next().unwrap_or(&out).join("preload"));
        std::fs::copy(&built, &library).unwrap_or_else(|e| panic!("cannot copy {}: {e}", built.display()));
    } else {
        // `ondol run` says that there is none.
        std::fs::write(&library, []).unwrap_or_else(|e| panic!("cannot write {}: {e}", library.display()));
    }
}

/// Builds with the profile whose results are in `directory` of a build folder.
fn build(root: &Path, directory: &str, target_dir: &Path) -> PathBuf {
    // A static program of musl carries the library of glibc: programs that can preload one have that.
    let target = variable("TARGET").replace("-musl", "-gnu");
    let profile = if directory == "debug" { "dev" } else { directory };
    let cross = target != variable("HOST");
    let mut command = Command::new(variable("CARGO"));
    command
        .args(["build", "--quiet", "--package", "ondol-preload", "--profile", profile, "--target-dir"])
        .arg(target_dir);
    if cross {
        command.args(["--target", &target]);
    }
    // As clippy calls it, this would be linted and not built.
    command.current_dir(root).env_remove("RUSTC_WORKSPACE_WRAPPER");
    if variable("CARGO_CFG_TARGET_ENV") == "musl" {
        // What else is said of the target is not for this one.
        command.env_remove("CARGO_BUILD_TARGET").env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("RUSTFLAGS");
    }
    let of_profile = format!("CARGO_PROFILE_{}", profile.to_uppercase().replace('-', "_"));
    command.env(format!("{of_profile}_STRIP"), "true").env(format!("{of_profile}_DEBUG"), "false");
    let status = command.status().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(status.success(), "{command:?} ended with {status}");
    let dir = if cross { target_dir.join(target) } else { target_dir.to_owned() };
    dir.join(directory).join(LIBRARY)
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|e| panic!("{name}: {e}"))
}
