//! The C header of `front/capi`, which cbindgen makes from the source: `cargo xtask header` compares, and `--write`
//! makes it anew.

use std::path::Path;
use std::process::Command;

/// The package.
const PACKAGE: &str = "front/capi";

/// Fails when the header is not what the source says. Where there is no cbindgen, that is said, and a test of the
/// package compares the names alone.
pub(crate) fn check() -> Result<(), String> {
    let Some((made, kept)) = both()? else { return Ok(()) };
    if words(&made) == words(&kept) {
        return Ok(());
    }
    Err(format!("{PACKAGE}/include/ondol.h is not what the source says: `cargo xtask header --write` makes it anew"))
}

/// Makes the header anew.
pub(crate) fn write() -> Result<(), String> {
    let Some((made, _)) = both()? else { return Err("it takes cbindgen".into()) };
    let path = crate::metadata()?.workspace_root.join(PACKAGE).join("include/ondol.h");
    std::fs::write(&path, made).map_err(|e| format!("{path}: {e}"))
}

/// As cbindgen makes it, and as it is kept.
fn both() -> Result<Option<(String, String)>, String> {
    let package = crate::metadata()?.workspace_root.join(PACKAGE).into_std_path_buf();
    match made(&package) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            println!(
                "skipped: {PACKAGE}/include/ondol.h is not compared: there is no cbindgen (`cargo install cbindgen`)"
            );
            Ok(None)
        }
        Err(e) => Err(format!("cbindgen: {e}")),
        Ok(output) if !output.status.success() => Err(format!("cbindgen: {}", String::from_utf8_lossy(&output.stderr))),
        Ok(output) => {
            let path = package.join("include/ondol.h");
            let kept = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            Ok(Some((String::from_utf8_lossy(&output.stdout).into_owned(), kept)))
        }
    }
}

fn made(package: &Path) -> std::io::Result<std::process::Output> {
    Command::new("cbindgen").arg("--quiet").arg("--config").arg(package.join("cbindgen.toml")).arg(package).output()
}

/// What counts: versions of cbindgen break lines differently.
fn words(header: &str) -> Vec<&str> {
    header.split_whitespace().collect()
}
