//! The ring: the blocks of a journal that transactions are written to, round and round.

use crate::Result;
use crate::area::LogMap;
use ondol_block::BlockStore;
use ondol_format::jbd2::JournalSuperblock;

/// Bytes that are read at once where much is read.
pub(crate) const PIECE: usize = 1 << 20;

/// Where the blocks of a ring lie. Positions count from its first block.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    map: LogMap,
    first: u64,
    blocks: u64,
}

impl Ring {
    /// The ring of the journal whose superblock is `sb`, of at most `most` blocks.
    pub(crate) fn new(map: LogMap, sb: &JournalSuperblock, most: u64) -> Self {
        let first = u64::from(sb.first());
        let blocks = u64::from(sb.end()).saturating_sub(first).min(most);
        Self { map, first, blocks }
    }

    /// Where the blocks of the journal lie.
    pub(crate) fn map(&self) -> &LogMap {
        &self.map
    }

    /// Bytes in a block.
    pub(crate) fn block_size(&self) -> usize {
        self.map.block_size()
    }

    /// Blocks of the ring.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Bytes of the ring.
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks * self.block_size() as u64
    }

    /// The block of the journal file at position `at`, as the superblock names it.
    pub(crate) fn file_block(&self, at: u64) -> u32 {
        (self.first + at) as u32
    }

    /// The position of a block that the superblock names.
    pub(crate) fn position(&self, file_block: u32) -> u64 {
        u64::from(file_block).saturating_sub(self.first)
    }

    /// The position `blocks` further on.
    pub(crate) fn after(&self, at: u64, blocks: u64) -> u64 {
        (at + blocks) % self.blocks
    }

    /// Blocks from position `from` on to position `to`; none when they are the same.
    pub(crate) fn distance(&self, from: u64, to: u64) -> u64 {
        (to + self.blocks - from) % self.blocks
    }

    /// The block of the medium at position `at`.
    ///
    /// # Errors
    /// It is not mapped.
    pub(crate) fn physical(&self, at: u64) -> Result<u64> {
        self.map.physical(self.first + at)
    }

    /// The block of the medium at position `at`, for messages: that of the journal file where it is not mapped.
    pub(crate) fn named(&self, at: u64) -> u64 {
        self.physical(at).unwrap_or(self.first + at)
    }

    /// Where `n` blocks from position `at` on lie: byte offset and number of blocks of each run.
    pub(crate) fn runs(&self, mut at: u64, mut n: u64) -> Result<Vec<(u64, usize)>> {
        let mut runs = Vec::new();
        while n > 0 {
            let (physical, run) = self.map.run_from(self.first + at)?;
            let blocks = n.min(run).min(self.blocks - at);
            runs.push((physical * self.block_size() as u64, blocks as usize));
            at = self.after(at, blocks);
            n -= blocks;
        }
        Ok(runs)
    }

    /// Reads from byte `offset` behind the beginning of position `at` on.
    ///
    /// # Errors
    /// The store's failure.
    pub(crate) fn read(&self, store: &dyn BlockStore, at: u64, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let size = self.block_size() as u64;
        let mut skip = (offset % size) as usize;
        let blocks = (skip + bytes.len()).div_ceil(size as usize) as u64;
        let mut rest = bytes;
        for (byte, blocks) in self.runs(self.after(at, offset / size), blocks)? {
            let n = (blocks * size as usize - skip).min(rest.len());
            let (now, later) = rest.split_at_mut(n);
            store.read(byte + skip as u64, now)?;
            (rest, skip) = (later, 0);
        }
        Ok(())
    }

    /// Shows `blocks` blocks from position `at` on to `look`, each with how many came before it, until it has found
    /// something. Most searches end soon, so that more and more are read at a time.
    ///
    /// # Errors
    /// The store's failure, or that of `look`.
    pub(crate) fn search<T>(
        &self,
        store: &dyn BlockStore,
        at: u64,
        blocks: u64,
        mut look: impl FnMut(u64, &[u8]) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let (size, mut done, mut piece) = (self.block_size(), 0, 1);
        let most = (PIECE / size).max(1);
        let mut bytes = Vec::new();
        for (byte, blocks) in self.runs(self.after(at, 0), blocks)? {
            let mut from = 0;
            while from < blocks {
                let now = piece.min(blocks - from);
                bytes.resize(now * size, 0);
                store.read(byte + (from * size) as u64, &mut bytes)?;
                for block in bytes.chunks_exact(size) {
                    if let Some(found) = look(done, block)? {
                        return Ok(Some(found));
                    }
                    done += 1;
                }
                (from, piece) = (from + now, (2 * piece).min(most));
            }
        }
        Ok(None)
    }
}
