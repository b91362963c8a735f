//! The index blocks of htree directories: the root in block 0 and the nodes below it.
//!
//! A root looks like a directory block with "." and ".." whose record covers the rest; a node like one with a single
//! free entry. Entry 0 has no hash of its own (its place holds limit and count): it covers everything below entry 1.

use crate::csum::crc32c;
use crate::dirent::Dots;
use crate::error::{Place, Result};
use crate::hash::HashVersion;

const DX: &str = "htree block";
/// Bytes of an entry.
const ENTRY: usize = 8;
/// Where a root's entries begin: behind "." and ".." (12 bytes each) and dx_root_info (8).
const ROOT_ENTRIES: usize = 32;
/// Where a node's entries begin: behind a free directory entry.
const NODE_ENTRIES: usize = 8;
/// Where dx_root_info lies.
const INFO: usize = 24;
/// Bytes of dx_tail: 4 reserved, 4 of checksum.
const TAIL: usize = 8;
/// Logical blocks of a directory have 28 bits in an entry.
const BLOCK_MASK: u32 = 0x0fff_ffff;

/// Deepest indirect_levels: 1, or 2 with large_dir.
pub const fn max_levels(large_dir: bool) -> u8 {
    if large_dir { 2 } else { 1 }
}

/// dx_root_info: what a root says of its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootInfo {
    /// The hash function, whose signedness and seed the superblock knows.
    pub hash_version: HashVersion,
    /// Levels of nodes between root and leaves.
    pub indirect_levels: u8,
}

/// An entry of an index block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DxEntry {
    /// Least hash below; the low bit says that names of this hash begin in the block before. 0 for entry 0.
    pub hash: u32,
    /// Logical block of the directory.
    pub block: u32,
}

/// An index block whose header has been checked.
#[derive(Clone, Copy, Debug)]
pub struct DxBlock<'a> {
    entries: &'a [u8],
    limit: u16,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// Entries that fit behind byte `from` of a block.
fn capacity(block_size: usize, from: usize, csum: bool) -> usize {
    block_size.saturating_sub(from + if csum { TAIL } else { 0 }) / ENTRY
}

/// Entries that fit into a root.
pub fn root_limit(block_size: usize, csum: bool) -> usize {
    capacity(block_size, ROOT_ENTRIES, csum)
}

/// Entries that fit into a node.
pub fn node_limit(block_size: usize, csum: bool) -> usize {
    capacity(block_size, NODE_ENTRIES, csum)
}

impl<'a> DxBlock<'a> {
    /// The root, block 0 of a directory with the INDEX flag. `csum` says whether the volume has metadata_csum.
    ///
    /// # Errors
    /// A root that breaks a rule, an unknown hash version, or more levels than `max_levels`.
    pub fn root(block: &'a [u8], csum: bool, max_levels: u8, place: Place) -> Result<(RootInfo, DxBlock<'a>)> {
        let info = block.get(INFO..).and_then(|rest| rest.first_chunk::<8>());
        let Some(&[r0, r1, r2, r3, version, info_length, indirect_levels, _]) = info else {
            return Err(place.corrupt(DX, format!("only {} bytes", block.len())));
        };
        let dots = (u16_at(block, 4), u16_at(block, 16).map(usize::from));
        if dots != (Some(12), Some(block.len() - 12)) || [r0, r1, r2, r3] != [0; 4] || info_length != 8 {
            return Err(place.corrupt(DX, "not the root of an htree"));
        }
        let Some(hash_version) = HashVersion::from_disk(version) else {
            return Err(place.corrupt(DX, format!("unknown hash version {version}")));
        };
        if indirect_levels > max_levels {
            return Err(place.corrupt(DX, format!("{indirect_levels} levels, at most {max_levels} are allowed")));
        }
        let view = DxBlock::at(block, ROOT_ENTRIES, csum, place)?;
        Ok((RootInfo { hash_version, indirect_levels }, view))
    }

    /// A node below the root.
    pub fn node(block: &'a [u8], csum: bool, place: Place) -> Result<DxBlock<'a>> {
        let free = u32_at(block, 0) == Some(0) && u16_at(block, 4).map(usize::from) == Some(block.len());
        if !free || block.get(6) != Some(&0) {
            return Err(place.corrupt(DX, "not a node of an htree"));
        }
        DxBlock::at(block, NODE_ENTRIES, csum, place)
    }

    fn at(block: &'a [u8], from: usize, csum: bool, place: Place) -> Result<DxBlock<'a>> {
        let fits = capacity(block.len(), from, csum);
        let (Some(limit), Some(count)) = (u16_at(block, from), u16_at(block, from + 2)) else {
            return Err(place.corrupt(DX, format!("only {} bytes", block.len())));
        };
        if usize::from(limit) != fits {
            return Err(place.corrupt(DX, format!("a limit of {limit} entries, not {fits}")));
        }
        if count == 0 || count > limit {
            return Err(place.corrupt(DX, format!("{count} entries with a limit of {limit}")));
        }
        let entries = block.get(from..from + usize::from(count) * ENTRY).unwrap_or_default();
        Ok(DxBlock { entries, limit })
    }

    /// Entries in use, at least 1.
    pub fn count(&self) -> usize {
        self.entries.len() / ENTRY
    }

    /// Entries that fit.
    pub fn limit(&self) -> usize {
        usize::from(self.limit)
    }

    /// Entry `i`.
    pub fn entry(&self, i: usize) -> Option<DxEntry> {
        let at = i.checked_mul(ENTRY)?;
        let hash = if i == 0 { 0 } else { u32_at(self.entries, at)? };
        Some(DxEntry { hash, block: u32_at(self.entries, at + 4)? & BLOCK_MASK })
    }

    /// All entries in order.
    pub fn entries(self) -> impl Iterator<Item = DxEntry> + 'a {
        (0..self.count()).map_while(move |i| self.entry(i))
    }

    /// The last entry whose hash is not above `major`: where a name of that hash is or goes.
    pub fn search(&self, major: u32) -> usize {
        let (mut low, mut high) = (1, self.count());
        while low < high {
            let middle = low.midpoint(high);
            if self.entry(middle).is_some_and(|entry| entry.hash <= major) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low - 1
    }

    /// Checks that hashes ascend and that every block lies in `1..blocks` of the directory.
    pub fn check(&self, blocks: u32, place: Place) -> Result<()> {
        let mut least = 0;
        for (i, entry) in self.entries().enumerate() {
            if entry.hash < least {
                return Err(place.corrupt(DX, format!("the hash of entry {i} is out of order")));
            }
            if entry.block == 0 || entry.block >= blocks {
                let what = format!("entry {i} points to block {} of a directory of {blocks}", entry.block);
                return Err(place.corrupt(DX, what));
            }
            least = entry.hash;
        }
        Ok(())
    }
}

/// An index block to be changed. The checksum is not kept up: see [`seal`].
#[derive(Debug)]
pub struct DxBlockMut<'a> {
    block: &'a mut [u8],
    from: usize,
}

impl<'a> DxBlockMut<'a> {
    /// Makes `block` the root of a directory, with one entry for leaf `first`.
    pub fn init_root(block: &'a mut [u8], dots: Dots, info: RootInfo, first: u32, csum: bool) -> DxBlockMut<'a> {
        block.fill(0);
        let kind = dots.code();
        let rest = (block.len().saturating_sub(12) as u16).to_le_bytes();
        if let Some(head) = block.first_chunk_mut::<ROOT_ENTRIES>() {
            head[..4].copy_from_slice(&dots.ino.to_le_bytes());
            head[4..9].copy_from_slice(&[12, 0, 1, kind, b'.']);
            head[12..16].copy_from_slice(&dots.parent.to_le_bytes());
            head[16..22].copy_from_slice(&[rest[0], rest[1], 2, kind, b'.', b'.']);
            head[INFO + 4..].copy_from_slice(&[info.hash_version as u8, 8, info.indirect_levels, 0]);
        }
        DxBlockMut::start(block, ROOT_ENTRIES, csum, first)
    }

    /// Makes `block` a node with one entry for block `first`.
    pub fn init_node(block: &'a mut [u8], first: u32, csum: bool) -> DxBlockMut<'a> {
        block.fill(0);
        let len = (block.len() as u16).to_le_bytes();
        block[4..6].copy_from_slice(&len);
        DxBlockMut::start(block, NODE_ENTRIES, csum, first)
    }

    fn start(block: &'a mut [u8], from: usize, csum: bool, first: u32) -> DxBlockMut<'a> {
        let limit = capacity(block.len(), from, csum) as u16;
        let mut dx = DxBlockMut { block, from };
        dx.put_u16(0, limit);
        dx.put_u16(2, 1);
        dx.set_block(0, first);
        dx
    }

    /// The root, to be changed; checked as by [`DxBlock::root`].
    pub fn root(block: &'a mut [u8], csum: bool, max_levels: u8, place: Place) -> Result<DxBlockMut<'a>> {
        DxBlock::root(block, csum, max_levels, place)?;
        Ok(DxBlockMut { block, from: ROOT_ENTRIES })
    }

    /// A node, to be changed; checked as by [`DxBlock::node`].
    pub fn node(block: &'a mut [u8], csum: bool, place: Place) -> Result<DxBlockMut<'a>> {
        DxBlock::node(block, csum, place)?;
        Ok(DxBlockMut { block, from: NODE_ENTRIES })
    }

    fn put_u16(&mut self, at: usize, value: u16) {
        if let Some(slot) = self.block.get_mut(self.from + at..self.from + at + 2) {
            slot.copy_from_slice(&value.to_le_bytes());
        }
    }

    fn put_u32(&mut self, at: usize, value: u32) {
        if let Some(slot) = self.block.get_mut(self.from + at..self.from + at + 4) {
            slot.copy_from_slice(&value.to_le_bytes());
        }
    }

    /// Entries in use.
    pub fn count(&self) -> usize {
        u16_at(self.block, self.from + 2).map_or(0, usize::from)
    }

    /// Entries that fit.
    pub fn limit(&self) -> usize {
        u16_at(self.block, self.from).map_or(0, usize::from)
    }

    /// Entry `i`.
    pub fn entry(&self, i: usize) -> Option<DxEntry> {
        let at = self.from + i.checked_mul(ENTRY).filter(|_| i < self.count())?;
        let hash = if i == 0 { 0 } else { u32_at(self.block, at)? };
        Some(DxEntry { hash, block: u32_at(self.block, at + 4)? & BLOCK_MASK })
    }

    /// Points entry `i` to another block.
    pub fn set_block(&mut self, i: usize, block: u32) {
        if i < self.count() {
            self.put_u32(i * ENTRY + 4, block & BLOCK_MASK);
        }
    }

    /// Inserts an entry before entry `i` (1 or more); false if the block is full.
    pub fn insert(&mut self, i: usize, entry: DxEntry) -> bool {
        let count = self.count();
        if i == 0 || i > count || count >= self.limit() {
            return false;
        }
        let (start, end) = (self.from + i * ENTRY, self.from + count * ENTRY);
        self.block.copy_within(start..end, start + ENTRY);
        self.put_u16(2, count as u16 + 1);
        self.put_u32(i * ENTRY, entry.hash);
        self.set_block(i, entry.block);
        true
    }

    /// Moves the entries from `at` (1 or more) on into `other`, a block made by [`DxBlockMut::init_node`], replacing
    /// what it had. Returns the hash that now begins `other`; None if nothing was moved.
    pub fn split_off(&mut self, at: usize, other: &mut DxBlockMut<'_>) -> Option<u32> {
        let moved = self.count().checked_sub(at).filter(|moved| at > 0 && *moved > 0 && *moved <= other.limit())?;
        let first = self.entry(at)?;
        other.put_u16(2, moved as u16);
        other.set_block(0, first.block);
        for i in 1..moved {
            let entry = self.entry(at + i)?;
            other.put_u32(i * ENTRY, entry.hash);
            other.set_block(i, entry.block);
        }
        self.put_u16(2, at as u16);
        Some(first.hash)
    }

    /// Sets the levels of the tree, in a root.
    pub fn set_indirect_levels(&mut self, levels: u8) {
        if let Some(byte) = self.block.get_mut(INFO + 6).filter(|_| self.from == ROOT_ENTRIES) {
            *byte = levels;
        }
    }

    /// Replaces all entries by one for `block`: what raising a tree by a level does to the root, after its entries
    /// were copied with [`DxBlockMut::copy_entries`].
    pub fn reset(&mut self, block: u32) {
        self.put_u16(2, 1);
        self.set_block(0, block);
    }

    /// Copies all entries into `other`, a node; false if they do not fit.
    pub fn copy_entries(&self, other: &mut DxBlockMut<'_>) -> bool {
        let count = self.count();
        if count > other.limit() {
            return false;
        }
        other.put_u16(2, count as u16);
        for i in 0..count {
            let Some(entry) = self.entry(i) else { return false };
            if i > 0 {
                other.put_u32(i * ENTRY, entry.hash);
            }
            other.set_block(i, entry.block);
        }
        true
    }
}

/// Where limit and count of an index block lie, read as the kernel does; None if this is no index block.
pub fn entries_offset(block: &[u8]) -> Option<usize> {
    let first = usize::from(u16_at(block, 4)?);
    if first == block.len() {
        return Some(NODE_ENTRIES);
    }
    let root = first == 12 && usize::from(u16_at(block, 16)?) == block.len() - 12;
    let info = u32_at(block, INFO)? == 0 && block.get(INFO + 5) == Some(&8);
    (root && info).then_some(ROOT_ENTRIES)
}

/// Offset of the tail and the checksum: over the entries in use and the tail's reserved word.
fn checksum(block: &[u8], inode_seed: u32) -> Option<(usize, u32)> {
    let from = entries_offset(block)?;
    let limit = usize::from(u16_at(block, from)?);
    let count = usize::from(u16_at(block, from + 2)?);
    let tail = from + limit * ENTRY;
    if count > limit || tail + TAIL > block.len() {
        return None;
    }
    let crc = crc32c(inode_seed, &block[..from + count * ENTRY]);
    Some((tail, crc32c(crc32c(crc, &block[tail..tail + 4]), &[0; 4])))
}

/// Writes the checksum of an index block of a volume with metadata_csum. `inode_seed` is that of the directory.
pub fn seal(block: &mut [u8], inode_seed: u32) {
    if let Some((tail, crc)) = checksum(block, inode_seed) {
        block[tail + 4..tail + TAIL].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Verifies the checksum of an index block of a volume with metadata_csum.
pub fn verify(block: &[u8], inode_seed: u32, place: Place) -> Result<()> {
    let (tail, computed) = checksum(block, inode_seed).ok_or_else(|| place.corrupt(DX, "no room for its checksum"))?;
    let stored = u32_at(block, tail + 4).unwrap_or_default();
    if stored == computed { Ok(()) } else { Err(place.checksum(DX, stored, computed)) }
}
