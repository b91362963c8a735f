//! Opening images so that nobody else writes them meanwhile.
//!
//! The same bytes can be reached by many ways: a file, loop devices over it (whole, from an offset on, over each
//! other), and their partitions. Each opening therefore locks the file at the bottom, alone if it takes all of it; and
//! takes every other device that shows some of its bytes for itself, which the kernel refuses while one is mounted, and
//! which keeps it from mounting them later. What is not covered: loop devices that are made afterwards. Of a part of a
//! file or disk, only what shows bytes of that part is taken, but the file or disk itself is locked as a whole.

use super::devices::{Base, Device, Devices, Extent, open_device};
use super::holders::{self, Holder};
use super::mountinfo::{self, Entry};
use super::roots::{self, Taken};
use crate::target::{is_in_bucket, pool_of};
use crate::{Error, Result, part};
use ondol_block::{Access, BlockError, FileStore, passed};
use ondol_env::sync::thread;
use ondol_env::{Env, System};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a holder is waited for that is about to end.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a holder is waited for of which nothing is known.
const PATIENCE_OBSCURE: Duration = Duration::from_secs(1);
/// Between two tries.
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// Opens the image or block device at `path` and locks it. For writing, all other ways to the same bytes are closed as
/// well; for reading, nobody but the kernel may be writing.
///
/// # Errors
/// `Locked`, saying who has it; otherwise as [`FileStore::open`].
pub(crate) fn open(path: &Path, access: Access) -> Result<FileStore> {
    patiently(|| attempt(path, access)).map_err(|refused| refused.into_error(path))
}

/// As [`open`] for reading only and at one's own risk: the kernel may be writing, of which [`users`] tells.
///
/// # Errors
/// As [`open`].
pub(crate) fn look(path: &Path) -> Result<FileStore> {
    let attempt = || {
        let (store, mut claims) = open_store(path, Access::Read)?;
        let target = Target::of(&store, path)?;
        claims.extend(target.lock_base(Access::Read)?);
        Ok(store.with_claims(claims))
    };
    patiently(attempt).map_err(|refused| refused.into_error(path))
}

/// Who uses the image or block device at `path` by way of the kernel: what it has mounted, or made swap or a part of
/// another device. One sentence's end for each, to come after "is in use by".
///
/// # Errors
/// It is not there, or neither a file nor a block device.
pub fn users(path: impl AsRef<Path>) -> Result<Vec<String>> {
    let path = path.as_ref();
    if pool_of(path).is_some() || is_in_bucket(path) {
        // Nobody but Ondol knows what lies in a pool, and that locks it, or in a bucket.
        return Ok(Vec::new());
    }
    let store = look(path)?;
    let target = Target::of(&store, path).map_err(|busy| busy.into_error(path))?;
    let mut found = target.own_device().map(|own| target.in_use(own)).unwrap_or_default();
    found.extend(target.others().iter().flat_map(|device| target.in_use(device)));
    let mut texts: Vec<String> = found.iter().map(Holder::text).collect();
    texts.dedup();
    Ok(texts)
}

/// Why an attempt failed.
pub(super) enum Refused {
    Held(Vec<Holder>),
    Failed(Error),
}

impl From<BlockError> for Refused {
    fn from(e: BlockError) -> Self {
        Self::Failed(e.into())
    }
}

impl Refused {
    fn into_error(self, path: &Path) -> Error {
        match self {
            Self::Held(by) => BlockError::Locked { name: path.display().to_string(), by: holders::text(&by) }.into(),
            Self::Failed(e) => e,
        }
    }
}

/// Tries until whoever is about to end has ended.
pub(super) fn patiently<T>(attempt: impl Fn() -> std::result::Result<T, Refused>) -> std::result::Result<T, Refused> {
    let begun = System.monotonic_ns();
    loop {
        let refused = match attempt() {
            Ok(opened) => return Ok(opened),
            Err(refused) => refused,
        };
        let waited = Duration::from_nanos(System.monotonic_ns().saturating_sub(begun));
        let passes = match &refused {
            Refused::Held(by) if by.iter().all(Holder::is_passing) => waited < PATIENCE,
            Refused::Held(by) if by.iter().all(|h| h.is_passing() || h.is_obscure()) => waited < PATIENCE_OBSCURE,
            _ => false,
        };
        if !passes {
            return Err(refused);
        }
        thread::sleep(TRY_AGAIN);
    }
}

/// Opens a file or device, or the part of one that the target names, with what else is to be kept.
fn open_store(path: &Path, access: Access) -> std::result::Result<(FileStore, Vec<File>), Refused> {
    let (file, part) = part::split(path);
    let exclusive = access == Access::Write;
    let taken = |by| taken(&by, file);
    let (store, claim) = match FileStore::open(file, access) {
        // It may have been handed over by the process that has the claim.
        Ok(store) if passed::number(file).is_some() => (store, None),
        Ok(store) => {
            let meta = metadata(&store, path)?;
            (store, roots::claim(&meta, exclusive).map_err(taken)?)
        }
        Err(e @ BlockError::Locked { .. }) if passed::number(file).is_none() => {
            let opened = roots::past_readers(file, access, exclusive).map_err(taken)?;
            let (opened, claim) = opened.ok_or_else(|| refused(e, file))?;
            (FileStore::from_claimed(opened, file.display().to_string(), access)?, Some(claim))
        }
        Err(e) => return Err(refused(e, file)),
    };
    let store = match part {
        Some(part) => part.of(store, path).map_err(Refused::Failed)?,
        None => store,
    };
    Ok((store, claim.into_iter().collect()))
}

fn attempt(path: &Path, access: Access) -> std::result::Result<FileStore, Refused> {
    let (store, mut claims) = open_store(path, access)?;
    let target = Target::of(&store, path)?;
    claims.extend(target.lock_base(access)?);
    match access {
        Access::Write => claims.extend(target.claim_others()?),
        Access::Read => target.refuse_writers()?,
    }
    Ok(store.with_claims(claims))
}

fn metadata(store: &FileStore, path: &Path) -> std::result::Result<Metadata, BlockError> {
    let open = |source| BlockError::Open { what: "open", name: path.display().to_string(), source };
    store.file().metadata().map_err(open)
}

/// Names the process of root's that has what could not be opened.
fn taken(by: &Taken, path: &Path) -> Refused {
    let mounts = mountinfo::read().unwrap_or_default();
    let names = path.metadata().map(|meta| Target::new(meta, path, mounts.clone()).names()).unwrap_or_default();
    held(holders::by_lock(by.dev, by.ino, &mounts, &names))
}

pub(super) fn held(mut by: Vec<Holder>) -> Refused {
    if by.is_empty() {
        by.push(Holder::Unknown);
    }
    Refused::Held(by)
}

/// Names who has what could not be opened.
fn refused(e: BlockError, path: &Path) -> Refused {
    if !matches!(e, BlockError::Locked { .. }) {
        return e.into();
    }
    let Ok(meta) = path.metadata() else { return e.into() };
    let mounts = mountinfo::read().unwrap_or_default();
    let target = Target::new(meta, path, mounts);
    let mut by = holders::by_lock(target.meta.dev(), target.meta.ino(), &target.mounts, &target.names());
    if let Some(own) = target.own_device() {
        by.extend(target.base_holders(Access::Write));
        let kin: Vec<Device> = target.others().into_iter().filter(|d| d.disk == own.disk).collect();
        by.extend(holders::by_kernel(own, &target.mounts, &kin));
        if by.is_empty() {
            by.push(Holder::Claim { node: own.node.clone() });
        }
    }
    held(by)
}

/// What is to be opened, and its place among the devices.
struct Target {
    meta: Metadata,
    mounts: Vec<Entry>,
    device: Option<Device>,
    extent: Option<Extent>,
    /// Its full path, and those of what it is made of.
    paths: Vec<PathBuf>,
}

impl Target {
    fn of(store: &FileStore, path: &Path) -> std::result::Result<Self, Refused> {
        let meta = metadata(store, path)?;
        let mut target = Self::new(meta, part::split(path).0, mountinfo::read().unwrap_or_default());
        if let (Some(extent), Some((start, len))) = (target.extent, store.part()) {
            target.extent = Some(extent.part(start, len));
        }
        Ok(target)
    }

    fn new(meta: Metadata, path: &Path, mounts: Vec<Entry>) -> Self {
        let devices = Devices::new(&mounts, &meta);
        let device = if meta.file_type().is_block_device() { devices.by_number(meta.rdev()) } else { None };
        let base = Base::File { dev: meta.dev(), ino: meta.ino() };
        let extent = match &device {
            Some(device) => Some(device.extent),
            None if meta.is_file() => Some(Extent { base, start: 0, end: u64::MAX }),
            None => None,
        };
        let mut paths: Vec<PathBuf> = path.canonicalize().into_iter().collect();
        paths.extend(device.iter().flat_map(|d| d.file.iter().chain([&d.node]).cloned()));
        Self { meta, mounts, device, extent, paths }
    }

    fn own_device(&self) -> Option<&Device> {
        self.device.as_ref()
    }

    /// The other devices that show some of its bytes, disks before their partitions.
    fn others(&self) -> Vec<Device> {
        let Some(extent) = &self.extent else { return Vec::new() };
        let mut others = Devices::new(&self.mounts, &self.meta).over(extent);
        others.retain(|d| self.device.as_ref().is_none_or(|own| own.number != d.number));
        others.sort_by_key(|d| (d.number != d.disk, d.number));
        others
    }

    /// What mounts may show as the source of the same bytes.
    fn names(&self) -> Vec<PathBuf> {
        let others = self.others().into_iter().map(|device| device.node);
        self.paths.iter().cloned().chain(others).collect()
    }

    /// Locks the file at the bottom: alone if this is all of it, so that parts of one file can be used side by side.
    fn lock_base(&self, access: Access) -> std::result::Result<Vec<File>, Refused> {
        let Some((device, Base::File { dev, ino })) = self.device.as_ref().map(|d| (d, d.extent.base)) else {
            return Ok(Vec::new());
        };
        let same = |file: &File| file.metadata().is_ok_and(|m| m.is_file() && (m.dev(), m.ino()) == (dev, ino));
        let file = device.file.as_ref().and_then(|path| ondol_block::open_file(path, Access::Read).ok()).filter(same);
        let Some(file) = file else {
            // It is out of reach: removed, elsewhere, or not for this user. Locks can be seen all the same.
            let held = self.base_holders(access);
            return if held.is_empty() { Ok(Vec::new()) } else { Err(Refused::Held(held)) };
        };
        let exclusive = self.base_is_whole(&file) && access == Access::Write;
        let taken = |by: Taken| held(holders::by_lock(by.dev, by.ino, &self.mounts, &self.names()));
        let meta = file.metadata().map_err(|_| held(Vec::new()))?;
        let claim = roots::claim(&meta, exclusive).map_err(taken)?;
        let operation = match exclusive {
            true => FlockOperation::NonBlockingLockExclusive,
            false => FlockOperation::NonBlockingLockShared,
        };
        match rustix::fs::flock(&file, operation) {
            // The device itself has the file open for writing, so that nobody can be asked who else has.
            Err(Errno::WOULDBLOCK) if claim.is_some() && roots::is_roots_alone(&meta) => {
                roots::tell(device.file.as_deref().unwrap_or(&device.node), &meta);
            }
            Err(Errno::WOULDBLOCK) => return Err(held(self.base_holders(access))),
            // File systems without locks protect nothing here either.
            _ => {}
        }
        Ok(claim.into_iter().chain([file]).collect())
    }

    fn base_is_whole(&self, file: &File) -> bool {
        const SECTOR: u64 = 512;
        let len = file.metadata().map_or(0, |m| m.len());
        self.extent.is_some_and(|extent| extent.start == 0 && extent.end >= len / SECTOR * SECTOR)
    }

    /// Who has the file at the bottom locked, if it is another than the target.
    fn base_holders(&self, access: Access) -> Vec<Holder> {
        let Some(Base::File { dev, ino }) = self.device.as_ref().map(|d| d.extent.base) else { return Vec::new() };
        let locks = super::locks::of(dev, ino);
        let against = access == Access::Write || locks.iter().any(|lock| lock.exclusive);
        if against { holders::by_lock(dev, ino, &self.mounts, &self.names()) } else { Vec::new() }
    }

    /// Takes all other devices that show nothing but its bytes, and tries those that show more, which others may have
    /// parts of.
    fn claim_others(&self) -> std::result::Result<Vec<File>, Refused> {
        let (Some(extent), others) = (&self.extent, self.others()) else { return Ok(Vec::new()) };
        let (inside, around): (Vec<&Device>, Vec<&Device>) = others.iter().partition(|d| extent.contains(&d.extent));
        // The kernel itself keeps disks and their partitions apart.
        let mut disks: Vec<u64> = self.device.iter().map(|own| own.disk).collect();
        let mut claims = Vec::new();
        for device in inside {
            if !disks.contains(&device.disk) {
                claims.extend(self.claim(device)?);
                if device.number == device.disk {
                    disks.push(device.disk);
                }
            }
        }
        let parted: Vec<u64> = others.iter().filter(|d| extent.contains(&d.extent)).map(|d| d.disk).collect();
        for device in around {
            if !disks.contains(&device.disk) && !parted.contains(&device.disk) {
                drop(self.claim(device)?);
            }
        }
        Ok(claims)
    }

    fn claim(&self, device: &Device) -> std::result::Result<Option<File>, Refused> {
        match open_device(&device.node, device.number, OFlags::EXCL) {
            Ok(file) => Ok(Some(file)),
            // It has gone.
            Err(e) if e.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => Ok(None),
            Err(_) => {
                let mut by = self.in_use(device);
                if by.is_empty() {
                    by.push(Holder::Claim { node: device.node.clone() });
                }
                Err(Refused::Held(by))
            }
        }
    }

    /// Who uses another device, or might; nobody where that can be said.
    fn in_use(&self, device: &Device) -> Vec<Holder> {
        let kin: Vec<Device> = self.others().into_iter().filter(|d| d.disk == device.disk).collect();
        let mut by = holders::by_kernel(device, &self.mounts, &kin);
        // The lock on its own node is the one with which it was opened.
        let other = self.own_device().is_none_or(|own| own.number != device.number);
        if by.is_empty()
            && other
            && let Ok(node) = device.node.metadata()
        {
            by = holders::by_lock(node.dev(), node.ino(), &self.mounts, std::slice::from_ref(&device.node));
        }
        if !by.is_empty() {
            return by;
        }
        let node = device.node.clone();
        match open_device(&device.node, device.number, OFlags::EXCL) {
            Ok(_) => Vec::new(),
            Err(e) if e.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => vec![Holder::Claim { node }],
            Err(_) if device.is_used_loop => vec![Holder::Claim { node }],
            Err(_) => vec![Holder::Loop { node }],
        }
    }

    /// Refuses what the kernel has mounted for writing.
    fn refuse_writers(&self) -> std::result::Result<(), Refused> {
        for device in self.device.iter().chain(&self.others()) {
            let written =
                |e: &&Entry| e.device_number() == Some(device.number) && !e.options.split(',').any(|w| w == "ro");
            if let Some(entry) = self.mounts.iter().rfind(written) {
                return Err(Refused::Held(vec![Holder::Mount {
                    node: device.node.clone(),
                    point: entry.point.clone(),
                }]));
            }
        }
        Ok(())
    }
}
