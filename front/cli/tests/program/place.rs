//! What the tests of the program share: a scratch place whose mounts and servers are gone when a test ends, also a
//! failed one.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A directory with an image and a mount point.
pub(crate) struct Place {
    dir: tempfile::TempDir,
    servers: Vec<Child>,
}

impl Place {
    /// A fresh image, not mounted; `None`, noted as skipped, where FUSE cannot be used.
    pub(crate) fn new() -> Option<Self> {
        Self::of_size("64M")
    }

    /// The same, as large as this.
    pub(crate) fn of_size(size: &str) -> Option<Self> {
        if let Err(e) = File::options().read(true).write(true).open("/dev/fuse") {
            ondol_skips::skip(format!("/dev/fuse cannot be used: {e}"));
            return None;
        }
        let in_memory = Path::new("/dev/shm");
        let dir = if in_memory.is_dir() { tempfile::tempdir_in(in_memory) } else { tempfile::tempdir() };
        let place = Self { dir: dir.unwrap(), servers: Vec::new() };
        std::fs::create_dir(place.mount_point()).unwrap();
        let image = place.image();
        succeeds(ondol().args(["mkfs", "--size", size]).arg(&image));
        Some(place)
    }

    /// The same, mounted in the background with `options`.
    pub(crate) fn mounted(options: &str) -> Option<Self> {
        let place = Self::new()?;
        place.mount(options);
        Some(place)
    }

    pub(crate) fn image(&self) -> PathBuf {
        self.dir.path().join("disk.img")
    }

    pub(crate) fn mount_point(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    /// A path on the mounted volume.
    pub(crate) fn on(&self, name: &str) -> PathBuf {
        self.mount_point().join(name)
    }

    /// Mounts in the background.
    pub(crate) fn mount(&self, options: &str) {
        succeeds(self.mount_command().args(["-o", options]));
    }

    /// `ondol mount IMAGE DIR`.
    pub(crate) fn mount_command(&self) -> Command {
        self.mount_command_of(&self.image())
    }

    /// The same of another target.
    fn mount_command_of(&self, target: &Path) -> Command {
        let mut command = ondol();
        command.arg("mount").arg(target).arg(self.mount_point());
        command.args(["-o", &format!("transport={}", transport())]);
        command
    }

    /// Mounts with a server in the foreground. Answers with its place among the servers.
    pub(crate) fn serve(&mut self) -> usize {
        self.serve_on("rw")
    }

    /// The same, with options.
    pub(crate) fn serve_on(&mut self, options: &str) -> usize {
        let image = self.image();
        self.serve_target(&image, options)
    }

    /// The same of another target.
    pub(crate) fn serve_target(&mut self, target: &Path, options: &str) -> usize {
        let mut command = self.mount_command_of(target);
        command.args(["-f", "-o", options]);
        self.serve_by(command)
    }

    /// The same by a command that mounts in the foreground.
    pub(crate) fn serve_by(&mut self, mut command: Command) -> usize {
        self.servers.push(command.stderr(Stdio::piped()).spawn().unwrap());
        assert!(eventually(|| self.is_mounted()), "the server did not mount");
        self.servers.len() - 1
    }

    /// Mounts with a server in the foreground, as the command that a line for sh(1) is given.
    pub(crate) fn serve_with(&mut self, line: &str, options: &str) {
        let mount = self.mount_command();
        let mut shell = Command::new("sh");
        shell.args(["-c", line, "sh"]).arg(mount.get_program()).args(mount.get_args()).args(["-f", "-o", options]);
        self.servers.push(shell.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        assert!(eventually(|| self.is_mounted()), "the server did not mount");
    }

    /// Mounts it, makes the file "synced" durable, and kills the server: the journal holds something, and the mount has
    /// nobody.
    pub(crate) fn lose_server(&mut self) {
        let server = self.serve();
        std::fs::write(self.on("synced"), b"durable").unwrap();
        File::open(self.on("synced")).unwrap().sync_all().unwrap();
        self.server(server).kill().unwrap();
        self.server(server).wait().unwrap();
    }

    pub(crate) fn server(&mut self, n: usize) -> &mut Child {
        &mut self.servers[n]
    }

    /// The process that serves it: the one that has the image locked.
    pub(crate) fn pid(&self) -> u32 {
        use std::os::unix::fs::MetadataExt;
        let inode = format!(":{} ", std::fs::metadata(self.image()).unwrap().ino());
        // While others lock and unlock, what is read of the list in parts may leave out some of it.
        let look = || {
            let locks = std::fs::read_to_string("/proc/locks").unwrap();
            let lock = locks.lines().find(|line| line.contains(" FLOCK ") && line.contains(&inode));
            lock.and_then(|line| line.split_whitespace().nth(4)?.parse().ok())
        };
        let mut pid = None;
        assert!(
            eventually(|| {
                pid = look();
                pid.is_some()
            }),
            "nobody has {} locked",
            self.image().display()
        );
        pid.unwrap()
    }

    /// Unmounts; the image is clean afterwards.
    pub(crate) fn umount(&self) {
        unmounts(ondol().args(["umount", "--wait"]).arg(self.mount_point()));
    }

    pub(crate) fn is_mounted(&self) -> bool {
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        table.contains(&format!(" {} ", self.mount_point().display()))
    }

    /// Whether nobody holds the image.
    pub(crate) fn is_unlocked(&self) -> bool {
        use rustix::fs::{FlockOperation, flock};
        let image = File::open(self.image()).unwrap();
        let free = flock(&image, FlockOperation::NonBlockingLockExclusive).is_ok();
        // Closing it would not be enough as long as a child has a copy.
        flock(&image, FlockOperation::Unlock).unwrap();
        free
    }

    /// e2fsck finds nothing, if it is installed.
    pub(crate) fn is_clean(&self) {
        let out = fsck(&self.image());
        assert!(out.as_ref().is_none_or(|(code, _)| *code == Some(0)), "{out:?}");
    }
}

/// Exit code and words of `e2fsck -fn`; `None`, noted as skipped, where it is not installed.
pub(crate) fn fsck(image: &Path) -> Option<(Option<i32>, String)> {
    if ondol_skips::skips(ondol_skips::missing(&["e2fsck"])) {
        return None;
    }
    let mut command = Command::new(ondol_skips::find("e2fsck")?);
    let out = output(command.arg("-fn").arg(image).stdin(Stdio::null()));
    Some((out.status.code(), String::from_utf8_lossy(&out.stdout).into_owned()))
}

/// Set for the tests that run once more over io_uring, by the test that runs them and has it switched on.
pub(crate) const AGAIN: &str = "ONDOL_TEST_TRANSPORT";

/// What carries requests of mounts here unless they say otherwise.
pub(crate) fn transport() -> String {
    std::env::var(AGAIN).unwrap_or_else(|_| "dev".into())
}

/// Why a test that needs root cannot run here.
pub(crate) fn needs_root() -> Option<&'static str> {
    (!rustix::process::geteuid().is_root()).then_some("needs root")
}

/// Why a test in which somebody without privilege mounts cannot run here.
pub(crate) fn needs_helper() -> Option<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|dir| dir.join("fusermount3").is_file());
    needs_root().or_else(|| (!is_there).then_some("needs fusermount3"))
}

impl Drop for Place {
    fn drop(&mut self) {
        use rustix::mount::{UnmountFlags, unmount};
        for _ in 0..4 {
            if !self.is_mounted() {
                break;
            }
            let _ = unmount(self.mount_point(), UnmountFlags::DETACH | UnmountFlags::FORCE);
        }
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

pub(crate) fn ondol() -> Command {
    let mut command = Command::new(crate::program());
    command.stdin(Stdio::null());
    command
}

pub(crate) fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

/// Runs a program that unmounts, until it no longer finds the mount in use.
///
/// A child of any thread of this process has copies of all threads' files, and the kernel closes them only some time
/// after the call that started the child has returned. So a mount stays in use a little after its files were closed.
/// `tests/umount.rs`, with one thread, knows no such excuse.
pub(crate) fn unmounts(command: &mut Command) {
    let done = eventually(|| {
        let out = output(command);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success() || said.contains("in use") || said.contains("busy"), "{command:?}: {said}");
        out.status.success()
    });
    assert!(done, "{command:?}: still in use");
}

/// Standard output of a command that must succeed.
pub(crate) fn succeeds(command: &mut Command) -> String {
    let out = output(command);
    assert!(out.status.success(), "{command:?}: {}: {}", out.status, String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// The one line that a command says which must fail with `code`.
pub(crate) fn fails(command: &mut Command, code: i32) -> String {
    let out = output(command);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(code), "{command:?}: {said}");
    assert!(said.starts_with("ondol"), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    said
}

/// Waits, long enough for a slow machine, until something holds.
pub(crate) fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}
