//! A script and what its head says.
//!
//! Lines `#: KEY VALUE`: `about` (one line), `needs COMMAND=PACKAGE...` (a crate is written `cargo:CRATE`), `version`
//! (a shell command), `size` (of the image, as mke2fs takes it), `mke2fs` (more of its options), `seconds` (after which
//! it counts as hung, for one unit of scale), and flags: `root`, `mounts` (it mounts by itself), `kills` (it mounts by
//! itself, and kills the server), `compared` (the cases that it lists must end as on the kernel's ext4).

use ondol_testkit::image::missing;
use std::io;
use std::path::{Path, PathBuf};

/// A program of others, with its script.
#[derive(Clone, Debug)]
pub struct Program {
    /// The script's name without `.sh`.
    pub name: String,
    /// What it does, in one line.
    pub about: String,
    /// The script.
    pub path: PathBuf,
    /// Shell command that prints the version of what is run.
    pub version: String,
    /// Size of the image, as mke2fs takes it.
    pub size: String,
    /// Further options of mke2fs.
    pub mke2fs: Vec<String>,
    /// When it counts as hung, for one unit of scale.
    pub seconds: u64,
    /// It works for root only.
    pub root: bool,
    /// The script mounts by itself.
    pub mounts: bool,
    /// It kills the server and looks at its image.
    pub kills: bool,
    /// The cases it lists must end as on the kernel's ext4.
    pub compared: bool,
    needs: Vec<(String, String)>,
}

/// Where the scripts are.
fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

/// All programs, by name.
///
/// # Errors
/// A script cannot be read, or its head has an unknown key.
pub fn all() -> io::Result<Vec<Program>> {
    let mut programs = Vec::new();
    for entry in std::fs::read_dir(scripts())? {
        let path = entry?.path();
        let is_program = path.extension().is_some_and(|e| e == "sh") && path.file_stem().is_some_and(|s| s != "common");
        if is_program {
            programs.push(Program::read(path)?);
        }
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(programs)
}

/// The program of this name.
///
/// # Errors
/// There is none, or its script cannot be read.
pub fn named(name: &str) -> io::Result<Program> {
    let path = scripts().join(name).with_extension("sh");
    if !path.is_file() {
        return Err(io::Error::other(format!("there is no program `{name}`; --list names them")));
    }
    Program::read(path)
}

impl Program {
    fn read(path: PathBuf) -> io::Result<Self> {
        let text = std::fs::read_to_string(&path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut program = Self {
            name,
            about: String::new(),
            version: String::new(),
            size: "512M".into(),
            mke2fs: Vec::new(),
            seconds: 300,
            root: false,
            mounts: false,
            kills: false,
            compared: false,
            needs: Vec::new(),
            path,
        };
        for line in text.lines().filter_map(|line| line.strip_prefix("#: ")) {
            program.set(line).map_err(|e| io::Error::other(format!("{}: {e}", program.path.display())))?;
        }
        Ok(program)
    }

    fn set(&mut self, line: &str) -> Result<(), String> {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        match key {
            "about" => self.about = value.to_owned(),
            "version" => self.version = value.to_owned(),
            "size" => self.size = value.to_owned(),
            "mke2fs" => self.mke2fs = value.split_whitespace().map(str::to_owned).collect(),
            "seconds" => self.seconds = value.parse().map_err(|e| format!("seconds {value}: {e}"))?,
            "root" => self.root = true,
            "mounts" => self.mounts = true,
            "kills" => (self.mounts, self.kills) = (true, true),
            "compared" => self.compared = true,
            "needs" => {
                let pairs = value.split_whitespace().map(|pair| pair.split_once('=').unwrap_or((pair, pair)));
                self.needs.extend(pairs.map(|(command, package)| (command.to_owned(), package.to_owned())));
            }
            _ => return Err(format!("unknown key `{key}`")),
        }
        Ok(())
    }

    /// What is missing here for it, and where that comes from.
    pub fn missing(&self) -> Option<String> {
        if self.root && !rustix::process::geteuid().is_root() {
            return Some("needs root".into());
        }
        let (command, package) = self.needs.iter().find(|(command, _)| missing(&[command]).is_some())?;
        Some(match package.strip_prefix("cargo:") {
            Some(name) => format!("{command} is missing: cargo install {name}"),
            None => format!("{command} is missing: apt install {package}"),
        })
    }
}
