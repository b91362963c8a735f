//! What a process does to a mount that another process serves: ask, sync, unmount.

use crate::server::{self, Server, Wait, Waited};
use crate::{ClientError, MountError, MountOptions, kernel};
use ondol::Exchange;
use ondol::machine::elsewhere::Seen;
use ondol::machine::mountinfo::{self, Entry, FS_TYPE};
use rustix::fs::{FallocateFlags, XattrFlags};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The attribute of the root directory that holds the volume's state as JSON.
pub const INFO: &str = "ondol.info";

/// The attribute of the root directory that holds what the mount has done, as JSON. Whoever asks has requests timed for
/// a minute.
pub const STATS: &str = "ondol.stats";

/// The attribute of the root directory that holds the volume's snapshots, as JSON, for who may make some.
pub const SNAPSHOTS: &str = "ondol.snapshots";

/// The beginning of attributes that answer with a ticket, or take one: see [`exchange`].
pub const EXCHANGE: &str = "ondol.exchange.";

/// Attributes of the root directory by which the volume as a whole is changed.
pub const RESIZE: &str = "system.ondol.resize";
/// The same for a new snapshot.
pub const SNAPSHOT_CREATE: &str = "system.ondol.snapshot.create";
/// The same for one that is to go.
pub const SNAPSHOT_DELETE: &str = "system.ondol.snapshot.delete";

/// How long a mount is tried to be unmounted that is in use: what programs have closed may be held for a moment by
/// their children that have not called exec(2) yet, and by those who look at them in `/proc`.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two tries.
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// The largest value that an attribute can have.
const VALUE_MAX: usize = 65536;

/// The volume's mount that `dir` lies on.
///
/// # Errors
/// `Open`, `Table`, `NotOurs`, or `Dead`.
pub fn find(dir: &Path) -> Result<Entry, ClientError> {
    let table = mountinfo::read().map_err(ClientError::Table)?;
    let full = dir.canonicalize().map_err(|source| dead_or(&table, dir, source))?;
    let entry = mountinfo::covering(&table, &full).filter(|e| e.fs_type == FS_TYPE);
    entry.cloned().ok_or_else(|| ClientError::NotOurs(dir.to_owned()))
}

/// The volume's mount on `dir` itself, known without going there.
pub fn mounted_on(dir: &Path) -> Option<Entry> {
    let absolute = std::path::absolute(dir).ok()?;
    let table = mountinfo::read().ok()?;
    mountinfo::on(&table, &absolute).filter(|e| e.fs_type == FS_TYPE).cloned()
}

/// The mount of all of the image at `image`, a full path, by a server whose word on it counts. That a mount's source
/// says so is not enough: whoever mounted it chose the words.
pub fn serving(image: &Path) -> Option<Entry> {
    served(image, |server, mount| server.speaks_for(mount, image))
}

/// The same, if its server is root's, and root has mounted.
pub fn serving_for_root(image: &Path) -> Option<Entry> {
    served(image, |server, mount| server.is_roots(mount) && server.speaks_for(mount, image))
}

fn served(image: &Path, counts: impl Fn(&Server, &Entry) -> bool) -> Option<Entry> {
    let table = mountinfo::read().ok()?;
    let named = |e: &Entry| e.fs_type == FS_TYPE && e.source == image && e.root == Path::new("/");
    table.into_iter().rev().find(|e| named(e) && Server::of(e).is_some_and(|server| counts(&server, e)))
}

/// Mounts the file system of `mount` on a further directory, with flags of its own: until they are set, nobody sees it.
///
/// # Errors
/// `Point`: the directory cannot be used. `Mount`: the kernel's refusal; nothing is mounted then.
pub fn mount_further(mount: &Entry, dir: &Path, options: &MountOptions) -> Result<(), MountError> {
    let (dir, _) = kernel::usable(dir)?;
    let done = kernel::mount_further(&mount.point, mount.device_number(), &dir, options.mount_flags());
    done.map_err(|source| MountError::Mount { dir, source })
}

/// Says that a mount has lost its server, if that is why `dir` cannot be reached.
fn dead_or(table: &[Entry], dir: &Path, source: io::Error) -> ClientError {
    let absolute = std::path::absolute(dir).unwrap_or_default();
    let lost = kernel::has_no_server(&source);
    match mountinfo::covering(table, &absolute).filter(|e| lost && e.fs_type == FS_TYPE) {
        Some(entry) => ClientError::Dead { point: entry.point.clone(), image: entry.source.clone() },
        None => ClientError::Open { dir: dir.to_owned(), source },
    }
}

/// The state of the volume that `dir` lies on, as JSON.
///
/// # Errors
/// No volume of ours is mounted there, or its server does not answer.
pub fn info(dir: &Path) -> Result<Vec<u8>, ClientError> {
    let entry = find(dir)?;
    let root = open(&entry)?;
    ask(&root, INFO).map_err(|source| refused("read the state of", entry, source))
}

/// What the mount that `dir` lies on has done, as JSON; from then on its requests are timed for a minute.
///
/// # Errors
/// As [`info`].
pub fn stats(dir: &Path) -> Result<Vec<u8>, ClientError> {
    let entry = find(dir)?;
    let root = open(&entry)?;
    ask(&root, STATS).map_err(|source| refused("read the counters of", entry, source))
}

/// The process that serves a mount, as far as this process can see it.
pub fn server_of(entry: &Entry) -> Option<u32> {
    Server::of(entry).map(|server| server.pid())
}

/// The mount that a process serves; the last one, if there are several.
pub fn served_by(pid: u32) -> Option<Entry> {
    let table = mountinfo::read().ok()?;
    table.into_iter().rev().find(|e| e.fs_type == FS_TYPE && server_of(e) == Some(pid))
}

/// Makes everything durable that was done before on the volume that `dir` lies on, stores through memory mappings
/// included.
///
/// # Errors
/// No volume of ours is mounted there, or it could not be made durable.
pub fn sync(dir: &Path) -> Result<(), ClientError> {
    let entry = find(dir)?;
    let root = open(&entry)?;
    let synced = rustix::fs::syncfs(&root).and_then(|()| rustix::fs::fsync(&root));
    synced.map_err(|e| refused("sync", entry, e.into()))
}

/// What a file holds from an offset (bytes) on.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The file.
    pub path: &'a Path,
    /// Where the part begins.
    pub offset: u64,
}

/// Exchanges what two files of one mounted volume hold from their offsets on, as `ondol::File::exchange` does.
/// The caller must be able to read and write both.
///
/// # Errors
/// `Open`, `Table`, `NotOurs`, or `Dead` for either file; `TwoMounts`; `Exchange` says what the server has against it.
pub fn exchange(one: Part<'_>, other: Part<'_>, how: &Exchange) -> Result<(), ClientError> {
    let (entry, second) = (find(one.path)?, find(other.path)?);
    if entry.point != second.point {
        return Err(ClientError::TwoMounts { one: one.path.to_owned(), other: other.path.to_owned() });
    }
    let open = |path: &Path| {
        let opened = File::options().read(true).write(true).open(path);
        opened.map_err(|source| dead_or(std::slice::from_ref(&entry), path, source))
    };
    let (first, second) = (open(one.path)?, open(other.path)?);
    let flag = |is: bool, bit: u64| if is { bit } else { 0 };
    let flags = flag(how.len.is_none(), 1) | flag(how.durable, 2) | flag(how.dry_run, 4) | flag(how.written_only, 8);
    let what = format!("{EXCHANGE}{flags}.{}.{}.{}", one.offset, other.offset, how.len.unwrap_or(0));
    let asked = || -> io::Result<()> {
        let mut ticket = [[0; 8]; 2];
        rustix::fs::fgetxattr(&second, &*what, ticket.as_flattened_mut())?;
        let [offset, len] = ticket.map(u64::from_ne_bytes);
        rustix::fs::fgetxattr(&first, format!("{EXCHANGE}{offset}.{len}"), &mut [0; 1][..])?;
        for file in [&first, &second] {
            rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, offset, len)?;
        }
        Ok(())
    };
    let mut waited = Duration::ZERO;
    loop {
        match asked() {
            // Another exchange is under way.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && waited < PATIENCE => {
                std::thread::sleep(TRY_AGAIN);
                waited += TRY_AGAIN;
            }
            done => {
                return done.map_err(|source| match kernel::has_no_server(&source) {
                    true => refused("exchange files on", entry.clone(), source),
                    false => ClientError::Exchange { one: one.path.to_owned(), other: other.path.to_owned(), source },
                });
            }
        }
    }
}

/// Has the volume that `dir` lies on grow to `bytes`, or to all of its device: how many bytes it then has for files, as
/// df(1) shows. Durable when this returns.
///
/// # Errors
/// `Open`, `Table`, `NotOurs`, or `Dead`; what the server has against it.
pub fn resize(dir: &Path, bytes: Option<u64>) -> Result<u64, ClientError> {
    let entry = find(dir)?;
    let root = open(&entry)?;
    let asked = || -> io::Result<u64> {
        let bytes = bytes.map_or_else(String::new, |bytes| bytes.to_string());
        change(&root, RESIZE, &bytes)?;
        let space = rustix::fs::fstatvfs(&root)?;
        Ok(space.f_blocks.saturating_mul(space.f_frsize))
    };
    asked().map_err(|source| match kernel::has_no_server(&source) {
        true => refused("resize", entry, source),
        false => ClientError::Resize { dir: dir.to_owned(), source },
    })
}

/// What is to be done with a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotChange {
    /// It is made of the volume as it is.
    Create,
    /// It is deleted.
    Delete,
}

/// Has the server of the volume that `dir` lies on make or delete a snapshot of it. Durable when this returns.
///
/// # Errors
/// `Open`, `Table`, `NotOurs`, or `Dead`; what the server has against it.
pub fn snapshot(dir: &Path, how: SnapshotChange, name: &str) -> Result<(), ClientError> {
    let entry = find(dir)?;
    let root = open(&entry)?;
    let what = if how == SnapshotChange::Create { SNAPSHOT_CREATE } else { SNAPSHOT_DELETE };
    let asked = || -> io::Result<()> {
        if how == SnapshotChange::Create {
            // What was changed through mappings, or is collected, is in the kernel's pages alone.
            rustix::fs::syncfs(&root)?;
        }
        change(&root, what, name)
    };
    asked().map_err(|source| match kernel::has_no_server(&source) {
        true => refused("change the snapshots of", entry, source),
        false => ClientError::Snapshot { dir: dir.to_owned(), name: name.to_owned(), source },
    })
}

/// The snapshots of the volume that `dir` lies on, as JSON.
///
/// # Errors
/// `Open`, `Table`, `NotOurs`, or `Dead`; what the server has against it.
pub fn snapshots(dir: &Path) -> Result<Vec<u8>, ClientError> {
    let entry = find(dir)?;
    let root = open(&entry)?;
    ask(&root, SNAPSHOTS).map_err(|source| match kernel::has_no_server(&source) {
        true => refused("list the snapshots of", entry, source),
        false => ClientError::Snapshots { dir: dir.to_owned(), source },
    })
}

/// How a volume is unmounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unmount {
    /// Whoever uses the volume is cut off, by whichever mount of it.
    pub force: bool,
    /// Its server is waited for, also while the volume is mounted elsewhere.
    pub wait: bool,
}

/// What became of the image of a mount that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmounted {
    /// Its server has closed it: it is clean.
    Closed,
    /// Its server goes on, since the file system is mounted elsewhere, too.
    InUse {
        /// What mount tables show as the source.
        image: PathBuf,
        /// The server.
        server: String,
        /// Where it is mounted, as far as that is seen.
        at: Vec<Seen>,
    },
}

/// Unmounts the volume on `dir`. Where this was its last mount, it returns when its server has closed the image, which
/// is then clean. Nothing is asked of the server, and nothing opened but what it has open.
///
/// # Errors
/// `Busy` when somebody uses the mount; `NotMountPoint`, `NotOurs`, `Unmount`. It is unmounted all the same: `NotClean`
/// when the image is not, `Closing` when another user's server has it open still after some time.
pub fn unmount(dir: &Path, how: Unmount) -> Result<Unmounted, ClientError> {
    let entry = find_point(dir)?;
    let server = Server::of(&entry);
    let mut waited = Duration::ZERO;
    loop {
        match if how.force { kernel::unmount_by_force(&entry.point) } else { kernel::unmount_when_free(&entry.point) } {
            Ok(()) => break,
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy && waited < PATIENCE => {
                std::thread::sleep(TRY_AGAIN);
                waited += TRY_AGAIN;
            }
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => {
                let users = server::users(&entry);
                return Err(ClientError::Busy { dir: entry.point, users });
            }
            Err(e) => return Err(ClientError::Unmount { dir: entry.point, said: e.to_string() }),
        }
    }
    let Some(server) = server else { return Ok(Unmounted::Closed) };
    // By force the file system has lost its server, however often it is mounted.
    if !how.force
        && !how.wait
        && let Some(at) = server.goes_on(&entry)
    {
        return Ok(Unmounted::InUse { image: entry.source, server: server.text(), at });
    }
    if server.wait(if how.wait { Wait::Asked } else { Wait::Usual }) == Waited::Goes {
        return Err(ClientError::Closing { dir: entry.point, server: server.text() });
    }
    match server.left_dirty() {
        Some(volume) if ondol::is_in_bucket(&volume) => Err(ClientError::NotClosed { dir: entry.point, volume }),
        Some(image) => Err(ClientError::NotClean { dir: entry.point, image }),
        None => Ok(Unmounted::Closed),
    }
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

/// Changes the volume as a whole: says what, which takes a mount for writing, and has it done.
fn change(root: &File, what: &str, value: &str) -> io::Result<()> {
    rustix::fs::fsetxattr(root, what, value.as_bytes(), XattrFlags::empty())?;
    rustix::fs::fgetxattr(root, what, &mut [0; 1][..])?;
    Ok(())
}

fn refused(what: &'static str, entry: Entry, source: io::Error) -> ClientError {
    if kernel::has_no_server(&source) {
        return ClientError::Dead { point: entry.point, image: entry.source };
    }
    ClientError::Ask { what, dir: entry.point, source }
}

/// The root directory of the file system, which a mount of one of its directories does not show; that directory, where
/// no other mount is seen.
fn open(entry: &Entry) -> Result<File, ClientError> {
    let is_whole = |e: &Entry| e.root == Path::new("/") && e.device == entry.device;
    let table = if is_whole(entry) { Vec::new() } else { mountinfo::read().map_err(ClientError::Table)? };
    let entry = table.iter().rfind(|e| is_whole(e)).unwrap_or(entry);
    File::open(&entry.point).map_err(|source| dead_or(std::slice::from_ref(entry), &entry.point, source))
}

fn ask(root: &File, name: &str) -> io::Result<Vec<u8>> {
    let mut value = vec![0; VALUE_MAX];
    let len = rustix::fs::fgetxattr(root, name, &mut value[..])?;
    value.truncate(len);
    Ok(value)
}
