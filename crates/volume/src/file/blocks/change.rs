//! Mapping holes, and unmapping ranges.

use super::lookup::run_at;
use super::{DIRECT, END, LEVELS, locate, pointer};
use crate::file::{Mapped, bad_pointer, tree};
use crate::op::{Op, Reader};
use crate::{Error, Ino, Result, kind};
use ondol_format::extent::MAX_LOGICAL;
use ondol_journal::{Block, Extent as Blocks};

/// The way from the inode to the pointer of one logical block.
struct Path {
    ino: Ino,
    /// The slot to follow in the inode, then in the pointer block of each level.
    slots: [usize; LEVELS as usize + 1],
    /// Pointer blocks between the inode and the data.
    depth: usize,
    /// Those that exist, from the inode on.
    nodes: Vec<u64>,
    /// Pointers in a block.
    per: u64,
}

impl Path {
    /// The way to `at`; `None` if no pointer reaches as far.
    fn find(op: &mut Op<'_>, ino: Ino, at: u32) -> Result<Option<Self>> {
        let per = u64::from(op.vol().shared.sb.block_size() / 4);
        let mut path = Self { ino, slots: [at as usize, 0, 0, 0], depth: 0, nodes: Vec::new(), per };
        let Some(behind) = u64::from(at).checked_sub(DIRECT) else { return Ok(Some(path)) };
        let Some((level, slot, mut offset)) = locate(per, behind) else { return Ok(None) };
        path.depth = level as usize;
        path.slots[0] = slot;
        for (below, slot) in (0..level).rev().zip(&mut path.slots[1..]) {
            *slot = (offset / per.pow(below)) as usize;
            offset %= per.pow(below);
        }
        let mut next = pointer(&op.inode(ino)?.i_block, slot);
        while next != 0 && path.nodes.len() < path.depth {
            if !op.vol().shared.may_own(next, 1) {
                return Err(bad_pointer(ino, next, 1));
            }
            path.nodes.push(next);
            if path.nodes.len() < path.depth {
                next = pointer(&op.block(next, kind::INDIRECT)?, path.slots[path.nodes.len()]);
            }
        }
        Ok(Some(path))
    }

    fn is_whole(&self) -> bool {
        self.nodes.len() == self.depth
    }

    /// The pointer block where the way ends; `None` for the inode.
    fn last(&self) -> Option<u64> {
        self.nodes.last().copied()
    }

    /// The array of pointers where the way ends, and the slot in it.
    fn array(&self, op: &mut Op<'_>) -> Result<(Block, usize)> {
        let slot = self.slots[self.nodes.len()];
        match self.last() {
            Some(block) => Ok((op.block(block, kind::INDIRECT)?, slot)),
            None if self.depth == 0 => Ok((op.inode(self.ino)?.i_block[..DIRECT as usize * 4].into(), slot)),
            None => Ok((op.inode(self.ino)?.i_block[..].into(), slot)),
        }
    }

    /// Logical blocks from here on that are mapped alike, and how.
    fn run(&self, op: &mut Op<'_>, at: u32) -> Result<(u32, Mapped)> {
        let most = MAX_LOGICAL - at;
        if !self.is_whole() {
            // To the end of the missing subtree.
            let missing = self.depth - self.nodes.len();
            let within = self.slots[self.nodes.len() + 1..=self.depth].iter();
            let offset = within.fold(0, |offset, &slot| offset * self.per + slot as u64);
            let len = self.per.pow(missing as u32) - offset;
            return Ok((len.min(most.into()) as u32, Mapped::Hole));
        }
        let (array, slot) = self.array(op)?;
        let (len, what) = run_at(&array, slot);
        Ok((len.min(most), what))
    }

    /// Where the block of this hole should lie: behind the one that its nearest neighbour in the same array is mapped
    /// to.
    fn goal(&self, op: &mut Op<'_>) -> Result<u64> {
        let (array, slot) = self.array(op)?;
        let before =
            (0..slot.min(array.len() / 4)).rev().map(|i| (i, pointer(&array, i))).find(|&(_, block)| block != 0);
        Ok(match (before, self.last()) {
            (Some((i, block)), _) if self.is_whole() => block + (slot - i) as u64,
            (Some((_, block)), _) => block + 1,
            (None, Some(node)) => node + 1,
            (None, None) => tree::start_goal(op, self.ino),
        })
    }

    /// Stages pointers from slot `slot` of level `level` on.
    fn put(&self, op: &mut Op<'_>, level: usize, slot: usize, pointers: &[u8]) -> Result<()> {
        if let Some(above) = level.checked_sub(1) {
            return Ok(op.handle()?.write(self.nodes[above], kind::INDIRECT, slot * 4, pointers)?);
        }
        let room = op.inode_mut(self.ino)?.i_block.get_mut(slot * 4..slot * 4 + pointers.len());
        room.ok_or(Error::Invalid("a change past the end of the pointers in an inode"))?.copy_from_slice(pointers);
        Ok(())
    }

    /// Makes the next missing pointer block.
    fn add_node(&mut self, op: &mut Op<'_>, goal: u64) -> Result<()> {
        let block = op.alloc_blocks_below(END, goal, 1)?.start;
        tree::add_blocks(op, self.ino, 1)?;
        op.handle()?.fresh(block, kind::INDIRECT)?;
        let level = self.nodes.len();
        self.put(op, level, self.slots[level], &(block as u32).to_le_bytes())?;
        self.nodes.push(block);
        Ok(())
    }

    /// Clears `count` pointers where the way ends, and frees the pointer blocks that become empty.
    fn clear(&self, op: &mut Op<'_>, mut count: usize) -> Result<()> {
        let mut level = self.nodes.len();
        while let Some(above) = level.checked_sub(1) {
            let (block, slot) = (self.nodes[above], self.slots[level]);
            let array = op.block(block, kind::INDIRECT)?;
            let (from, to) = (slot * 4, ((slot + count) * 4).min(array.len()));
            let stays = array[..from].iter().chain(&array[to..]).any(|&byte| byte != 0);
            if stays {
                return self.put(op, level, slot, &vec![0; to - from]);
            }
            op.free_blocks(Blocks { start: block, len: 1 }, kind::INDIRECT)?;
            tree::remove_blocks(op, self.ino, 1)?;
            (level, count) = (above, 1);
        }
        self.put(op, 0, self.slots[0], &vec![0; count * 4])
    }
}

/// Allocates up to `want` consecutive blocks for the hole at `at` and maps them. The caller knows that the hole is that
/// long.
///
/// # Errors
/// `FileTooBig` where no pointer reaches; `NoSpace` beyond the promise; corruption.
pub(in crate::file) fn fill_hole(op: &mut Op<'_>, ino: Ino, at: u32, want: u32) -> Result<Blocks> {
    let mut path = Path::find(op, ino, at)?.ok_or(Error::FileTooBig)?;
    let mut goal = path.goal(op)?;
    while !path.is_whole() {
        path.add_node(op, goal)?;
        goal = path.last().map_or(goal, |node| node + 1);
    }
    let slot = path.slots[path.depth];
    let pointers = if path.depth == 0 { DIRECT } else { path.per };
    let room = pointers.saturating_sub(slot as u64).min(u64::from(want)) as u32;
    let got = op.alloc_blocks_below(END, goal, room)?;
    tree::add_blocks(op, ino, got.len.into())?;
    let pointers: Vec<u8> =
        (got.start..).take(got.len as usize).flat_map(|block| (block as u32).to_le_bytes()).collect();
    path.put(op, path.depth, slot, &pointers)?;
    Ok(got)
}

/// Unmaps and frees the blocks of `from..to`, from the beginning, as far as the operation's journal space goes. Returns
/// where it stopped: `to` when all is done.
///
/// # Errors
/// Corruption; `TooBig` when there is not even journal space for the first run.
pub(in crate::file) fn remove(op: &mut Op<'_>, ino: Ino, from: u32, to: u32) -> Result<u32> {
    let data = tree::data_kind(ino, op.inode(ino)?);
    let (mut at, mut changed) = (from, false);
    while at < to {
        let Some(path) = Path::find(op, ino, at)? else { return Ok(to) };
        let (len, what) = path.run(op, at)?;
        let len = len.min(to - at);
        let blocks = match what {
            Mapped::Written(start) => Some(Blocks { start, len }),
            // Somebody may have left a pointer block that points to nothing.
            _ if path.last().is_some() && path.array(op)?.0.iter().all(|&byte| byte == 0) => None,
            _ => {
                at += len;
                continue;
            }
        };
        if !has_room(op, path.depth as u32, blocks.map_or(0, |b| b.len), !changed)? {
            return Ok(at);
        }
        match blocks {
            Some(blocks) => {
                op.free_blocks(blocks, data)?;
                tree::remove_blocks(op, ino, len.into())?;
                path.clear(op, len as usize)?;
            }
            None => path.clear(op, 0)?,
        }
        changed = true;
        at += len;
    }
    Ok(to)
}

/// Whether the journal space left is enough for freeing one more run and the pointer blocks above it, and for ending
/// the operation; without that, `must` is an error.
fn has_room(op: &mut Op<'_>, depth: u32, blocks: u32, must: bool) -> Result<bool> {
    let groups = blocks / op.vol().shared.sb.blocks_per_group() + 2;
    // Each pointer block is changed, or freed with a bitmap and a descriptor.
    let need = (groups + depth) * 2 + 1 + tree::SPARE;
    let room = op.room();
    if room >= need || (must && op.handle()?.extend(need - room)) {
        return Ok(true);
    }
    if must { Err(Error::TooBig { need: need.into(), max: room.into() }) } else { Ok(false) }
}
