//! `libondol`, and the extension of SQLite, built for speed: their parts for the packages, and `cargo xtask capi DIR`,
//! which installs the library below DIR.

use std::path::Path;
use std::process::Command;

/// The package.
const PACKAGE: &str = "front/capi";
/// As the library is asked for when a program starts.
const SONAME: &str = "libondol.so.0";

/// Installs what was built.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let [dir] = words else { return Err("usage: cargo xtask capi DIR".into()) };
    let dir = std::path::absolute(dir).map_err(|e| format!("{dir}: {e}"))?;
    let metadata = crate::metadata()?;
    let tree = metadata.target_directory.join("capi").into_std_path_buf();
    parts(&tree.join("lib"))?;
    copy(metadata.workspace_root.join("dist/Makefile").as_std_path(), &tree.join("Makefile"))?;
    let mut install = Command::new("make");
    install.arg("-C").arg(&tree).args(["--quiet", "install-library"]).arg(format!("PREFIX={}", dir.display()));
    crate::run(&mut install)
}

/// Builds the libraries and puts them into a directory, without symbols that nobody can call, with the header and what
/// pkg-config's file is made from.
pub(crate) fn parts(dir: &Path) -> Result<(), String> {
    crate::cargo(&["build", "--profile=fast", "--quiet", "-p", "ondol-capi"])?;
    let metadata = crate::metadata()?;
    let package = metadata.workspace_root.join(PACKAGE).into_std_path_buf();
    let built = metadata.target_directory.join("fast").into_std_path_buf();
    let version = metadata.workspace_packages().into_iter().find(|p| p.name.as_str() == "ondol-capi");
    let version = version.ok_or("there is no package `ondol-capi`")?.version.to_string();
    std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    copy(&package.join("include/ondol.h"), &dir.join("ondol.h"))?;
    copy(&built.join("libondol_capi.so"), &dir.join(SONAME))?;
    copy(&built.join("libondol_capi.a"), &dir.join("libondol.a"))?;
    crate::run(Command::new("strip").arg("--strip-unneeded").arg(dir.join(SONAME)))?;
    // The standard library comes with the compiler's intermediate form beside the machine's: three quarters of the
    // file, of use to no linker of C.
    let strip =
        ["--strip-debug", "--enable-deterministic-archives", "--remove-section=.llvmbc", "--remove-section=.llvmcmd"];
    crate::run(Command::new("strip").args(strip).arg(dir.join("libondol.a")))?;
    let template = package.join("ondol.pc.in");
    let template = std::fs::read_to_string(&template).map_err(|e| format!("{}: {e}", template.display()))?;
    let made = dir.join("ondol.pc.in");
    std::fs::write(&made, template.replace("@VERSION@", &version)).map_err(|e| format!("{}: {e}", made.display()))
}

/// Builds the extension of SQLite and puts it into a directory, without symbols that nobody can call.
pub(crate) fn sqlite(dir: &Path) -> Result<(), String> {
    const EXTENSION: &str = "libondol_sqlite.so";
    crate::cargo(&["build", "--profile=fast", "--quiet", "-p", "ondol-sqlite"])?;
    let built = crate::metadata()?.target_directory.join("fast").join(EXTENSION).into_std_path_buf();
    copy(&built, &dir.join(EXTENSION))?;
    crate::run(Command::new("strip").arg("--strip-unneeded").arg(dir.join(EXTENSION)))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to).map(drop).map_err(|e| format!("{} to {}: {e}", from.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pkg_config_is_told_where_everything_is() {
        if ondol_skips::skips(ondol_skips::missing(&["make", "pkg-config"])) {
            return;
        }
        let dir = tempfile::tempdir().expect("directory");
        let (tree, at) = (dir.path().join("tree"), dir.path().join("opt"));
        std::fs::create_dir_all(tree.join("lib")).expect("directory");
        let root = crate::metadata().expect("metadata").workspace_root.into_std_path_buf();
        copy(&root.join("dist/Makefile"), &tree.join("Makefile")).expect("copy");
        for part in [SONAME, "libondol.a", "ondol.h"] {
            std::fs::write(tree.join("lib").join(part), part).expect("file");
        }
        let template = std::fs::read_to_string(root.join(PACKAGE).join("ondol.pc.in")).expect("template");
        std::fs::write(tree.join("lib/ondol.pc.in"), template.replace("@VERSION@", "1.2.3")).expect("file");
        let make = |target: &str| {
            let mut make = Command::new("make");
            make.arg("-C").arg(&tree).args(["--quiet", target]).arg(format!("PREFIX={}", at.display()));
            crate::run(&mut make).expect(target);
        };
        make("install-library");
        let asked = |what: &[&str]| {
            let mut ask = Command::new("pkg-config");
            let answer = ask.args(what).arg("ondol").env("PKG_CONFIG_PATH", at.join("lib/pkgconfig")).output();
            String::from_utf8_lossy(&answer.expect("pkg-config").stdout).trim().to_owned()
        };
        assert_eq!(asked(&["--modversion"]), "1.2.3");
        assert_eq!(asked(&["--cflags", "--libs"]), format!("-I{0}/include -L{0}/lib -londol", at.display()));
        assert!(asked(&["--libs", "--static"]).ends_with("-lgcc_s -lutil -lpthread -lm -ldl"));
        assert_eq!(std::fs::read_to_string(at.join("lib/libondol.so")).expect("a link"), SONAME);
        make("uninstall-library");
        let left = Command::new("find").arg(&at).args(["!", "-type", "d"]).output().expect("find").stdout;
        assert_eq!(String::from_utf8_lossy(&left), "");
    }
}
