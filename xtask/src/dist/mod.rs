//! `cargo xtask dist`: what is handed out, tarballs and Debian packages, made from the programs. `docs/install.md` says
//! what is in them and why they are made so.

mod check;
mod copyright;
mod deb;
mod elsewhere;
mod tree;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes everything below `target/dist`; with `--check` installs it, too, and tries it.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let is_checked = match words {
        [] => false,
        [word] if word == "--check" => true,
        _ => return Err("usage: cargo xtask dist [--check]".into()),
    };
    let release = Release::new()?;
    let made = make(&release, &release.dir)?;
    for path in [&made.tarball, &made.lab].into_iter().chain(&made.debs) {
        println!("{}: {}", path.display(), mebibytes(path)?);
    }
    if is_checked { check::check(&release, &made) } else { Ok(()) }
}

/// What all packages are made from.
struct Release {
    /// The checkout.
    root: PathBuf,
    /// Where packages come to lie.
    dir: PathBuf,
    /// The static program, without symbols.
    program: PathBuf,
    /// That which measures and breaks it.
    lab: PathBuf,
    version: String,
    /// What all files are dated: seconds since 1970, as `SOURCE_DATE_EPOCH` or the last commit says.
    time: String,
}

impl Release {
    /// Builds the programs, unless `ONDOL` and `ONDOL_LAB` name some, and strips them.
    fn new() -> Result<Self, String> {
        let metadata = crate::metadata()?;
        let root = metadata.workspace_root.clone().into_std_path_buf();
        let dir = metadata.target_directory.join("dist").into_std_path_buf();
        empty(&dir)?;
        let program = stripped(&dir, "ondol", "ONDOL", Command::new(env!("CARGO")).args(["build", "-p", "ondol-cli"]))?;
        let lab = stripped(&dir, "ondol-lab", "ONDOL_LAB", &mut crate::of_proof(&["build", "-p", "ondol-lab"]))?;
        let time = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(time) => time,
            Err(_) => said(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(&root))?.trim().into(),
        };
        let program_package = metadata.workspace_packages().into_iter().find(|p| p.name.as_str() == "ondol-cli");
        let version = program_package.ok_or("there is no package `ondol-cli`")?.version.to_string();
        Ok(Self { root, dir, program, lab, version, time })
    }
}

/// A program without symbols: what the variable names, or what the build makes.
fn stripped(dir: &Path, name: &str, variable: &str, build: &mut Command) -> Result<PathBuf, String> {
    let built = match std::env::var_os(variable) {
        Some(path) => PathBuf::from(path),
        None => with_musl(name, build)?,
    };
    // What the loader of a libc starts needs that libc.
    if said(Command::new("readelf").arg("--program-headers").arg(&built))?.contains("INTERP") {
        return Err(format!("{} is no static program", built.display()));
    }
    let program = dir.join(name);
    said(Command::new("strip").arg("--strip-all").arg("-o").arg(&program).arg(&built))?;
    println!("{}: {}, was {}", program.display(), mebibytes(&program)?, mebibytes(&built)?);
    Ok(program)
}

/// Builds a program with musl: it is whole, and asks for no names at run time from a libc of another version.
fn with_musl(name: &str, build: &mut Command) -> Result<PathBuf, String> {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    build.args(["--profile=fast", "--quiet", "--features", "object", "--target", &target]);
    let needs = format!("it needs `rustup target add {target}` and musl-gcc (Debian's package musl-tools)");
    crate::run(build).map_err(|e| format!("{e}: {needs}"))?;
    let directory = crate::metadata()?.target_directory.into_std_path_buf();
    Ok(directory.join(target).join("fast").join(name))
}

/// The packages that were made.
struct Made {
    tarball: PathBuf,
    /// The one of the program that measures and breaks.
    lab: PathBuf,
    /// The Debian packages, where there are dpkg's tools: the programs', the library's, that for who links with it, and
    /// the extension of SQLite.
    debs: Vec<PathBuf>,
}

/// Makes all packages in `dir`.
fn make(release: &Release, dir: &Path) -> Result<Made, String> {
    std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let tree = tree::make(release, dir)?;
    let tarball = tree::pack(release, &tree)?;
    let of_lab = tree::make_lab(release, dir)?;
    let lab = tree::pack(release, &of_lab)?;
    let missing = ["dpkg-deb", "dpkg-shlibdeps"].into_iter().find(|tool| !is_there(tool));
    let debs = match missing {
        Some(tool) => {
            println!("no Debian packages: there is no `{tool}` (Debian's packages dpkg and dpkg-dev)");
            Vec::new()
        }
        None => deb::make(release, [&tree, &of_lab], dir)?,
    };
    Ok(Made { tarball, lab, debs })
}

/// Makes a directory anew.
fn empty(dir: &Path) -> Result<(), String> {
    let removed = match std::fs::remove_dir_all(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    removed.and_then(|()| std::fs::create_dir_all(dir)).map_err(|e| format!("{}: {e}", dir.display()))
}

fn mebibytes(path: &Path) -> Result<String, String> {
    let length = std::fs::metadata(path).map_err(|e| format!("{}: {e}", path.display()))?.len();
    Ok(format!("{:.1} MiB", length as f64 / f64::from(1 << 20)))
}

fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<(), String> {
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to).map(|_| ()).map_err(|e| format!("{} to {}: {e}", from.display(), to.display()))
}

/// Whether a tool can be called.
fn is_there(tool: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|dir| dir.join(tool).is_file())
}

/// What a command prints, once it has worked.
fn said(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("{}: {e}", command.get_program().display()))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?} ended with {}: {}", output.status, why.trim()));
    }
    String::from_utf8(output.stdout).map_err(|e| format!("{command:?}: {e}"))
}
