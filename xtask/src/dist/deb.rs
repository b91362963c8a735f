//! The Debian package: what `make install` installs, as Debian wants it, and the files that say what the package needs.

use super::{Release, empty, said, write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What apt shows of the package.
const DESCRIPTION: &str = "\
crash-consistent ext4 in user space
 Ondol makes, checks and mounts ordinary ext4 images without a kernel module and
 without root. It keeps the data of files as safe as their metadata, and makes
 synchronous writes cheap, on disks and with non-volatile memory.
 .
 The package has the program, the helpers of mount(8), umount(8), fsck(8) and
 mkfs(8), their manual pages, completions for bash, zsh and fish, a unit for
 systemd, and examples.";

/// Makes the package in `dir` from the tarball's tree.
pub(super) fn make(release: &Release, tree: &Path, dir: &Path) -> Result<PathBuf, String> {
    let stage = dir.join("deb");
    empty(&stage)?;
    install(tree, &stage)?;
    compress(&stage)?;
    let needs = needs(release, dir)?;
    let architecture = said(Command::new("dpkg").arg("--print-architecture"))?;
    let kibibytes = said(Command::new("du").args(["-sk", "--apparent-size"]).arg(&stage))?;
    let kibibytes = kibibytes.split_whitespace().next().unwrap_or_default();
    let sums = sums(&stage)?;
    let about = stage.join("DEBIAN");
    empty(&about)?;
    write(&about.join("control"), control(&release.version, architecture.trim(), kibibytes, &needs))?;
    write(&about.join("md5sums"), sums)?;
    let deb = dir.join(format!("ondol_{}_{}.deb", release.version, architecture.trim()));
    let mut build = Command::new("dpkg-deb");
    // One thread: how many there are changes the bytes.
    build.args(["--root-owner-group", "-Zxz", "--threads-max=1", "--build"]).arg(&stage).arg(&deb);
    said(build.env("SOURCE_DATE_EPOCH", &release.time))?;
    Ok(deb)
}

/// Installs the tarball's tree with Debian's paths into `stage`.
pub(super) fn install(tree: &Path, stage: &Path) -> Result<(), String> {
    let mut install = Command::new("make");
    install.arg("-C").arg(tree).args(["install", "PREFIX=/usr", "ZSHDIR=/usr/share/zsh/vendor-completions"]);
    said(install.arg(format!("DESTDIR={}", stage.display()))).map(|_| ())
}

fn control(version: &str, architecture: &str, kibibytes: &str, needs: &str) -> String {
    format!(
        "Package: ondol\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: The Ondol developers\n\
         Installed-Size: {kibibytes}\nDepends: {needs}\nRecommends: fuse3, e2fsprogs\nSection: admin\n\
         Priority: optional\nDescription: {DESCRIPTION}\n"
    )
}

/// Manual pages and the changelog are compressed, as Debian's policy has it.
fn compress(stage: &Path) -> Result<(), String> {
    let share = stage.join("usr/share");
    let (changes, name) = (share.join("doc/ondol/CHANGELOG.md"), share.join("doc/ondol/changelog"));
    std::fs::rename(&changes, &name).map_err(|e| format!("{}: {e}", changes.display()))?;
    let mut find = Command::new("find");
    find.arg(share.join("man")).arg(&name).args(["-type", "f", "-exec", "gzip", "-9n", "{}", "+"]);
    said(&mut find).map(|_| ())
}

/// The packages that the program's shared libraries come from, and those of the library that it carries for `ondol run`.
fn needs(release: &Release, dir: &Path) -> Result<String, String> {
    let scratch = dir.join("needs");
    empty(&scratch.join("debian"))?;
    // What dpkg-shlibdeps asks for.
    write(&scratch.join("debian/control"), "Source: ondol\n\nPackage: ondol\nArchitecture: any\n")?;
    // The program writes the library where a program can preload it.
    let mut run = Command::new(&release.program);
    run.args(["run", "--quiet", "--buffer"]).arg(scratch.join("pool")).arg("--dir").arg(&scratch);
    said(run.args(["--", "true"]).env("XDG_CACHE_HOME", &scratch))?;
    let libraries = scratch.join("ondol");
    let entries = std::fs::read_dir(&libraries).map_err(|e| format!("{}: {e}", libraries.display()))?;
    let library =
        entries.filter_map(|entry| Some(entry.ok()?.path())).find(|path| path.extension().is_some_and(|e| e == "so"));
    let library = library.ok_or_else(|| format!("{}: no library of `ondol run`", libraries.display()))?;
    let mut resolve = Command::new("dpkg-shlibdeps");
    resolve.current_dir(&scratch).arg("-O").arg("-e").arg(&release.program).arg("-e").arg(&library);
    let said = said(&mut resolve)?;
    let needs = said.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    needs.map(str::to_owned).ok_or_else(|| format!("dpkg-shlibdeps names no package: {said}"))
}

/// The sums of all files, as debsums(1) and `dpkg --verify` read them.
fn sums(stage: &Path) -> Result<String, String> {
    let mut find = Command::new("find");
    let sums = said(find.current_dir(stage).args(["usr", "-type", "f", "-exec", "md5sum", "{}", "+"]))?;
    let mut lines: Vec<&str> = sums.lines().collect();
    lines.sort_unstable_by_key(|line| line.split_once("  ").map_or(*line, |(_, path)| path));
    Ok(lines.join("\n") + "\n")
}
