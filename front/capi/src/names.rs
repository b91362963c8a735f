//! What is done by path.

use crate::attr::{Attr, Time};
use crate::call::{Failure, Result, call, counting, needed};
use crate::memory::{Room, Text};
use crate::volume::Volume;
use ondol::{DirBuilder, FileTimes, Metadata};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::time::SystemTime;

fn stat(attr: Option<&mut MaybeUninit<Attr>>, find: impl FnOnce() -> Result<Metadata>) -> c_int {
    call(|| {
        let room = needed(attr, "attr")?;
        room.write(Attr::of(&find()?));
        Ok(())
    })
}

/// What stat(2) tells.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_stat(volume: Option<&Volume>, path: Text, attr: Option<&mut MaybeUninit<Attr>>) -> c_int {
    stat(attr, || Ok(needed(volume, "volume")?.0.metadata(path.path("path")?)?))
}

/// What lstat(2) tells: of a symbolic link itself.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_lstat(volume: Option<&Volume>, path: Text, attr: Option<&mut MaybeUninit<Attr>>) -> c_int {
    stat(attr, || Ok(needed(volume, "volume")?.0.symlink_metadata(path.path("path")?)?))
}

/// Makes a directory with these permission bits.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_mkdir(volume: Option<&Volume>, path: Text, mode: u32) -> c_int {
    call(|| {
        let volume = &needed(volume, "volume")?.0;
        Ok(DirBuilder::new().mode((mode & 0o7777) as u16).create(volume, path.path("path")?)?)
    })
}

/// Removes an empty directory.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_rmdir(volume: Option<&Volume>, path: Text) -> c_int {
    call(|| Ok(needed(volume, "volume")?.0.remove_dir(path.path("path")?)?))
}

/// Removes a name that is not a directory.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_unlink(volume: Option<&Volume>, path: Text) -> c_int {
    call(|| Ok(needed(volume, "volume")?.0.remove_file(path.path("path")?)?))
}

/// Moves `from` to `to`, replacing what is there.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_rename(volume: Option<&Volume>, from: Text, to: Text) -> c_int {
    call(|| Ok(needed(volume, "volume")?.0.rename(from.path("from")?, to.path("to")?)?))
}

/// Gives the file at `original` a further name.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_link(volume: Option<&Volume>, original: Text, link: Text) -> c_int {
    call(|| Ok(needed(volume, "volume")?.0.hard_link(original.path("original")?, link.path("link")?)?))
}

/// Makes a symbolic link at `link` that says `target`.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_symlink(volume: Option<&Volume>, target: Text, link: Text) -> c_int {
    call(|| Ok(needed(volume, "volume")?.0.symlink(target.needed("target")?, link.path("link")?)?))
}

/// What a symbolic link says, without a zero byte at its end. Returns how many bytes it has; if that is more than
/// `size`, only the first ones were stored.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_readlink(volume: Option<&Volume>, path: Text, mut buffer: Room, size: usize) -> i64 {
    counting(|| {
        let room = buffer.slice(size)?;
        let target = needed(volume, "volume")?.0.read_link(path.path("path")?)?;
        let target = target.as_os_str().as_bytes();
        let stored = target.len().min(size);
        room[..stored].copy_from_slice(&target[..stored]);
        Ok(target.len() as u64)
    })
}

/// Changes the permission bits.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_chmod(volume: Option<&Volume>, path: Text, mode: u32) -> c_int {
    call(|| Ok(needed(volume, "volume")?.0.set_permissions(path.path("path")?, (mode & 0o7777) as u16)?))
}

/// Changes owner and group; UINT32_MAX leaves one as it is.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_chown(volume: Option<&Volume>, path: Text, uid: u32, gid: u32) -> c_int {
    let given = |id: u32| (id != u32::MAX).then_some(id);
    call(|| Ok(needed(volume, "volume")?.0.chown(path.path("path")?, given(uid), given(gid))?))
}

/// Sets the times of last access and last change; NULL leaves one as it is.
#[unsafe(no_mangle)]
pub extern "C" fn ondol_set_times(
    volume: Option<&Volume>,
    path: Text,
    accessed: Option<&Time>,
    modified: Option<&Time>,
) -> c_int {
    call(|| {
        let mut times = FileTimes::new();
        if let Some(time) = accessed {
            times = times.set_accessed(system(*time)?);
        }
        if let Some(time) = modified {
            times = times.set_modified(system(*time)?);
        }
        Ok(needed(volume, "volume")?.0.set_times(path.path("path")?, times)?)
    })
}

fn system(time: Time) -> Result<SystemTime> {
    time.to_system().ok_or_else(|| Failure::invalid(format!("{} s and {} ns are no time", time.sec, time.nsec)))
}
