//! Who serves a mount, and who uses it, found by what the kernel tells of processes.
//!
//! The mount may be a hostile user's: its server may answer anything or never, and what the mount table shows as its
//! source is a string that its user chose. So nothing is asked of the server, and nothing is opened that the table
//! names.

use crate::kernel;
use ondol::Part;
use ondol::machine::elsewhere::{Seen, seen};
use ondol::machine::locks::{self, Lock, shown};
use ondol::machine::mountinfo::{self, Entry};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags};
use std::borrow::Cow;
use std::fs::{File, Metadata};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A process that serves a mount.
pub(crate) struct Server {
    pid: u32,
    process: OwnedFd,
    /// For which user it runs, if for one alone.
    user: Option<u32>,
    images: Vec<Held>,
    /// Whether it has open what the mount shows as its source.
    has_source: bool,
}

/// An image that a server has locked.
struct Held {
    /// By which it is locked.
    descriptor: u32,
    lock: Lock,
    path: PathBuf,
    /// What a target calls it.
    name: PathBuf,
    /// How the image lies in it.
    lies: Lies,
    /// The same, opened as a mere place (`O_PATH`), if it can be opened further without asking a server for it.
    place: Option<File>,
}

/// How an image lies in what is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lies {
    Whole,
    /// In a pool, under a page table.
    InPool,
    /// Not at all: it is in object storage, and what is open says so.
    InBucket,
    AsPart(Part),
}

/// How a wait for a server went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// It has closed its image, or has ended.
    Ended,
    /// It has done neither in the time that another user's process is given.
    Goes,
}

/// For whom another user's server is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// For who asks for it: as long as it takes.
    Asked,
    /// For some time.
    Usual,
}

/// How long another user's server is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(5);
/// How long it is waited for that a file system ends which is nowhere to be seen, but there.
const PATIENCE_UNSEEN: Duration = Duration::from_secs(1);

impl Server {
    /// Whoever serves the mount, as far as this process can see it.
    pub(crate) fn of(entry: &Entry) -> Option<Self> {
        let minor: u32 = entry.device.strip_prefix("0:")?.parse().ok()?;
        // The kernel gives the number of a connection again while the server that had it before has not ended yet.
        let all: Vec<Self> = processes().filter_map(|pid| Self::if_serving(pid, minor, entry)).collect();
        all.into_iter().max_by_key(|server| server.has_source)
    }

    fn if_serving(pid: u32, connection: u32, entry: &Entry) -> Option<Self> {
        let open = descriptors(pid);
        let device = open.iter().filter(|(_, link)| link.file_name().is_some_and(|name| name == "fuse"));
        let told: Vec<Option<u32>> = device.map(|(fd, _)| connection_of(pid, *fd)).collect();
        let has = |path: &Path| open.iter().any(|(_, link)| link == path);
        let (source, lies) = named(&entry.source, &has);
        let named = open.iter().any(|(_, link)| *link == *source);
        // Kernels before 6.16 do not say which connection it is: then the image is a sign.
        let serves = told.contains(&Some(connection)) || (told.contains(&None) && named);
        if !serves {
            return None;
        }
        // What is read from here on is this process's, not that of a later one with its number.
        let process =
            rustix::process::pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()?;
        let user = user_of(pid);
        let own = user == Some(this_user());
        let held = |(descriptor, path): (u32, PathBuf)| {
            let is_source = path == *source;
            let locked = |descriptor| Some((descriptor, locks::by_descriptor(pid, descriptor)?));
            let by_root = || is_source.then(|| roots_file(pid, descriptor, &open)).flatten().and_then(locked);
            let (by, lock) = locked(descriptor).or_else(by_root)?;
            let place = place(pid, descriptor, own);
            let lies = if is_source { lies } else { Lies::Whole };
            let name = if is_source && lies == Lies::InBucket { entry.source.clone() } else { path.clone() };
            (!path.starts_with(locks::ROOTS)).then_some(Held { descriptor: by, lock, path, name, lies, place })
        };
        let mut images: Vec<Held> = descriptors(pid).into_iter().filter_map(held).collect();
        if images.iter().any(|held| held.path == *source) {
            images.retain(|held| held.path == *source);
        }
        (!ends(&process, Duration::ZERO)).then_some(Self { pid, process, user, images, has_source: named })
    }

    /// Whether what it says of the image at `path`, where it serves `mount`, can be believed: it has that image locked,
    /// and it and whoever mounted are root, or who asks, or the image's owner. Anybody who may read an image can lock
    /// it, and name a mount after it.
    pub(crate) fn speaks_for(&self, mount: &Entry, path: &Path) -> bool {
        let (path, lies) = named(path, &|path| self.images.iter().any(|held| held.path == path));
        // A volume in a bucket has no file here, and so no owner.
        let file = if lies == Lies::InBucket { None } else { path.metadata().ok() };
        let owner = file.as_ref().map(MetadataExt::uid);
        let is_trusted =
            |user: Option<u32>| user.is_some_and(|user| [Some(0), Some(this_user()), owner].contains(&Some(user)));
        let is_file = |held: &Held| file.as_ref().map_or(lies == Lies::InBucket, |file| held.is(file));
        let has = |held: &Held| held.path == *path && held.lies == lies && is_file(held);
        is_trusted(self.user) && is_trusted(mounted_by(mount)) && self.images.iter().any(has)
    }

    /// Whether it runs for root, who has also mounted.
    pub(crate) fn is_roots(&self, mount: &Entry) -> bool {
        self.user == Some(0) && mounted_by(mount) == Some(0)
    }

    fn is_own(&self) -> bool {
        self.user == Some(this_user())
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Which process it is, for messages.
    pub(crate) fn text(&self) -> String {
        format!("process {} ({})", self.pid, locks::command(self.pid).unwrap_or_default())
    }

    /// Waits until it has ended or released its image: a mount may be served by a process that lives on, and another
    /// process may lock the image as soon as it is free. Another user's process is given some time only, unless it is
    /// asked for.
    pub(crate) fn wait(&self, wait: Wait) -> Waited {
        let mut left = PATIENCE;
        loop {
            if ends(&self.process, TICK) || self.has_released() {
                return Waited::Ended;
            }
            if !self.is_own() && wait == Wait::Usual {
                left = left.saturating_sub(TICK);
                if left.is_zero() {
                    return Waited::Goes;
                }
            }
        }
    }

    /// Where the file system is mounted still, after one mount of it is gone: then its server goes on. `None` if it
    /// ends.
    pub(crate) fn goes_on(&self, mount: &Entry) -> Option<Vec<Seen>> {
        let mut left = PATIENCE_UNSEEN;
        loop {
            let others = left_of(mount)?;
            if !others.is_empty() || left.is_zero() {
                return Some(others);
            }
            if ends(&self.process, TICK) || self.has_released() {
                return None;
            }
            left = left.saturating_sub(TICK);
        }
    }

    /// Whether it has no image locked any more. A process that is about to end shows no descriptors already while it
    /// still has them.
    fn has_released(&self) -> bool {
        let released = |held: &Held| locks::by_descriptor(self.pid, held.descriptor).is_none();
        self.images.iter().all(released) && (self.images.is_empty() || !descriptors(self.pid).is_empty())
    }

    /// The image that it could write, if that is not clean.
    pub(crate) fn left_dirty(&self) -> Option<PathBuf> {
        let dirty =
            |held: &&Held| held.lock.exclusive && held.place.as_ref().is_some_and(|place| is_dirty(place, held.lies));
        self.images.iter().find(dirty).map(|held| held.name.clone())
    }
}

impl Held {
    /// Whether this is the file or device that is known by `meta`.
    fn is(&self, meta: &Metadata) -> bool {
        let device = |meta: &Metadata| meta.file_type().is_block_device().then(|| meta.rdev());
        let same = |held: &Metadata| match device(meta) {
            Some(number) => device(held) == Some(number),
            None => (held.dev(), held.ino()) == (meta.dev(), meta.ino()),
        };
        self.place.as_ref().and_then(|place| place.metadata().ok()).is_some_and(|held| same(&held))
    }
}

/// The user who has mounted, as the kernel says it of each FUSE mount.
fn mounted_by(mount: &Entry) -> Option<u32> {
    mount.options.split(',').find_map(|word| word.strip_prefix("user_id="))?.parse().ok()
}

fn this_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The mounts of a file system that is there still, as far as they are seen; `None` if it has ended.
fn left_of(gone: &Entry) -> Option<Vec<Seen>> {
    let same = |e: &Entry| (&e.device, &e.fs_type, &e.source) == (&gone.device, &gone.fs_type, &gone.source);
    let others = seen(same);
    if !others.is_empty() {
        return Some(others);
    }
    // The kernel shows the device of each file system; by now it may be another's.
    let is_there = kernel::is_there(&gone.device) && seen(|e| e.device == gone.device).is_empty();
    is_there.then(Vec::new)
}

/// The file that a target names, and how the image lies in it. A name of a part may be a file's, too, if that is what
/// somebody has open.
fn named<'t>(target: &'t Path, has: &dyn Fn(&Path) -> bool) -> (Cow<'t, Path>, Lies) {
    if let Some(pool) = ondol::pool_of(target) {
        return (pool.into(), Lies::InPool);
    }
    if ondol::is_in_bucket(target) {
        return (ondol::mark_of(target).into(), Lies::InBucket);
    }
    match ondol::part_in(target).filter(|_| !has(target)) {
        Some((file, part)) => (file.into(), Lies::AsPart(part)),
        None => (target.into(), Lies::Whole),
    }
}

/// Whether an image's journal holds transactions. Somebody who has it open by now has seen to that.
fn is_dirty(place: &File, lies: Lies) -> bool {
    let Ok(file) = ondol::reopen(place, ondol::Access::Read) else { return false };
    let open = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let target = match lies {
        Lies::InBucket => return !ondol::says_closed(&file),
        Lies::Whole => open,
        Lies::InPool => PathBuf::from(format!("nvm:{}", open.display())),
        Lies::AsPart(part) => part.target(&open),
    };
    ondol::info(target).is_ok_and(|info| info.state == "dirty")
}

/// What process `pid` has open as `fd`; nothing that another user's server would be asked for.
fn place(pid: u32, fd: u32, own: bool) -> Option<File> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(format!("/proc/{pid}/fd/{fd}"), flags, Mode::empty()).ok()?);
    let mount = || {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
        let id: u64 = field(&info, "mnt_id:")?;
        mountinfo::read().ok()?.into_iter().find(|entry| entry.id == id)
    };
    (own || mount().is_some_and(|entry| !entry.is_fuse())).then_some(file)
}

/// By what a process of root's has the file of root's own open that stands for what it has open as `fd`: it may have
/// locked that alone.
fn roots_file(pid: u32, fd: u32, open: &[(u32, PathBuf)]) -> Option<u32> {
    let path = locks::roots_file(&place(pid, fd, false)?.metadata().ok()?);
    open.iter().find(|(_, link)| *link == path).map(|(fd, _)| *fd)
}

fn connection_of(pid: u32, fd: u32) -> Option<u32> {
    field(&std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).ok()?, "fuse_connection:")
}

fn field<T: std::str::FromStr>(text: &str, name: &str) -> Option<T> {
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

fn processes() -> impl Iterator<Item = u32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten();
    all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn descriptors(pid: u32) -> Vec<(u32, PathBuf)> {
    let Ok(all) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let open = all.filter_map(|entry| {
        let entry = entry.ok()?;
        Some((entry.file_name().to_str()?.parse().ok()?, std::fs::read_link(entry.path()).ok()?))
    });
    open.collect()
}

/// The user whom all user numbers of a process are. The owner of its directory in `/proc` would not say it: a process
/// can have that be root.
fn user_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let mut users = users.split_whitespace().map(|user| user.parse().ok());
    let first = users.next()?;
    users.all(|user| user == first).then_some(first)?
}

/// Whether the process ends within `time`.
fn ends(process: &OwnedFd, time: Duration) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
    matches!(rustix::event::poll(&mut fds, Some(&limit)), Ok(n) if n > 0)
}

/// Who uses the mount, as far as this process can see it: processes and by what, mounts upon it, loop devices over its
/// files.
pub(crate) fn users(entry: &Entry) -> Vec<String> {
    let on = |path: &Path| path.starts_with(&entry.point);
    let table = mountinfo::read().unwrap_or_default();
    let upon = table.iter().filter(|e| e.id != entry.id && e.point != entry.point && on(&e.point));
    let mut users: Vec<String> = upon.map(|e| format!("what is mounted on {}", shown(&e.point))).collect();
    for disk in std::fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let file = std::fs::read_to_string(disk.path().join("loop/backing_file")).unwrap_or_default();
        if on(Path::new(file.trim_end())) {
            users.push(format!("/dev/{} over {}", disk.file_name().display(), shown(Path::new(file.trim_end()))));
        }
    }
    for pid in processes() {
        if let Some((what, path)) = use_by(pid, &on) {
            let command = locks::command(pid).unwrap_or_default();
            users.push(format!("process {pid} ({command}), {what} {}", shown(&path)));
        }
    }
    users
}

/// By what a process uses what is `on` the mount.
fn use_by(pid: u32, on: &dyn Fn(&Path) -> bool) -> Option<(&'static str, PathBuf)> {
    const LINKS: [(&str, &str); 3] = [("cwd", "working directory"), ("root", "root directory"), ("exe", "program")];
    let link = |(name, what)| {
        let path = std::fs::read_link(format!("/proc/{pid}/{name}")).ok()?;
        on(&path).then_some((what, path))
    };
    let open = || descriptors(pid).into_iter().find(|(_, path)| on(path)).map(|(_, path)| ("open file", path));
    let mapped = || {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        let paths = maps.lines().filter_map(|line| line.find('/').and_then(|at| line.get(at..)));
        paths.map(Path::new).find(|path| on(path)).map(|path| ("mapping of", path.to_owned()))
    };
    LINKS.into_iter().find_map(link).or_else(open).or_else(mapped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_of_a_directory_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("f")).unwrap();
        let pid = std::process::id();
        let on = |path: &Path| path.starts_with(dir.path());
        assert_eq!(use_by(pid, &on), Some(("open file", dir.path().join("f"))));
        drop(file);
        assert_eq!(use_by(pid, &on), None);
        let program = std::env::current_exe().unwrap();
        assert_eq!(use_by(pid, &|path| path == program), Some(("program", program.clone())));
    }

    /// The first thread has ended, and with it all that is told of the process's descriptors; another goes on for a
    /// while.
    const LINGERS: &str = "
import ctypes, fcntl, sys, threading, time
f = open(sys.argv[1], 'r+')
fcntl.flock(f, fcntl.LOCK_EX)
threading.Thread(target=time.sleep, args=(1.5,)).start()
print(f.fileno(), flush=True)
sys.stdin.readline()
ctypes.CDLL(None).syscall(60, 0)
";

    #[test]
    fn a_server_that_is_ending_has_its_image_still() {
        if !cfg!(target_arch = "x86_64") || ondol_skips::find("python3").is_none() {
            return ondol_skips::skip("no python3 that can end a thread by its system call");
        }
        let image = tempfile::NamedTempFile::new().unwrap();
        let mut child = std::process::Command::new("python3")
            .args(["-c", LINGERS])
            .arg(image.path())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut said).unwrap();
        let (pid, descriptor) = (child.id(), said.trim().parse().unwrap());
        let lock = locks::by_descriptor(pid, descriptor).unwrap();
        let process = rustix::process::pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        let path = image.path().to_owned();
        let images = vec![Held { descriptor, lock, name: path.clone(), path, lies: Lies::Whole, place: None }];
        let server = Server { pid, process, user: Some(this_user()), images, has_source: true };
        drop(child.stdin.take());
        while !descriptors(pid).is_empty() {
            std::thread::sleep(TICK);
        }
        assert_eq!(server.wait(Wait::Usual), Waited::Ended);
        let locked = rustix::fs::flock(image.as_file(), rustix::fs::FlockOperation::NonBlockingLockExclusive);
        child.wait().unwrap();
        locked.expect("the image is free");
    }

    #[test]
    fn a_process_has_a_user() {
        assert_eq!((user_of(std::process::id()), user_of(u32::MAX)), (Some(this_user()), None));
        assert_eq!(field::<u32>("pos:\t0\nfuse_connection:\t39\n", "fuse_connection:"), Some(39));
    }
}
