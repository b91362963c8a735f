//! ext2's block map: twelve direct blocks and three trees of pointer blocks. Files that have one can be read and freed.

use super::{Mapped, Run, Source, bad_pointer, tree};
use crate::op::{Op, Reader};
use crate::{Error, Ino, Result, kind};
use ondol_format::Inode;
use ondol_format::extent::MAX_LOGICAL;
use ondol_journal::{Extent, Kind};
use std::ops::Range;

/// Pointers to data in the inode itself.
const DIRECT: u64 = 12;

/// Pointer `i` of an array of little-endian block numbers.
fn pointer(array: &[u8], i: usize) -> u64 {
    let bytes = array.get(i * 4..).and_then(|rest| rest.first_chunk::<4>());
    bytes.map_or(0, |b| u64::from(u32::from_le_bytes(*b)))
}

/// The run that begins at logical block `at`; it may be cut at the end of an array of pointers.
pub(super) fn find(source: &mut dyn Source, ino: Ino, inode: &Inode, at: u32) -> Result<Run> {
    let logical = u64::from(at);
    if logical < DIRECT {
        return run_in(source, ino, &inode.i_block[..DIRECT as usize * 4], at as usize, at);
    }
    let Some((level, slot, mut offset)) = locate(source.block_size(), logical - DIRECT) else {
        return Ok(Run { at, len: MAX_LOGICAL - at, what: Mapped::Hole });
    };
    let per = u64::from(source.block_size() / 4);
    let mut block = pointer(&inode.i_block, slot);
    for below in (0..level).rev() {
        let span = per.pow(below);
        if block == 0 {
            // A missing subtree is a hole to its end.
            let len = (span * per - offset).min(u64::from(MAX_LOGICAL - at));
            return Ok(Run { at, len: len as u32, what: Mapped::Hole });
        }
        if !source.may_own(block, 1) {
            return Err(bad_pointer(ino, block, 1));
        }
        let array = source.node(block, kind::INDIRECT)?;
        let i = (offset / span) as usize;
        offset %= span;
        if below == 0 {
            return run_in(source, ino, &array, i, at);
        }
        block = pointer(&array, i);
    }
    Err(Error::Invalid("a block map without levels"))
}

/// The tree that maps block `n` behind the direct ones: its levels, its slot in the inode, and the offset in it.
fn locate(block_size: u32, n: u64) -> Option<(u32, usize, u64)> {
    let per = u64::from(block_size / 4);
    let mut offset = n;
    for level in 1..=3u32 {
        let span = per.pow(level);
        if offset < span {
            return Some((level, DIRECT as usize + level as usize - 1, offset));
        }
        offset -= span;
    }
    None
}

/// The run of consecutive, or of missing, blocks from pointer `i` of an array on.
fn run_in(source: &dyn Source, ino: Ino, array: &[u8], i: usize, at: u32) -> Result<Run> {
    let first = pointer(array, i);
    let follows = |n: usize| {
        let next = pointer(array, i + n);
        if first == 0 { next == 0 } else { next == first + n as u64 }
    };
    let most = (array.len() / 4).saturating_sub(i).min((MAX_LOGICAL - at) as usize).max(1);
    let len = (1..most).take_while(|&n| follows(n)).count() + 1;
    if first == 0 {
        return Ok(Run { at, len: len as u32, what: Mapped::Hole });
    }
    if !source.may_own(first, len as u64) {
        return Err(bad_pointer(ino, first, len as u64));
    }
    Ok(Run { at, len: len as u32, what: Mapped::Written(first) })
}

/// Frees blocks from logical block `keep` on, from the end, as far as the operation's journal space allows; true when done.
///
/// # Errors
/// Corruption; `TooBig` when there is not even journal space for the first run.
pub(super) fn shrink(op: &mut Op<'_>, ino: Ino, keep: u32) -> Result<bool> {
    let mut cut = Cut { ino, keep: u64::from(keep), per: u64::from(op.vol().shared.sb.block_size() / 4), freed: false };
    for level in (1..=3u32).rev() {
        let base = DIRECT + (1..level).map(|l| cut.per.pow(l)).sum::<u64>();
        if base + cut.per.pow(level) <= cut.keep {
            return Ok(true);
        }
        let slot = DIRECT as usize + level as usize - 1;
        let block = pointer(&op.inode(ino)?.i_block, slot);
        if block == 0 {
            continue;
        }
        if !cut.subtree(op, block, level, base)?
            || (base >= cut.keep && !cut.free(op, None, slot..slot + 1, kind::INDIRECT)?)
        {
            return Ok(false);
        }
    }
    let direct = op.inode(ino)?.i_block;
    cut.leaf(op, None, &direct[..DIRECT as usize * 4], 0)
}

/// A block map that is being cut.
struct Cut {
    ino: Ino,
    /// Logical blocks that stay.
    keep: u64,
    /// Pointers in a block.
    per: u64,
    /// Something has been freed already.
    freed: bool,
}

impl Cut {
    /// Frees what pointer block `block`, `level` levels above the data, maps from `keep` on; it maps from `base` on.
    fn subtree(&mut self, op: &mut Op<'_>, block: u64, level: u32, base: u64) -> Result<bool> {
        if !op.vol().shared.may_own(block, 1) {
            return Err(bad_pointer(self.ino, block, 1));
        }
        let array = op.block(block, kind::INDIRECT)?;
        if level == 1 {
            return self.leaf(op, Some(block), &array, base);
        }
        let span = self.per.pow(level - 1);
        for i in (0..self.per).rev() {
            let (child, first) = (pointer(&array, i as usize), base + i * span);
            if first + span <= self.keep {
                break;
            }
            if child == 0 {
                continue;
            }
            let slot = i as usize;
            let gone = first >= self.keep;
            if !self.subtree(op, child, level - 1, first)?
                || (gone && !self.free(op, Some(block), slot..slot + 1, kind::INDIRECT)?)
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Frees the data blocks from `keep` on of an array of pointers that maps from `base` on.
    fn leaf(&mut self, op: &mut Op<'_>, node: Option<u64>, array: &[u8], base: u64) -> Result<bool> {
        let first = self.keep.saturating_sub(base) as usize;
        let data = tree::data_kind(self.ino, op.inode(self.ino)?);
        let mut end = array.len() / 4;
        while end > first {
            let last = pointer(array, end - 1);
            let follows = |n: &usize| pointer(array, end - 1 - n) == last.wrapping_sub(*n as u64);
            let len = if last == 0 { 1 } else { (1..end - first).take_while(follows).count() + 1 };
            if last != 0 && !self.free(op, node, end - len..end, data)? {
                return Ok(false);
            }
            end -= len;
        }
        Ok(true)
    }

    /// Frees the consecutive blocks, which hold `kind`, that some pointers of a node (`None`: the inode) name, and clears
    /// the pointers. False when there is no journal space for it.
    fn free(&mut self, op: &mut Op<'_>, node: Option<u64>, slots: Range<usize>, kind: Kind) -> Result<bool> {
        // Two bitmaps, two descriptors, the node.
        let (need, room) = (5 + tree::SPARE, op.room());
        if room < need && (self.freed || !op.handle()?.extend(need - room)) {
            return if self.freed { Ok(false) } else { Err(Error::TooBig { need: need.into(), max: room.into() }) };
        }
        let (from, len) = (slots.start, slots.len() as u32);
        let start = match node {
            Some(block) => pointer(&op.block(block, kind::INDIRECT)?, from),
            None => pointer(&op.inode(self.ino)?.i_block, from),
        };
        self.freed = true;
        op.free_blocks(Extent { start, len }, kind)?;
        tree::remove_blocks(op, self.ino, u64::from(len))?;
        let zeros = vec![0; len as usize * 4];
        match node {
            Some(block) => op.handle()?.write(block, kind::INDIRECT, from * 4, &zeros)?,
            None => op.inode_mut(self.ino)?.i_block[from * 4..slots.end * 4].copy_from_slice(&zeros),
        }
        Ok(true)
    }
}
