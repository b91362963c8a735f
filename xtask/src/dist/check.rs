//! `cargo xtask dist --check`: the packages once more, which must be the same bytes; the tarball's list of files
//! against the package's; both installed into a fresh root and tried; and the container's recipe on another.

use super::{Made, Release, copy, empty, is_there, said};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the root has besides Debian's smallest: what the package recommends, and what reads its files.
const INCLUDED: &str = "bash-completion,e2fsprogs,fish,fuse3,make,man-db,mount,sqlite3,systemd,zsh";

/// Fails at the first thing that is not as it should be. What cannot be tried here is named on a line.
pub(super) fn check(release: &Release, made: &Made) -> Result<(), String> {
    is_reproducible(release, made)?;
    if is_root() {
        super::elsewhere::bare(release, made)?;
    } else {
        println!("skipped: the program is not tried in a root without a libc: only root can make one");
    }
    if made.debs.is_empty() {
        println!("skipped: packages are not compared and not installed, since there are none");
        return Ok(());
    }
    lists_are_the_same(release, made)?;
    lintian(made)?;
    if let Some(why) = missing() {
        println!("skipped: the packages are not installed into a fresh root: {why}");
        return Ok(());
    }
    let (suite, mirror) = suite_and_mirror()?;
    let root = fresh_root(release, &suite, &mirror, INCLUDED)?;
    println!("in a fresh root, {}:", root.display());
    for deb in &made.debs {
        let name = deb.file_name().unwrap_or_default().to_string_lossy();
        copy(deb, &root.join("tmp").join(format!("{}.deb", name.split('_').next().unwrap_or_default())))?;
    }
    notes(release, &root)?;
    unpack(&made.tarball, &root.join("tmp/ondol"))?;
    copy(&release.root.join("dist/check/package.sh"), &root.join("package.sh"))?;
    in_namespaces(&root, ENTER, &["/package.sh"], &[])?;
    remove(&root)?;
    container(release, &fresh_root(release, &suite, &mirror, INCLUDED)?)?;
    super::elsewhere::others(release, made, &suite, &mirror)
}

fn is_root() -> bool {
    said(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

/// Why no root can be made here.
fn missing() -> Option<String> {
    if !is_root() {
        return Some("only root can make one".into());
    }
    if !Path::new("/dev/fuse").exists() {
        return Some("there is no /dev/fuse".into());
    }
    let tool = ["debootstrap", "unshare", "apt-get"].into_iter().find(|tool| !is_there(tool));
    tool.map(|tool| format!("there is no `{tool}`"))
}

fn is_reproducible(release: &Release, made: &Made) -> Result<(), String> {
    let again = super::make(release, &release.dir.join("again"))?;
    let pairs = [(&made.tarball, &again.tarball), (&made.lab, &again.lab)];
    let pairs = pairs.into_iter().chain(made.debs.iter().zip(&again.debs));
    for (first, second) in pairs {
        let [first_bytes, second_bytes] =
            [first, second].map(|path| std::fs::read(path).map_err(|e| format!("{}: {e}", path.display())));
        if first_bytes? != second_bytes? {
            return Err(format!("{} and {} differ: made twice of the same", first.display(), second.display()));
        }
    }
    println!("made twice: the same bytes");
    Ok(())
}

/// What the tarball's tree installs must be what the packages do.
fn lists_are_the_same(release: &Release, made: &Made) -> Result<(), String> {
    let (tree, stage) = (release.dir.join("unpacked"), release.dir.join("installed"));
    unpack(&made.tarball, &tree)?;
    empty(&stage)?;
    for target in ["install", "install-library", "install-sqlite"] {
        super::deb::install(&tree, &stage, target)?;
    }
    unpack(&made.lab, &tree)?;
    super::deb::install(&tree, &stage, "install-lab")?;
    let files = |dir: &Path| -> Result<BTreeSet<String>, String> {
        let found = said(Command::new("find").current_dir(dir).args([".", "!", "-type", "d"]))?;
        // Debian's policy compresses these, and names the changelog. Each package has one, its terms, and words for
        // lintian.
        let name = |line: &str| line.trim_end_matches(".gz").replace("CHANGELOG.md", "changelog");
        let own =
            |line: &String| line.contains("/doc/lib") || line.contains("/doc/ondol-lab/") || line.contains("/lintian/");
        Ok(found.lines().map(name).filter(|line| !own(line)).collect())
    };
    let of_debs = release.dir.join("of-debs");
    empty(&of_debs)?;
    for deb in &made.debs {
        said(Command::new("dpkg-deb").arg("--extract").arg(deb).arg(&of_debs))?;
    }
    let (ours, packaged) = (files(&stage)?, files(&of_debs)?);
    let differences: Vec<&String> = ours.symmetric_difference(&packaged).collect();
    if !differences.is_empty() || ours.is_empty() {
        return Err(format!("the packages and `make install` do not install the same files: {differences:?}"));
    }
    println!("the packages and `make install` install the same {} files", ours.len());
    Ok(())
}

/// Debian's own check finds nothing but what `dist/lintian-overrides` has reasons for.
fn lintian(made: &Made) -> Result<(), String> {
    if !is_there("lintian") {
        println!("skipped: the packages are not checked by Debian's policy: there is no `lintian`");
        return Ok(());
    }
    let mut lintian = Command::new("lintian");
    crate::run(lintian.args(["--fail-on", "error,warning", "--tag-display-limit", "0"]).args(&made.debs))?;
    println!("lintian has no word against the packages");
    Ok(())
}

/// Compiles the example in C, as pkg-config says for what the packages install, into a root: that has no compiler, and
/// the same libc.
fn notes(release: &Release, root: &Path) -> Result<(), String> {
    if let Some(tool) = ["cc", "pkg-config"].into_iter().find(|tool| !is_there(tool)) {
        println!("skipped: no program is linked with libondol: there is no `{tool}`");
        return Ok(());
    }
    let of_debs = release.dir.join("of-debs");
    let described = said(Command::new("find").arg(&of_debs).args(["-name", "ondol.pc"]))?;
    let described = Path::new(described.trim()).parent().unwrap_or(&of_debs);
    for (name, how) in [("notes-shared", &[][..]), ("notes-static", &["--static"][..])] {
        let mut flags = Command::new("pkg-config");
        flags.args(["--cflags", "--libs"]).args(how).arg("ondol");
        let flags = said(flags.env("PKG_CONFIG_LIBDIR", described).env("PKG_CONFIG_SYSROOT_DIR", &of_debs))?;
        // The linker takes the shared library where there are both.
        let flags = flags
            .split_whitespace()
            .map(|flag| if flag == "-londol" && !how.is_empty() { "-l:libondol.a" } else { flag });
        let source = release.root.join("front/capi/examples/notes.c");
        said(Command::new("cc").arg(source).arg("-o").arg(root.join("tmp").join(name)).args(flags))?;
    }
    Ok(())
}

/// Unpacks the tarball so that its tree is `dir`.
pub(super) fn unpack(tarball: &Path, dir: &Path) -> Result<(), String> {
    empty(dir)?;
    said(Command::new("tar").arg("-xf").arg(tarball).arg("--strip-components=1").arg("-C").arg(dir)).map(|_| ())
}

/// A root of a release of Debian that nothing was installed into. What debootstrap makes is kept as an archive, and
/// unpacked each time.
pub(super) fn fresh_root(release: &Release, suite: &str, mirror: &str, included: &str) -> Result<PathBuf, String> {
    let roots = release.dir.with_file_name("dist-roots");
    let root = release.dir.join("root");
    // By what is in it, so that another list of packages makes another one.
    let archive = roots.join(format!("{suite}+{}.tar", included.replace(',', "+")));
    if !archive.exists() {
        let made = roots.join(suite);
        empty(&made)?;
        println!("debootstrap {suite} from {mirror}: some minutes, once");
        let mut bootstrap = Command::new("debootstrap");
        bootstrap.args(["--variant=minbase", "--include", included, suite]).arg(&made).arg(mirror);
        said(&mut bootstrap)?;
        let new = roots.join("new.tar");
        said(Command::new("tar").args(["--numeric-owner", "-C"]).arg(&made).arg("-cf").arg(&new).arg("."))?;
        std::fs::rename(&new, &archive).map_err(|e| format!("{}: {e}", new.display()))?;
        remove(&made)?;
    }
    empty(&root)?;
    said(Command::new("tar").args(["--numeric-owner", "-C"]).arg(&root).arg("-xpf").arg(&archive))?;
    Ok(root)
}

/// The release of this system, and where apt has it from.
fn suite_and_mirror() -> Result<(String, String), String> {
    let release = std::fs::read_to_string("/etc/os-release").map_err(|e| format!("/etc/os-release: {e}"))?;
    let suite = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let suite = suite.ok_or("/etc/os-release has no VERSION_CODENAME")?.trim_matches('"').to_owned();
    let targets = said(Command::new("apt-get").args(["indextargets", "--format", "$(RELEASE) $(REPO_URI)"]))?;
    let mirror = targets.lines().find_map(|line| line.strip_prefix(&format!("{suite} ")));
    let mirror = mirror.ok_or_else(|| format!("apt has no source of {suite}: look into /etc/apt"))?;
    Ok((suite.clone(), mirror.to_owned()))
}

/// What is done in a mount and process namespace of its own: what is left of mounts and servers goes with it.
pub(super) const ENTER: &str = "\
mount -t proc proc \"$0/proc\"
mount --rbind /dev \"$0/dev\"
mount --rbind /sys \"$0/sys\"
mount -t tmpfs run \"$0/run\"
exec chroot \"$0\" /bin/sh \"$1\"";

/// As a runtime of containers does it: a root that is not above another one, few devices, no capability. `/dev/fuse` is
/// for everybody, as udev makes it; there may be no udev here.
const CONTAIN: &str = "mount --bind \"$0\" \"$0\"
cd \"$0\"
mount -t proc proc proc
mount -t tmpfs dev dev
for device in null zero urandom; do touch dev/$device; mount --bind /dev/$device dev/$device; done
mknod -m 666 dev/fuse c 10 229
mount -t tmpfs tmp tmp
mount --bind volume volume
mkdir before
pivot_root . before
cd /
umount -l /before
mount -o remount,bind,ro /
exec setpriv --reuid=1000 --regid=1000 --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs sh \
                       /container.sh \"$1\"";

/// Runs a script with a root and what follows it as its words, in a mount and process namespace of its own.
pub(super) fn in_namespaces(
    root: &Path,
    script: &str,
    words: &[&str],
    variables: &[(&str, &str)],
) -> Result<(), String> {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", script]).arg(root).args(words);
    crate::run(unshare.envs(variables.iter().copied()))
}

/// The recipe of the container's image on a fresh root, and what it is for.
fn container(release: &Release, root: &Path) -> Result<(), String> {
    println!("as an ordinary user in a container, {}:", root.display());
    let oci = release.root.join("dist/oci");
    let recipe = oci.join("Containerfile");
    let recipe = std::fs::read_to_string(&recipe).map_err(|e| format!("{}: {e}", recipe.display()))?;
    let recipe = Recipe::read(&recipe)?;
    let programs = [release.program.clone(), oci.join("with-volume")];
    said(Command::new("install").args(["-m", "755", "-t"]).arg(root.join("usr/bin")).args(programs))?;
    said(Command::new("chroot").arg(root).args(["sh", "-euc", recipe.run]))?;
    copy(&release.root.join("dist/check/container.sh"), &root.join("container.sh"))?;
    in_namespaces(root, CONTAIN, &[recipe.entry], &recipe.variables)?;
    remove(root)
}

/// What a recipe runs once, what it starts, and the variables that it sets.
struct Recipe<'a> {
    run: &'a str,
    entry: &'a str,
    variables: Vec<(&'a str, &'a str)>,
}

impl<'a> Recipe<'a> {
    fn read(text: &'a str) -> Result<Self, String> {
        let entry = text.lines().find_map(|line| line.strip_prefix("ENTRYPOINT [\"")?.strip_suffix("\"]"));
        let run = text.lines().find_map(|line| line.strip_prefix("RUN ")).ok_or("the Containerfile runs nothing")?;
        let variables = text.lines().filter_map(|line| line.strip_prefix("ENV ")?.split_once('='));
        let entry = entry.ok_or("the Containerfile has no entry point of one word")?;
        Ok(Self { run, entry, variables: variables.collect() })
    }
}

/// Removes a root, and nothing that is mounted in it.
pub(super) fn remove(root: &Path) -> Result<(), String> {
    said(Command::new("rm").args(["-r", "--one-file-system"]).arg(root)).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recipe_is_read() {
        let recipe = include_str!("../../../dist/oci/Containerfile");
        let read = Recipe::read(recipe).expect("recipe");
        assert_eq!(read.entry, "/usr/bin/with-volume");
        assert!(read.run.starts_with("mkdir /data /volume"), "{}", read.run);
        let names: Vec<&str> = read.variables.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["ONDOL_IMAGE", "ONDOL_SIZE", "ONDOL_OPTIONS", "ONDOL_DIR"]);
        let script = include_str!("../../../dist/oci/with-volume");
        for name in names {
            assert!(script.contains(&format!("${name}")), "{name} is set and not used");
        }
        assert!(Recipe::read("FROM debian").is_err());
    }
}
