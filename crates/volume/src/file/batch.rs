//! Changes of a file that are to be made as one. What they are, without the volume.

use crate::{Error, Ino, Result};
use std::collections::BTreeMap;
use std::fmt;

/// Bytes for a file, and its size: made as one by [`crate::FileRanges::apply_batches`]. Nothing of the file changes
/// before, and dropping this gives it up.
///
/// The bytes are collected here, or lent ([`Batch::over`]).
#[derive(Clone)]
pub struct Batch<B = Vec<u8>> {
    ino: Ino,
    /// What is written, by where it begins: apart from each other.
    parts: BTreeMap<u64, B>,
    /// Bytes in `parts`.
    bytes: u64,
    /// The smallest size that the file was given: what it stores behind that is gone.
    cut: Option<u64>,
    /// The size, if it was set; otherwise the file only grows.
    size: Option<u64>,
    /// Whether nothing may lie behind the end of the file.
    is_within: bool,
}

impl<B> Batch<B> {
    fn of(ino: Ino) -> Self {
        Self { ino, parts: BTreeMap::new(), bytes: 0, cut: None, size: None, is_within: false }
    }

    /// Whose changes these are.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.size.is_none()
    }

    /// Bytes that are to be written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing of it may lie behind the end of the file.
    pub(crate) fn is_within(&self) -> bool {
        self.is_within
    }

    /// How many of `stored` bytes are still there.
    pub fn kept_of(&self, stored: u64) -> u64 {
        self.cut.map_or(stored, |cut| cut.min(stored))
    }

    /// The size that the file was cut to, and the one that it was given last.
    pub(crate) fn sizes(&self) -> (Option<u64>, Option<u64>) {
        (self.cut, self.size)
    }

    fn keep(&mut self, offset: u64, bytes: B)
    where
        B: AsRef<[u8]>,
    {
        self.bytes += bytes.as_ref().len() as u64;
        self.parts.insert(offset, bytes);
    }
}

impl<'b> Batch<&'b [u8]> {
    /// Bytes that go over what a file holds: `(offset, bytes)`, in order, and none over another. The size stays.
    ///
    /// # Errors
    /// `Invalid` where they are not in order, or lie over each other.
    pub fn over(ino: Ino, parts: impl IntoIterator<Item = (u64, &'b [u8])>) -> Result<Self> {
        let (mut batch, mut behind) = (Self { is_within: true, ..Self::of(ino) }, 0);
        for (offset, bytes) in parts {
            if offset < behind {
                return Err(Error::Invalid("the parts are not in order, or lie over each other"));
            }
            behind = offset.saturating_add(bytes.len() as u64);
            if !bytes.is_empty() {
                batch.keep(offset, bytes);
            }
        }
        Ok(batch)
    }
}

impl<B: AsRef<[u8]>> Batch<B> {
    /// The same, of which the bytes are lent.
    pub(crate) fn lent(&self) -> Batch<&[u8]> {
        let &Self { ino, bytes, cut, size, is_within, .. } = self;
        Batch { parts: self.parts().collect(), ino, bytes, cut, size, is_within }
    }

    /// The size of a file that stores `stored` bytes, with the changes.
    pub fn len_over(&self, stored: u64) -> u64 {
        self.size.unwrap_or_else(|| stored.max(self.end()))
    }

    /// What is written, in order.
    pub fn parts(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.parts.iter().map(|(offset, bytes)| (*offset, bytes.as_ref()))
    }

    /// Puts what is written over `buf`, which begins at byte `from` of the file: what of it lies there.
    pub fn lay_over(&self, from: u64, buf: &mut [u8]) {
        let behind = from.saturating_add(buf.len() as u64);
        for (offset, bytes) in self.touching(from, behind) {
            let (start, end) = (from.max(offset), behind.min(offset.saturating_add(bytes.len() as u64)));
            if start < end {
                let part = &bytes[(start - offset) as usize..(end - offset) as usize];
                buf[(start - from) as usize..(end - from) as usize].copy_from_slice(part);
            }
        }
    }

    /// What one part writes from byte `from` on, if that is one's.
    pub(crate) fn part_from(&self, from: u64) -> &[u8] {
        let part = self.parts.range(..=from).next_back();
        part.and_then(|(offset, bytes)| bytes.as_ref().get((from - offset) as usize..)).unwrap_or_default()
    }

    /// Whether all of `from..behind` is written: then nothing of the file is needed to read it.
    pub(crate) fn covers(&self, from: u64, behind: u64) -> bool {
        let mut at = from;
        for (offset, bytes) in self.touching(from, behind) {
            if offset > at {
                return false;
            }
            at = at.max(offset.saturating_add(bytes.len() as u64));
        }
        at >= behind
    }

    /// The byte behind the last that is written.
    pub(crate) fn end(&self) -> u64 {
        self.parts.last_key_value().map_or(0, |(offset, bytes)| offset.saturating_add(bytes.as_ref().len() as u64))
    }

    /// Parts that may have bytes in `from..behind`, and perhaps one before.
    fn touching(&self, from: u64, behind: u64) -> impl Iterator<Item = (u64, &[u8])> {
        let first = self.parts.range(..=from).next_back().map_or(from, |(offset, _)| *offset);
        self.parts.range(first..behind.max(first)).map(|(offset, bytes)| (*offset, bytes.as_ref()))
    }
}

impl Batch {
    /// What a part takes of memory beside its bytes, at most.
    pub const PART: u64 = 128;

    /// For a file.
    pub fn new(ino: Ino) -> Self {
        Self::of(ino)
    }

    /// About how much memory it takes: each part has its place beside its bytes.
    pub fn held(&self) -> u64 {
        self.bytes + self.parts.len() as u64 * Self::PART
    }

    /// Writes over what is there by then. Nothing is done where `offset` and the length are beyond what a number holds.
    ///
    /// # Errors
    /// `NoMemory`. Nothing has changed then.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        let Some(end) = offset.checked_add(data.len() as u64).filter(|&end| end > offset) else { return Ok(()) };
        if let Some(part) = self.parts.get_mut(&offset).filter(|part| part.len() == data.len()) {
            part.copy_from_slice(data);
            return Ok(());
        }
        let data = copied(data)?;
        let around = self.parts.range(..offset).next_back();
        let behind = around.and_then(|(start, bytes)| bytes.get((end - start) as usize..)).unwrap_or_default();
        let behind = copied(behind)?;
        self.remove(offset, end);
        if !behind.is_empty() {
            self.keep(end, behind);
        }
        self.keep(offset, data);
        self.size = self.size.map(|size| size.max(end));
        Ok(())
    }

    /// Gives the file a size. What lies behind a smaller one is gone, and reads as zeros if the file grows again.
    pub fn set_len(&mut self, size: u64) {
        self.remove(size, u64::MAX);
        self.cut = Some(self.cut.map_or(size, |cut| cut.min(size)));
        self.size = Some(size);
    }

    /// Gives up what is collected.
    pub fn clear(&mut self) {
        *self = Self::new(self.ino);
    }

    /// Takes out what is written from `start` to `end`. Of a part that lies on both sides only the beginning stays.
    fn remove(&mut self, start: u64, end: u64) {
        let before = self.parts.range(..start).next_back().map(|(offset, _)| *offset);
        let first = before.unwrap_or(start);
        let touched: Vec<u64> = self.parts.range(first..end).map(|(offset, _)| *offset).collect();
        for offset in touched {
            let Some(mut bytes) = self.parts.remove(&offset) else { continue };
            self.bytes -= bytes.len() as u64;
            let len = bytes.len();
            let (at, left) = match offset < start {
                true => (offset, 0..len.min((start - offset) as usize)),
                false => (end, len.min((end - offset) as usize)..len),
            };
            if !left.is_empty() {
                let kept = copied(&bytes[left.clone()]).unwrap_or_else(|_| {
                    // A vector that is cut keeps its memory, which is better than to have none.
                    bytes.truncate(left.end);
                    bytes.drain(..left.start);
                    bytes
                });
                self.keep(at, kept);
            }
        }
    }
}

/// A copy that takes no more memory than it has bytes.
fn copied(bytes: &[u8]) -> Result<Vec<u8>> {
    #[cfg(test)]
    tests::allocate()?;
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).map_err(|_| Error::NoMemory)?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

impl<B> fmt::Debug for Batch<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch(inode {}: {} bytes in {} parts, size {:?})", self.ino, self.bytes, self.parts.len(), self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        /// How many more copies there is memory for.
        static MEMORY: Cell<u32> = const { Cell::new(u32::MAX) };
    }

    pub(super) fn allocate() -> Result<()> {
        MEMORY.set(MEMORY.get().checked_sub(1).ok_or(Error::NoMemory)?);
        Ok(())
    }

    #[test]
    fn where_memory_ends_nothing_has_changed() {
        let mut batch = Batch::new(1);
        batch.write(10, &[1; 30]).unwrap();
        batch.write(50, &[2; 10]).unwrap();
        let was = over(&batch, &[]);
        // A part that is cut in two is copied, too.
        for memory in 0..2 {
            MEMORY.set(memory);
            assert!(matches!(batch.write(20, &[3; 5]), Err(Error::NoMemory)));
            assert_eq!((over(&batch, &[]), batch.bytes()), (was.clone(), 40));
        }
        // What lies over two parts needs no more than itself.
        MEMORY.set(2);
        batch.write(35, &[3; 20]).unwrap();
        assert_eq!(over(&batch, &[]), [&[0; 10][..], &[1; 25], &[3; 20], &[2; 5]].concat());
        MEMORY.set(0);
        batch.set_len(15);
        assert_eq!((over(&batch, &[]), batch.bytes()), ([[0; 10].as_slice(), &[1; 5]].concat(), 5));
        batch.write(10, &[4; 5]).unwrap();
        MEMORY.set(u32::MAX);
    }

    /// What a file that stores `stored` is with the changes.
    fn over<B: AsRef<[u8]>>(batch: &Batch<B>, stored: &[u8]) -> Vec<u8> {
        let len = batch.len_over(stored.len() as u64) as usize;
        let kept = batch.kept_of(stored.len() as u64) as usize;
        let mut all = stored[..kept.min(len)].to_vec();
        all.resize(len, 0);
        batch.lay_over(0, &mut all);
        all
    }

    #[test]
    fn changes_are_as_of_a_file_of_its_own() {
        let mut seed = 5u64;
        let mut below = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % n
        };
        for round in 0..200 {
            let stored: Vec<u8> = (0..below(60)).map(|_| 1).collect();
            let (mut batch, mut model) = (Batch::new(9), stored.clone());
            for _ in 0..12 {
                let (at, len) = (below(70) as usize, below(20) as usize);
                if below(5) == 0 {
                    batch.set_len(at as u64);
                    model.resize(at, 0);
                } else {
                    let bytes: Vec<u8> = (0..len).map(|_| 2 + below(200) as u8).collect();
                    batch.write(at as u64, &bytes).unwrap();
                    if len > 0 {
                        model.resize(model.len().max(at + len), 0);
                        model[at..at + len].copy_from_slice(&bytes);
                    }
                }
                assert_eq!(over(&batch, &stored), model, "round {round}: {batch:?}");
                let parts: Vec<_> = batch.parts().collect();
                assert!(parts.windows(2).all(|two| two[0].0 + two[0].1.len() as u64 <= two[1].0), "{parts:?}");
                assert_eq!(batch.bytes(), parts.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>());
                let (from, n) = (below(80), 1 + below(9) as usize);
                let (mut piece, mut all) = (vec![0; n], vec![0; 100]);
                batch.lay_over(from, &mut piece);
                batch.lay_over(0, &mut all);
                assert_eq!(piece, all[from as usize..from as usize + n]);
                let one = batch.part_from(from);
                let n = n.min(one.len());
                assert!(piece[..n] == one[..n] && one.iter().all(|byte| *byte > 1), "{piece:?}, {one:?}");
                assert_eq!(over(&batch.lent(), &stored), model);
                let mut twos = [[1; 100], [2; 100]];
                twos.iter_mut().for_each(|bytes| batch.lay_over(from, bytes));
                for behind in from..from + 100 {
                    let is_covered = twos[0].iter().zip(&twos[1]).take((behind - from) as usize).all(|(a, b)| a == b);
                    assert_eq!(batch.covers(from, behind), is_covered, "{from}..{behind} of {batch:?}");
                }
            }
            batch.clear();
            assert!(batch.is_empty() && over(&batch, &stored) == stored && batch.ino() == 9);
        }
    }

    #[test]
    fn what_is_written_over_takes_no_memory() {
        let mut batch = Batch::new(1);
        let long = vec![1; 10_000];
        for at in 0..100 {
            batch.write(at, &long).unwrap();
        }
        assert!(batch.parts.values().map(Vec::capacity).sum::<usize>() < 10_200);
        assert_eq!(batch.held(), 10_099 + 100 * Batch::PART);
    }

    #[test]
    fn what_no_number_holds_is_no_part() {
        let mut batch = Batch::new(1);
        batch.write(u64::MAX - 1, &[1, 2, 3]).unwrap();
        batch.write(7, &[]).unwrap();
        assert!(batch.is_empty());
    }
}
