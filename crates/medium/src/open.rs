//! Opening: what the medium is, how it is mapped, and what persistence domain it has.

use crate::detect::{self, Device};
use crate::map::{Map, Way};
use crate::owner::is_in_memory;
use crate::{Domain, Instructions, MediumKind, Nvm, NvmError, NvmModel, PAGE, Result, Whose};
use rustix::fs::{FallocateFlags, FlockOperation, OFlags};
use rustix::io::Errno;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Whether an NVM may be stored to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Reading only; a shared lock.
    Read,
    /// Reading and storing; an exclusive lock.
    #[default]
    Write,
    /// Reading and storing side by side with other processes; a shared lock, which lasts as long as the mapping. Who
    /// else stores where is theirs to agree on. No descriptor stays open.
    Joint,
}

/// How an NVM is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NvmOptions {
    /// Whether it may be stored to.
    pub access: Access,
    /// The persistence domain, or [`Domain::Auto`].
    pub domain: Domain,
    /// A slower NVM to imitate.
    pub model: NvmModel,
    /// Whose it may be.
    pub whose: Whose,
}

impl Nvm {
    /// Opens, locks and maps the DAX device or file at `path`: its whole pages. The lock is flock(2)'s, held as long as
    /// the `Nvm` lives.
    ///
    /// A file that may be stored to gets its blocks reserved, so that no store meets a full file system, which would be
    /// a SIGBUS. A file that another program truncates under the mapping, or memory that fails in a way that the
    /// kernel's bad block list does not know, is a SIGBUS still.
    ///
    /// # Errors
    /// `Locked` when somebody holds it, `Foreign` when it is not of [`NvmOptions::whose`], `Unfit` and `Domain` when
    /// this cannot be, `Open` for the system's refusals.
    pub fn open(path: &Path, options: &NvmOptions) -> Result<Self> {
        let name = path.display().to_string();
        Self::in_file(found(path, options.access)?, name, options)
    }

    /// As [`Nvm::open`], for at least `size` bytes: makes the file if there is none, for its owner alone, and extends
    /// it if it is shorter. A new file's bytes are zeros. A DAX device keeps its size.
    ///
    /// # Errors
    /// As for [`Nvm::open`]; `Unfit` when a device is smaller.
    pub fn create(path: &Path, size: u64, options: &NvmOptions) -> Result<Self> {
        let name = path.display().to_string();
        let fail = |source| NvmError::Open { what: "create", name: name.clone(), source };
        let file = match look(path, &name)? {
            Some(found) => open(&found, &name, Access::Write)?,
            None => OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path).map_err(fail)?,
        };
        lock(&file, &name, Access::Write)?;
        let meta = file.metadata().map_err(fail)?;
        if meta.is_file() && meta.len() < size {
            file.set_len(size).map_err(fail)?;
        }
        let nvm = Self::in_file(file, name, &NvmOptions { access: Access::Write, ..*options })?;
        match nvm.size() < size {
            true => Err(unfit(nvm.name(), &format!("it has {} bytes, {size} are asked for", nvm.size()))),
            false => Ok(nvm),
        }
    }

    /// As [`Nvm::open`], for what [`found`] has opened.
    ///
    /// # Errors
    /// As for [`Nvm::open`].
    pub fn in_file(file: File, name: String, options: &NvmOptions) -> Result<Self> {
        let owner = options.whose.check(&file, &name)?;
        lock(&file, &name, options.access)?;
        Self::mapped(file, name, owner, options)
    }

    /// As [`Nvm::in_file`], for a file that the caller has for himself by other means than its lock, which is taken if
    /// nobody has it.
    ///
    /// # Errors
    /// As for [`Nvm::open`], but never `Locked`.
    pub fn in_claimed_file(file: File, name: String, options: &NvmOptions) -> Result<Self> {
        let owner = options.whose.check(&file, &name)?;
        // A second time changes nothing.
        let _ = lock(&file, &name, options.access);
        Self::mapped(file, name, owner, options)
    }

    fn mapped(file: File, name: String, owner: Option<u32>, options: &NvmOptions) -> Result<Self> {
        let fail = |what, e: Errno| NvmError::Open { what, name: name.clone(), source: e.into() };
        let meta = file.metadata().map_err(|source| NvmError::Open { what: "open", name: name.clone(), source })?;
        let (kind, device) = (meta.file_type(), dax_device(&meta, &name)?);
        let size = device.as_ref().and_then(|device| device.size).unwrap_or(meta.len());
        let len =
            usize::try_from(size / PAGE * PAGE).map_err(|_| unfit(&name, "it is larger than the address space"))?;
        if len == 0 {
            return Err(unfit(&name, "it has less than 4096 bytes"));
        }
        let writable = options.access != Access::Read;
        if kind.is_file() && writable && meta.blocks() < size / 512 {
            reserve(&file, size).map_err(|e| fail("reserve the space of", e))?;
        }
        let (map, kind) = map(&file, len, writable, kind.is_char_device()).map_err(|e| fail("map", e))?;
        // An ordinary file's device says nothing of it, and asking takes long beside the start of a program.
        let below = || {
            if kind == MediumKind::DaxFile {
                detect::device(SYSFS.as_ref(), "block", meta.dev())
            } else {
                Device::default()
            }
        };
        let device = device.unwrap_or_else(below);
        let domain = resolve(&name, kind, options.domain, &device)?;
        let nvm = Self::new(name, map, kind, domain);
        device.bad.iter().for_each(|bad| nvm.poison().add(bad.clone()));
        Ok(nvm.held(file, owner, options))
    }
}

/// Opens the DAX device or file at `path`, and nothing else.
///
/// # Errors
/// `Unfit` for anything else; `Open` for the system's refusals.
pub fn found(path: &Path, access: Access) -> Result<File> {
    let name = path.display().to_string();
    match look(path, &name)? {
        Some(found) => open(&found, &name, access),
        None => Err(NvmError::Open { what: "open", name, source: Errno::NOENT.into() }),
    }
}

const SYSFS: &str = "/sys";

/// The DAX device that a path leads to; none if it is a file. Nothing else is NVM.
fn dax_device(meta: &Metadata, name: &str) -> Result<Option<Device>> {
    let kind = meta.file_type();
    if kind.is_char_device() {
        let device = detect::device(SYSFS.as_ref(), "char", meta.rdev());
        return match device.dax && device.size.is_some() {
            true => Ok(Some(device)),
            false => Err(unfit(name, "it is no DAX device")),
        };
    }
    match kind.is_block_device() {
        true => Err(unfit(name, "block devices are not byte-addressable: use its DAX device, or a file on it")),
        false if kind.is_file() => Ok(None),
        false => Err(unfit(name, "it is neither a DAX device nor a file")),
    }
}

/// Looks at what a path leads to before it is opened: anything that is no NVM may keep whoever opens it waiting, or do
/// something. None if nothing is there.
fn look(path: &Path, name: &str) -> Result<Option<File>> {
    let fail = |source| NvmError::Open { what: "open", name: name.into(), source };
    let found = match OpenOptions::new().read(true).custom_flags(OFlags::PATH.bits().cast_signed()).open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(fail)?,
    };
    dax_device(&found.metadata().map_err(fail)?, name)?;
    Ok(Some(found))
}

/// Opens what was looked at, whatever its path leads to by now. Nobody's lease is waited for.
fn open(found: &File, name: &str, access: Access) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(access != Access::Read).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let opened = options.open(format!("/proc/self/fd/{}", found.as_raw_fd()));
    opened.map_err(|source| NvmError::Open { what: "open", name: name.into(), source })
}

fn unfit(name: &str, what: &str) -> NvmError {
    NvmError::Unfit { name: name.into(), what: what.into() }
}

fn lock(file: &File, name: &str, access: Access) -> Result<()> {
    let op = match access {
        Access::Read | Access::Joint => FlockOperation::NonBlockingLockShared,
        Access::Write => FlockOperation::NonBlockingLockExclusive,
    };
    match rustix::fs::flock(file, op) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(NvmError::Locked { name: name.into(), by: None }),
        Err(e) => Err(NvmError::Open { what: "lock", name: name.into(), source: e.into() }),
    }
}

/// Gives a sparse file its blocks. What it holds stays.
fn reserve(file: &File, size: u64) -> rustix::io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        other => other,
    }
}

/// Only a DAX file system takes `MAP_SYNC`, so taking it is the proof of one.
fn map(file: &File, len: usize, writable: bool, device: bool) -> rustix::io::Result<(Map, MediumKind)> {
    if device {
        return Ok((Map::file(file, len, writable, Way::Shared)?, MediumKind::DaxDevice));
    }
    if let Ok(map) = Map::file(file, len, writable, Way::Sync) {
        return Ok((map, MediumKind::DaxFile));
    }
    let kind = if is_in_memory(file)? { MediumKind::Tmpfs } else { MediumKind::File };
    Ok((Map::file(file, len, writable, Way::Shared)?, kind))
}

/// What was asked for, if the medium can have it; what the medium has, if nothing was.
pub(crate) fn resolve(name: &str, kind: MediumKind, asked: Domain, device: &Device) -> Result<Domain> {
    let domain = match (asked, kind) {
        (Domain::Auto, MediumKind::DaxDevice) => device.domain.unwrap_or(Domain::Volatile),
        // A DAX file system lies on persistent memory.
        (Domain::Auto, MediumKind::DaxFile) => device.domain.unwrap_or(Domain::Adr),
        (Domain::Auto, MediumKind::File) => Domain::Msync,
        (Domain::Auto, _) => Domain::Volatile,
        (asked, _) => asked,
    };
    let no = |what| Err(NvmError::Domain { name: name.into(), domain, what });
    match (domain, kind) {
        (Domain::Msync, MediumKind::DaxDevice) => no("a device has no msync; use adr, or auto"),
        (Domain::Adr | Domain::Eadr | Domain::Gpf, MediumKind::File) => {
            no("stores to an ordinary file stay in the kernel's cache until msync; use msync, or a file on a DAX file \
                system")
        }
        (Domain::Adr | Domain::Volatile, kind) if kind.is_nvm() && Instructions::detect() == Instructions::None => {
            no("Ondol knows no write-back instruction of this processor")
        }
        _ => Ok(domain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auto(kind: MediumKind, domain: Option<Domain>) -> Domain {
        resolve("x", kind, Domain::Auto, &Device { domain, ..Device::default() }).unwrap()
    }

    #[test]
    fn auto_promises_no_more_than_is_known() {
        assert_eq!(auto(MediumKind::DaxDevice, None), Domain::Volatile);
        assert_eq!(auto(MediumKind::DaxDevice, Some(Domain::Eadr)), Domain::Eadr);
        assert_eq!(auto(MediumKind::DaxFile, None), Domain::Adr);
        assert_eq!(auto(MediumKind::Tmpfs, Some(Domain::Adr)), Domain::Volatile);
        assert_eq!(auto(MediumKind::File, Some(Domain::Adr)), Domain::Msync);
        assert_eq!(auto(MediumKind::Memory, None), Domain::Volatile);
    }

    #[test]
    fn a_domain_that_the_medium_cannot_have_is_refused() {
        let asked = |kind, domain| resolve("x", kind, domain, &Device::default()).map_err(|e| e.to_string());
        assert!(asked(MediumKind::File, Domain::Adr).unwrap_err().contains("msync"));
        assert!(asked(MediumKind::DaxDevice, Domain::Msync).unwrap_err().contains("x cannot have"));
        assert_eq!(asked(MediumKind::Memory, Domain::Msync), Ok(Domain::Msync));
        assert_eq!(asked(MediumKind::Tmpfs, Domain::Eadr), Ok(Domain::Eadr));
        assert_eq!(asked(MediumKind::File, Domain::Volatile), Ok(Domain::Volatile));
    }
}
