//! Files of a new volume: an inode whose extents hold given runs of blocks.

use super::Options;
use super::space::Space;
use crate::error::{FormatError, Place, Result};
use crate::extent::{self, Extent, Index, MAX_LEN, NodeMut};
use crate::inode::{self, EXTRA_ISIZE, Inode, InodeFlags};
use crate::superblock::Superblock;
use crate::time::Time;
use std::ops::Range;

/// An inode with this mode and owner root, made now.
pub(super) fn new_inode(sb: &Superblock, options: &Options, mode: u16, links: u16) -> Inode {
    let format = sb.inode_format();
    let now = Time::from_secs(options.now);
    let mut inode = Inode::new(EXTRA_ISIZE, &format);
    inode.mode = mode;
    inode.links = links;
    (inode.atime, inode.ctime, inode.mtime, inode.crtime) = (now, now, now, now);
    inode
}

/// Gives `inode` the blocks of `runs` in order, as extents, and the size that follows. A tree that i_block cannot hold
/// gets one leaf, which is taken from `space` and returned with its block.
pub(super) fn set_blocks(
    sb: &Superblock,
    inode: &mut Inode,
    ino: u32,
    runs: &[Range<u64>],
    space: &mut Space,
) -> Result<Option<(u64, Vec<u8>)>> {
    let extents = cut(runs)?;
    let count: u64 = runs.iter().map(|run| run.end - run.start).sum();
    let size = u64::from(sb.block_size());
    let sectors = size / 512;
    inode.flags.insert(InodeFlags::EXTENTS);
    inode.size = count * size;
    inode.blocks = count * sectors;
    if extents.len() <= usize::from(extent::capacity(extent::ROOT_SIZE)) {
        fill(&mut NodeMut::init(&mut inode.i_block, 0), &extents);
        return Ok(None);
    }
    let mut leaf = vec![0; size as usize];
    if !fill(&mut NodeMut::init(&mut leaf, 0), &extents) {
        return Err(too_scattered(ino));
    }
    let after = runs.last().map_or(0, |run| run.end);
    let all = u64::from(sb.first_data_block())..sb.blocks_count();
    let block = space.allocate(&all, after, 1).and_then(|runs| runs.first().map(|run| run.start));
    let block = block.ok_or_else(|| FormatError::Parameter("the volume is too small for its journal".into()))?;
    NodeMut::init(&mut inode.i_block, 1).insert_index(0, Index { logical: 0, leaf: block });
    inode.blocks += sectors;
    if let Some(seed) = sb.inode_seed(ino, inode.generation) {
        extent::seal(&mut leaf, seed);
    }
    Ok(Some((block, leaf)))
}

fn fill(node: &mut NodeMut<'_>, extents: &[Extent]) -> bool {
    extents.iter().enumerate().all(|(i, extent)| node.insert_extent(i, *extent))
}

fn too_scattered(ino: u32) -> FormatError {
    Place::inode(ino).corrupt("inode", "its blocks are too scattered for one leaf of extents")
}

/// Runs as extents, none longer than an extent can be.
fn cut(runs: &[Range<u64>]) -> Result<Vec<Extent>> {
    let mut extents = Vec::new();
    let mut logical = 0u32;
    for run in runs {
        let mut start = run.start;
        while start < run.end {
            let len = (run.end - start).min(u64::from(MAX_LEN)) as u32;
            extents.push(Extent { logical, start, len, unwritten: false });
            start += u64::from(len);
            logical = logical.checked_add(len).ok_or_else(|| too_scattered(0))?;
        }
    }
    Ok(extents)
}

/// Puts `inode` into a table that begins with inode 1, with its checksum.
pub(super) fn store(sb: &Superblock, table: &mut [u8], ino: u32, inode: Option<&Inode>) -> Result<()> {
    let format = sb.inode_format();
    let size = usize::from(format.inode_size);
    let at = (ino as usize).saturating_sub(1) * size;
    let slot = table.get_mut(at..at + size);
    let slot = slot.ok_or_else(|| Place::inode(ino).corrupt("inode", "lies outside its table"))?;
    if let Some(inode) = inode {
        inode.write(slot, &format)?;
    }
    inode::seal(slot, ino, &format);
    Ok(())
}
