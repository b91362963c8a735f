//! ext2's block map: twelve direct blocks and three trees of pointer blocks. Files that have one can be read and freed.

use super::{Mapped, Run, Source, bad_pointer};
use crate::{Error, Ino, Result, kind};
use ondol_format::Inode;
use ondol_format::extent::MAX_LOGICAL;

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
