//! The static program where it was not made: alone in a root, beside busybox, and in other releases of Debian.

use super::check::{ENTER, fresh_root, in_namespaces, remove, unpack};
use super::{Made, Release, copy, empty, said};
use std::path::Path;
use std::process::Command;

/// Older and newer ones; the system's own is tried with the packages.
const SUITES: [&str; 3] = ["bullseye", "trixie", "sid"];

/// What mounts for ordinary users, and what tar(1) unpacks with.
const INCLUDED: &str = "fuse3,xz-utils";

/// A root that has the program and no libc; then one that has busybox, too.
pub(super) fn bare(release: &Release, made: &Made) -> Result<(), String> {
    let root = release.dir.join("root");
    empty(&root)?;
    unpack(&made.tarball, &release.dir.join("unpacked"))?;
    said(Command::new("cp").arg(release.dir.join("unpacked/ondol")).arg(&root))?;
    println!("in a root that has nothing but the program, {}:", root.display());
    let script = release.root.join("dist/check/nothing.sh");
    in_namespaces(&root, "exec sh \"$1\" \"$0\"", &[&script.to_string_lossy()], &[])?;
    remove(&root)?;
    let busybox = Path::new("/bin/busybox");
    if !busybox.exists() || said(Command::new("readelf").arg("--program-headers").arg(busybox))?.contains("INTERP") {
        println!("skipped: a root of busybox: there is no static one (Debian's package busybox-static)");
        return Ok(());
    }
    for dir in ["bin", "proc", "dev", "sys", "run", "tmp", "etc"] {
        empty(&root.join(dir))?;
    }
    said(Command::new("cp").arg(busybox).arg(root.join("bin")))?;
    said(Command::new("chroot").arg(&root).args(["/bin/busybox", "--install", "-s", "/bin"]))?;
    println!("with busybox alone, {}:", root.display());
    used(release, made, &root)
}

/// Other releases of Debian, but for those that cannot be had.
pub(super) fn others(release: &Release, made: &Made, own: &str, mirror: &str) -> Result<(), String> {
    for suite in SUITES.into_iter().filter(|suite| *suite != own) {
        let root = match fresh_root(release, suite, mirror, INCLUDED) {
            Ok(root) => root,
            Err(why) => {
                println!("skipped: nothing is tried with Debian's {suite}: {why}");
                continue;
            }
        };
        println!("with Debian's {suite}, {}:", root.display());
        used(release, made, &root)?;
    }
    Ok(())
}

/// From the tarball to a mounted volume, and what the program does there.
fn used(release: &Release, made: &Made, root: &Path) -> Result<(), String> {
    copy(&made.tarball, &root.join("tmp/ondol.tar.xz"))?;
    copy(&release.root.join("dist/check/elsewhere.sh"), &root.join("elsewhere.sh"))?;
    in_namespaces(root, ENTER, &["/elsewhere.sh"], &[])?;
    remove(root)
}
