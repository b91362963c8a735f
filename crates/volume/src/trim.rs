//! Telling the medium which blocks are free.

use crate::{Error, FreeSpace, Result};

impl FreeSpace<'_> {
    /// Discards what is free in `len` bytes of the volume from `start` on, in runs of at least `minimum` bytes, as the
    /// FITRIM ioctl does, and returns how many bytes that were. Blocks whose freeing is not durable yet are not free: a
    /// sync makes them so. Nothing that any crash can bring back is touched.
    ///
    /// # Errors
    /// `Invalid` for a start behind the end, for less than a block, and for a minimum that is larger than a group;
    /// `Unsupported` when the medium keeps what is discarded; `ReadOnly`; corruption of a bitmap, or the store's
    /// failure.
    pub fn trim(self, start: u64, len: u64, minimum: u64) -> Result<u64> {
        self.vol.check_writable()?;
        let sb = &self.vol.shared.sb;
        let block_size = u64::from(sb.block_size());
        let (first, minimum) = (start / block_size, (minimum / block_size).max(1));
        if minimum > u64::from(sb.blocks_per_group()) || first >= sb.blocks_count() || len < block_size {
            return Err(Error::Invalid("a range or a minimum that this volume does not have"));
        }
        let end = first.saturating_add(len / block_size).min(sb.blocks_count());
        let first = first.max(sb.group_first_block(0));
        let mut refused = false;
        let blocks = self.vol.shared.groups.trim(sb, &*self.vol.engine, first..end, minimum as u32, &mut |extent| {
            let done = self.vol.engine.discard(extent)?;
            refused |= !done;
            Ok(done)
        });
        let blocks = blocks.map_err(|e| self.vol.noted(e))?;
        if refused && blocks == 0 {
            return Err(Error::Unsupported("the medium keeps what is discarded".into()));
        }
        Ok(blocks * block_size)
    }
}
