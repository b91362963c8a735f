//! What a process does to a mount that another process serves: ask, sync, unmount.

use crate::mountinfo::{self, Entry, FS_TYPE};
use crate::{ClientError, kernel};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::FlockOperation;
use rustix::process::{Pid, PidfdFlags};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The attribute of the root directory that holds the volume's state as JSON.
pub const INFO: &str = "ondol.info";

/// The attribute of the root directory that says which process serves it: number and start time.
pub(crate) const SERVER: &str = "ondol.server";

/// The largest value that an attribute can have.
const VALUE_MAX: usize = 65536;

/// The volume's mount that `dir` lies on.
///
/// # Errors
/// `Open`, `Table`, or `NotOurs`.
pub fn find(dir: &Path) -> Result<Entry, ClientError> {
    let full = dir.canonicalize().map_err(|source| ClientError::Open { dir: dir.to_owned(), source })?;
    let table = mountinfo::read().map_err(ClientError::Table)?;
    let entry = mountinfo::covering(&table, &full).filter(|e| e.fs_type == FS_TYPE);
    entry.cloned().ok_or_else(|| ClientError::NotOurs(dir.to_owned()))
}

/// The state of the volume that `dir` lies on, as JSON.
///
/// # Errors
/// No volume of ours is mounted there, or its server does not answer.
pub fn info(dir: &Path) -> Result<Vec<u8>, ClientError> {
    let entry = find(dir)?;
    let root = open(&entry.point)?;
    ask(&root, INFO).map_err(|source| ClientError::Ask { what: "read the state of", dir: entry.point, source })
}

/// Makes everything durable that was done before on the volume that `dir` lies on, stores through memory mappings included.
///
/// # Errors
/// No volume of ours is mounted there, or it could not be made durable.
pub fn sync(dir: &Path) -> Result<(), ClientError> {
    let entry = find(dir)?;
    let root = open(&entry.point)?;
    let synced = rustix::fs::syncfs(&root).and_then(|()| rustix::fs::fsync(&root));
    synced.map_err(|e| ClientError::Ask { what: "sync", dir: entry.point, source: e.into() })
}

/// Unmounts the volume on `dir`. Returns when its server has closed the image, which is then clean. With `force` whoever
/// uses the mount is cut off.
///
/// # Errors
/// `Busy` when somebody uses the mount; `NotMountPoint`, `NotOurs`, `Unmount`.
pub fn unmount(dir: &Path, force: bool) -> Result<(), ClientError> {
    let entry = find_point(dir)?;
    let server = Server::of(&entry);
    match if force { kernel::unmount_by_force(&entry.point) } else { kernel::unmount_when_free(&entry.point) } {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::ResourceBusy => return Err(ClientError::Busy(entry.point)),
        Err(e) => return Err(ClientError::Unmount { dir: entry.point, said: e.to_string() }),
    }
    server.wait();
    Ok(())
}

/// Takes the volume on `dir` out of sight at once. Its server ends when the last user is gone.
///
/// # Errors
/// `NotMountPoint`, `NotOurs`, `Unmount`.
pub fn detach(dir: &Path) -> Result<(), ClientError> {
    let entry = find_point(dir)?;
    let fail = |e: io::Error| ClientError::Unmount { dir: entry.point.clone(), said: e.to_string() };
    kernel::detach(&entry.point).map_err(fail)
}

/// The mount on `dir` itself; works also when its server is dead.
fn find_point(dir: &Path) -> Result<Entry, ClientError> {
    let fail = |source| ClientError::Open { dir: dir.to_owned(), source };
    let absolute = std::path::absolute(dir).map_err(fail)?;
    let table = mountinfo::read().map_err(ClientError::Table)?;
    let full = match dir.canonicalize() {
        Ok(full) => full,
        Err(_) if mountinfo::on(&table, &absolute).is_some() => absolute,
        Err(e) => return Err(fail(e)),
    };
    let entry = mountinfo::covering(&table, &full).filter(|e| e.fs_type == FS_TYPE);
    let entry = entry.ok_or_else(|| ClientError::NotOurs(dir.to_owned()))?;
    if entry.point != full {
        return Err(ClientError::NotMountPoint { dir: dir.to_owned(), point: entry.point.clone() });
    }
    Ok(entry.clone())
}

fn open(dir: &Path) -> Result<File, ClientError> {
    File::open(dir).map_err(|source| ClientError::Open { dir: dir.to_owned(), source })
}

fn ask(root: &File, name: &str) -> io::Result<Vec<u8>> {
    let mut value = vec![0; VALUE_MAX];
    let len = rustix::fs::fgetxattr(root, name, &mut value[..])?;
    value.truncate(len);
    Ok(value)
}

/// Whoever serves a mount, known before it is unmounted.
struct Server {
    process: Option<OwnedFd>,
    image: Option<File>,
}

impl Server {
    fn of(entry: &Entry) -> Self {
        let told = File::open(&entry.point).and_then(|root| ask(&root, SERVER)).unwrap_or_default();
        let told = String::from_utf8_lossy(&told);
        // Its own descriptor is the image also where the path is another file, or none, to this process.
        let held = told.split_once(' ').and_then(|(pid, _)| descriptor(pid, &entry.source));
        let image = File::open(held.as_ref().unwrap_or(&entry.source)).ok();
        Self { process: process(&told), image }
    }

    /// Waits until the server has ended or released the image's lock, whichever comes first: a mount may be served by a
    /// process that lives on, and another process may lock the image as soon as it is free.
    fn wait(&self) {
        loop {
            let ended = match &self.process {
                Some(process) => ends(process, 5),
                None => {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                    false
                }
            };
            if ended || self.image.as_ref().is_none_or(is_free) {
                return;
            }
        }
    }
}

/// Where the open file `path` of a process can be opened, if this process may look.
fn descriptor(pid: &str, path: &Path) -> Option<PathBuf> {
    let mut open = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    open.find(|link| std::fs::read_link(link).is_ok_and(|target| target == path))
}

/// Whether the process ends within `ms` milliseconds.
fn ends(process: &OwnedFd, ms: i64) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    let limit = Timespec { tv_sec: 0, tv_nsec: ms * 1_000_000 };
    matches!(rustix::event::poll(&mut fds, Some(&limit)), Ok(n) if n > 0)
}

/// Whether nobody holds the image for writing.
fn is_free(image: &File) -> bool {
    match rustix::fs::flock(image, FlockOperation::NonBlockingLockShared) {
        Ok(()) => rustix::fs::flock(image, FlockOperation::Unlock).is_ok(),
        Err(e) => e != rustix::io::Errno::WOULDBLOCK,
    }
}

/// What `SERVER` holds: this process's number, and its start time, by which another process can tell whether the number means
/// the same process to it.
pub(crate) fn this_process() -> String {
    let pid = std::process::id();
    format!("{pid} {}", started(pid).unwrap_or_default())
}

fn process(told: &str) -> Option<OwnedFd> {
    let (pid, start) = told.split_once(' ')?;
    let pid: u32 = pid.parse().ok()?;
    let fd = rustix::process::pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()?;
    (started(pid)? == start).then_some(fd)
}

/// When a process started, in clock ticks since boot: the 22nd field, counted after the command's closing parenthesis.
fn started(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_recognised_by_number_and_start_time() {
        let me = this_process();
        assert!(process(&me).is_some());
        let (pid, start) = me.split_once(' ').unwrap();
        assert!(!start.is_empty());
        assert!(process(&format!("{pid} {start}1")).is_none());
        assert!(process("").is_none());
    }
}
