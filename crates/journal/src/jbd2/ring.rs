//! Where the blocks of the journal file lie.

use crate::{Corrupt, Result};

/// The journal file as runs of blocks.
#[derive(Clone, Debug)]
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
