//! Block maps in place of extents, where that needs no further block.

use super::atlas::{self, What};
use ondol_format::Place;
use ondol_format::extent::{Extent, Node};
use ondol_format::inode::{InodeFlags, JOURNAL_INO};

/// Where i_flags and i_block lie in an inode.
const FLAGS: usize = 0x20;
const MAP: std::ops::Range<usize> = 0x28..0x28 + 60;
/// Blocks that an inode names itself; the next word names a block of further words.
const DIRECT: usize = 12;

/// Converts the inodes of an image of 1 KiB blocks without checksums whose extents lie in the inode or in one block,
/// which becomes the indirect block.
pub(super) fn convert(bytes: &mut [u8]) {
    for s in atlas::draw(bytes).structures {
        if s.what == What::Inode && s.ino != JOURNAL_INO {
            let at = s.offset as usize;
            inode(bytes, at, s.len as usize);
        }
    }
}

fn inode(bytes: &mut [u8], at: usize, len: usize) {
    let raw = bytes[at..at + len].to_vec();
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let flags = InodeFlags::from_bits_retain(word(&raw, FLAGS));
    let Ok(root) = Node::parse(&raw[MAP], None, Place::NONE) else { return };
    if !flags.contains(InodeFlags::EXTENTS) {
        return;
    }
    let leaf = match (root.depth(), root.len()) {
        (0, _) => None,
        (1, 1) => root.index(0).map(|i| i.leaf as usize),
        _ => return,
    };
    let block = leaf.map(|leaf| bytes[leaf * 1024..][..1024].to_vec());
    let extents: Vec<Extent> = match &block {
        None => root.extents().collect(),
        Some(block) => Node::parse(block, Some(0), Place::NONE).map_or(Vec::new(), |n| n.extents().collect()),
    };
    let last = if leaf.is_some() { DIRECT + 256 } else { DIRECT };
    if extents.iter().any(|e| e.unwritten || e.logical + e.len > last as u32) {
        return;
    }
    let mut words = [0u32; DIRECT + 256];
    for e in extents {
        (0..e.len).for_each(|i| words[(e.logical + i) as usize] = (e.start + u64::from(i)) as u32);
    }
    let put = |bytes: &mut [u8], words: &[u32]| {
        bytes.fill(0);
        bytes.chunks_exact_mut(4).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
    };
    let mut map = words[..DIRECT].to_vec();
    map.extend(leaf.map(|leaf| leaf as u32));
    put(&mut bytes[at..][MAP], &map);
    if let Some(leaf) = leaf {
        put(&mut bytes[leaf * 1024..][..1024], &words[DIRECT..]);
    }
    let flags = (flags - InodeFlags::EXTENTS).bits();
    bytes[at + FLAGS..at + FLAGS + 4].copy_from_slice(&flags.to_le_bytes());
}
