//! Block devices, and what their bytes are made of: partitions of disks, and loop devices over files or over other
//! devices.

use super::mountinfo::{self, Entry};
use ondol_medium::loops::{self, Backing};
use rustix::fs::OFlags;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes of what `/sys` counts sizes in.
const SECTOR: u64 = 512;

/// Loop devices upon loop devices that are followed at most.
const DEEPEST: u32 = 16;

/// What bytes are made of in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// A file, by stat(2)'s device and inode.
    File { dev: u64, ino: u64 },
    /// A device, by its number.
    Device(u64),
}

/// Bytes `start..end` of a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) base: Base,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Extent {
    /// `len` of its bytes from `offset` on, as far as they are its.
    pub(crate) fn part(self, offset: u64, len: u64) -> Self {
        let start = self.start.saturating_add(offset).min(self.end);
        Self { start, end: start.saturating_add(len).min(self.end), ..self }
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.base == other.base && self.start.max(other.start) < self.end.min(other.end)
    }

    pub(crate) fn contains(&self, other: &Self) -> bool {
        self.base == other.base && self.start <= other.start && other.end <= self.end
    }
}

/// A block device of this machine.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    /// Its number, as stat(2) has it.
    pub(crate) number: u64,
    /// The number of the disk that it is, or is a partition of.
    pub(crate) disk: u64,
    /// Its node.
    pub(crate) node: PathBuf,
    /// What its bytes are.
    pub(crate) extent: Extent,
    /// The path of the file at the bottom, if it lies on one and the path is one here.
    pub(crate) file: Option<PathBuf>,
    /// A loop device that goes when its last user is gone, which it therefore has.
    pub(crate) is_used_loop: bool,
}

/// What can be asked about devices without asking a file system that somebody else serves.
pub(crate) struct Devices<'a> {
    mounts: &'a [Entry],
    /// The file system that whoever asks uses anyway, as `major:minor`.
    own: String,
}

impl<'a> Devices<'a> {
    /// For whoever has opened the file of which `meta` is known.
    pub(crate) fn new(mounts: &'a [Entry], meta: &Metadata) -> Self {
        let own = format!("{}:{}", rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
        Self { mounts, own }
    }

    /// The device with this number; `None` when `/sys` does not know it.
    pub(crate) fn by_number(&self, number: u64) -> Option<Device> {
        self.device(&directory(number)?)
    }

    /// All devices that show some of the same bytes as `extent`.
    pub(crate) fn over(&self, extent: &Extent) -> Vec<Device> {
        let file = matches!(extent.base, Base::File { .. });
        let Ok(all) = std::fs::read_dir("/sys/class/block") else { return Vec::new() };
        let names = all.filter_map(|entry| Some(entry.ok()?.path()));
        // Only a loop device lies on a file.
        let names = names.filter(|p| !file || p.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"loop")));
        let devices = names.filter_map(|path| self.device(&path.canonicalize().ok()?));
        devices.filter(|device| device.extent.overlaps(extent)).collect()
    }

    fn device(&self, dir: &Path) -> Option<Device> {
        let disk = if dir.join("partition").exists() { dir.parent()? } else { dir };
        let (extent, file) = self.extent(dir, 0)?;
        Some(Device {
            number: number_of(dir)?,
            disk: number_of(disk)?,
            node: node_of(dir)?,
            extent,
            file,
            is_used_loop: word(&disk.join("loop/autoclear")).as_deref() == Some("1"),
        })
    }

    fn extent(&self, dir: &Path, depth: u32) -> Option<(Extent, Option<PathBuf>)> {
        if depth > DEEPEST {
            return None;
        }
        let size = number(&dir.join("size"))?.checked_mul(SECTOR)?;
        if dir.join("partition").exists() {
            let start = number(&dir.join("start"))?.checked_mul(SECTOR)?;
            let (disk, file) = self.extent(dir.parent()?, depth + 1)?;
            return Some((disk.part(start, size), file));
        }
        let Ok(mut path) = std::fs::read(dir.join("loop/backing_file")) else {
            return Some((Extent { base: Base::Device(number_of(dir)?), start: 0, end: size }, None));
        };
        path.pop_if(|byte| *byte == b'\n');
        let path = PathBuf::from(std::ffi::OsString::from_vec(path));
        let offset = number(&dir.join("loop/offset"))?;
        match self.backing(dir, &path)? {
            Backing::File { dev, ino } => {
                let base = Base::File { dev, ino };
                Some((Extent { base, start: offset, end: offset.checked_add(size)? }, Some(path)))
            }
            Backing::Device(below) => {
                let (below, file) = self.extent(&directory(below)?, depth + 1)?;
                Some((below.part(offset, size), file))
            }
        }
    }

    /// What lies under a loop device; who may not open its node goes by the path. A file of a FUSE mount is not asked
    /// for, unless whoever asks is there anyway: its server may never answer.
    fn backing(&self, dir: &Path, path: &Path) -> Option<Backing> {
        let under = mountinfo::covering(self.mounts, path)?;
        if under.is_fuse() && under.device != self.own {
            return None;
        }
        let open = || open_device(&node_of(dir)?, number_of(dir)?, OFlags::empty()).ok();
        if let Some(found) = open().and_then(|device| loops::backing(&device).ok()) {
            return Some(found);
        }
        let meta = path.metadata().ok()?;
        Some(match meta.file_type().is_block_device() {
            true => Backing::Device(meta.rdev()),
            false => Backing::File { dev: meta.dev(), ino: meta.ino() },
        })
    }
}

/// Opens the node of the block device with this number, for reading.
pub(crate) fn open_device(node: &Path, number: u64, flags: OFlags) -> io::Result<File> {
    let flags = (flags | OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(node)?;
    let meta = file.metadata()?;
    let same = meta.file_type().is_block_device() && meta.rdev() == number;
    if same { Ok(file) } else { Err(io::ErrorKind::NotFound.into()) }
}

fn directory(number: u64) -> Option<PathBuf> {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()
}

fn number_of(dir: &Path) -> Option<u64> {
    let text = word(&dir.join("dev"))?;
    let (major, minor) = text.split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

fn node_of(dir: &Path) -> Option<PathBuf> {
    let text = std::fs::read_to_string(dir.join("uevent")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("DEVNAME=")).map(|name| Path::new("/dev").join(name))
}

fn number(path: &Path) -> Option<u64> {
    word(path)?.parse().ok()
}

fn word(path: &Path) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_inside_and_are_compared() {
        let base = Base::File { dev: 1, ino: 2 };
        let whole = Extent { base, start: 1000, end: 5000 };
        let part = whole.part(512, 1024);
        assert_eq!((part.start, part.end), (1512, 2536));
        assert_eq!(whole.part(3900, 1024).end, 5000);
        assert_eq!(whole.part(u64::MAX, 1), Extent { start: 5000, ..whole });
        assert!(whole.contains(&part) && !part.contains(&whole) && part.overlaps(&whole));
        assert!(!whole.part(0, 512).overlaps(&whole.part(512, 512)));
        assert!(!part.overlaps(&Extent { base: Base::Device(2), ..part }));
    }
}
