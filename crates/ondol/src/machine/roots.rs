//! What root's processes lock beside an image or pool: a file of root's own in `/run/ondol`, named by device and inode.
//! A lock of flock(2) can be taken, and kept, by whoever may read the image; so root goes on without it where nobody
//! has the image open for writing, and is seen by this file all the same. `docs/design/mount.md`, *Locks*, says why
//! that is enough.

use super::locks::{self, ROOTS};
use ondol_block::{Access, reopen};
use ondol_env::sync::thread;
use ondol_medium::lease;
use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags, flock, openat, unlinkat};
use rustix::io::Errno;
use std::ffi::{CStr, OsStr};
use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

/// Others may look for a name in the directory, and open nothing.
const DIR_MODE: u32 = 0o711;

/// How often, and after what time each, something is tried that others have for a moment.
const TRIES: u32 = 100;
const TRY_AGAIN: Duration = Duration::from_millis(1);

/// Another process of root's has the image; whoever has locked this inode.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) dev: u64,
    pub(super) ino: u64,
}

impl Taken {
    fn of(file: &File) -> Self {
        file.metadata().map_or(Self { dev: 0, ino: 0 }, |meta| Self { dev: meta.dev(), ino: meta.ino() })
    }
}

/// Locks root's own file for the regular file that `meta` is of; other users only look. None where there is nothing to
/// lock.
///
/// # Errors
/// Another process of root's has it.
pub(super) fn claim(meta: &Metadata, exclusive: bool) -> Result<Option<File>, Taken> {
    if !meta.is_file() {
        return Ok(None);
    }
    let path = locks::roots_file(meta);
    if rustix::process::geteuid().is_root() {
        let name = path.file_name().unwrap_or_default();
        return directory().map_or(Ok(None), |dir| take(&dir, name, exclusive));
    }
    let Ok(found) = path.metadata() else { return Ok(None) };
    let taken = locks::of(found.dev(), found.ino()).iter().any(|lock| exclusive || lock.exclusive);
    if taken { Err(Taken { dev: found.dev(), ino: found.ino() }) } else { Ok(None) }
}

/// The directory, if it is root's alone.
fn directory() -> Option<File> {
    // It may be there.
    let _ = DirBuilder::new().mode(DIR_MODE).create(ROOTS);
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let dir = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(ROOTS).ok()?;
    let meta = dir.metadata().ok().filter(|meta| meta.uid() == 0)?;
    let fits = meta.mode() & 0o7777 == DIR_MODE || dir.set_permissions(Permissions::from_mode(DIR_MODE)).is_ok();
    fits.then_some(dir)
}

fn take(dir: &File, name: &OsStr, exclusive: bool) -> Result<Option<File>, Taken> {
    // Files come and go while the directory is locked, so that a name is that of the file which others have.
    if !soon(|| flock(dir, FlockOperation::NonBlockingLockExclusive).is_ok()) {
        return Err(Taken::of(dir));
    }
    sweep(dir, name);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let taken = match openat(dir, name, flags, Mode::from_raw_mode(0o600)).map(File::from) {
        Ok(file) => match flock(&file, operation(exclusive)) {
            Err(Errno::WOULDBLOCK) => Err(Taken::of(&file)),
            locked => Ok(locked.ok().map(|()| file)),
        },
        Err(_) => Ok(None),
    };
    // Closing alone would leave it to children that have not called exec yet.
    let _ = flock(dir, FlockOperation::Unlock);
    taken
}

fn soon(mut done: impl FnMut() -> bool) -> bool {
    (0..TRIES).any(|n| {
        if n > 0 {
            thread::sleep(TRY_AGAIN);
        }
        done()
    })
}

fn operation(exclusive: bool) -> FlockOperation {
    if exclusive { FlockOperation::NonBlockingLockExclusive } else { FlockOperation::NonBlockingLockShared }
}

/// Removes what nobody has locked any more.
fn sweep(dir: &File, own: &OsStr) {
    let is_own = |name: &CStr| name.to_bytes() == own.as_bytes();
    for entry in Dir::read_from(dir).into_iter().flatten().flatten().filter(|entry| !is_own(entry.file_name())) {
        let found = openat(dir, entry.file_name(), OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
        if found.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()) {
            // What stays is in nobody's way.
            let _ = unlinkat(dir, entry.file_name(), AtFlags::empty());
        }
    }
}

/// Opens the regular file at `path` past the locks on it, for root, with root's own lock, if nobody has it open for
/// writing; none otherwise.
///
/// # Errors
/// Another process of root's has it.
pub(super) fn past_readers(path: &Path, access: Access, exclusive: bool) -> Result<Option<(File, File)>, Taken> {
    let Ok(found) = File::options().read(true).custom_flags(OFlags::PATH.bits().cast_signed()).open(path) else {
        return Ok(None);
    };
    let Ok(meta) = found.metadata() else { return Ok(None) };
    // First: who comes at the same time sees this, or is seen by its own descriptor.
    let Some(claim) = claim(&meta, exclusive)? else { return Ok(None) };
    let Ok(readable) = reopen(&found, Access::Read) else { return Ok(None) };
    // Who lets go of it closes it after the lock.
    if !soon(|| lease::nobody_writes(&readable)) {
        return Ok(None);
    }
    let opened = reopen(&found, access).ok();
    if opened.is_some() {
        tell(path, &meta);
    }
    Ok(opened.map(|file| (file, claim)))
}

/// Whether no ordinary user could have opened the file for writing: nobody but root may. What an ACL grants is within
/// the bits of the group.
pub(super) fn is_roots_alone(meta: &Metadata) -> bool {
    meta.uid() == 0 && meta.mode() & 0o022 == 0
}

/// Says whose lock is passed over.
pub(super) fn tell(path: &Path, meta: &Metadata) {
    let who = |lock: &locks::Lock| {
        let command = locks::command(lock.pid)?;
        let user = std::fs::metadata(format!("/proc/{}", lock.pid)).ok()?.uid();
        Some(format!("process {} ({command}) of user {user}", lock.pid))
    };
    let mut by: Vec<String> = locks::of(meta.dev(), meta.ino()).iter().filter_map(who).collect();
    if by.is_empty() {
        by.push("a process that cannot be seen".into());
    }
    tracing::warn!("{}: the lock of {} is passed over: it can only read", locks::shown(path), by.join(", "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_processes_keep_each_other_away_and_leave_nothing() {
        if !rustix::process::geteuid().is_root() {
            return ondol_skips::skip("only root has locks of its own");
        }
        let files = [tempfile::NamedTempFile::new().unwrap(), tempfile::NamedTempFile::new().unwrap()];
        let meta = files[0].as_file().metadata().unwrap();
        let path = locks::roots_file(&meta);
        let shared = [claim(&meta, false).unwrap(), claim(&meta, false).unwrap()];
        let Some(first) = &shared[0] else {
            return ondol_skips::skip("there can be no files in /run");
        };
        assert_eq!((first.metadata().unwrap().mode() & 0o777, path.exists()), (0o600, true));
        assert!(claim(&meta, true).is_err());
        drop(shared);
        let alone = claim(&meta, true).unwrap();
        let taken = claim(&meta, false).unwrap_err();
        assert_eq!(taken.ino, alone.as_ref().unwrap().metadata().unwrap().ino());
        // What has no lock goes with the next one of anybody.
        drop(alone);
        drop(claim(&files[1].as_file().metadata().unwrap(), true).unwrap());
        assert!(!path.exists());
    }
}
