//! ext2's block map: twelve pointers to data in the inode, and three trees of pointer blocks.
//!
//! Pointers have 32 bits: blocks behind the first 2^32 of a volume cannot be mapped. There are no unwritten blocks, so
//! nothing can be allocated ahead. A pointer block that becomes empty is freed.

mod change;
mod lookup;

pub(super) use change::{fill_hole, remove};
pub(super) use lookup::{find, growth};

use super::tree::Growth;
use crate::Volume;
use ondol_format::{Inode, RoCompat};

/// Pointers to data in the inode itself.
pub const DIRECT: u64 = 12;
/// Levels of pointer blocks of the largest tree.
const LEVELS: u32 = 3;
/// First block that no pointer can name.
const END: u64 = 1 << 32;

/// Pointer `i` of an array of little-endian block numbers.
fn pointer(array: &[u8], i: usize) -> u64 {
    let bytes = array.get(i * 4..).and_then(|rest| rest.first_chunk::<4>());
    bytes.map_or(0, |b| u64::from(u32::from_le_bytes(*b)))
}

/// The tree that maps block `n` behind the direct ones: its levels, its slot in the inode, and the offset in it.
fn locate(per: u64, n: u64) -> Option<(u32, usize, u64)> {
    let mut offset = n;
    for level in 1..=LEVELS {
        let span = per.pow(level);
        if offset < span {
            return Some((level, slot_of(level), offset));
        }
        offset -= span;
    }
    None
}

/// Where the inode names the tree with `level` levels.
fn slot_of(level: u32) -> usize {
    DIRECT as usize + level as usize - 1
}

/// What mapping `blocks` blocks anywhere may do to the pointer blocks.
pub(super) fn most_growth(block_size: u32, blocks: u32) -> Growth {
    let per = block_size / 4;
    let nodes = (blocks / per + 2) + (blocks / per / per + 2) + 1;
    Growth { nodes, new: nodes }
}

/// Bytes of the largest file, as far as pointers reach and the inode can count the blocks of a file without holes.
pub(super) fn max_size(vol: &Volume) -> u64 {
    let sb = &vol.shared.sb;
    let size = u64::from(sb.block_size());
    let per = size / 4;
    let reach = DIRECT + per + per.pow(2) + per.pow(3);
    let sectors: u64 = if sb.has_ro_compat(RoCompat::HUGE_FILE) { 1 << 48 } else { 1 << 32 };
    let countable = (sectors - 1) / (size / 512);
    // Of what can be counted, the pointer blocks take their part.
    let pointers = countable.saturating_sub(DIRECT).div_ceil(per) + countable.div_ceil(per.pow(2)) + LEVELS as u64;
    reach.min(countable - pointers.min(countable)) * size
}

/// Journal blocks that freeing a whole file takes, if one operation can do it for sure: all its pointers are in the
/// inode. Beside the inode and what every step keeps for its end.
pub(super) fn free_cost(inode: &Inode) -> Option<u32> {
    let indirect = (1..=LEVELS).any(|level| pointer(&inode.i_block, slot_of(level)) != 0);
    let runs = (0..DIRECT as usize).filter(|&i| {
        let block = pointer(&inode.i_block, i);
        block != 0 && (i == 0 || pointer(&inode.i_block, i - 1) + 1 != block)
    });
    // A run of so few blocks lies in two groups at most: bitmaps and descriptors.
    (!indirect).then(|| runs.count() as u32 * 4)
}

/// Whether a file without holes can grow by `n` blocks that the inode points to.
pub(super) fn has_direct_room(inode: &Inode, n: u32) -> bool {
    let first = (DIRECT as usize).checked_sub(n as usize);
    first.is_some_and(|first| (first..=DIRECT as usize).all(|i| pointer(&inode.i_block, i) == 0))
}
