//! The program `ondol`, found or built.

use ondol_laboratory::kill::{FuseMount, no_fuse};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The program, or why there is none.
///
/// # Errors
/// It cannot be built, or was not.
pub fn program() -> Result<&'static Path, String> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PROGRAM.get_or_init(find).as_ref().map(PathBuf::as_path).map_err(Clone::clone)
}

fn find() -> Result<PathBuf, String> {
    if std::env::var_os("ONDOL").is_some() {
        return Ok(ondol_skips::ondol());
    }
    // Under cargo: of this very source, as the tests of the product build it. With other features all of it would be
    // compiled once more.
    if let Some(cargo) = std::env::var_os("CARGO") {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let built = Command::new(cargo)
            .args(["test", "-q", "-p", "ondol-object-home", "-p", "ondol-skips", "-p", "ondol", "-p", "ondol-cli"])
            .args(["--all-features", "--no-run", "--test", "program"])
            .current_dir(root)
            .status();
        if !built.is_ok_and(|status| status.success()) {
            return Err("the program cannot be built".into());
        }
    }
    Some(ondol_skips::ondol()).filter(|path| path.exists()).ok_or_else(|| "the program `ondol` is not built".into())
}

/// Why nothing can be mounted by the program here.
pub fn no_fuse_mount() -> Option<String> {
    no_fuse().or_else(|| program().err())
}

/// Mounts `image` on `dir`, which exists, with comma-separated options.
///
/// # Errors
/// What the server said, or that it hangs.
pub fn mount(image: &Path, dir: &Path, options: &str) -> Result<FuseMount, String> {
    FuseMount::new(program()?, image, dir, options)
}
