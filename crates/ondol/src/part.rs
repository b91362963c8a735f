//! Images that are a part of a file or device: a partition of a disk image, or what begins at a byte. A target says so
//! behind a question mark, as e2fsprogs' targets do: `disk.img?partition=2`, `disk.img?offset=1M`,
//! `disk.img?offset=1M&size=64M`. A file whose whole name is that is the file.

mod tables;

use crate::target::{is_in_bucket, pool_of};
use crate::{Error, Result, parse_size};
use ondol_block::{BlockStore, FileStore};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub use tables::Partition;
pub(crate) use tables::partitions_in;

/// Which part of a file or device is the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The partition of this number, as the kernel counts: from 1, logical ones from 5.
    Partition(u32),
    /// From a byte on,
    Bytes {
        /// this one,
        offset: u64,
        /// so many, or all that follow.
        size: Option<u64>,
    },
}

/// What parts begin with is a sector.
const SECTOR: u64 = 512;

impl Part {
    /// The target that names this part of `file`.
    pub fn target(self, file: &Path) -> PathBuf {
        let suffix = match self {
            Self::Partition(number) => format!("?partition={number}"),
            Self::Bytes { offset, size: None } => format!("?offset={offset}"),
            Self::Bytes { offset, size: Some(size) } => format!("?offset={offset}&size={size}"),
        };
        PathBuf::from(OsStr::from_bytes(&[file.as_os_str().as_bytes(), suffix.as_bytes()].concat()))
    }

    /// What stands behind the question mark.
    fn parse(text: &str) -> Option<Self> {
        if let Some(number) = text.strip_prefix("partition=") {
            return number.bytes().all(|b| b.is_ascii_digit()).then(|| number.parse().ok())?.map(Self::Partition);
        }
        let (offset, size) = text.split_once('&').map_or((text, None), |(offset, size)| (offset, Some(size)));
        let offset = parse_size(offset.strip_prefix("offset=")?)?;
        let size = size.map(|size| size.strip_prefix("size=").and_then(parse_size).ok_or(())).transpose().ok()?;
        Some(Self::Bytes { offset, size })
    }

    /// This part of an open file or device, named as the target is.
    pub(crate) fn of(self, store: FileStore, target: &Path) -> Result<FileStore> {
        let state = |what: String| Error::state(target.display().to_string(), what);
        let (offset, size) = match self {
            Self::Bytes { offset, size } => {
                if offset % SECTOR != 0 {
                    return Err(state(format!(
                        "an image begins with a sector: the offset must be a multiple of {SECTOR}"
                    )));
                }
                (offset, size.unwrap_or(store.size().saturating_sub(offset)))
            }
            Self::Partition(number) => {
                let found = tables::partitions_in(&store)?;
                match found.iter().find(|partition| partition.number == number) {
                    Some(partition) => (partition.start, partition.size),
                    None => return Err(state(none(number, &found))),
                }
            }
        };
        let end = store.size();
        if size == 0 || offset.checked_add(size).is_none_or(|behind| behind > end) {
            return Err(state(format!("{size} bytes from {offset} on are not within its {end} bytes")));
        }
        Ok(store.into_part(offset, size)?.named(target.display().to_string()))
    }
}

/// That there is no such partition, and what there is.
fn none(number: u32, found: &[Partition]) -> String {
    let numbers: Vec<String> = found.iter().map(|partition| partition.number.to_string()).collect();
    match numbers.as_slice() {
        [] => "it has no partition table, neither GPT nor MBR".into(),
        _ => format!("it has no partition {number}; there are {}", numbers.join(", ")),
    }
}

/// The file that a target lies in, and which part of it; of other targets themselves.
pub(crate) fn split(target: &Path) -> (&Path, Option<Part>) {
    part_of(target).map_or((target, None), |(file, part)| (file, Some(part)))
}

/// The file, and which part of it, of a target that names a part.
pub fn part_of(target: &Path) -> Option<(&Path, Part)> {
    part_in(target).filter(|_| target.symlink_metadata().is_err())
}

/// As [`part_of`], by the name alone: nobody looks whether there is a file that has all of it as its name.
pub fn part_in(target: &Path) -> Option<(&Path, Part)> {
    if pool_of(target).is_some() || is_in_bucket(target) {
        return None;
    }
    let bytes = target.as_os_str().as_bytes();
    let at = bytes.iter().rposition(|byte| *byte == b'?').filter(|at| *at > 0)?;
    let part = Part::parse(std::str::from_utf8(&bytes[at + 1..]).ok()?)?;
    Some((Path::new(OsStr::from_bytes(&bytes[..at])), part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_names_a_part_or_a_file() {
        let part = |text: &'static str| part_of(Path::new(text));
        let disk = Path::new("disk.img");
        assert_eq!(part("disk.img?partition=12"), Some((disk, Part::Partition(12))));
        assert_eq!(part("disk.img?offset=1M"), Some((disk, Part::Bytes { offset: 1 << 20, size: None })));
        let bounded = Part::Bytes { offset: 512, size: Some(1 << 16) };
        assert_eq!(part("disk.img?offset=512&size=64K"), Some((disk, bounded)));
        assert_eq!(part("a?b?offset=0"), Some((Path::new("a?b"), Part::Bytes { offset: 0, size: None })));
        for part in [Part::Partition(3), bounded, Part::Bytes { offset: 7, size: None }] {
            assert_eq!(part_of(&part.target(disk)), Some((disk, part)));
        }
        for text in [
            "disk.img",
            "disk.img?",
            "disk.img?partition=",
            "disk.img?partition=-1",
            "disk.img?partition=+1",
            "disk.img?offset=x",
            "disk.img?offset=1&size=",
            "disk.img?size=1",
            "?partition=1",
            "nvm:pool?partition=1",
        ] {
            assert_eq!(part_of(Path::new(text)), None, "{text}");
        }
        // A file of that very name is the file.
        let dir = tempfile::tempdir().unwrap();
        let odd = dir.path().join("odd?partition=1");
        assert!(part_of(&odd).is_some());
        std::fs::write(&odd, "").unwrap();
        assert!(part_of(&odd).is_none());
    }
}
