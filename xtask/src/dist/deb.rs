//! The Debian packages: what `make` installs, as Debian wants it, and the files that say what each package needs.

use super::{Release, copy, empty, said, write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A package: what `make` installs into it, what it needs of others of ours, and what apt shows of it.
struct Package {
    name: &'static str,
    /// What `make` installs, and what of that belongs to another package.
    targets: &'static [&'static str],
    without: &'static [&'static str],
    /// Its place in Debian's archive.
    section: &'static str,
    recommends: &'static str,
    description: &'static str,
}

const PACKAGES: [Package; 5] = [
    Package {
        name: "ondol",
        targets: &["install"],
        without: &[],
        section: "admin",
        recommends: "fuse3, e2fsprogs",
        description: "\
crash-consistent ext4 in user space
 Ondol makes, checks and mounts ordinary ext4 images without a kernel module and
 without root. It keeps the data of files as safe as their metadata, and makes
 synchronous writes cheap, on disks and with non-volatile memory.
 .
 The package has the program, the helpers of mount(8), umount(8), fsck(8) and
 mkfs(8), their manual pages, completions for bash, zsh and fish, a unit for
 systemd, and examples.",
    },
    Package {
        name: "ondol-lab",
        targets: &["install-lab"],
        without: &[],
        section: "admin",
        recommends: "fuse3, e2fsprogs",
        description: "\
crash-consistent ext4 in user space: benches and crash laboratory
 With it `ondol bench` measures file systems beside each other, and `ondol crash`
 looks for a power cut that breaks what Ondol promises.
 .
 The package has the program that these two commands start, its manual pages, and
 completions for bash, zsh and fish.",
    },
    Package {
        name: "libondol0",
        targets: &["install-shared"],
        without: &[],
        section: "libs",
        recommends: "",
        description: "\
crash-consistent ext4 in user space, as a library
 Programs read and write ext4 images with it, without a kernel module, without a
 mount and without root; what they change as one is there after a crash as one.
 .
 The package has the shared library.",
    },
    Package {
        name: "libondol-dev",
        targets: &["install-library"],
        without: &["libondol.so.0"],
        section: "libdevel",
        recommends: "",
        description: "\
crash-consistent ext4 in user space, as a library: development files
 Programs read and write ext4 images with it, without a kernel module, without a
 mount and without root; what they change as one is there after a crash as one.
 .
 The package has the header, the static library, and what pkg-config reads.",
    },
    Package {
        name: "libsqlite3-mod-ondol",
        targets: &["install-sqlite"],
        without: &[],
        section: "libs",
        recommends: "",
        description: "\
SQLite extension that keeps databases in ext4 images
 Databases that SQLite opens with the VFS of this extension lie in an ext4
 image. A commit is one operation of the file system: no journal file, one wait
 for the disk, all or nothing after a crash.
 .
 The package has the loadable extension libondol_sqlite.",
    },
];

/// Makes the packages in `dir` from the trees of the tarballs.
pub(super) fn make(release: &Release, [tree, lab]: [&Path; 2], dir: &Path) -> Result<Vec<PathBuf>, String> {
    let tree_of = |package: &Package| if package.name == "ondol-lab" { lab } else { tree };
    PACKAGES.iter().map(|package| package.make(release, tree_of(package), dir)).collect()
}

impl Package {
    fn make(&self, release: &Release, tree: &Path, dir: &Path) -> Result<PathBuf, String> {
        let stage = dir.join("deb");
        empty(&stage)?;
        for target in self.targets {
            install(tree, &stage, target)?;
        }
        let libraries = stage.join("usr/lib").join(multiarch()?);
        for file in self.without {
            let path = libraries.join(file);
            std::fs::remove_file(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        self.document(release, tree, &stage)?;
        let architecture = said(Command::new("dpkg").arg("--print-architecture"))?;
        let kibibytes = said(Command::new("du").args(["-sk", "--apparent-size"]).arg(&stage))?;
        let kibibytes = kibibytes.split_whitespace().next().unwrap_or_default();
        let sums = sums(&stage)?;
        let about = stage.join("DEBIAN");
        empty(&about)?;
        let needs = match self.name {
            // The program is static.
            "ondol" => String::new(),
            // It mounts by the program, and counts by its counters.
            "ondol-lab" => format!("ondol (= {})", release.version),
            "libondol0" => needs(release, dir, &libraries.join("libondol.so.0"))?,
            "libsqlite3-mod-ondol" => needs(release, dir, &libraries.join("libondol_sqlite.so"))?,
            _ => format!("libondol0 (= {})", release.version),
        };
        write(&about.join("control"), self.control(&release.version, architecture.trim(), kibibytes, &needs))?;
        write(&about.join("md5sums"), sums)?;
        if self.name == "libondol0" {
            // Which package a program needs that is linked with it, and that the loader is to look for new libraries.
            write(&about.join("shlibs"), "libondol 0 libondol0\n")?;
            write(&about.join("triggers"), "activate-noawait ldconfig\n")?;
        }
        let deb = dir.join(format!("{}_{}_{}.deb", self.name, release.version, architecture.trim()));
        let mut build = Command::new("dpkg-deb");
        // One thread: how many there are changes the bytes.
        build.args(["--root-owner-group", "-Zxz", "--threads-max=1", "--build"]).arg(&stage).arg(&deb);
        said(build.env("SOURCE_DATE_EPOCH", &release.time))?;
        Ok(deb)
    }

    /// Each package says what it may be used for, and why lintian(1) finds what it finds. Manual pages and changelogs
    /// are compressed, as Debian's policy has it.
    fn document(&self, release: &Release, tree: &Path, stage: &Path) -> Result<(), String> {
        let documents = stage.join("usr/share/doc").join(self.name);
        std::fs::create_dir_all(&documents).map_err(|e| format!("{}: {e}", documents.display()))?;
        for (file, name) in [("copyright", "copyright"), ("CHANGELOG.md", "changelog")] {
            copy(&tree.join(file), &documents.join(name))?;
        }
        let overrides = stage.join("usr/share/lintian/overrides");
        std::fs::create_dir_all(&overrides).map_err(|e| format!("{}: {e}", overrides.display()))?;
        copy(&release.root.join("dist/lintian-overrides"), &overrides.join(self.name))?;
        let installed = documents.join("CHANGELOG.md");
        if installed.exists() {
            std::fs::remove_file(&installed).map_err(|e| format!("{}: {e}", installed.display()))?;
        }
        let mut find = Command::new("find");
        find.arg(stage.join("usr/share")).args(["(", "-path", "*/man/*", "-o", "-name", "changelog", ")"]);
        said(find.args(["-type", "f", "-exec", "gzip", "-9n", "{}", "+"])).map(|_| ())?;
        // gzip keeps the time of what it compresses.
        said(Command::new("touch").arg(format!("--date=@{}", release.time)).arg(documents.join("changelog.gz")))
            .map(|_| ())
    }

    fn control(&self, version: &str, architecture: &str, kibibytes: &str, needs: &str) -> String {
        let Self { name, section, description, .. } = self;
        let field = |name: &str, of: &str| if of.is_empty() { String::new() } else { format!("{name}: {of}\n") };
        let (needs, recommends) = (field("Depends", needs), field("Recommends", self.recommends));
        format!(
            "Package: {name}\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: The Ondol developers\n\
             Installed-Size: {kibibytes}\n{needs}{recommends}Section: {section}\n\
             Priority: optional\nDescription: {description}\n"
        )
    }
}

/// The directory below `/usr/lib` for libraries of this architecture.
fn multiarch() -> Result<String, String> {
    let name = said(Command::new("dpkg-architecture").args(["--query", "DEB_HOST_MULTIARCH"]))?;
    Ok(name.trim().to_owned())
}

/// Installs a part of the tarball's tree with Debian's paths into `stage`.
pub(super) fn install(tree: &Path, stage: &Path, target: &str) -> Result<(), String> {
    let mut install = Command::new("make");
    install.arg("-C").arg(tree).args([target, "PREFIX=/usr", "ZSHDIR=/usr/share/zsh/vendor-completions"]);
    install.arg(format!("LIBDIR=/usr/lib/{}", multiarch()?));
    said(install.arg(format!("DESTDIR={}", stage.display()))).map(|_| ())
}

/// The packages that a library's shared libraries come from.
fn needs(release: &Release, dir: &Path, library: &Path) -> Result<String, String> {
    let scratch = dir.join("needs");
    empty(&scratch.join("debian"))?;
    // What dpkg-shlibdeps asks for.
    write(&scratch.join("debian/control"), "Source: ondol\n\nPackage: ondol\nArchitecture: any\n")?;
    let mut resolve = Command::new("dpkg-shlibdeps");
    resolve.current_dir(&scratch).arg("-O").arg("-e").arg(library);
    let said = said(&mut resolve)?;
    let needs = said.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    needs
        .map(str::to_owned)
        .ok_or_else(|| format!("dpkg-shlibdeps names no package for version {}: {said}", release.version))
}

/// The sums of all files, as debsums(1) and `dpkg --verify` read them.
fn sums(stage: &Path) -> Result<String, String> {
    let mut find = Command::new("find");
    let sums = said(find.current_dir(stage).args(["usr", "-type", "f", "-exec", "md5sum", "{}", "+"]))?;
    let mut lines: Vec<&str> = sums.lines().collect();
    lines.sort_unstable_by_key(|line| line.split_once("  ").map_or(*line, |(_, path)| path));
    Ok(lines.join("\n") + "\n")
}
