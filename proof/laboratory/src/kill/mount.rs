//! A volume mounted by the program `ondol`, for as long as a value lives, killed when somebody wants it.

use ondol_env::{Env, System};
use ondol_faults::{Defect, EVERYWHERE};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A volume mounted by the program. Dropping it unmounts, or kills the server if that fails.
#[derive(Debug)]
pub struct FuseMount {
    server: Child,
    program: PathBuf,
    image: PathBuf,
    dir: PathBuf,
    options: String,
    plant: Option<Defect>,
}

/// How long a mount or its end may take before it counts as hung, and how long what is not known here may hold it:
/// nanoseconds.
const PATIENCE: u64 = 60_000_000_000;

/// Why nothing can be mounted here, or `None` if it may work.
pub fn no_fuse() -> Option<String> {
    let device = std::fs::File::options().read(true).write(true).open("/dev/fuse");
    device.err().map(|e| format!("/dev/fuse cannot be used: {e}"))
}

impl FuseMount {
    /// Mounts `image` on `dir`, which exists, by `program`, with comma-separated options.
    ///
    /// # Errors
    /// What the server said, or that it hangs.
    pub fn new(program: &Path, image: &Path, dir: &Path, options: &str) -> Result<Self, String> {
        Self::planted(program, image, dir, options, None)
    }

    /// The same, with a server that breaks a rule.
    ///
    /// # Errors
    /// As for [`FuseMount::new`].
    pub fn planted(
        program: &Path,
        image: &Path,
        dir: &Path,
        options: &str,
        plant: Option<Defect>,
    ) -> Result<Self, String> {
        let owned = |path: &Path| path.to_owned();
        // The mount table names directories without symbolic links.
        let dir = dir.canonicalize().map_err(|e| format!("{}: {e}", dir.display()))?;
        let server = serve(program, image, &dir, options, plant)?;
        Ok(Self { server, program: owned(program), image: owned(image), dir, options: options.to_owned(), plant })
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
        let begun = System.monotonic_ns();
        // A child that another thread of this process is starting holds copies of all files until it runs its program.
        loop {
            let mut command = command(&self.program);
            let output = command.arg("umount").arg(&self.dir).output().map_err(|e| e.to_string())?;
            let said = String::from_utf8_lossy(&output.stderr);
            if output.status.success() {
                break;
            }
            if !said.contains("in use") || since(begun) > PATIENCE {
                return Err(format!("ondol umount ended with {}: {}", output.status, said.trim()));
            }
            std::thread::sleep(Duration::from_millis(20));
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
    /// The server cannot be killed, has ended before, or its mount stays.
    pub fn kill(&mut self) -> Result<(), String> {
        if let Some(status) = self.server.try_wait().map_err(|e| e.to_string())? {
            self.detach()?;
            return Err(format!("the server had ended by itself: {status}"));
        }
        self.server.kill().map_err(|e| e.to_string())?;
        self.server.wait().map_err(|e| e.to_string())?;
        self.detach()
    }

    /// Mounts again after [`FuseMount::kill`]: recovery.
    ///
    /// # Errors
    /// As mounting.
    pub fn mount_again(&mut self) -> Result<(), String> {
        self.server = serve(&self.program, &self.image, &self.dir, &self.options, self.plant)?;
        Ok(())
    }

    /// Takes a mount away whose server is dead.
    fn detach(&self) -> Result<(), String> {
        let as_root = rustix::process::geteuid().is_root();
        let (program, args) = if as_root { ("umount", vec!["-l"]) } else { ("fusermount3", vec!["-u", "-z"]) };
        let done = command(Path::new(program)).args(args).arg(&self.dir).stderr(Stdio::null()).status();
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

/// Without input, and in a process group of its own: the terminal's signals are for this program, which cleans up.
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).process_group(0);
    command
}

fn since(begun: u64) -> u64 {
    System.monotonic_ns().saturating_sub(begun)
}

fn serve(program: &Path, image: &Path, dir: &Path, options: &str, plant: Option<Defect>) -> Result<Child, String> {
    let mut command = command(program);
    command.args(["mount", "-f"]).envs(plant.map(|defect| (EVERYWHERE, defect.name())));
    if !options.is_empty() {
        command.args(["-o", options]);
    }
    // A pipe would stop a server that says more than anybody reads.
    let log = rustix::fs::memfd_create("ondol-server", rustix::fs::MemfdFlags::CLOEXEC).map_err(|e| e.to_string())?;
    let log = std::fs::File::from(log);
    let stderr = log.try_clone().map_err(|e| e.to_string())?;
    let server = command.arg(image).arg(dir).stdout(Stdio::null()).stderr(stderr).spawn();
    let mut server = server.map_err(|e| format!("{}: {e}", program.display()))?;
    let begun = System.monotonic_ns();
    while !is_mount_point(dir) {
        if let Ok(Some(status)) = server.try_wait() {
            return Err(format!("the server ended with {status}: {}", last_line(&log)));
        }
        if since(begun) > PATIENCE {
            let _ = server.kill();
            let _ = server.wait();
            return Err(format!("the server does not mount: {}", last_line(&log)));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(server)
}

/// The last line that a server wrote.
fn last_line(log: &std::fs::File) -> String {
    let mut said = vec![0; 4096];
    let read = std::os::unix::fs::FileExt::read_at(log, &mut said, 0).unwrap_or(0);
    said.truncate(read);
    let said = String::from_utf8_lossy(&said);
    said.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it said nothing").to_owned()
}

/// Whether something is mounted on `dir`; asks the mount table, because a dead mount answers nothing itself.
fn is_mount_point(dir: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    // As the table writes it.
    let dir = dir.display().to_string().replace('\\', "\\134").replace(' ', "\\040");
    table.lines().any(|line| line.split(' ').nth(4) == Some(&dir))
}
