//! Opening NVM, and saying who has it when it is in use.

use super::claim::{Refused, held, patiently};
use super::holders::{self, Holder};
use super::mountinfo;
use super::roots::{self, Taken};
use crate::target::target_of;
use crate::{Error, Result};
use ondol_block::Access as FileAccess;
use ondol_env::{Env, System};
use ondol_medium::{Access, Nvm, NvmError, NvmOptions, Pool, PoolSpec};
use rustix::fs::{AtFlags, CWD, OFlags};
use rustix::io::Errno;
use std::fs::{File, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// As [`Nvm::open`], for root past the locks of those who can only read. Who is about to end is waited for; what is in
/// use names who has it.
pub(crate) fn open(path: &Path, options: &NvmOptions) -> Result<Nvm> {
    patiently(|| attempt(path, options)).map_err(|refused| match refused {
        Refused::Held(by) => NvmError::Locked { name: path.display().to_string(), by: Some(holders::text(&by)) }.into(),
        Refused::Failed(e) => e,
    })
}

/// A pool with areas, which `allot` gives it if it has none. If there is nothing at `path`, makes one of `size` bytes
/// there first, for its owner's eyes only: it will hold what programs write to files that others may not read. One that
/// is too small is not made. Its name is durable when this returns.
pub(crate) fn open_or_make(
    path: &Path,
    size: u64,
    options: &NvmOptions,
    allot: &dyn Fn(&mut Pool) -> Result<()>,
) -> Result<Pool> {
    let nvm = match open(path, options) {
        Err(Error::Nvm(NvmError::Open { source, .. })) if source.kind() == ErrorKind::NotFound => {
            make(path, size, options, allot)?;
            open(path, options)?
        }
        opened => opened?,
    };
    // What is durable in it is of no use without its name, and who made it may have been killed before that was.
    match File::open(above(path)).and_then(|above| above.sync_all()) {
        // Who may not list a directory cannot sync it either.
        Err(e) if e.kind() != ErrorKind::PermissionDenied => return Err(failed(path, "sync the directory of", e)),
        _ => {}
    }
    let mut pool = Pool::open(nvm)?;
    allot(&mut pool)?;
    Ok(pool)
}

fn above(path: &Path) -> &Path {
    path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn failed(path: &Path, what: &'static str, source: std::io::Error) -> Error {
    NvmError::Open { what, name: path.display().to_string(), source }.into()
}

fn make(path: &Path, size: u64, options: &NvmOptions, allot: &dyn Fn(&mut Pool) -> Result<()>) -> Result<()> {
    let fail = |source| failed(path, "create", source);
    // Without a name first: nobody is to see half of it.
    let mut unnamed = OpenOptions::new();
    unnamed.read(true).write(true).mode(0o600).custom_flags(OFlags::TMPFILE.bits().cast_signed());
    let file = unnamed.open(above(path)).map_err(fail)?;
    file.set_len(size).map_err(fail)?;
    let nvm = Nvm::in_file(file.try_clone().map_err(fail)?, path.display().to_string(), options)?;
    let mut pool = Pool::create(nvm, &PoolSpec { uuid: System.random_uuid(), ..PoolSpec::default() })?;
    allot(&mut pool)?;
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    match rustix::fs::linkat(CWD, unnamed, CWD, path, AtFlags::SYMLINK_FOLLOW) {
        // Somebody else was first.
        Err(Errno::EXIST) => Ok(()),
        linked => linked.map_err(|e| fail(e.into())),
    }
}

fn attempt(path: &Path, options: &NvmOptions) -> std::result::Result<Nvm, Refused> {
    let fail = |e: NvmError| Refused::Failed(e.into());
    let name = path.display().to_string();
    let (exclusive, writable) = (options.access == Access::Write, options.access != Access::Read);
    let file = ondol_medium::found(path, options.access).map_err(fail)?;
    let claim =
        roots::claim(&metadata(&file, path).map_err(fail)?, exclusive).map_err(|by| held(by_lock(&by, path)))?;
    match Nvm::in_file(file, name.clone(), options) {
        Ok(nvm) => Ok(nvm.with_claim(claim)),
        Err(e @ NvmError::Locked { .. }) => {
            drop(claim);
            let access = if writable { FileAccess::Write } else { FileAccess::Read };
            let opened = roots::past_readers(path, access, exclusive).map_err(|by| held(by_lock(&by, path)))?;
            let Some((file, claim)) = opened else {
                return Err(inode(path).map_or_else(|| fail(e), |inode| held(by_lock(&inode, path))));
            };
            Ok(Nvm::in_claimed_file(file, name, options).map_err(fail)?.with_claim(Some(claim)))
        }
        Err(e) => Err(fail(e)),
    }
}

/// As [`Nvm::create`]; what is in use names who has it.
pub(crate) fn create(path: &Path, size: u64, options: &NvmOptions) -> Result<Nvm> {
    let in_use = |by: &Taken| {
        let by = by_lock(by, path);
        NvmError::Locked { name: path.display().to_string(), by: (!by.is_empty()).then(|| holders::text(&by)) }
    };
    let nvm = Nvm::create(path, size, options).map_err(|e| match (inode(path), &e) {
        (Some(inode), NvmError::Locked { .. }) => in_use(&inode),
        _ => e,
    })?;
    let claim = |file| roots::claim(&metadata(file, path)?, true).map_err(|by| in_use(&by));
    let claim = nvm.file().map_or(Ok(None), claim)?;
    Ok(nvm.with_claim(claim))
}

fn metadata(file: &File, path: &Path) -> std::result::Result<Metadata, NvmError> {
    let fail = |source| NvmError::Open { what: "open", name: path.display().to_string(), source };
    file.metadata().map_err(fail)
}

fn inode(path: &Path) -> Option<Taken> {
    path.metadata().ok().map(|meta| Taken { dev: meta.dev(), ino: meta.ino() })
}

/// Whoever has locked that inode.
fn by_lock(inode: &Taken, path: &Path) -> Vec<Holder> {
    let mounts = mountinfo::read().unwrap_or_default();
    let full = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    holders::by_lock(inode.dev, inode.ino, &mounts, &[target_of(&full)])
}
