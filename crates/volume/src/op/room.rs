//! What an operation may still do: journal space and blocks, and what its close will need of them.

use super::{Cost, Op};
use crate::alloc::Need;
use crate::behalf;
use crate::node::locate;
use crate::{Error, Ino, Result};
use ondol_journal::{Before, Extent, NumberHash, Placement, Run};
use std::collections::HashSet;

/// Bytes that go home with the close, in the order in which they were written.
#[derive(Default)]
pub(super) struct Late {
    writes: Vec<LateWrite>,
    /// The blocks that they lie in.
    blocks: HashSet<u64, NumberHash>,
}

struct LateWrite {
    block: u64,
    offset: usize,
    bytes: Vec<u8>,
}

impl Late {
    fn push(&mut self, block_size: usize, block: u64, offset: usize, bytes: &[u8]) {
        let end = (offset + bytes.len()).div_ceil(block_size) as u64;
        self.blocks.extend(block + (offset / block_size) as u64..block + end);
        self.writes.push(LateWrite { block, offset, bytes: bytes.to_vec() });
    }
}

impl Op<'_> {
    /// Journal blocks that are left for further changes: what the close will take for inodes is kept.
    pub(crate) fn room(&self) -> u32 {
        let room = self.handle.as_ref().map_or(0, |handle| handle.credits().left);
        room.saturating_sub(self.unstaged())
    }

    /// Blocks of inode tables that only the close will stage.
    fn unstaged(&self) -> u32 {
        let Some(handle) = &self.handle else { return 0 };
        self.tables.iter().filter(|&&block| !handle.holds(block)).count() as u32
    }

    pub(super) fn changes_table(&mut self, ino: Ino) -> Result<()> {
        let (block, ..) = locate(&self.vol.shared, ino)?;
        if let Err(at) = self.tables.binary_search(&block) {
            self.tables.insert(at, block);
        }
        Ok(())
    }

    /// Makes sure, without waiting, that the operation can do `cost` more than it has done. If that takes waiting, what
    /// it has to be begun with to come as far as this.
    ///
    /// # Errors
    /// `TooBig` when no operation can do that much.
    pub(crate) fn grant(&mut self, cost: Cost) -> Result<Option<Cost>> {
        let vol = self.vol;
        let max = vol.engine.max_blocks();
        let used = self.handle()?.credits().used + self.unstaged();
        let journal = used.saturating_add(cost.journal);
        if journal > max {
            return Err(Error::TooBig { need: journal.into(), max: max.into() });
        }
        let blocks = cost.blocks.saturating_sub(self.promised);
        let total = Cost { journal, blocks: self.granted + blocks, need: cost.need };
        if blocks > 0 {
            let promise = |need| vol.shared.groups.promise(blocks, need);
            if !promise(cost.need) && !promise(behalf::of_thread(&vol.shared.sb, cost.need)) {
                return Ok(Some(total));
            }
            (self.promised, self.granted) = (self.promised + blocks, self.granted + blocks);
        }
        let handle = self.handle()?;
        let missing = journal.saturating_sub(handle.credits().used + handle.credits().left);
        Ok((missing > 0 && !handle.extend(missing)).then_some(total))
    }

    /// Journal blocks that it has been promised in all.
    pub(crate) fn journal_granted(&self) -> u32 {
        self.handle.as_ref().map_or(0, |handle| handle.credits().used + handle.credits().left)
    }

    /// What it has to be begun with to have `journal` blocks at this point.
    pub(crate) fn so_far(&self, journal: u32) -> Cost {
        Cost { journal, blocks: self.granted, need: Need::Ordinary }
    }

    /// From now on, bytes over stored ones are kept until the close, so that dropping the operation leaves them as they
    /// are.
    pub(crate) fn write_over_late(&mut self) {
        self.late.get_or_insert_default();
    }

    /// Whether the operation has changed `block` in its handle.
    pub(crate) fn holds_block(&self, block: u64) -> bool {
        self.handle.as_ref().is_some_and(|handle| handle.holds(block))
    }

    /// Where data of a run goes, and for how many of its blocks. It goes where this operation's bytes of a block are
    /// already: it has one place for them, or what is written first would come to lie over what is written last.
    pub(crate) fn place(&self, run: &Run) -> (Placement, u32) {
        let delayed = run.delayed + self.handle.as_ref().map_or(0, |handle| handle.credits().delayed);
        if run.before == Before::New {
            return self.vol.engine.place(&Run { delayed, ..*run });
        }
        let of = |i: u32| {
            let block = run.extent.start + u64::from(i);
            let is_late = || self.late.as_ref().is_some_and(|late| late.blocks.contains(&block));
            match self.holds_block(block) {
                true => Some(Placement::Logged),
                false => is_late().then_some(Placement::InPlace),
            }
        };
        let first = of(0);
        let len = (1..run.extent.len).find(|i| of(*i) != first).unwrap_or(run.extent.len);
        match first {
            Some(own) => (own, len),
            None => self.vol.engine.place(&Run { extent: Extent { len, ..run.extent }, delayed, ..*run }),
        }
    }

    /// Puts `bytes` at byte `offset` of the blocks from `block` on, which hold file data that is not journaled.
    ///
    /// # Errors
    /// The store's failure.
    pub(crate) fn write_over(&mut self, block: u64, offset: usize, bytes: &[u8]) -> Result<()> {
        match &mut self.late {
            Some(late) => late.push(self.vol.shared.sb.block_size() as usize, block, offset, bytes),
            None => {
                self.wrote_over = true;
                self.vol.engine.write_data(block, offset, bytes)?;
            }
        }
        Ok(())
    }

    /// Puts `bytes` into blocks from `block` on that no committed state reaches with contents, before the operation is
    /// published.
    ///
    /// # Errors
    /// The store's failure.
    pub(crate) fn stage(&mut self, block: u64, bytes: &[u8]) -> Result<()> {
        // Blocks of a cluster that stays in use may hold what a committed state reaches.
        let reachable = self.late.is_some() && self.vol.shared.sb.cluster_ratio() > 1;
        if reachable {
            let block_size = self.vol.shared.sb.block_size() as usize;
            self.late.get_or_insert_default().push(block_size, block, 0, bytes);
            return Ok(());
        }
        Ok(self.vol.engine.write_data(block, 0, bytes)?)
    }

    /// As [`Op::stage`], of blocks that the operation has allocated. False: the handle is to have the bytes.
    ///
    /// # Errors
    /// The store's failure.
    pub(crate) fn write_new(&mut self, block: u64, bytes: &[u8]) -> Result<bool> {
        Ok(self.vol.engine.write_new(block, bytes)?)
    }

    /// Puts what was kept where it belongs.
    pub(super) fn write_late(&mut self) -> Result<()> {
        for LateWrite { block, offset, bytes } in self.late.take().unwrap_or_default().writes {
            self.wrote_over = true;
            self.vol.engine.write_data(block, offset, &bytes)?;
        }
        Ok(())
    }
}
