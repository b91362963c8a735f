//! The tree that the tarball holds, and from which `make install` takes what it installs.

use super::{Release, copy, empty, said, write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes the tree below `dir`.
pub(super) fn make(release: &Release, dir: &Path) -> Result<PathBuf, String> {
    let name = format!("ondol-{}-{}-linux", release.version, std::env::consts::ARCH);
    let tree = dir.join(name);
    empty(&tree)?;
    copy(&release.program, &tree.join("ondol"))?;
    said(Command::new(&release.program).arg("manual").arg(tree.join("man")))?;
    scripts(&release.program, "ondol", &tree)?;
    empty(&tree.join("examples"))?;
    for file in ["Makefile", "ondol@.service.in", "examples/data.conf", "examples/data.mount", "examples/fstab"] {
        copy(&release.root.join("dist").join(file), &tree.join(file))?;
    }
    copy(&release.root.join("CHANGELOG.md"), &tree.join("CHANGELOG.md"))?;
    let programs = ["ondol-cli", "ondol-preload", "ondol-capi", "ondol-sqlite"];
    let crates = super::copyright::linked(&release.root.join("Cargo.toml"), &programs, "ondol-cli/object")?;
    write(&tree.join("copyright"), super::copyright::text(release, &crates)?)?;
    crate::capi::parts(&tree.join("lib"))?;
    crate::capi::sqlite(&tree.join("lib"))?;
    Ok(tree)
}

/// Makes the tree of the program that measures and breaks below `dir`.
pub(super) fn make_lab(release: &Release, dir: &Path) -> Result<PathBuf, String> {
    let tree = dir.join(format!("ondol-lab-{}-{}-linux", release.version, std::env::consts::ARCH));
    empty(&tree)?;
    copy(&release.lab, &tree.join("ondol-lab"))?;
    said(Command::new(&release.lab).arg("manual").arg(tree.join("man")))?;
    scripts(&release.lab, "ondol-lab", &tree)?;
    copy(&release.root.join("dist/Makefile"), &tree.join("Makefile"))?;
    copy(&release.root.join("CHANGELOG.md"), &tree.join("CHANGELOG.md"))?;
    let crates = super::copyright::linked(&crate::proof(), &["ondol-lab"], "ondol-lab/object")?;
    write(&tree.join("copyright"), super::copyright::text(release, &crates)?)?;
    Ok(tree)
}

/// The completions of a program.
fn scripts(program: &Path, name: &str, tree: &Path) -> Result<(), String> {
    empty(&tree.join("completions"))?;
    for shell in ["bash", "zsh", "fish"] {
        let script = said(Command::new(program).args(["completions", shell]))?;
        write(&tree.join(format!("completions/{name}.{shell}")), script)?;
    }
    Ok(())
}

/// Packs the tree: names in order, one date, no owner, so that the same tree gives the same bytes.
pub(super) fn pack(release: &Release, tree: &Path) -> Result<PathBuf, String> {
    let tarball = PathBuf::from(format!("{}.tar.xz", tree.display()));
    let (Some(above), Some(name)) = (tree.parent(), tree.file_name()) else {
        return Err(format!("{}: no place for a tree", tree.display()));
    };
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu", "--mode=u=rwX,go=rX"]);
    tar.arg(format!("--mtime=@{}", release.time)).args(["--use-compress-program", "xz -9 --threads=1"]);
    said(tar.arg("-C").arg(above).arg("-cf").arg(&tarball).arg(name))?;
    Ok(tarball)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn files(dir: &Path) -> BTreeSet<String> {
        let found = said(Command::new("find").current_dir(dir).args([".", "!", "-type", "d"])).expect("find");
        found.lines().map(|line| line.trim_start_matches('.').to_owned()).collect()
    }

    #[test]
    fn make_takes_away_what_it_installed() {
        if ondol_skips::skips(ondol_skips::missing(&["make", "find"])) {
            return;
        }
        let dir = tempfile::tempdir().expect("directory");
        let (tree, stage) = (dir.path().join("tree"), dir.path().join("stage"));
        let dist = crate::metadata().expect("metadata").workspace_root.join("dist").into_std_path_buf();
        for below in ["man/man1", "man/man8", "completions", "examples"] {
            empty(&tree.join(below)).expect("directory");
        }
        for file in ["Makefile", "ondol@.service.in", "examples/data.conf", "examples/data.mount", "examples/fstab"] {
            copy(&dist.join(file), &tree.join(file)).expect(file);
        }
        let pages = ["man/man1/ondol.1", "man/man8/mount.ondol.8"];
        let scripts = ["completions/ondol.bash", "completions/ondol.zsh", "completions/ondol.fish"];
        for file in pages.iter().chain(&scripts).chain(&["ondol", "copyright", "CHANGELOG.md"]) {
            write(&tree.join(file), file).expect(file);
        }
        let make = |target: &str| {
            let mut make = Command::new("make");
            make.arg("-C").arg(&tree).arg(target).arg(format!("DESTDIR={}", stage.display()));
            said(make.arg("PREFIX=/opt/ondol")).expect(target)
        };
        make("install");
        let installed = files(&stage);
        for file in ["/opt/ondol/bin/ondol", "/opt/ondol/share/man/man8/mount.ondol.8", "/usr/sbin/umount.fuse.ondol"] {
            assert!(installed.contains(file), "{file} is not in {installed:?}");
        }
        let helper = std::fs::canonicalize(stage.join("usr/sbin/fsck.ondol")).expect("a link that leads somewhere");
        assert_eq!(helper, stage.canonicalize().expect("stage").join("opt/ondol/bin/ondol"));
        let unit = std::fs::read_to_string(stage.join("opt/ondol/lib/systemd/system/ondol@.service")).expect("unit");
        assert!(unit.contains("ExecStart=/opt/ondol/bin/ondol mount -f"), "{unit}");
        make("uninstall");
        assert_eq!(files(&stage), BTreeSet::new());
    }
}
