//! Allocating, punching and zeroing ranges, in atomic steps.

use super::plan::{check_changeable, max_size, survey};
use super::write::{place, touch, zero_behind};
use super::{Mapped, data, inline, mapping, tree};
use crate::alloc::Need;
use crate::inline::is_inline;
use crate::node::NodeGuard;
use crate::op::{Cost, Op};
use crate::pages::PAGE;
use crate::{Error, Fallocate, FileIo, Ino, Result, Volume};
use ondol_format::extent::MAX_LOGICAL;

/// Blocks that one step allocates at most: the longest unwritten extent.
pub const STEP_BLOCKS: u64 = 32_767;

/// A range of bytes on its way through the steps.
struct Work {
    how: Fallocate,
    offset: u64,
    end: u64,
    /// The stored bytes of blocks that are only partly in the range have been zeroed.
    edges_done: bool,
    /// The next logical block to do, and the one behind the last.
    at: u32,
    stop: u32,
}

impl FileIo<'_> {
    /// Allocates, punches, zeroes, cuts out or makes room for `len` bytes from `offset` on, as fallocate(2) does. A
    /// sequence of operations, each of which leaves the file sound; when a later one fails, the earlier ones stay. What
    /// [`Fallocate::CollapseRange`] and [`Fallocate::InsertRange`] move, they move in one operation.
    ///
    /// # Errors
    /// `Invalid` for an empty range, and for one that cannot be cut out or made room for; `NoSpace`, `FileTooBig`,
    /// `NotPermitted`, `IsDirectory`, `Unsupported`, `ReadOnly`, corruption, or the journal's or store's failure.
    pub fn fallocate(self, ino: Ino, how: Fallocate, offset: u64, len: u64) -> Result<()> {
        let guard = self.vol.node(ino)?.write()?;
        self.vol.page_cache().note_edges(ino, how, offset, len);
        self.fallocate_locked(guard, how, offset, len).map_err(|e| self.vol.noted(e))
    }

    fn fallocate_locked(self, mut guard: NodeGuard, how: Fallocate, offset: u64, len: u64) -> Result<()> {
        let only_adds = matches!(how, Fallocate::Allocate | Fallocate::KeepSize);
        check_changeable(guard.node.ino, &guard.state.inode, only_adds)?;
        self.vol.check_writable()?;
        if len == 0 {
            return Err(Error::Invalid("an empty range"));
        }
        self.check_range(&guard, how, offset, len)?;
        if how == Fallocate::PunchHole && offset >= guard.state.inode.size {
            return Ok(());
        }
        guard = self.unfold_locked(guard)?;
        match how {
            Fallocate::CollapseRange => self.collapse_locked(guard, offset, len),
            Fallocate::InsertRange => self.insert_locked(guard, offset, len),
            Fallocate::PunchHole => {
                // As ext4: what reaches over the end goes to the end of its page; what is allocated behind is a
                // truncate's.
                let size = guard.state.inode.size;
                let most = max_size(self.vol, &guard.state.inode);
                let page = (size / PAGE + 1).saturating_mul(PAGE).min(most);
                let reached = if offset + len > size { page - offset } else { len };
                self.fallocate_steps(guard, how, offset, reached).map(|_| ())
            }
            _ => self.fallocate_steps(guard, how, offset, len).map(|_| ()),
        }
    }

    /// Refuses what cannot be done, before anything changes.
    fn check_range(self, guard: &NodeGuard, how: Fallocate, offset: u64, len: u64) -> Result<()> {
        let unfolded = is_inline(&guard.state.inode).then(|| inline::unfolded(self.vol, &guard.state.inode).0);
        let inode = unfolded.as_ref().unwrap_or(&guard.state.inode);
        if how != Fallocate::PunchHole {
            mapping::require_extents(inode)?;
        }
        if offset.checked_add(len).is_none_or(|end| end > max_size(self.vol, inode)) {
            return Err(Error::FileTooBig);
        }
        match how {
            Fallocate::CollapseRange => self.check_collapse(inode, offset, len),
            Fallocate::InsertRange => self.check_insert(inode, offset, len),
            _ => Ok(()),
        }
    }

    /// What changes the mapping where it is: one operation after the other. The range lies within the largest file.
    pub(super) fn fallocate_steps(
        self,
        mut guard: NodeGuard,
        how: Fallocate,
        offset: u64,
        len: u64,
    ) -> Result<NodeGuard> {
        let ino = guard.node.ino;
        let mut work = Work::new(self.vol, how, offset, offset + len)?;
        if how != Fallocate::PunchHole {
            self.check_space(&guard, &work)?;
        }
        loop {
            let cost = work.cost(self.vol, &guard)?;
            let mut op = Op::begin(self.vol, vec![guard], cost)?;
            let done = work.step(&mut op, ino)?;
            guard = op.close_holding(ino)?;
            if done {
                return Ok(guard);
            }
        }
    }

    /// Refuses at once what cannot fit, instead of filling the volume first.
    fn check_space(self, guard: &NodeGuard, work: &Work) -> Result<()> {
        let have = guard.state.inode.blocks / u64::from(self.vol.shared.sb.block_size() / 512);
        let more = u64::from(work.stop - work.at).saturating_sub(have);
        let lacks = || more.saturating_sub(self.vol.space().available());
        while lacks() > 0 {
            if lacks() > self.vol.space().aside_blocks() || !self.vol.space().give_up_aside() {
                return Err(Error::NoSpace("blocks"));
            }
        }
        Ok(())
    }
}

impl Work {
    fn new(vol: &Volume, how: Fallocate, offset: u64, end: u64) -> Result<Self> {
        let block_size = u64::from(vol.shared.sb.block_size());
        // A hole takes whole blocks; space is given to every block that the range touches.
        let (first, last) = if how == Fallocate::PunchHole {
            (offset.div_ceil(block_size), end / block_size)
        } else {
            (offset / block_size, end.div_ceil(block_size))
        };
        let (at, stop) = (u32::try_from(first), u32::try_from(last.max(first)));
        let (Ok(at), Ok(stop)) = (at, stop) else { return Err(Error::FileTooBig) };
        let edges_done = matches!(how, Fallocate::Allocate | Fallocate::KeepSize);
        Ok(Self { how, offset, end, edges_done, at, stop })
    }

    /// What the next step needs.
    fn cost(&self, vol: &Volume, guard: &NodeGuard) -> Result<Cost> {
        // The blocks at both ends, where data is journaled, and the one at the end of the file.
        let journal = (mapping::step_cost(vol) + 3).min(vol.engine.max_blocks());
        let seen = survey(&mut &*vol, guard.node.ino, &guard.state.inode, self.at.min(MAX_LOGICAL - 1), 1)?;
        if self.how == Fallocate::PunchHole {
            // A hole in the middle of one extent makes two of it.
            let blocks = if seen.pointers.is_some() { 0 } else { u64::from(seen.growth(vol, 1).new) };
            return Ok(Cost { journal, blocks, need: Need::ToFree });
        }
        let ratio = u64::from(vol.shared.sb.cluster_ratio());
        let want = (u64::from(self.stop - self.at).clamp(1, STEP_BLOCKS) - 1) / ratio + 1 + u64::from(ratio > 1);
        // Every change of the tree may take a node on each level; two such changes at least.
        let nodes = u64::from(seen.depth + 2) * want.min(2);
        let blocks = want.min((vol.space().available() / ratio).saturating_sub(nodes)).max(1) + nodes;
        Ok(Cost { journal, blocks, need: Need::Ordinary })
    }

    /// One operation's worth of the work; true when all is done.
    fn step(&mut self, op: &mut Op<'_>, ino: Ino) -> Result<bool> {
        if !self.edges_done {
            self.zero_edges(op, ino)?;
            self.edges_done = true;
        }
        if self.how == Fallocate::PunchHole {
            self.at = mapping::remove(op, ino, self.at, self.stop)?;
        } else {
            self.allocate(op, ino)?;
            tree::merge_up(op, ino)?;
            self.grow_size(op, ino)?;
        }
        touch(op, ino)?;
        Ok(self.at >= self.stop)
    }

    /// Maps holes as unwritten, and when zeroing also what is stored in whole blocks.
    fn allocate(&mut self, op: &mut Op<'_>, ino: Ino) -> Result<()> {
        let zeroing = matches!(self.how, Fallocate::ZeroRange | Fallocate::ZeroRangeKeepSize);
        let from = self.at;
        while self.at < self.stop {
            let depth = tree::depth(op, ino, self.at)?;
            let clusters = op.promised().saturating_sub(u64::from(depth) + 2);
            let blocks = clusters * u64::from(op.vol().shared.sb.cluster_ratio());
            let run = tree::map(op, ino, self.at)?;
            let until = self.at + run.len.min(self.stop - self.at);
            let change = match run.what {
                Mapped::Hole => true,
                Mapped::Written(_) => zeroing && self.is_whole(op, self.at),
                Mapped::Unwritten(_) => false,
            };
            if change && (blocks == 0 || !tree::has_splice_room(op, depth)) {
                // The next operation goes on; without any progress there would be none.
                return if self.at > from { Ok(()) } else { Err(Error::NoSpace("blocks")) };
            }
            self.at = match run.what {
                Mapped::Hole => {
                    let want = u64::from(until - self.at).min(blocks) as u32;
                    self.at + tree::fill_hole(op, ino, self.at, want, true)?.len
                }
                Mapped::Written(_) if change => tree::convert(op, ino, self.at, self.whole_until(op, until), true)?,
                Mapped::Written(_) if zeroing => self.at + 1,
                _ => until,
            };
        }
        Ok(())
    }

    /// Whether a block lies in the range from its first byte to its last.
    fn is_whole(&self, op: &Op<'_>, at: u32) -> bool {
        let block_size = u64::from(op.vol().shared.sb.block_size());
        let start = u64::from(at) * block_size;
        start >= self.offset && start + block_size <= self.end
    }

    /// `until`, or the end of the last whole block.
    fn whole_until(&self, op: &Op<'_>, until: u32) -> u32 {
        until.min((self.end / u64::from(op.vol().shared.sb.block_size())) as u32)
    }

    /// The size follows what is allocated, step by step.
    fn grow_size(&self, op: &mut Op<'_>, ino: Ino) -> Result<()> {
        if matches!(self.how, Fallocate::KeepSize | Fallocate::ZeroRangeKeepSize) {
            return Ok(());
        }
        let reached = u64::from(self.at) * u64::from(op.vol().shared.sb.block_size());
        let (size, old) = (reached.min(self.end), op.inode(ino)?.size);
        if size > old {
            zero_behind(op, ino, old)?;
            op.inode_mut(ino)?.size = size;
        }
        Ok(())
    }

    /// Zeroes the stored bytes of the range in blocks that are only partly in it.
    fn zero_edges(&self, op: &mut Op<'_>, ino: Ino) -> Result<()> {
        let block_size = u64::from(op.vol().shared.sb.block_size());
        let first_end = self.end.min(self.offset - self.offset % block_size + block_size);
        let last_start = self.end - self.end % block_size;
        let head = (self.offset, first_end);
        let tail = (last_start.max(self.offset), self.end);
        let edges = [head, tail];
        let count = if head == tail || tail.0 < head.1 { 1 } else { 2 };
        for &(from, to) in &edges[..count] {
            if to - from == block_size || to == from {
                continue;
            }
            let (at, skip) = place(block_size, from)?;
            if let Mapped::Written(block) = mapping::map(op, ino, at)?.what {
                data::zero(op, ino, block, skip, skip + (to - from) as usize)?;
            }
        }
        Ok(())
    }
}
