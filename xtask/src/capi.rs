//! `cargo xtask capi DIR`: `libondol` below DIR as an installation: libraries, header, and what pkg-config reads.

use std::path::Path;
use std::process::Command;

/// The package.
const PACKAGE: &str = "front/capi";
/// As the library is asked for when a program starts, and when it is linked.
const SONAME: &str = "libondol.so.0";
const LINKED: &str = "libondol.so";

/// Builds for speed, and lays out what was built.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let [dir] = words else { return Err("usage: cargo xtask capi DIR".into()) };
    let dir = std::path::absolute(dir).map_err(|e| format!("{dir}: {e}"))?;
    crate::cargo(&["build", "--release", "--quiet", "-p", "ondol-capi"])?;
    let metadata = crate::metadata()?;
    let package = metadata.workspace_root.join(PACKAGE).into_std_path_buf();
    let built = metadata.target_directory.join("release").into_std_path_buf();
    let version = metadata.workspace_packages().into_iter().find(|p| p.name.as_str() == "ondol-capi");
    let version = version.ok_or("there is no package `ondol-capi`")?.version.to_string();
    lay_out(&package, &built, &dir, &version)
}

fn lay_out(package: &Path, built: &Path, dir: &Path, version: &str) -> Result<(), String> {
    let lib = dir.join("lib");
    for below in [lib.join("pkgconfig"), dir.join("include")] {
        std::fs::create_dir_all(&below).map_err(|e| format!("{}: {e}", below.display()))?;
    }
    copy(&package.join("include/ondol.h"), &dir.join("include/ondol.h"))?;
    copy(&built.join("libondol_capi.so"), &lib.join(SONAME))?;
    copy(&built.join("libondol_capi.a"), &lib.join("libondol.a"))?;
    crate::run(Command::new("strip").arg("--strip-unneeded").arg(lib.join(SONAME)))?;
    let link = lib.join(LINKED);
    if link.is_symlink() {
        std::fs::remove_file(&link).map_err(|e| format!("{}: {e}", link.display()))?;
    }
    std::os::unix::fs::symlink(SONAME, &link).map_err(|e| format!("{}: {e}", link.display()))?;
    let template = package.join("ondol.pc.in");
    let template = std::fs::read_to_string(&template).map_err(|e| format!("{}: {e}", template.display()))?;
    let made = lib.join("pkgconfig/ondol.pc");
    let prefix = dir.display().to_string();
    std::fs::write(&made, description(&template, &prefix, version)).map_err(|e| format!("{}: {e}", made.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to).map(drop).map_err(|e| format!("{} to {}: {e}", from.display(), to.display()))
}

/// What pkg-config reads of an installation below `prefix`.
fn description(template: &str, prefix: &str, version: &str) -> String {
    template.replace("@PREFIX@", prefix).replace("@VERSION@", version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pkg_config_is_told_where_everything_is() {
        if ondol_skips::skips(ondol_skips::missing(&["pkg-config"])) {
            return;
        }
        let dir = tempfile::tempdir().expect("directory");
        let template = crate::metadata().expect("metadata").workspace_root.join(PACKAGE).join("ondol.pc.in");
        let template = std::fs::read_to_string(template).expect("template");
        std::fs::write(dir.path().join("ondol.pc"), description(&template, "/opt/ondol", "1.2.3")).expect("file");
        let asked = |what: &[&str]| {
            let mut ask = Command::new("pkg-config");
            let answer = ask.args(what).arg("ondol").env("PKG_CONFIG_PATH", dir.path()).output().expect("pkg-config");
            String::from_utf8_lossy(&answer.stdout).trim().to_owned()
        };
        assert_eq!(asked(&["--modversion"]), "1.2.3");
        assert_eq!(asked(&["--cflags", "--libs"]), "-I/opt/ondol/include -L/opt/ondol/lib -londol");
        assert!(asked(&["--libs", "--static"]).ends_with("-lgcc_s -lutil -lpthread -lm -ldl"));
    }
}
