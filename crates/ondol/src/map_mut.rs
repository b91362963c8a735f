//! Maps that are stored to, and committed as one (papers/4, §2.3). Design: `docs/design/direct.md`.

use crate::path::at;
use crate::view::{Bytes, copy_of, start_and_len};
use crate::{File, Result};
use ondol_volume::{Batch, Error as VolumeError};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, Range, RangeBounds};

/// Where a map may begin in its file, bytes.
const PAGE: u64 = ondol_medium::PAGE;

/// A file, or a part of it, as it was when [`File::map_mut`] was called, and what has been stored to it since: by
/// whoever has this, who alone sees it until [`MapMut::commit`].
///
/// Dropping it gives up what is not committed.
pub struct MapMut {
    /// The file, open once more: it stays when its last name goes.
    file: File,
    /// What of the file was asked for: first byte, and how many at most.
    range: (u64, u64),
    bytes: Bytes,
    stores: Stores,
}

/// Ranges of bytes that are to be committed, none of which touch.
#[derive(Debug, Default)]
struct Stores {
    /// First byte, and the one behind the last.
    ranges: BTreeMap<usize, usize>,
}

impl Stores {
    fn add(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&first, &behind)) =
            self.ranges.range(..=end).next_back().filter(|(_, behind)| **behind >= start)
        {
            self.ranges.remove(&first);
            (start, end) = (start.min(first), end.max(behind));
        }
        self.ranges.insert(start, end);
    }

    fn iter(&self) -> impl Iterator<Item = Range<usize>> {
        self.ranges.iter().map(|(start, end)| *start..*end)
    }
}

impl MapMut {
    /// Where the map begins in the file, bytes.
    pub fn offset(&self) -> u64 {
        self.range.0
    }

    /// Whether it is a copy, because the file could not be mapped.
    pub fn is_copied(&self) -> bool {
        self.bytes.is_copied()
    }

    /// How many bytes the next commit writes: those that were lent by [`MapMut::bytes_mut`] since the last one.
    pub fn uncommitted(&self) -> u64 {
        self.stores.iter().map(|range| range.len() as u64).sum()
    }

    /// Some of the bytes, to be stored to. All of them count as stored to, and the next commit writes them. Nobody else
    /// sees it before.
    ///
    /// The first time, pages of the file get memory of their own; that takes about as long as copying them.
    ///
    /// # Errors
    /// `EINVAL` for a range that goes beyond the end of the map; `EFBIG` where there is no memory. Nothing counts as
    /// stored then.
    pub fn bytes_mut(&mut self, range: Range<usize>) -> Result<&mut [u8]> {
        if self.get(range.clone()).is_none() {
            return at(self.file.path(), Err(VolumeError::Invalid("a range that goes beyond the end of the map")));
        }
        if let Bytes::Mapped(bytes) = &mut self.bytes
            && bytes.bytes_mut(range.start, range.len()).is_none()
        {
            // The kernel has no memory for pages, or promises none; perhaps there is some for the process.
            let bytes = bytes.bytes();
            let copy = at(self.file.path(), copy_of(bytes.len() as u64, std::iter::once(bytes)))?;
            self.bytes = Bytes::Copied(copy);
        }
        self.stores.add(range.clone());
        let bytes = match &mut self.bytes {
            Bytes::Mapped(bytes) => bytes.bytes_mut(range.start, range.len()),
            Bytes::Copied(bytes) => bytes.get_mut(range),
        };
        at(self.file.path(), bytes.ok_or(VolumeError::FileTooBig))
    }

    /// Stores `bytes` at byte `offset` of the map, as [`MapMut::bytes_mut`] lets do.
    ///
    /// # Errors
    /// As [`MapMut::bytes_mut`].
    pub fn store(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.bytes_mut(offset..offset.saturating_add(bytes.len()))?.copy_from_slice(bytes);
        Ok(())
    }

    /// Makes all stores since the last commit durable, and visible to others: after a crash all of them are there or
    /// none, and every reader sees all or none, in every data mode. Exactly the bytes are written that
    /// [`MapMut::bytes_mut`] has lent; what others have written beside them stays, and shows here after
    /// [`MapMut::discard`]. The size of the file stays. What was done to the volume before is durable, too, as after
    /// [`File::sync_all`], also if nothing was stored.
    ///
    /// Any number of bytes is one commit, as long as one exchange takes the file's extents there ([`File::exchange`]),
    /// for which it needs as much free space, or one operation takes the bytes. Of a file with a block map, only the
    /// latter.
    ///
    /// # Errors
    /// `EINVAL` when the file has become shorter than what was stored to; `E2BIG` for more than that; as pwrite(2) and
    /// fsync(2) otherwise. The map keeps its stores, so that it can be tried again. Others see none of them, unless it
    /// was the journal that failed, which makes nothing durable any more.
    pub fn commit(&mut self) -> Result<()> {
        let (offset, bytes) = (self.range.0, self.bytes.all());
        let stored = |range: Range<usize>| Some((offset + range.start as u64, bytes.get(range)?));
        let (path, ino) = (self.file.path(), self.file.ino());
        let batch = at(path, Batch::over(ino, self.stores.iter().filter_map(stored)))?;
        if !batch.is_empty() {
            at(path, self.file.act(|inodes| inodes.ranges().apply_batches(&[&batch])))?;
        }
        at(path, self.file.volume().usable()?.fsync(ino, true))?;
        self.stores = Stores::default();
        Ok(())
    }

    /// Gives up what is not committed, and shows the file as it is now; as long as that is, if all of it was mapped.
    ///
    /// # Errors
    /// As [`File::map`]; the map has its stores then, and is what it was.
    pub fn discard(&mut self) -> Result<()> {
        self.bytes = bytes_of(&self.file, self.range.0, self.range.1)?;
        self.stores = Stores::default();
        Ok(())
    }
}

/// Part of a file, mapped if that can be.
fn bytes_of(file: &File, offset: u64, len: u64) -> Result<Bytes> {
    let volume = file.volume();
    let mapped = volume.usable()?.files().view_held(file.ino(), offset, len, |pieces| Bytes::of(volume, &pieces));
    at(file.path(), mapped.and_then(|bytes| bytes))
}

impl Deref for MapMut {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.all()
    }
}

impl fmt::Debug for MapMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.is_copied() { "copied" } else { "mapped" };
        write!(f, "MapMut({} bytes from {} on, {how}, {} not committed)", self.len(), self.offset(), self.uncommitted())
    }
}

impl File {
    /// Maps all of the file, as [`File::map`], so that it can be stored to: see [`MapMut`]. On a volume in an NVM pool
    /// it is mapped, and takes memory for the pages that are stored to; elsewhere it is a copy. Both are committed in
    /// the same way.
    ///
    /// It must not be used in the child of a fork(2).
    ///
    /// ```
    /// # use ondol::{FormatOptions, OpenOptions, Volume};
    /// # let dir = tempfile::tempdir()?;
    /// # let pool = format!("nvm:{}", dir.path().join("pool").display());
    /// # Volume::format(&pool, &FormatOptions::new().size(8 << 20))?;
    /// let volume = Volume::open(&pool)?;
    /// volume.write("/accounts", vec![100; 1 << 16])?;
    ///
    /// let file = OpenOptions::new().read(true).write(true).open(&volume, "/accounts")?;
    /// let mut accounts = file.map_mut()?;
    /// accounts.bytes_mut(0..1)?[0] -= 30;
    /// accounts.bytes_mut(50_000..50_001)?[0] += 30;
    /// assert_eq!((accounts[0], volume.read("/accounts")?[0]), (70, 100), "nobody else sees it yet");
    ///
    /// // Both or none, for every reader, and after a crash.
    /// accounts.commit()?;
    /// assert_eq!(volume.read("/accounts")?, accounts.to_vec());
    /// # drop(accounts);
    /// # drop(file);
    /// # volume.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As pread(2), and as pwrite(2) of a file that is not open for writing; `EPERM` of one that is open for appending;
    /// `FileTooBig` for what memory does not hold, where it is a copy.
    pub fn map_mut(&self) -> Result<MapMut> {
        self.map_mut_range(..)
    }

    /// As [`File::map_mut`], of a part of the file, from a multiple of 4096 bytes on. What goes beyond its end is not
    /// in it.
    ///
    /// # Errors
    /// As [`File::map_mut`]; `EINVAL` for another first byte.
    pub fn map_mut_range(&self, range: impl RangeBounds<u64>) -> Result<MapMut> {
        self.check_storable()?;
        let range = start_and_len(&range);
        if !range.0.is_multiple_of(PAGE) {
            return at(self.path(), Err(VolumeError::Invalid("a map that does not begin at a multiple of 4096 bytes")));
        }
        let bytes = bytes_of(self, range.0, range.1)?;
        Ok(MapMut { file: self.again()?, range, bytes, stores: Stores::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_that_touch_are_one() {
        let mut stores = Stores::default();
        let mut all = |start: usize, end: usize| {
            stores.add(start..end);
            stores.iter().map(|range| (range.start, range.end)).collect::<Vec<_>>()
        };
        assert_eq!(all(10, 20), [(10, 20)]);
        assert_eq!(all(30, 40), [(10, 20), (30, 40)]);
        assert_eq!(all(5, 5), [(10, 20), (30, 40)]);
        assert_eq!(all(20, 25), [(10, 25), (30, 40)]);
        assert_eq!(all(0, 3), [(0, 3), (10, 25), (30, 40)]);
        assert_eq!(all(12, 14), [(0, 3), (10, 25), (30, 40)]);
        assert_eq!(all(24, 31), [(0, 3), (10, 40)]);
        assert_eq!(all(2, 100), [(0, 100)]);
    }

    #[test]
    fn stores_are_as_in_a_table_of_bytes() {
        let (mut stores, mut table, mut seed) = (Stores::default(), [false; 64], 7u64);
        for _ in 0..400 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let start = (seed >> 33) as usize % 64;
            let end = (start + (seed >> 50) as usize % 9).min(64);
            if (seed >> 60) == 0 {
                (stores, table) = (Stores::default(), [false; 64]);
            }
            stores.add(start..end);
            table[start..end].fill(true);
            let runs: Vec<_> = stores.iter().collect();
            assert!(runs.windows(2).all(|two| two[0].end < two[1].start), "{runs:?}");
            assert!((0..64).all(|at| table[at] == runs.iter().any(|run| run.contains(&at))), "{runs:?}");
        }
    }
}
