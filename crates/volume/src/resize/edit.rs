//! A transaction on a volume that nobody has open: blocks are changed in memory, committed to the journal as one
//! transaction, and replayed at once.
//!
//! What is written around the transaction (copied data, nodes of a new map, new groups) lies where nothing in the
//! volume points to, and is durable before the commit. So whoever finds the volume after a crash finds all of a step or
//! nothing, and everybody who knows jbd2 can bring it home.

use super::placed::Placed;
use crate::image::{Image, corrupt};
use crate::{Error, Ino, Result};
use ondol_block::BlockStore;
use ondol_env::Env;
use ondol_env::sync::Arc;
use ondol_format::group::{BLOCK_UNINIT, DescCsum, GroupDesc, INODE_UNINIT};
use ondol_format::{Incompat, Inode, RawSuperblock, Superblock, bitmap, layout};
use ondol_journal::{LogMap, jbd2};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use zerocopy::IntoBytes;

/// See the module.
pub(super) struct Edit {
    pub(super) store: Arc<dyn BlockStore>,
    pub(super) env: Arc<dyn Env>,
    pub(super) map: LogMap,
    /// The volume as the transaction leaves it.
    pub(super) sb: Superblock,
    pub(super) raw: RawSuperblock,
    pub(super) descs: Vec<GroupDesc>,
    /// Where the volume ends before the transaction: what lies behind is written around it.
    end: u64,
    /// Groups before the transaction.
    old_groups: u32,
    blocks: BTreeMap<u64, Vec<u8>>,
    changed_blocks: BTreeSet<u32>,
    changed_inodes: BTreeSet<u32>,
    changed_descs: BTreeSet<u32>,
    /// Free clusters and inodes of the groups whose descriptors do not change.
    counted: (u64, u64),
    /// See [`Edit::placed`].
    pub(super) placed: OnceCell<Placed>,
    /// Copies of superblock and descriptors change, too.
    pub(super) copies: bool,
    /// Somebody has the volume open.
    pub(super) is_live: bool,
    /// Blocks that one transaction should not have more of.
    pub(super) room: usize,
    /// Free blocks and inodes that the descriptors do not count.
    uncounted: (u64, u32),
    /// Reserved blocks and all blocks at the beginning: the share stays.
    share: (u64, u64),
}

impl Edit {
    /// Of a clean image, whose journal is empty and in it.
    pub(super) fn new(image: &Image, env: Arc<dyn Env>) -> Result<Self> {
        let sb = image.superblock().clone();
        let map = LogMap::new(sb.block_size(), image.journal_map()?);
        let room = (map.blocks() / 4).min(8192) as usize;
        Ok(Self { map, room, ..Self::over(image.store.clone(), env, sb, image.descriptors()?) })
    }

    /// Of a volume that somebody has open, whose live blocks `store` has: no transaction is committed here.
    pub(super) fn live(store: Arc<dyn BlockStore>, env: Arc<dyn Env>, sb: Superblock, descs: Vec<GroupDesc>) -> Self {
        // The descriptors say where things lie, and no more.
        let uncounted = (sb.free_blocks_count(), sb.free_inodes_count());
        Self { is_live: true, uncounted, ..Self::over(store, env, sb, descs) }
    }

    /// Nothing has changed, and there is no log.
    fn over(store: Arc<dyn BlockStore>, env: Arc<dyn Env>, sb: Superblock, descs: Vec<GroupDesc>) -> Self {
        let free = |desc: &GroupDesc| (u64::from(desc.free_blocks), u64::from(desc.free_inodes));
        let counted = descs.iter().map(free).fold((0, 0), |sum, n| (sum.0 + n.0, sum.1 + n.1));
        Self {
            store,
            env,
            raw: sb.raw().clone(),
            descs,
            end: sb.blocks_count(),
            old_groups: sb.groups(),
            blocks: BTreeMap::new(),
            changed_blocks: BTreeSet::new(),
            changed_inodes: BTreeSet::new(),
            changed_descs: BTreeSet::new(),
            counted,
            placed: OnceCell::new(),
            copies: false,
            is_live: false,
            room: 0,
            uncounted: (0, 0),
            share: (sb.r_blocks_count(), sb.blocks_count()),
            map: LogMap::new(sb.block_size(), []),
            sb,
        }
    }

    pub(super) fn block_size(&self) -> usize {
        self.sb.block_size() as usize
    }

    /// A block as the transaction has it.
    pub(super) fn read(&self, block: u64) -> Result<Vec<u8>> {
        match self.blocks.get(&block) {
            Some(bytes) => Ok(bytes.clone()),
            None => self.stored(block, 1),
        }
    }

    /// Blocks as they are stored.
    pub(super) fn stored(&self, block: u64, count: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; count as usize * self.block_size()];
        self.store.read(block * self.block_size() as u64, &mut bytes)?;
        Ok(bytes)
    }

    /// A block, to be changed by the transaction.
    pub(super) fn edit(&mut self, block: u64) -> Result<&mut Vec<u8>> {
        if !self.blocks.contains_key(&block) {
            let bytes = self.stored(block, 1)?;
            self.blocks.insert(block, bytes);
        }
        self.blocks.get_mut(&block).ok_or(Error::Invalid("no block"))
    }

    /// Makes `bytes` the contents of a block.
    pub(super) fn put(&mut self, block: u64, bytes: Vec<u8>) {
        self.blocks.insert(block, bytes);
    }

    /// Writes to blocks that nothing points to yet; durable with the commit.
    pub(super) fn write_around(&self, block: u64, bytes: &[u8]) -> Result<()> {
        Ok(self.store.write(block * self.block_size() as u64, bytes)?)
    }

    /// Blocks in the transaction so far.
    pub(super) fn len(&self) -> usize {
        // What follows from them: descriptors, bitmaps are in already.
        self.blocks.len() + self.changed_descs.len() + 2 * self.changed_blocks.len()
    }

    /// The block bitmap of a group, to be changed.
    pub(super) fn block_bitmap(&mut self, g: u32) -> Result<&mut Vec<u8>> {
        let desc = self.descs.get(g as usize).copied().ok_or(Error::Invalid("no such group"))?;
        let at = desc.block_bitmap;
        if desc.flags & BLOCK_UNINIT != 0 && DescCsum::of(&self.sb) != DescCsum::None && !self.blocks.contains_key(&at)
        {
            let map = self.unwritten_bitmap(g);
            self.blocks.insert(at, map);
        }
        self.changed_blocks.insert(g);
        self.note_desc(g);
        self.edit(at)
    }

    /// The block bitmap of a group as it is.
    pub(super) fn read_block_bitmap(&self, g: u32) -> Result<Vec<u8>> {
        let desc = self.descs.get(g as usize).copied().ok_or(Error::Invalid("no such group"))?;
        let unwritten = desc.flags & BLOCK_UNINIT != 0 && DescCsum::of(&self.sb) != DescCsum::None;
        if unwritten && !self.blocks.contains_key(&desc.block_bitmap) {
            return Ok(self.unwritten_bitmap(g));
        }
        self.read(desc.block_bitmap)
    }

    /// Marks the clusters that `blocks` touch as used, or as free.
    pub(super) fn mark(&mut self, blocks: Range<u64>, used: bool) -> Result<()> {
        let ratio = u64::from(self.sb.cluster_ratio());
        let mut at = blocks.start;
        while at < blocks.end {
            let g = ((at - u64::from(self.sb.first_data_block())) / u64::from(self.sb.blocks_per_group())) as u32;
            let start = self.sb.group_first_block(g);
            let stop = blocks.end.min(start + u64::from(self.sb.blocks_per_group()));
            let (first, end) = ((at - start) / ratio, (stop - start).div_ceil(ratio));
            let map = self.block_bitmap(g)?;
            let (first, count) = (first as usize, (end - first) as usize);
            if used {
                bitmap::set_range(map, first, count);
            } else {
                bitmap::clear_range(map, first, count);
            }
            at = stop;
        }
        Ok(())
    }

    /// The inode bitmap of a group, to be changed.
    pub(super) fn inode_bitmap(&mut self, g: u32) -> Result<&mut Vec<u8>> {
        let at = self.descs.get(g as usize).ok_or(Error::Invalid("no such group"))?.inode_bitmap;
        if !self.blocks.contains_key(&at) {
            let map = self.read_inode_bitmap(g)?;
            self.blocks.insert(at, map);
        }
        self.changed_inodes.insert(g);
        self.note_desc(g);
        self.edit(at)
    }

    /// The inode bitmap of a group as it is.
    pub(super) fn read_inode_bitmap(&self, g: u32) -> Result<Vec<u8>> {
        let desc = self.descs.get(g as usize).ok_or(Error::Invalid("no such group"))?;
        let unwritten = desc.flags & INODE_UNINIT != 0 && DescCsum::of(&self.sb) != DescCsum::None;
        if unwritten && !self.blocks.contains_key(&desc.inode_bitmap) {
            let mut map = vec![0; self.block_size()];
            layout::init_inode_bitmap(&self.sb, &mut map);
            return Ok(map);
        }
        self.read(desc.inode_bitmap)
    }

    /// A descriptor, to be changed.
    pub(super) fn desc(&mut self, g: u32) -> Result<&mut GroupDesc> {
        self.note_desc(g);
        self.descs.get_mut(g as usize).ok_or(Error::Invalid("no such group"))
    }

    /// A descriptor changes: what is free in its group is counted when the changes end.
    pub(super) fn note_desc(&mut self, g: u32) {
        if self.changed_descs.insert(g)
            && let Some(desc) = self.descs.get(g as usize)
        {
            self.counted.0 -= u64::from(desc.free_blocks);
            self.counted.1 -= u64::from(desc.free_inodes);
        }
    }

    /// A descriptor that was to change is no more.
    pub(super) fn forget_note(&mut self, g: u32) {
        self.changed_descs.remove(&g);
    }

    /// Where an inode lies: block and byte.
    pub(super) fn place_of(&self, ino: Ino) -> Result<(u64, usize)> {
        let index = ino.checked_sub(1).ok_or(Error::Invalid("no such inode"))?;
        let (g, index) = (index / self.sb.inodes_per_group(), index % self.sb.inodes_per_group());
        let desc = self.descs.get(g as usize).ok_or(Error::Invalid("no such group"))?;
        Ok(self.sb.inode_location(desc.inode_table, index))
    }

    /// An inode as the transaction has it.
    pub(super) fn inode(&self, ino: Ino) -> Result<Inode> {
        let (block, offset) = self.place_of(ino)?;
        let bytes = self.read(block)?;
        let bytes = &bytes[offset..offset + usize::from(self.sb.inode_size())];
        Inode::parse(bytes, ino, &self.sb.inode_format()).map_err(|e| corrupt(block, &e))
    }

    /// Has the transaction write an inode.
    pub(super) fn put_inode(&mut self, ino: Ino, inode: &Inode) -> Result<()> {
        let (block, offset) = self.place_of(ino)?;
        let (size, format) = (usize::from(self.sb.inode_size()), self.sb.inode_format());
        let bytes = &mut self.edit(block)?[offset..offset + size];
        inode.write(bytes, &format).map_err(|e| corrupt(block, &e))?;
        ondol_format::inode::seal(bytes, ino, &format);
        Ok(())
    }

    /// Gives the volume another number of blocks.
    pub(super) fn set_blocks(&mut self, blocks: u64) -> Result<()> {
        self.sb = super::shape::with_blocks(&self.raw, &self.sb, blocks)?;
        self.raw = self.sb.raw().clone();
        let (reserved, of) = self.share;
        let share = u128::from(reserved) * u128::from(blocks) / u128::from(of.max(1));
        self.raw.set_r_blocks_count(share as u64);
        self.copies = true;
        Ok(())
    }

    /// After the raw superblock has been changed otherwise.
    pub(super) fn reread(&mut self) -> Result<()> {
        self.raw.seal();
        self.sb = Superblock::from_raw(self.raw.clone(), u64::MAX).map_err(|e| corrupt(0, &e))?;
        Ok(())
    }

    /// Computes what follows from the changes: counts, checksums, copies.
    fn seal(&mut self) -> Result<()> {
        for g in std::mem::take(&mut self.changed_blocks) {
            self.seal_blocks(g)?;
        }
        for g in std::mem::take(&mut self.changed_inodes) {
            self.seal_inodes(g)?;
        }
        let (size, csum) = (usize::from(self.sb.gdt().desc_size()), DescCsum::of(&self.sb));
        let mut indexes = BTreeSet::new();
        for g in std::mem::take(&mut self.changed_descs) {
            let Some(desc) = self.descs.get(g as usize).copied() else { continue };
            self.counted.0 += u64::from(desc.free_blocks);
            self.counted.1 += u64::from(desc.free_inodes);
            let (block, offset) = self.sb.gdt().location(g);
            let bytes = &mut self.edit(block)?[offset..offset + size];
            desc.write(bytes).map_err(|e| corrupt(block, &e))?;
            csum.seal(g, bytes);
            indexes.insert(g / self.sb.gdt().desc_per_block());
        }
        self.seal_superblock()?;
        if std::mem::take(&mut self.copies) {
            self.put_copies(&indexes)?;
        }
        Ok(())
    }

    fn seal_blocks(&mut self, g: u32) -> Result<()> {
        let (clusters, all) = (self.sb.clusters_in_group(g) as usize, self.sb.clusters_per_group());
        let seed = self.sb.csum_seed();
        let Some(mut desc) = self.descs.get(g as usize).copied() else { return Ok(()) };
        let map = self.edit(desc.block_bitmap)?;
        desc.free_blocks = bitmap::count_zeros(map, clusters) as u32;
        desc.block_bitmap_csum = seed.map_or(0, |seed| bitmap::checksum(seed, map, all));
        desc.flags &= !BLOCK_UNINIT;
        *self.desc(g)? = desc;
        Ok(())
    }

    fn seal_inodes(&mut self, g: u32) -> Result<()> {
        let (inodes, all) = (self.sb.inodes_per_group() as usize, self.sb.inodes_per_group());
        let (seed, checksummed) = (self.sb.csum_seed(), DescCsum::of(&self.sb) != DescCsum::None);
        let Some(mut desc) = self.descs.get(g as usize).copied() else { return Ok(()) };
        let map = self.edit(desc.inode_bitmap)?;
        desc.free_inodes = bitmap::count_zeros(map, inodes) as u32;
        desc.inode_bitmap_csum = seed.map_or(0, |seed| bitmap::checksum(seed, map, all));
        let used = (0..inodes).rev().find(|&n| bitmap::test(map, n)).map_or(0, |n| n + 1);
        if checksummed {
            let was = if desc.flags & INODE_UNINIT != 0 { all } else { desc.itable_unused };
            desc.itable_unused = was.min((inodes - used) as u32);
            if used > 0 {
                desc.flags &= !INODE_UNINIT;
            }
        }
        *self.desc(g)? = desc;
        Ok(())
    }

    fn seal_superblock(&mut self) -> Result<()> {
        let ((free, inodes), (blocks, others)) = (self.counted, self.uncounted);
        self.raw.set_free_blocks_count(blocks + free * u64::from(self.sb.cluster_ratio()));
        self.raw.s_free_inodes_count.set(others + inodes as u32);
        self.raw.set_wtime(self.env.now().sec);
        self.reread()?;
        let (block, offset) = self.sb.superblock_location();
        let raw = self.raw.clone();
        self.edit(block)?[offset..offset + raw.as_bytes().len()].copy_from_slice(raw.as_bytes());
        Ok(())
    }

    /// The copies of the superblock and of what changed of the descriptors; all descriptors where a group is new.
    fn put_copies(&mut self, indexes: &BTreeSet<u32>) -> Result<()> {
        let mut copy = self.raw.clone();
        let mut features = copy.features();
        features.incompat.remove(Incompat::RECOVER | Incompat::ONDOL_JOURNAL);
        copy.set_features(features);
        let gdt = self.sb.gdt();
        let front: Vec<u32> = (0..gdt.blocks()).filter(|i| !gdt.is_in_meta_bg(i * gdt.desc_per_block())).collect();
        let groups: Vec<(u32, u64)> = self.sb.backups().collect();
        for (g, first) in groups {
            // In its own meta group a copy of the superblock stands alone.
            let front: &[u32] = if self.sb.gdt().is_in_meta_bg(g) { &[] } else { &front };
            copy.s_block_group_nr.set(g as u16);
            copy.seal();
            let mut bytes = vec![0; self.block_size()];
            bytes[..copy.as_bytes().len()].copy_from_slice(copy.as_bytes());
            self.put(first, bytes);
            let is_new = g >= self.old_groups;
            for &index in front.iter().filter(|index| is_new || indexes.contains(index)) {
                let bytes = self.sealed_descriptors(index)?;
                self.put(first + 1 + u64::from(index), bytes);
            }
        }
        let per_block = self.sb.gdt().desc_per_block();
        for &index in indexes {
            if !self.sb.gdt().is_in_meta_bg(index * per_block) {
                continue;
            }
            let bytes = self.sealed_descriptors(index)?;
            let first = index * per_block;
            for g in [first + 1, first + per_block - 1] {
                if g >= self.sb.groups() {
                    continue;
                }
                let block = self.sb.group_first_block(g) + u64::from(self.sb.has_super(g));
                self.put(block, bytes.clone());
            }
        }
        Ok(())
    }

    /// A block of descriptors for its copies. Of a volume in use, the live block may lie between two seals.
    fn sealed_descriptors(&self, index: u32) -> Result<Vec<u8>> {
        let mut bytes = self.read(self.sb.gdt().block(index))?;
        if self.is_live {
            let (size, csum) = (usize::from(self.sb.gdt().desc_size()), DescCsum::of(&self.sb));
            let first = index * self.sb.gdt().desc_per_block();
            let groups = (first..self.sb.groups()).zip(bytes.chunks_exact_mut(size));
            groups.for_each(|(g, desc)| csum.seal(g, desc));
        }
        Ok(bytes)
    }

    /// Ends the changes, and writes those that lie behind the end: what is left is the transaction.
    pub(super) fn images(&mut self) -> Result<Vec<(u64, Vec<u8>)>> {
        self.seal()?;
        let behind = self.blocks.split_off(&self.end);
        for (block, bytes) in behind {
            self.write_around(block, &bytes)?;
        }
        Ok(std::mem::take(&mut self.blocks).into_iter().collect())
    }

    /// Forgets what lies behind the end that the volume will have.
    pub(super) fn forget_behind_end(&mut self) {
        drop(self.blocks.split_off(&self.sb.blocks_count()));
    }

    /// Commits the transaction and brings it home. Durable when this returns.
    pub(super) fn commit(&mut self) -> Result<()> {
        let images = self.images()?;
        let need = images.len() as u64;
        self.store.flush()?;
        let resized = self.end != self.sb.blocks_count();
        let ahead = if resized { images.clone() } else { Vec::new() };
        if let Err(e) = jbd2::commit_alone(&self.store, &self.map, self.env.clone(), images) {
            // Nothing of it counts, and the log is empty again.
            self.replay(&self.map)?;
            return Err(too_big(e, need, &self.map));
        }
        if resized {
            self.go_ahead(&ahead)?;
        }
        self.replay(&self.map)?;
        self.end = self.sb.blocks_count();
        self.old_groups = self.sb.groups();
        Ok(())
    }

    /// Brings home what must be there before the rest of a durable transaction: whoever looks at the volume before its
    /// log takes the groups of its superblock to have descriptors. A larger superblock is the last to come home, a
    /// smaller one the first.
    fn go_ahead(&self, images: &[(u64, Vec<u8>)]) -> Result<()> {
        let (superblock, _) = self.sb.superblock_location();
        let larger = self.end < self.sb.blocks_count();
        for (block, bytes) in images.iter().filter(|(block, _)| (*block == superblock) != larger) {
            self.write_around(*block, bytes)?;
        }
        Ok(self.store.flush()?)
    }

    fn replay(&self, map: &LogMap) -> Result<()> {
        let volume = jbd2::Volume { blocks: self.end.max(self.sb.blocks_count()), made: self.sb.raw().mkfs_time() };
        jbd2::recover(&*self.store, map, volume)?;
        Ok(())
    }

    /// As [`Edit::commit`], of a transaction that moves the journal to `new`, which has nothing in common with where it
    /// is.
    pub(super) fn commit_to(&mut self, new: LogMap) -> Result<()> {
        let images = self.images()?;
        let need = images.len() as u64;
        self.store.flush()?;
        jbd2::succeed(&*self.store, &self.map, &new)?;
        // The old log decides: see the module that changes a journal's size.
        let logs = [&new, &self.map];
        for map in logs {
            let done = jbd2::commit_alone(&self.store, map, self.env.clone(), images.clone());
            done.map_err(|e| too_big(e, need, map))?;
        }
        for map in [&self.map, &new] {
            self.replay(map)?;
        }
        self.map = new;
        Ok(())
    }
}

fn too_big(e: ondol_journal::JournalError, need: u64, map: &LogMap) -> Error {
    if need + need / 50 + 8 > map.blocks() {
        return Error::TooBig { need, max: map.blocks() };
    }
    e.into()
}
