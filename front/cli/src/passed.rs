//! What a caller hands over besides words: open descriptors, and the namespace to mount in.

use crate::failure::{Failure, MOUNT, SYSTEM};
use rustix::thread::LinkNameSpaceType;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The image's full path: what mount tables show, and where `ondol umount` and `ondol info` find it. For a descriptor
/// whose file has no path any more this is where other processes can open it as long as this one lives.
///
/// # Errors
/// It is not there.
pub(crate) fn source(target: &Path) -> Result<PathBuf, Failure> {
    let fail = |e| Failure::new(MOUNT, format!("cannot open {}: {e}", target.display()));
    if ondol::is_in_bucket(target) {
        return Ok(target.to_owned());
    }
    if let Some(pool) = ondol::pool_of(target) {
        return Ok(in_pool(&pool.canonicalize().map_err(fail)?));
    }
    if let Some((file, part)) = ondol::part_of(target) {
        return Ok(part.target(&source(file)?));
    }
    let Some(number) = ondol::passed::number(target) else {
        return target.canonicalize().map_err(fail);
    };
    let same = |path: &PathBuf| {
        let (named, open) = (path.metadata().ok(), target.metadata().ok());
        named.zip(open).is_some_and(|(a, b)| (a.dev(), a.ino()) == (b.dev(), b.ino()))
    };
    let named = target.canonicalize().ok().filter(same);
    Ok(named.unwrap_or_else(|| PathBuf::from(format!("/proc/{}/fd/{number}", std::process::id()))))
}

/// The target that names the image in a pool.
pub(crate) fn in_pool(pool: &Path) -> PathBuf {
    let mut target = OsString::from("nvm:");
    target.push(pool);
    target.into()
}

/// Goes on in another mount namespace, given as a process number or as a file, as for `mount -N`. The process must not
/// have begun threads.
///
/// # Errors
/// There is no such namespace, or it may not be entered.
pub(crate) fn enter_namespace(namespace: &OsStr) -> Result<(), Failure> {
    let pid = namespace.to_str().and_then(|text| text.parse::<u32>().ok());
    let path = pid.map_or_else(|| PathBuf::from(namespace), |pid| PathBuf::from(format!("/proc/{pid}/ns/mnt")));
    let entered = File::open(&path)
        .and_then(|file| Ok(rustix::thread::move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Mount))?));
    entered.map_err(|e| Failure::new(SYSTEM, format!("cannot enter the namespace {}: {e}", path.display())))
}
