//! Making a volume: everything mke2fs decides, and the bytes that follow from it, as writes handed to the caller.
//!
//! [`Plan::new`] chooses the geometry the way mke2fs 1.47 does for the same size and features, places all metadata and
//! builds the root directory, `lost+found`, the journal, the resize inode and the orphan file. [`Plan::emit`] hands out
//! the writes; the superblock is the last.

mod content;
mod inodes;
mod shape;
mod space;
mod tables;

use crate::error::{FormatError, Result};
use crate::feature::Features;
use crate::group::{BLOCK_UNINIT, GroupDesc, INODE_UNINIT};
use crate::jbd2::Extension;
use crate::layout;
use crate::superblock::{OFFSET, Superblock};
use space::Space;
use zerocopy::IntoBytes;

pub use shape::Usage;

/// What the caller decides. Identity and time are given, so that the same options make the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a block: 1024, 2048 or 4096; None chooses by the size of the volume.
    pub block_size: Option<u32>,
    /// Features: [`Features::UPSTREAM`] with the user's `-O` list applied.
    pub features: Features,
    /// Label, at most 16 bytes.
    pub label: Vec<u8>,
    /// Number of inodes; None chooses by the size of the volume.
    pub inodes: Option<u32>,
    /// Bytes of the volume for each inode, where their number is not given; None chooses by the size of the volume.
    pub bytes_per_inode: Option<u64>,
    /// Blocks only root may use, hundredths of a percent of the volume, at most 5000.
    pub reserved_share: u16,
    /// Blocks of the journal; None chooses by the size of the volume.
    pub journal_blocks: Option<u32>,
    /// A journal that is to hold file data, too: by default it is larger than mke2fs makes it, so that checkpoints can
    /// wait.
    pub roomy_journal: bool,
    /// What the journal's superblock keeps for Ondol.
    pub journal_extension: Extension,
    /// Owner of the root directory: user, group.
    pub root_owner: (u32, u32),
    /// UUID of the volume and its journal.
    pub uuid: [u8; 16],
    /// Seed of the directory hash.
    pub hash_seed: [u8; 16],
    /// The present time, seconds since 1970.
    pub now: i64,
    /// Whether the image is known to hold zeros; otherwise inode tables and journal are zeroed.
    pub zeroed: bool,
}

impl Options {
    /// mke2fs's defaults for this identity.
    pub fn new(uuid: [u8; 16], hash_seed: [u8; 16], now: i64) -> Options {
        Options {
            block_size: None,
            features: Features::UPSTREAM,
            label: Vec::new(),
            inodes: None,
            bytes_per_inode: None,
            reserved_share: 500,
            journal_blocks: None,
            roomy_journal: false,
            journal_extension: Extension::default(),
            root_owner: (0, 0),
            uuid,
            hash_seed,
            now,
            zeroed: false,
        }
    }
}

/// One write of a volume being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk<'a> {
    /// Bytes at a byte offset of the image.
    Bytes {
        /// Where, bytes.
        offset: u64,
        /// What.
        bytes: &'a [u8],
    },
    /// Zeros at a byte offset of the image; never handed out if [`Options::zeroed`].
    Zeros {
        /// Where, bytes.
        offset: u64,
        /// How many, bytes.
        len: u64,
    },
}

/// A volume ready to be written.
#[derive(Debug)]
pub struct Plan {
    sb: Superblock,
    descs: Vec<GroupDesc>,
    space: Space,
    /// Blocks of directories, extent nodes, resize inode, orphan file and journal superblock.
    blocks: Vec<(u64, Vec<u8>)>,
    /// Blocks that must be zero: the journal's log.
    zero_blocks: Vec<std::ops::Range<u64>>,
    journal_blocks: u32,
    used_inodes: u32,
    zeroed: bool,
}

impl Plan {
    /// Plans a volume of `size` bytes.
    ///
    /// # Errors
    /// [`FormatError::Parameter`] for a size that is too small or too large and for options that cannot be honoured;
    /// [`FormatError::Unsupported`] for features that this crate does not make.
    pub fn new(options: &Options, size: u64) -> Result<Plan> {
        let shape = shape::Shape::choose(options, size)?;
        let sb = shape.superblock(options)?;
        let mut space = Space::of_base_metadata(&sb);
        let descs = tables::place(&sb, &mut space)?;
        let made = content::make(&sb, options, shape.journal_blocks, &descs, &mut space)?;
        let mut plan = Plan {
            sb,
            descs,
            space,
            blocks: made.blocks,
            zero_blocks: made.zero_blocks,
            journal_blocks: shape.journal_blocks,
            used_inodes: made.used_inodes,
            zeroed: options.zeroed,
        };
        tables::count(&plan.sb, &plan.space, plan.used_inodes, &mut plan.descs);
        plan.sum_up_bitmaps();
        plan.finish_superblock(made.jnl_blocks)?;
        Ok(plan)
    }

    /// The superblock that will be written.
    pub fn superblock(&self) -> &Superblock {
        &self.sb
    }

    /// Blocks of the journal; 0 without has_journal.
    pub fn journal_blocks(&self) -> u32 {
        self.journal_blocks
    }

    /// Whether group `g` has a block bitmap on the image.
    fn has_block_bitmap(&self, g: usize) -> bool {
        self.descs[g].flags & BLOCK_UNINIT == 0
    }

    fn has_inode_bitmap(&self, g: usize) -> bool {
        self.descs[g].flags & INODE_UNINIT == 0
    }

    /// Puts the checksums of all bitmaps that are written into their descriptors.
    fn sum_up_bitmaps(&mut self) {
        let Some(seed) = self.sb.csum_seed() else { return };
        let wide = if self.sb.gdt().desc_size() >= 64 { !0 } else { 0xffff };
        for g in 0..self.descs.len() {
            if self.has_block_bitmap(g) {
                let map = self.block_bitmap(g as u32);
                let csum = crate::bitmap::checksum(seed, &map, self.sb.clusters_per_group());
                self.descs[g].block_bitmap_csum = csum & wide;
            }
            if self.has_inode_bitmap(g) {
                let map = self.inode_bitmap(g as u32);
                let csum = crate::bitmap::checksum(seed, &map, self.sb.inodes_per_group());
                self.descs[g].inode_bitmap_csum = csum & wide;
            }
        }
    }

    fn block_bitmap(&self, g: u32) -> Vec<u8> {
        let mut map = vec![0; self.sb.block_size() as usize];
        let home = self.sb.block_range_of_group(g);
        layout::init_clusters(&self.sb, g, self.space.used_in(&home), &mut map);
        map
    }

    fn inode_bitmap(&self, g: u32) -> Vec<u8> {
        let mut map = vec![0; self.sb.block_size() as usize];
        layout::init_inode_bitmap(&self.sb, &mut map);
        if g == 0 {
            crate::bitmap::set_range(&mut map, 0, self.used_inodes as usize);
        }
        map
    }

    /// Counts, overhead and the journal's copy in the superblock, which is then checked as any other.
    fn finish_superblock(&mut self, jnl_blocks: Option<[u32; 17]>) -> Result<()> {
        let mut raw = self.sb.raw().clone();
        raw.set_free_blocks_count(self.descs.iter().map(|desc| u64::from(desc.free_blocks)).sum());
        raw.s_free_inodes_count.set(self.sb.inodes_count() - self.used_inodes);
        let overhead = layout::metadata_blocks(&self.sb) + u64::from(self.journal_blocks);
        raw.s_overhead_clusters.set(u32::try_from(overhead).unwrap_or(0));
        if let Some(words) = jnl_blocks {
            raw.s_jnl_backup_type = crate::superblock::JNL_BACKUP_BLOCKS;
            raw.s_jnl_blocks = words.map(Into::into);
        }
        raw.seal();
        self.sb = Superblock::from_raw(raw, u64::MAX)?;
        Ok(())
    }

    /// Hands out every write. The first block loses its magic number first and gets its superblock last, so that a
    /// volume half made is never taken for one.
    ///
    /// # Errors
    /// Those of `sink`.
    pub fn emit<E>(&self, mut sink: impl FnMut(Chunk<'_>) -> Result<(), E>) -> Result<(), E> {
        let size = u64::from(self.sb.block_size());
        sink(Chunk::Bytes { offset: 0, bytes: &[0; OFFSET as usize + crate::superblock::SIZE] })?;
        if !self.zeroed {
            self.emit_zeros(&mut sink)?;
        }
        let mut put = |block: u64, bytes: &[u8]| sink(Chunk::Bytes { offset: block * size, bytes });
        for g in 0..self.descs.len() {
            if self.has_block_bitmap(g) {
                put(self.descs[g].block_bitmap, &self.block_bitmap(g as u32))?;
            }
            if self.has_inode_bitmap(g) {
                put(self.descs[g].inode_bitmap, &self.inode_bitmap(g as u32))?;
            }
        }
        for (block, bytes) in &self.blocks {
            put(*block, bytes)?;
        }
        self.emit_descriptors(&mut put)?;
        for g in (0..self.sb.groups()).rev() {
            let Some(block) = self.sb.base_meta(g).superblock else { continue };
            let mut raw = self.sb.raw().clone();
            raw.s_block_group_nr.set(g as u16);
            raw.seal();
            let offset = if g == 0 { OFFSET } else { block * size };
            sink(Chunk::Bytes { offset, bytes: raw.as_bytes() })?;
        }
        Ok(())
    }

    /// Zeros where the image is read before it is written: inode tables and the journal.
    fn emit_zeros<E>(&self, sink: &mut impl FnMut(Chunk<'_>) -> Result<(), E>) -> Result<(), E> {
        let size = u64::from(self.sb.block_size());
        let tables = self.descs.iter().map(|desc| {
            let [_, _, table] = layout::own_meta(&self.sb, desc);
            table
        });
        for range in tables.chain(self.zero_blocks.iter().cloned()) {
            sink(Chunk::Zeros { offset: range.start * size, len: (range.end - range.start) * size })?;
        }
        Ok(())
    }

    /// All descriptors, and their copies.
    fn emit_descriptors<E>(&self, put: &mut impl FnMut(u64, &[u8]) -> Result<(), E>) -> Result<(), E> {
        let per_block = self.sb.gdt().desc_per_block();
        let csum = crate::group::DescCsum::of(&self.sb);
        let table = tables::encode(&self.sb, &self.descs, &csum);
        let size = self.sb.block_size() as usize;
        for g in 0..self.sb.groups() {
            let at = self.sb.base_meta(g).descriptors;
            let first = if self.sb.gdt().is_in_meta_bg(g) { (g / per_block) as usize } else { 0 };
            let bytes = table.get(first * size..).unwrap_or_default();
            let bytes = bytes.get(..(at.end - at.start) as usize * size).unwrap_or_default();
            if !bytes.is_empty() {
                put(at.start, bytes)?;
            }
        }
        Ok(())
    }
}

/// A parameter that cannot be honoured.
fn refuse<T>(what: impl Into<String>) -> Result<T> {
    Err(FormatError::Parameter(what.into()))
}
