//! Taking a range out of a file and putting a hole into it: what lies behind moves.
//!
//! The move is one operation, however many extents it concerns: it changes their keys and the size, and a crash leaves
//! the file as it was or as it shall be. What is cut out is freed by the same operation where the journal has room for
//! that, and otherwise by operations before it, which make zeros of the range from its beginning on. A file in so many
//! extents that the journal cannot hold their nodes is refused before anything has changed: a quarter of it is 256
//! nodes, with more than 20,000 extents, on the smallest journal, and 4,096 nodes, with more than a million, on that of
//! a usual volume.

use super::plan::{max_size, survey};
use super::write::touch;
use super::{Mapped, Mounted, find, tree};
use crate::alloc::Need;
use crate::node::NodeGuard;
use crate::op::{Cost, Op};
use crate::{Error, Fallocate, FileIo, Result};
use ondol_format::Inode;
use ondol_format::extent::MAX_LOGICAL;

/// A range of whole blocks.
#[derive(Clone, Copy)]
struct Blocks {
    first: u32,
    end: u32,
}

impl FileIo<'_> {
    /// Refuses a range that cannot be taken out of a file.
    ///
    /// # Errors
    /// `Invalid` unless both are multiples of the cluster size and something of the file follows the range.
    pub(super) fn check_collapse(self, inode: &Inode, offset: u64, len: u64) -> Result<()> {
        self.whole_blocks(offset, len)?;
        if offset + len >= inode.size {
            return Err(Error::Invalid("the range reaches to the end of the file: truncate it"));
        }
        Ok(())
    }

    /// Refuses a range that no room can be made for in a file.
    ///
    /// # Errors
    /// `Invalid` unless both are multiples of the cluster size and the offset lies before the end of the file;
    /// `FileTooBig`.
    pub(super) fn check_insert(self, inode: &Inode, offset: u64, len: u64) -> Result<()> {
        self.whole_blocks(offset, len)?;
        if len > max_size(self.vol, inode).saturating_sub(inode.size) {
            return Err(Error::FileTooBig);
        }
        if offset >= inode.size {
            return Err(Error::Invalid("the offset is not before the end of the file"));
        }
        Ok(())
    }

    /// Takes `len` bytes from `offset` on, checked by [`FileIo::check_collapse`], out of a file that has extents and
    /// may be changed; what follows moves up.
    ///
    /// # Errors
    /// `Unsupported` for too many extents; corruption, or the journal's or store's failure.
    pub(super) fn collapse_locked(self, mut guard: NodeGuard, offset: u64, len: u64) -> Result<()> {
        let range = self.whole_blocks(offset, len)?;
        let mut cost = self.collapse_cost(&guard, range)?;
        if cost.journal > self.vol.engine.max_blocks() {
            let rest = Blocks { first: range.end, end: range.end };
            self.check_fits(&self.collapse_cost(&guard, rest)?)?;
            guard = self.fallocate_steps(guard, Fallocate::PunchHole, offset, len)?;
            cost = self.collapse_cost(&guard, range)?;
            self.check_fits(&cost)?;
        }
        let ino = guard.node.ino;
        let mut op = Op::begin(self.vol, vec![guard], cost)?;
        if tree::remove(&mut op, ino, range.first, range.end)? < range.end {
            return Err(Error::TooBig { need: cost.journal.into(), max: op.room().into() });
        }
        tree::shift(&mut op, ino, range.end, -i64::from(range.end - range.first))?;
        op.inode_mut(ino)?.size -= len;
        touch(&mut op, ino)?;
        op.close().map(|_| ())
    }

    /// Puts a hole of `len` bytes into a file at `offset`, checked by [`FileIo::check_insert`]; what was there moves
    /// down.
    ///
    /// # Errors
    /// `NoSpace` for a node of the tree; and as [`FileIo::collapse_locked`].
    pub(super) fn insert_locked(self, guard: NodeGuard, offset: u64, len: u64) -> Result<()> {
        let range = self.whole_blocks(offset, len)?;
        let (ino, size) = (guard.node.ino, guard.state.inode.size);
        let cost = self.insert_cost(&guard, range.first)?;
        self.check_fits(&cost)?;
        let mut op = Op::begin(self.vol, vec![guard], cost)?;
        tree::split_at(&mut op, ino, range.first)?;
        tree::shift(&mut op, ino, range.first, i64::from(range.end - range.first))?;
        op.inode_mut(ino)?.size = size + len;
        touch(&mut op, ino)?;
        op.close().map(|_| ())
    }

    fn whole_blocks(self, offset: u64, len: u64) -> Result<Blocks> {
        let sb = &self.vol.shared.sb;
        let block_size = u64::from(sb.block_size());
        // What shares a cluster stays together.
        let unit = block_size * u64::from(sb.cluster_ratio());
        if !offset.is_multiple_of(unit) || !len.is_multiple_of(unit) {
            return Err(Error::Invalid(
                "offset and length must be multiples of the block size, or of the cluster size",
            ));
        }
        let block = |byte: u64| u32::try_from(byte / block_size).map_err(|_| Error::FileTooBig);
        Ok(Blocks { first: block(offset)?, end: block(offset + len)? })
    }

    fn collapse_cost(self, guard: &NodeGuard, range: Blocks) -> Result<Cost> {
        let (ino, inode) = (guard.node.ino, &guard.state.inode);
        let seen = survey(&mut &*self.vol, ino, inode, range.first, 1)?;
        // A hole in the middle of one extent makes two of it.
        let growth = seen.growth(self.vol, 1);
        let nodes = tree::nodes_in(
            &mut Mounted(&mut &*self.vol),
            ino,
            inode,
            range.first..MAX_LOGICAL,
            self.vol.engine.max_blocks(),
        )?;
        let (bitmaps, longest) = self.mapped_in(guard, range)?;
        let bitmaps = bitmaps + u64::from(nodes) + u64::from(growth.new);
        // Freeing a run insists on its worst case, although most of that is counted already.
        let slack =
            if longest > 0 { tree::removal_cost(self.vol, seen.depth as usize + 1, longest) } else { tree::SPARE };
        let journal = nodes + growth.nodes + tree::alloc_cost(self.vol, bitmaps) + slack;
        Ok(Cost { journal, blocks: growth.new.into(), need: Need::ToFree })
    }

    fn insert_cost(self, guard: &NodeGuard, at: u32) -> Result<Cost> {
        let (ino, inode) = (guard.node.ino, &guard.state.inode);
        let growth = survey(&mut &*self.vol, ino, inode, at, 1)?.growth(self.vol, 1);
        let nodes =
            tree::nodes_in(&mut Mounted(&mut &*self.vol), ino, inode, at..MAX_LOGICAL, self.vol.engine.max_blocks())?;
        let blocks = u64::from(growth.new);
        let journal = nodes + growth.nodes + tree::alloc_cost(self.vol, blocks) + tree::SPARE;
        Ok(Cost { journal, blocks, need: Need::Ordinary })
    }

    /// At most so many bitmaps say what is mapped in the range, and the longest run there, in blocks.
    fn mapped_in(self, guard: &NodeGuard, range: Blocks) -> Result<(u64, u32)> {
        let sb = &self.vol.shared.sb;
        let (mut at, mut bitmaps, mut longest) = (range.first, 0, 0);
        while at < range.end {
            let run = find(&mut Mounted(&mut &*self.vol), guard.node.ino, &guard.state.inode, at)?.run;
            let len = run.len.min(range.end - at);
            if run.what != Mapped::Hole {
                bitmaps += u64::from(len / sb.blocks_per_group()) + 2;
                longest = longest.max(len);
            }
            at += len;
        }
        Ok((bitmaps, longest))
    }

    fn check_fits(self, cost: &Cost) -> Result<()> {
        let max = self.vol.engine.max_blocks();
        if cost.journal <= max {
            return Ok(());
        }
        let need = cost.journal;
        let what = "moving the extents of this file in one step";
        Err(Error::Unsupported(format!("{what}: it needs {need} journal blocks or more, the journal takes {max}")))
    }
}
