//! The program `ondol`: found or built, mounted for as long as a value lives, killed when a test wants it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The program, or why there is none.
fn program() -> Result<&'static Path, String> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PROGRAM.get_or_init(find).as_ref().map(PathBuf::as_path).map_err(Clone::clone)
}

fn find() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("ONDOL") {
        return Ok(PathBuf::from(path));
    }
    // Under cargo: of this very source.
    if let Some(cargo) = std::env::var_os("CARGO") {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let built = Command::new(cargo).args(["build", "-q", "-p", "ondol-cli"]).current_dir(root).status();
        if !built.is_ok_and(|status| status.success()) {
            return Err("the program cannot be built".into());
        }
    }
    let here = std::env::current_exe().map_err(|e| e.to_string())?;
    let path = here.ancestors().nth(2).map(|dir| dir.join("ondol")).filter(|path| path.exists());
    path.ok_or_else(|| "the program `ondol` is not built".into())
}

/// Why nothing can be mounted by the program here.
pub fn no_fuse_mount() -> Option<String> {
    if !Path::new("/dev/fuse").exists() {
        return Some("no /dev/fuse here".into());
    }
    program().err()
}

/// Runs `ondol` and returns its exit code and what it printed.
pub fn ondol(args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(program().expect("asked for before"));
    let output = command.args(args).stdin(Stdio::null()).output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text)
}

/// A volume mounted by the program. Dropping it unmounts, or kills the server if that fails.
#[derive(Debug)]
pub struct FuseMount {
    server: Child,
    image: PathBuf,
    dir: PathBuf,
    options: String,
}

/// How long a mount or its end may take before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a mount may be held by what is not known here.
const BUSY: Duration = Duration::from_secs(5);

impl FuseMount {
    /// Mounts `image` on `dir`, which exists, with comma-separated options.
    ///
    /// # Errors
    /// What the server printed, or that it hangs.
    pub fn new(image: &Path, dir: &Path, options: &str) -> Result<Self, String> {
        let server = Self::serve(image, dir, options)?;
        Ok(Self { server, image: image.to_owned(), dir: dir.to_owned(), options: options.to_owned() })
    }

    fn serve(image: &Path, dir: &Path, options: &str) -> Result<Child, String> {
        let mut command = Command::new(program()?);
        command.args(["mount", "-f"]);
        if !options.is_empty() {
            command.args(["-o", options]);
        }
        command.arg(image).arg(dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = command.spawn().map_err(|e| e.to_string())?;
        let begun = Instant::now();
        while !is_mount_point(dir) {
            if let Ok(Some(status)) = server.try_wait() {
                return Err(format!("the server ended with {status}"));
            }
            if begun.elapsed() > PATIENCE {
                let _ = server.kill();
                let _ = server.wait();
                return Err("the server does not mount".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// The mounted directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Unmounts; the image is clean when this returns.
    ///
    /// # Errors
    /// What `ondol umount` said.
    pub fn unmount(&mut self) -> Result<(), String> {
        let dir = self.dir.display().to_string();
        let begun = Instant::now();
        // A child that another thread of this process is starting holds copies of all files until it runs its program.
        let (code, said) = loop {
            let (code, said) = ondol(&["umount", &dir]);
            if code == Some(0) || !said.contains("in use") || begun.elapsed() > BUSY {
                break (code, said);
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        if code != Some(0) {
            return Err(format!("ondol umount ended with {code:?}: {said}"));
        }
        let status = self.server.wait().map_err(|e| e.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("the server ended with {status}")) }
    }

    /// Unmounts and mounts again.
    ///
    /// # Errors
    /// As unmounting and mounting.
    pub fn remount(&mut self) -> Result<(), String> {
        self.unmount()?;
        self.mount_again()
    }

    /// Kills the server as `kill -9` does and takes the dead mount away.
    ///
    /// # Errors
    /// The server cannot be killed, or its mount stays.
    pub fn kill(&mut self) -> Result<(), String> {
        self.server.kill().map_err(|e| e.to_string())?;
        self.server.wait().map_err(|e| e.to_string())?;
        self.detach()
    }

    /// Mounts again after [`FuseMount::kill`]: recovery.
    ///
    /// # Errors
    /// As mounting.
    pub fn mount_again(&mut self) -> Result<(), String> {
        self.server = Self::serve(&self.image, &self.dir, &self.options)?;
        Ok(())
    }

    /// Takes a mount away whose server is dead.
    fn detach(&self) -> Result<(), String> {
        let as_root = rustix::process::geteuid().is_root();
        let (program, args) = if as_root { ("umount", vec!["-l"]) } else { ("fusermount3", vec!["-u", "-z"]) };
        let done = Command::new(program).args(args).arg(&self.dir).stdin(Stdio::null()).stderr(Stdio::null()).status();
        match done {
            Ok(status) if status.success() || !is_mount_point(&self.dir) => Ok(()),
            other => Err(format!("{program} {}: {other:?}", self.dir.display())),
        }
    }
}

impl Drop for FuseMount {
    fn drop(&mut self) {
        let ended = matches!(self.server.try_wait(), Ok(Some(_)));
        if !ended && self.unmount().is_err() {
            let _ = self.server.kill();
            let _ = self.server.wait();
        }
        if is_mount_point(&self.dir) {
            let _ = self.detach();
        }
    }
}

/// Whether something is mounted on `dir`; asks the mount table, because a dead mount answers nothing itself.
fn is_mount_point(dir: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let dir = dir.display().to_string();
    table.lines().any(|line| line.split(' ').nth(4) == Some(&dir))
}
