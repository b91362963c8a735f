//! Mounts of our own making, with the servers behind them: unmounted when their guard goes.

use super::unique_name;
use crate::BenchError;
use crate::background::{Background, Questions};
use crate::command::Program;
use crate::error::Context;
use crate::interrupt::Interrupt;
use ondol::machine::mountinfo::{self, Entry};
use serde_json::Value;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a server may take to mount, and to end after its unmount.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long something may keep a mount busy.
const BUSY: Duration = Duration::from_secs(5);
/// How often a server is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// The mount that is mounted exactly at `point`: the topmost one, if there are several.
fn mounted_at(point: &Path) -> Result<Option<Entry>, BenchError> {
    Ok(mountinfo::on(&mount_table()?, point).cloned())
}

/// What is mounted where.
pub(super) fn mount_table() -> Result<Vec<Entry>, BenchError> {
    mountinfo::read().context(|| "/proc/self/mountinfo")
}

/// An empty directory to mount on. Only ever removed while empty: what is mounted there may be somebody's.
#[derive(Debug)]
struct MountPoint(PathBuf);

impl MountPoint {
    fn create() -> Result<Self, BenchError> {
        // The mount table names it without symbolic links.
        let temp = std::env::temp_dir();
        let path = temp.canonicalize().context(|| temp.display().to_string())?.join(unique_name());
        std::fs::create_dir(&path).context(|| format!("making {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        if let Err(e) = std::fs::remove_dir(&self.0) {
            eprintln!("ondol bench: {} stays: {e}", self.0.display());
        }
    }
}

/// A mount and what serves it.
#[derive(Debug)]
pub(crate) struct Mounted {
    umount: Vec<String>,
    server: Option<Background>,
    questions: Option<RefCell<Questions>>,
    down: bool,
    point: MountPoint,
}

impl Mounted {
    /// Mounts by running `program(mount point)` to its end. `umount` and the mount point unmount it.
    pub(crate) fn by_command(
        umount: &[&str],
        program: impl FnOnce(&Path) -> Result<Program, BenchError>,
    ) -> Result<Self, BenchError> {
        let point = MountPoint::create()?;
        program(&point.0)?.run()?;
        Ok(Self { umount: owned(umount), server: None, questions: None, down: false, point })
    }

    /// Mounts by starting the server `program(mount point)` and waiting until the mount is there.
    pub(crate) fn by_server(
        umount: &[&str],
        interrupt: &Interrupt,
        program: impl FnOnce(&Path) -> Result<Program, BenchError>,
    ) -> Result<Self, BenchError> {
        Self::serve(umount, interrupt, false, program)
    }

    /// The same with a server that answers each line on its standard input with its counters, in JSON on one line.
    pub(crate) fn by_telling_server(
        umount: &[&str],
        interrupt: &Interrupt,
        program: impl FnOnce(&Path) -> Result<Program, BenchError>,
    ) -> Result<Self, BenchError> {
        Self::serve(umount, interrupt, true, program)
    }

    fn serve(
        umount: &[&str],
        interrupt: &Interrupt,
        asked: bool,
        program: impl FnOnce(&Path) -> Result<Program, BenchError>,
    ) -> Result<Self, BenchError> {
        let point = MountPoint::create()?;
        let pipe = if asked { Stdio::piped } else { Stdio::null };
        let mut server = Background::start(program(&point.0)?, pipe)?;
        let questions = Questions::to(&mut server).map(RefCell::new);
        // From here on the guard takes the server down, whether it mounts or not.
        let mut mount = Self { umount: owned(umount), server: Some(server), questions, down: false, point };
        let since = Instant::now();
        while mounted_at(mount.path())?.is_none() {
            interrupt.check()?;
            let patient = since.elapsed() < PATIENCE;
            if let Some(server) = &mut mount.server {
                server.must_run()?;
                if !patient {
                    return Err(server.failed("does not mount"));
                }
            }
            sleep(LOOK);
        }
        Ok(mount)
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        &self.point.0
    }

    /// The process that serves it, if it is one of ours.
    pub(crate) fn server(&self) -> Option<u32> {
        self.server.as_ref().map(Background::pid)
    }

    /// What its server counts; null where it does not tell.
    pub(crate) fn ask(&self) -> Result<Value, BenchError> {
        let Some(questions) = &self.questions else { return Ok(Value::Null) };
        let text = questions.borrow_mut().ask().context(|| format!("the server of {}", self.path().display()))?;
        serde_json::from_str(&text).map_err(std::io::Error::from).context(|| format!("what a server counts: {text}"))
    }

    /// Its line in the mount table.
    pub(crate) fn table_entry(&self) -> Result<Entry, BenchError> {
        mounted_at(self.path())?.ok_or_else(|| BenchError::Unfit(format!("{} is not mounted", self.path().display())))
    }

    /// Unmounts and waits for the server's end: its image is whole then.
    pub(crate) fn unmount(mut self) -> Result<(), BenchError> {
        self.take_down()
    }

    fn take_down(&mut self) -> Result<(), BenchError> {
        if std::mem::replace(&mut self.down, true) {
            return Ok(());
        }
        if mounted_at(self.path())?.is_none() {
            // The server never came to mount, or somebody else has unmounted.
            let stopped = self.server.take().map_or(Ok(()), |mut server| server.kill());
            // It may have mounted in the moment before.
            return if mounted_at(self.path())?.is_some() { self.umount_command() } else { stopped };
        }
        let unmounted = self.umount_command();
        let ended = match self.server.take() {
            Some(mut server) if unmounted.is_ok() => {
                server.end(PATIENCE, "did not end after its unmount and was killed")
            }
            Some(mut server) => server.kill(),
            None => Ok(()),
        };
        unmounted.and(ended)
    }

    fn umount_command(&self) -> Result<(), BenchError> {
        let since = Instant::now();
        loop {
            let (program, args) = self.umount.split_first().map_or(("umount", &[][..]), |(p, a)| (p.as_str(), a));
            let error = match Program::new(program)?.args(args).arg(self.path()).run() {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if mounted_at(self.path())?.is_none() {
                return Ok(());
            }
            if since.elapsed() >= BUSY {
                // Whatever holds it, nothing new finds it, and the kernel drops it with its last user.
                let lazy = if rustix::process::geteuid().is_root() { ["umount", "-l"] } else { ["fusermount3", "-uz"] };
                let _ = Program::new(lazy[0]).and_then(|p| p.arg(lazy[1]).arg(self.path()).run());
                return Err(error);
            }
            sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(e) = self.take_down() {
            eprintln!("ondol bench: unmounting {}: {e}", self.path().display());
        }
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
