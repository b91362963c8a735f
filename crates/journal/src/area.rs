//! The journal area: where its blocks lie, its superblock, and the ring that transactions are written to.

#[cfg(test)]
mod tests;

use crate::Block;
use crate::ring::Ring;
use crate::together::each;
use crate::{Corrupt, Result};
use ondol_block::BlockStore;
use ondol_env::Env;
use ondol_env::sync::atomic::{AtomicBool, Ordering::Relaxed};
use ondol_env::sync::{Arc, Mutex};
use ondol_format::jbd2::JournalSuperblock;
use std::io::IoSlice;

/// The journal file as runs of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogMap {
    block_size: usize,
    /// `(first block of the file, first block on the medium, length)`, in file order without gaps.
    runs: Vec<(u64, u64, u64)>,
    blocks: u64,
}

impl LogMap {
    /// From the runs of the journal inode in file order: `(first block on the medium, length)`.
    pub fn new(block_size: u32, runs: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut blocks = 0;
        let mut map = Vec::new();
        for (start, len) in runs {
            map.push((blocks, start, len));
            blocks += len;
        }
        Self { block_size: block_size as usize, runs: map, blocks }
    }

    /// Bytes in a block.
    pub fn block_size(&self) -> usize {
        self.block_size
    }

    /// Blocks of the journal file.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Where block `n` of the journal file lies on the medium.
    ///
    /// # Errors
    /// The file has no such block.
    pub fn physical(&self, n: u64) -> Result<u64> {
        Ok(self.run_from(n)?.0)
    }

    /// Where block `n` lies, and how many blocks of the file follow it directly, itself included.
    pub(crate) fn run_from(&self, n: u64) -> Result<(u64, u64)> {
        let at = self.runs.partition_point(|&(first, _, len)| first + len <= n);
        let &(first, start, len) = self.runs.get(at).ok_or_else(|| Corrupt {
            structure: "journal".into(),
            block: n,
            what: format!("block {n} of the journal file is not mapped"),
        })?;
        Ok((start + (n - first), first + len - n))
    }

    /// Whether a block of the medium belongs to the journal.
    pub fn contains(&self, block: u64) -> bool {
        self.runs.iter().any(|&(_, start, len)| (start..start + len).contains(&block))
    }
}

/// The most blocks merged into one write.
pub const MERGE: usize = 256;

/// Scattered writes from which on several threads do them, unless told how many (`checkpoint_threads=`): what a device
/// does at the same time, it should be asked for at the same time.
pub const WORTH_THREADS: usize = 256;

/// The threads that write scattered runs home.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writers {
    told: Option<usize>,
    own: usize,
}

impl Writers {
    /// As many as are `told`; by themselves 4, one where there is one processor.
    pub(crate) fn new(told: Option<usize>, env: &dyn Env) -> Self {
        Self { told, own: if env.processors() == 1 { 1 } else { 4 } }
    }

    /// How many do `count` things, of which `worth` are worth several.
    pub(crate) fn of(self, count: usize, worth: usize) -> usize {
        self.told.unwrap_or(if count < worth { 1 } else { self.own }).clamp(1, count.max(1))
    }
}

/// Writes blocks home, by rising block number, merged where they follow each other.
pub(crate) fn write_runs(store: &dyn BlockStore, block_size: usize, images: &[(u64, impl AsRef<[u8]>)]) -> Result<()> {
    runs(images).try_for_each(|run| write_run(store, block_size, run))
}

/// As [`write_runs`], by several threads if it is much.
///
/// # Errors
/// The store's failure; what else there was may have been written.
pub(crate) fn write_many(
    store: &Arc<dyn BlockStore>,
    writers: Writers,
    block_size: usize,
    images: &[(u64, Block)],
) -> Result<()> {
    let starts = |at: &mut usize, run: &[_]| Some(std::mem::replace(at, *at + run.len()));
    let starts: Vec<usize> = runs(images).scan(0, starts).collect();
    let threads = writers.of(starts.len(), WORTH_THREADS);
    if threads == 1 {
        return write_runs(&**store, block_size, images);
    }
    let (store, images, failed, count) = (store.clone(), images.to_vec(), AtomicBool::new(false), starts.len());
    let work = move |n: usize| {
        // One that fails is enough to hear of.
        let run = runs(&images[starts[n]..]).next().filter(|_| !failed.load(Relaxed));
        let written = run.map_or(Ok(()), |run| write_run(&*store, block_size, run));
        written.inspect_err(|_| failed.store(true, Relaxed))
    };
    each(threads, count, 1, "ondol-writer", work)?.into_iter().collect()
}

/// What of `images` follows each other, at most [`MERGE`] blocks at a time.
pub(crate) fn runs<T>(images: &[(u64, T)]) -> impl Iterator<Item = &[(u64, T)]> {
    images.chunk_by(|(a, _), (b, _)| a + 1 == *b).flat_map(|run| run.chunks(MERGE))
}

fn write_run(store: &dyn BlockStore, block_size: usize, run: &[(u64, impl AsRef<[u8]>)]) -> Result<()> {
    let Some((first, _)) = run.first() else { return Ok(()) };
    let bufs: Vec<IoSlice<'_>> = run.iter().map(|(_, image)| IoSlice::new(image.as_ref())).collect();
    Ok(store.write_vectored(first * block_size as u64, &bufs)?)
}

/// A journal area that is written to.
pub(crate) struct Area {
    store: Arc<dyn BlockStore>,
    ring: Ring,
    superblock: Mutex<JournalSuperblock>,
}

impl Area {
    /// The area whose superblock is `sb`, with a ring of at most `most` blocks.
    pub(crate) fn new(store: Arc<dyn BlockStore>, map: LogMap, sb: JournalSuperblock, most: u64) -> Self {
        Self { store, ring: Ring::new(map, &sb, most), superblock: Mutex::new(sb) }
    }

    /// Bytes in a block.
    pub(crate) fn block_size(&self) -> usize {
        self.ring.block_size()
    }

    /// Blocks of the ring.
    pub(crate) fn ring_blocks(&self) -> u64 {
        self.ring.blocks()
    }

    /// Changes the superblock and writes it.
    pub(crate) fn edit_superblock(&self, edit: impl FnOnce(&mut JournalSuperblock)) -> Result<()> {
        let mut superblock = self.superblock.lock();
        edit(&mut superblock);
        let at = self.ring.map().physical(0)? * self.block_size() as u64;
        Ok(self.store.write(at, &superblock.encode())?)
    }

    /// Changes the superblock, and exchanges blocks of the store with those at positions of the ring: all of it,
    /// durably, or nothing.
    pub(crate) fn exchange(&self, swaps: &[(u64, u64)], edit: impl FnOnce(&mut JournalSuperblock)) -> Result<()> {
        let in_ring = |(block, at): &(u64, u64)| Ok((*block, self.ring.physical(*at)?));
        let pairs: Vec<(u64, u64)> = swaps.iter().map(in_ring).collect::<Result<_>>()?;
        let mut superblock = self.superblock.lock();
        edit(&mut superblock);
        let at = self.ring.map().physical(0)? * self.block_size() as u64;
        Ok(self.store.exchange(&pairs, at, &superblock.encode())?)
    }

    /// The block of the journal file at position `at` of the ring, as the superblock names it.
    pub(crate) fn file_block(&self, at: u64) -> u32 {
        self.ring.file_block(at)
    }

    /// Where `n` blocks that are to be written from position `at` on lie.
    fn runs(&self, at: u64, n: u64) -> Result<Vec<(u64, usize)>> {
        self.ring.runs(at, n)
    }

    /// Writes `parts`, one behind the other, from position `at` of the ring on.
    pub(crate) fn write(&self, at: u64, parts: &[&[u8]]) -> Result<()> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let mut rest = parts.iter().copied();
        let mut part: &[u8] = &[];
        for (byte, blocks) in self.runs(at, bytes.div_ceil(self.block_size()) as u64)? {
            let (mut room, mut bufs) = (blocks * self.block_size(), Vec::new());
            while room > 0 {
                if part.is_empty() {
                    let Some(next) = rest.next() else { break };
                    part = next;
                }
                let (now, later) = part.split_at(part.len().min(room));
                room -= now.len();
                bufs.push(IoSlice::new(now));
                part = later;
            }
            self.store.write_vectored(byte, &bufs)?;
        }
        Ok(())
    }
}
