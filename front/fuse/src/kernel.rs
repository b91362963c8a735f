//! The kernel's side of a mount: how it comes to be, whether it is still there, and how it goes.

use crate::options::MountOptions;
use crate::{MountError, fusermount};
use ondol::machine::mountinfo;
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags};
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

const DEVICE: &str = "/dev/fuse";

/// One mount, as the kernel's table has it.
#[derive(Debug)]
pub(crate) struct KernelMount {
    dir: PathBuf,
    device: Option<String>,
    /// Whoever passed the connection has mounted it, and unmounts it.
    passed: bool,
    /// Open as long as the helper of `auto_unmount` is to wait.
    _helper: Option<UnixStream>,
}

impl KernelMount {
    /// Mounts `source` on `dir`. Answers with the connection to serve. `/dev/fd/N` as `dir` is a connection that is
    /// mounted already, as libfuse has it; nothing else is touched then.
    ///
    /// # Errors
    /// `Point`, `Device`, `Mount` or `Helper`.
    pub(crate) fn new(dir: &Path, source: &str, options: &MountOptions) -> Result<(Self, OwnedFd), MountError> {
        if let Some(number) = ondol::passed::number(dir) {
            let connection = ondol::passed::duplicate(number).map_err(MountError::Device)?;
            return Ok((Self { dir: dir.to_owned(), device: None, passed: true, _helper: None }, connection));
        }
        let (dir, mode) = usable(dir)?;
        let direct = if options.auto_unmount { None } else { mount_directly(&dir, mode, source, options)? };
        let (connection, helper) = match direct {
            Some(connection) => (connection, None),
            None => {
                let (connection, socket) = fusermount::mount(&dir, source, options)?;
                (connection, options.auto_unmount.then_some(socket))
            }
        };
        let table = mountinfo::read().unwrap_or_default();
        let device = mountinfo::on(&table, &dir).map(|e| e.device.clone());
        Ok((Self { dir, device, passed: false, _helper: helper }, connection))
    }

    /// Where it was mounted.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its device as `major:minor`, if that could be seen.
    pub(crate) fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// Whether this mount is the one to be seen on its directory.
    pub(crate) fn is_there(&self) -> bool {
        let table = mountinfo::read().unwrap_or_default();
        let top = mountinfo::on(&table, &self.dir).map(|e| &e.device);
        top.is_some() && top == self.device.as_ref()
    }

    /// Has the kernel hand over what programs stored through memory mappings.
    pub(crate) fn write_back(&self) {
        if let Err(e) = File::open(&self.dir).and_then(|d| Ok(rustix::fs::syncfs(&d)?)) {
            tracing::warn!("could not write back mapped pages of {}: {e}", self.dir.display());
        }
    }

    /// Unmounts; when somebody uses the mount, takes it out of sight, and (with privilege) cuts its users off. False
    /// when users remain on the connection: its threads then live as long as they or this process.
    pub(crate) fn unmount(&self) -> io::Result<bool> {
        if self.passed {
            return Ok(false);
        }
        match unmount_when_free(&self.dir) {
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => {
                tracing::warn!("{} is in use: it is taken away from its users", self.dir.display());
                match rustix::mount::unmount(&self.dir, UnmountFlags::FORCE | UnmountFlags::DETACH) {
                    Err(Errno::PERM) => fusermount::unmount(&self.dir, true).map(|()| false),
                    other => Ok(other.map(|()| true)?),
                }
            }
            // Another mount of the file system, here or in another mount namespace, keeps the connection.
            other => other.map(|()| !self.goes_on()),
        }
    }

    /// Whether the kernel has the file system still.
    fn goes_on(&self) -> bool {
        self.device.as_ref().is_some_and(|device| is_there(device))
    }

    /// Lets the kernel read ahead further than its default of 128 KiB, where this process may say so.
    pub(crate) fn read_ahead(&self, kib: u32) {
        self.tune("read_ahead_kb", kib);
    }

    /// Lets changed pages of this mount be as many as those of any file system, where this process may say so: FUSE
    /// mounts have a hundredth of the room, and whoever has filled it waits.
    pub(crate) fn collect_writes(&self) {
        const PERCENT: u32 = 100;
        self.tune("max_ratio", PERCENT);
    }

    fn tune(&self, what: &str, value: u32) {
        if let Some(device) = &self.device {
            let path = format!("/sys/class/bdi/{device}/{what}");
            if let Err(e) = std::fs::write(&path, value.to_string()) {
                tracing::debug!("{what} stays at the kernel's default: {path}: {e}");
            }
        }
    }
}

/// Unmounts `dir` unless it is in use (`ResourceBusy`); through the helper where privilege is missing.
pub(crate) fn unmount_when_free(dir: &Path) -> io::Result<()> {
    match rustix::mount::unmount(dir, UnmountFlags::NOFOLLOW) {
        Err(Errno::PERM) => fusermount::unmount(dir, false),
        other => Ok(other?),
    }
}

/// Cuts off whoever uses the mount on `dir`, and unmounts it; needs the privilege.
pub(crate) fn unmount_by_force(dir: &Path) -> io::Result<()> {
    // Files that are open keep a mount, though nobody answers for them any more; so it is also taken out of sight.
    Ok(rustix::mount::unmount(dir, UnmountFlags::FORCE | UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)?)
}

/// Takes the mount on `dir` out of sight; it ends when its last user is gone.
pub(crate) fn detach(dir: &Path) -> io::Result<()> {
    match rustix::mount::unmount(dir, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Err(Errno::PERM) => fusermount::unmount(dir, true),
        other => Ok(other?),
    }
}

/// Whether there is a file system with this device, as `major:minor`.
pub(crate) fn is_there(device: &str) -> bool {
    Path::new("/sys/class/bdi").join(device).exists()
}

/// Mounts what is mounted on `from`, the file system with this device number, also on `dir`.
///
/// # Errors
/// The kernel's refusal, and ESTALE where something else is mounted there by now.
pub(crate) fn mount_further(from: &Path, device: Option<u64>, dir: &Path, flags: MountFlags) -> io::Result<()> {
    let copy = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let tree = rustix::mount::open_tree(CWD, from, copy)?;
    if Some(File::from(tree.try_clone()?).metadata()?.dev()) != device {
        return Err(Errno::STALE.into());
    }
    ondol_ring::set_mount_attributes(tree.as_fd(), attributes(flags), attributes_of_all())?;
    let empty = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(rustix::mount::move_mount(tree.as_fd(), "", CWD, dir, empty)?)
}

/// Flags of mount(2) as mount_setattr(2) has them. Those of the file system itself are none of these.
fn attributes(flags: MountFlags) -> u64 {
    use MountAttrFlags as To;
    let flag = |flag, to: To| if flags.contains(flag) { to.bits() } else { To::empty().bits() };
    let words = [
        flag(MountFlags::RDONLY, To::MOUNT_ATTR_RDONLY),
        flag(MountFlags::NOSUID, To::MOUNT_ATTR_NOSUID),
        flag(MountFlags::NODEV, To::MOUNT_ATTR_NODEV),
        flag(MountFlags::NOEXEC, To::MOUNT_ATTR_NOEXEC),
        flag(MountFlags::NODIRATIME, To::MOUNT_ATTR_NODIRATIME),
        flag(MountFlags::NOATIME, To::MOUNT_ATTR_NOATIME),
    ];
    words.into_iter().fold(0, |all, word| all | u64::from(word))
}

/// All attributes that can be set by `attributes`: those of access times go together, and without one of them it is
/// `relatime`.
fn attributes_of_all() -> u64 {
    attributes(MountFlags::all()) | u64::from(MountAttrFlags::MOUNT_ATTR__ATIME.bits())
}

fn open_device() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(DEVICE)
}

/// Whether this is what a mount answers whose server is gone. Which of the two it is depends on whether the request met
/// the end of the connection on its way, as it may over io_uring even after the server's process has ended.
pub(crate) fn has_no_server(e: &io::Error) -> bool {
    let gone = [Errno::NOTCONN, Errno::CONNABORTED];
    gone.iter().any(|errno| e.raw_os_error() == Some(errno.raw_os_error()))
}

/// The mount point's full path and its mode.
pub(crate) fn usable(dir: &Path) -> Result<(PathBuf, u32), MountError> {
    let fail = |source: io::Error| {
        let hint = if has_no_server(&source) {
            "; a FUSE mount without a server is there: `ondol umount` removes it"
        } else if source.kind() == io::ErrorKind::NotFound {
            "; `mkdir` makes it"
        } else {
            ""
        };
        MountError::Point { dir: dir.to_owned(), source, hint }
    };
    let full = dir.canonicalize().map_err(fail)?;
    let meta = full.metadata().map_err(fail)?;
    if !meta.is_dir() {
        return Err(fail(io::Error::from(io::ErrorKind::NotADirectory)));
    }
    Ok((full, meta.mode()))
}

/// mount(2); `None` when the caller has not the privilege.
pub(crate) fn mount_directly(
    dir: &Path,
    mode: u32,
    source: &str,
    options: &MountOptions,
) -> Result<Option<OwnedFd>, MountError> {
    let device = match open_device() {
        Ok(device) => device,
        // A set-uid helper may open what this user may not.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        Err(e) => return Err(MountError::Device(e)),
    };
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let mut words = vec![
        format!("fd={}", device.as_raw_fd()),
        format!("rootmode={:o}", mode & 0o170_000),
        format!("user_id={uid}"),
        format!("group_id={gid}"),
    ];
    words.extend(options.fuse_words());
    let fail = |source: io::Error| MountError::Mount { dir: dir.to_owned(), source };
    let data = CString::new(words.join(",")).map_err(|e| fail(e.into()))?;
    let fs_type = format!("fuse.{}", options.subtype);
    match rustix::mount::mount(source, dir, fs_type.as_str(), options.mount_flags(), data.as_c_str()) {
        Ok(()) => Ok(Some(device.into())),
        Err(Errno::PERM) => Ok(None),
        Err(e) => Err(fail(e.into())),
    }
}
