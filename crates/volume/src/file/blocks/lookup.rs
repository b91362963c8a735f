//! From a logical block to the run that maps it.

use super::{DIRECT, LEVELS, locate, pointer, slot_of};
use crate::file::tree::Growth;
use crate::file::{Mapped, Run, Source, bad_pointer};
use crate::{Error, Ino, Result, kind};
use ondol_format::Inode;
use ondol_format::extent::MAX_LOGICAL;
use std::ops::Range;

/// The run that begins at logical block `at`; it may be cut at the end of an array of pointers.
pub(in crate::file) fn find(source: &mut dyn Source, ino: Ino, inode: &Inode, at: u32) -> Result<Run> {
    let logical = u64::from(at);
    if logical < DIRECT {
        return run_in(source, ino, &inode.i_block[..DIRECT as usize * 4], at as usize, at);
    }
    let per = u64::from(source.block_size() / 4);
    let Some((level, slot, mut offset)) = locate(per, logical - DIRECT) else {
        return Ok(Run { at, len: MAX_LOGICAL - at, what: Mapped::Hole });
    };
    let mut block = pointer(&inode.i_block, slot);
    for below in (0..level).rev() {
        let span = per.pow(below);
        if block == 0 {
            // A missing subtree is a hole to its end.
            let len = (span * per - offset).min(u64::from(MAX_LOGICAL - at));
            return Ok(Run { at, len: len as u32, what: Mapped::Hole });
        }
        let array = node(source, ino, block)?;
        let i = (offset / span) as usize;
        offset %= span;
        if below == 0 {
            return run_in(source, ino, &array, i, at);
        }
        block = pointer(&array, i);
    }
    Err(Error::Invalid("a block map without levels"))
}

/// A pointer block that can be one.
fn node(source: &mut dyn Source, ino: Ino, block: u64) -> Result<ondol_journal::Block> {
    if !source.may_own(ino, block, 1) {
        return Err(bad_pointer(ino, block, 1));
    }
    source.node(block, kind::INDIRECT)
}

/// The run of consecutive, or of missing, blocks from pointer `i` of an array on.
fn run_in(source: &dyn Source, ino: Ino, array: &[u8], i: usize, at: u32) -> Result<Run> {
    let (len, what) = run_at(array, i);
    let len = len.min(MAX_LOGICAL - at).max(1);
    match what {
        Mapped::Written(first) if !source.may_own(ino, first, len.into()) => Err(bad_pointer(ino, first, len.into())),
        what => Ok(Run { at, len, what }),
    }
}

/// How many pointers from the `i`th on are alike: zeros, or consecutive blocks.
pub(super) fn run_at(array: &[u8], i: usize) -> (u32, Mapped) {
    let first = pointer(array, i);
    let follows = |n: usize| {
        let next = pointer(array, i + n);
        if first == 0 { next == 0 } else { next == first + n as u64 }
    };
    let most = (array.len() / 4).saturating_sub(i).max(1);
    let len = (1..most).take_while(|&n| follows(n)).count() + 1;
    (len as u32, if first == 0 { Mapped::Hole } else { Mapped::Written(first) })
}

/// What mapping all of the logical blocks `first..end` may do to the pointer blocks that lead to them.
///
/// # Errors
/// Corruption, or the store's failure.
pub(in crate::file) fn growth(
    source: &mut dyn Source,
    ino: Ino,
    inode: &Inode,
    first: u32,
    end: u32,
) -> Result<Growth> {
    let per = u64::from(source.block_size() / 4);
    let (mut total, mut base) = (Growth::default(), DIRECT);
    for level in 1..=LEVELS {
        let span = per.pow(level);
        let (from, to) = (u64::from(first).max(base), u64::from(end).min(base + span));
        if from < to {
            let block = pointer(&inode.i_block, slot_of(level));
            total += growth_below(source, ino, block, level, from - base..to - base)?;
        }
        base += span;
    }
    Ok(total)
}

/// Counts a pointer block, which 0 says is missing, and those below it that lead to a range of the blocks of its
/// subtree.
fn growth_below(source: &mut dyn Source, ino: Ino, block: u64, level: u32, range: Range<u64>) -> Result<Growth> {
    let mut total = Growth { nodes: 1, new: u32::from(block == 0) };
    if level == 1 {
        return Ok(total);
    }
    let array = if block == 0 { None } else { Some(node(source, ino, block)?) };
    let span = u64::from(source.block_size() / 4).pow(level - 1);
    for i in range.start / span..=(range.end - 1) / span {
        let child = array.as_ref().map_or(0, |array| pointer(array, i as usize));
        let base = i * span;
        let below = range.start.max(base) - base..range.end.min(base + span) - base;
        total += growth_below(source, ino, child, level - 1, below)?;
    }
    Ok(total)
}
