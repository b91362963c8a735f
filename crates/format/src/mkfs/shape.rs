//! The geometry of a new volume: block size, groups, inodes and reserve, chosen as mke2fs does.

use super::{Options, refuse};
use crate::error::Result;
use crate::feature::{Compat, Features, Incompat, RoCompat};
use crate::inode::EXTRA_ISIZE;
use crate::superblock::{self, RawSuperblock, Superblock, has_super};
use zerocopy::little_endian::U32;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
/// Bytes of an inode.
const INODE_SIZE: u32 = 256;
/// Inodes 1 to 10 are reserved.
const FIRST_INO: u32 = 11;
/// Least inodes in group 0: the reserved ones, lost+found and the orphan file.
const MIN_INODES: u32 = 16;
/// Groups of a flex group, as a power of two.
const LOG_FLEX: u8 = 4;
/// Least blocks of a volume that gets a journal without being told its size.
const JOURNAL_MIN_VOLUME: u64 = 2048;
/// Largest volume, blocks: its descriptors must fit into memory.
const MAX_BLOCKS: u64 = 1 << 38;

/// Features that a new volume may have.
const SUPPORTED: Features = Features {
    compat: Features::UPSTREAM.compat.union(Compat::SPARSE_SUPER2),
    incompat: Features::UPSTREAM.incompat.union(Incompat::META_BG).union(Incompat::LARGEDIR),
    ro_compat: Features::UPSTREAM.ro_compat.union(RoCompat::GDT_CSUM),
};

/// The chosen numbers.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    features: Features,
    block_size: u32,
    blocks: u64,
    /// Blocks before a last group too small for its metadata was dropped.
    asked_blocks: u64,
    blocks_per_group: u32,
    groups: u32,
    inodes_per_group: u32,
    reserved_gdt: u32,
    backup_bgs: [u32; 2],
    pub(super) journal_blocks: u32,
}

/// Default block size and bytes per inode for a volume of `mib` MiB: the types of mke2fs.conf.
fn defaults(mib: u64) -> (u32, u64) {
    match mib {
        0..3 => (1024, 8 * KIB),
        3..512 => (1024, 4 * KIB),
        512..0x40_0000 => (4096, 16 * KIB),
        0x40_0000..0x100_0000 => (4096, 32 * KIB),
        _ => (4096, 64 * KIB),
    }
}

/// What a volume is for: its type in mke2fs.conf, in place of one that goes by the size of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of a block.
    pub block_size: u32,
    /// Bytes of the volume for each inode.
    pub bytes_per_inode: u64,
}

impl Usage {
    /// The names of all types.
    pub const NAMES: [&str; 8] = ["floppy", "small", "default", "news", "big", "huge", "largefile", "largefile4"];

    /// The type of this name.
    pub fn of(name: &str) -> Option<Self> {
        let (block_size, bytes_per_inode) = match name {
            "floppy" => (1024, 8 * KIB),
            "small" => (1024, 4 * KIB),
            "default" => (4096, 16 * KIB),
            "news" => (4096, 4 * KIB),
            "big" => (4096, 32 * KIB),
            "huge" => (4096, 64 * KIB),
            "largefile" => (4096, MIB),
            "largefile4" => (4096, 4 * MIB),
            _ => return None,
        };
        Some(Self { block_size, bytes_per_inode })
    }
}

/// Default blocks of a journal for a volume of `blocks` blocks.
fn default_journal(blocks: u64) -> u32 {
    match blocks / KIB {
        0..32 => 1024,
        32..256 => 4096,
        256..512 => 8192,
        512..4096 => 16384,
        4096..8192 => 32768,
        8192..16384 => 65536,
        16384..32768 => 131_072,
        _ => 262_144,
    }
}

/// Four times the default, as far as that is no more than an eighth of the volume and a quarter of a million blocks.
fn roomy_journal(blocks: u64) -> u32 {
    let usual = default_journal(blocks);
    let most = u32::try_from(blocks / 8).unwrap_or(u32::MAX).min(262_144);
    usual.max(usual.saturating_mul(4).min(most))
}

impl Shape {
    pub(super) fn choose(options: &Options, size: u64) -> Result<Shape> {
        let (block_size, ratio) = defaults(size.div_ceil(MIB));
        let block_size = options.block_size.unwrap_or(block_size);
        let ratio = options.bytes_per_inode.unwrap_or(ratio);
        if ![1024, 2048, 4096].contains(&block_size) {
            return refuse(format!("block size {block_size}: 1024, 2048 and 4096 are possible"));
        }
        // Whole pages of 4 KiB, as mke2fs makes them.
        let blocks = size / 4096 * u64::from(4096 / block_size);
        if blocks > MAX_BLOCKS {
            return refuse(format!("{blocks} blocks are too many, at most {MAX_BLOCKS} are possible"));
        }
        let features = check_features(options.features, blocks)?;
        check_options(options)?;
        let journal_blocks = choose_journal(options, features, blocks, block_size)?;
        let wanted = match options.inodes {
            Some(inodes) => u64::from(inodes),
            None => blocks * u64::from(block_size) / ratio.max(u64::from(block_size)),
        };
        let wanted = wanted.clamp(u64::from(FIRST_INO) + 1, u64::from(u32::MAX)) as u32;
        let mut shape = Shape {
            features,
            block_size,
            blocks,
            asked_blocks: blocks,
            blocks_per_group: (8 * block_size).min(65528),
            groups: 0,
            inodes_per_group: 0,
            reserved_gdt: 0,
            backup_bgs: [0; 2],
            journal_blocks,
        };
        while !shape.settle(wanted)? {}
        if u64::from(journal_blocks) > shape.blocks / 2 {
            return refuse(format!("a journal of {journal_blocks} blocks takes more than half of the volume"));
        }
        Ok(shape)
    }

    /// One round of choosing; false if a number was changed that the others depend on.
    fn settle(&mut self, wanted_inodes: u32) -> Result<bool> {
        let per_group = u64::from(self.blocks_per_group);
        let groups = self.blocks.saturating_sub(u64::from(self.first_data_block())).div_ceil(per_group);
        self.groups = match u32::try_from(groups) {
            Ok(0) => return self.too_small(),
            Ok(groups) => groups,
            Err(_) => return refuse("the volume has too many groups, take larger blocks"),
        };
        if wanted_inodes.div_ceil(self.groups) > self.block_size * 8 {
            if self.blocks_per_group < 256 {
                return refuse(format!("{wanted_inodes} inodes are too many for the volume"));
            }
            self.blocks_per_group -= 8;
            self.blocks = self.asked_blocks;
            return Ok(false);
        }
        self.choose_inodes_per_group(wanted_inodes)?;
        self.reserved_gdt = self.choose_reserve();
        if self.reserved_gdt + self.desc_blocks() > self.blocks_per_group * 3 / 4
            && !self.features.incompat.contains(Incompat::META_BG)
        {
            self.features.incompat.insert(Incompat::META_BG);
            self.features.compat.remove(Compat::RESIZE_INODE);
            return Ok(false);
        }
        self.backup_bgs = self.choose_backups();
        self.check_overhead(wanted_inodes)
    }

    fn first_data_block(&self) -> u32 {
        u32::from(self.block_size == 1024)
    }

    fn desc_per_block(&self) -> u32 {
        self.block_size / if self.features.is_64bit() { 64 } else { 32 }
    }

    fn desc_blocks(&self) -> u32 {
        self.groups.div_ceil(self.desc_per_block())
    }

    fn inode_table_blocks(&self) -> u32 {
        (self.inodes_per_group * INODE_SIZE).div_ceil(self.block_size)
    }

    /// Inodes fill whole blocks of the table, and bytes of the bitmap.
    fn choose_inodes_per_group(&mut self, wanted: u32) -> Result<()> {
        let per_block = self.block_size / INODE_SIZE;
        let mut share = wanted.div_ceil(self.groups).clamp(1, 65536 - per_block);
        loop {
            let whole = share.div_ceil(per_block) * per_block;
            self.inodes_per_group = whole.max(MIN_INODES) & !7;
            if u64::from(self.inodes_per_group) * u64::from(self.groups) <= u64::from(u32::MAX) {
                return Ok(());
            }
            if self.inodes_per_group <= MIN_INODES {
                return refuse("the volume has too many groups for inodes of 32 bits, take larger blocks");
            }
            share -= 1;
        }
    }

    /// Reserved descriptor blocks: for growth to 1024 times the size, or to 2^32 blocks.
    fn choose_reserve(&self) -> u32 {
        if !self.features.compat.contains(Compat::RESIZE_INODE) {
            return 0;
        }
        let max_blocks = self.blocks.saturating_mul(1024).min(u64::from(u32::MAX));
        let groups = (max_blocks - u64::from(self.first_data_block())).div_ceil(u64::from(self.blocks_per_group));
        let blocks = groups.div_ceil(u64::from(self.desc_per_block())) as u32;
        blocks.saturating_sub(self.desc_blocks()).min(self.block_size / 4)
    }

    /// Groups with copies, with sparse_super2: the second and the last.
    fn choose_backups(&self) -> [u32; 2] {
        if !self.features.compat.contains(Compat::SPARSE_SUPER2) || self.groups < 2 {
            return [0, 0];
        }
        let last = self.groups - 1;
        if last == 1 { [1, 0] } else { [1, last] }
    }

    /// Whether metadata fits into every group; a last group in which it does not is dropped.
    fn check_overhead(&mut self, wanted_inodes: u32) -> Result<bool> {
        let own = 2 + self.inode_table_blocks();
        let meta_bg = self.features.incompat.contains(Incompat::META_BG);
        let front = 1 + self.reserved_gdt + if meta_bg { 1 } else { self.desc_blocks() };
        if own + front > self.blocks_per_group {
            return refuse(format!("{wanted_inodes} inodes are too many for the volume"));
        }
        let with_super = has_super(self.groups - 1, &self.features, self.backup_bgs);
        let overhead = own + if with_super { 1 + self.desc_blocks() + self.reserved_gdt } else { 0 };
        let rest = (self.blocks - u64::from(self.first_data_block())) % u64::from(self.blocks_per_group);
        if self.groups == 1 && rest != 0 && rest < u64::from(overhead) {
            return self.too_small();
        }
        if rest != 0 && rest < u64::from(overhead) + 50 {
            if self.groups == 1 {
                return self.too_small();
            }
            self.blocks -= rest;
            return Ok(false);
        }
        Ok(true)
    }

    fn too_small<T>(&self) -> Result<T> {
        refuse(format!("{} blocks of {} bytes are too few for a volume", self.blocks, self.block_size))
    }

    /// The superblock of this shape, with everything but counts of free space and the journal's copy.
    pub(super) fn superblock(&self, options: &Options) -> Result<Superblock> {
        let mut raw = RawSuperblock::empty();
        raw.set_features(self.features);
        raw.s_inodes_count.set(self.inodes_per_group * self.groups);
        raw.set_blocks_count(self.blocks);
        raw.set_r_blocks_count(self.reserved(options.reserved_share));
        raw.s_first_data_block.set(self.first_data_block());
        let log = self.block_size.trailing_zeros() - 10;
        raw.s_log_block_size.set(log);
        raw.s_log_cluster_size.set(log);
        raw.s_blocks_per_group.set(self.blocks_per_group);
        raw.s_clusters_per_group.set(self.blocks_per_group);
        raw.s_inodes_per_group.set(self.inodes_per_group);
        raw.s_max_mnt_count.set(u16::MAX);
        raw.s_state.set(superblock::STATE_VALID);
        raw.s_errors.set(superblock::ERRORS_CONTINUE);
        raw.s_rev_level.set(1);
        raw.s_first_ino.set(FIRST_INO);
        raw.s_inode_size.set(INODE_SIZE as u16);
        raw.s_reserved_gdt_blocks.set(self.reserved_gdt as u16);
        raw.s_desc_size.set(if self.features.is_64bit() { 64 } else { 0 });
        raw.s_default_mount_opts.set(superblock::DEFM_XATTR_USER | superblock::DEFM_ACL);
        raw.s_flags.set(superblock::FLAG_SIGNED_HASH);
        raw.s_def_hash_version = crate::hash::HashVersion::HalfMd4 as u8;
        if self.features.ro_compat.contains(RoCompat::EXTRA_ISIZE) {
            raw.s_min_extra_isize.set(EXTRA_ISIZE);
            raw.s_want_extra_isize.set(EXTRA_ISIZE);
        }
        if self.features.incompat.contains(Incompat::FLEX_BG) {
            raw.s_log_groups_per_flex = LOG_FLEX;
        }
        raw.s_backup_bgs = self.backup_bgs.map(U32::new);
        self.identify(options, &mut raw);
        raw.seal();
        Superblock::from_raw(raw, u64::MAX)
    }

    /// Blocks only root may use: a share of what was asked for, cut with the volume.
    fn reserved(&self, share: u16) -> u64 {
        let (asked, blocks) = (u128::from(self.asked_blocks), u128::from(self.blocks));
        (asked * u128::from(share) / 10_000 * blocks / asked.max(1)) as u64
    }

    /// Label, UUID, seeds, times and the inodes of journal and orphan file.
    fn identify(&self, options: &Options, raw: &mut RawSuperblock) {
        raw.s_uuid = options.uuid;
        raw.s_volume_name[..options.label.len()].copy_from_slice(&options.label);
        for (word, bytes) in raw.s_hash_seed.iter_mut().zip(options.hash_seed.chunks_exact(4)) {
            *word = U32::new(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
        }
        if self.features.has_metadata_csum() {
            raw.s_checksum_type = superblock::CHECKSUM_CRC32C;
        }
        if self.features.incompat.contains(Incompat::CSUM_SEED) {
            raw.s_checksum_seed.set(crate::csum::uuid_seed(&options.uuid));
        }
        raw.set_mkfs_time(options.now);
        raw.set_wtime(options.now);
        raw.set_lastcheck(options.now);
        if self.features.compat.contains(Compat::HAS_JOURNAL) {
            raw.s_journal_inum.set(crate::inode::JOURNAL_INO);
        }
        if self.features.compat.contains(Compat::ORPHAN_FILE) {
            raw.s_orphan_file_inum.set(super::content::ORPHAN_FILE_INO);
        }
    }
}

/// Features as they will be: what this crate cannot make is refused by name, what excludes each other too.
fn check_features(mut features: Features, blocks: u64) -> Result<Features> {
    features.require(SUPPORTED)?;
    let base = Incompat::FILETYPE | Incompat::EXTENTS;
    if !features.incompat.contains(base) {
        return refuse("a volume without extent or filetype cannot be made");
    }
    if features.has_metadata_csum() {
        features.ro_compat.remove(RoCompat::GDT_CSUM);
    } else if features.incompat.contains(Incompat::CSUM_SEED) {
        return refuse("metadata_csum_seed requires metadata_csum");
    }
    let resize = features.compat.contains(Compat::RESIZE_INODE);
    if resize && features.incompat.contains(Incompat::META_BG) {
        return refuse("resize_inode and meta_bg exclude each other");
    }
    if resize && !features.ro_compat.contains(RoCompat::SPARSE_SUPER) {
        return refuse("resize_inode requires sparse_super");
    }
    if resize && !features.ro_compat.contains(RoCompat::LARGE_FILE) {
        return refuse("resize_inode requires large_file");
    }
    if features.compat.contains(Compat::ORPHAN_FILE) && !features.compat.contains(Compat::HAS_JOURNAL) {
        return refuse("orphan_file requires has_journal");
    }
    if blocks > u64::from(u32::MAX) {
        if !features.is_64bit() {
            return refuse(format!("{blocks} blocks require 64bit"));
        }
        features.compat.remove(Compat::RESIZE_INODE);
    }
    Ok(features)
}

fn check_options(options: &Options) -> Result<()> {
    if options.label.len() > 16 {
        return refuse(format!("the label has {} bytes, at most 16 are possible", options.label.len()));
    }
    if options.reserved_share > 5000 {
        let (whole, rest) = (options.reserved_share / 100, options.reserved_share % 100);
        return refuse(format!("{whole}.{rest:02} percent reserved, at most 50 are possible"));
    }
    if let Some(bytes) = options.bytes_per_inode
        && !(1024..=1 << 26).contains(&bytes)
    {
        return refuse(format!("{bytes} bytes for each inode: 1024 to {} are possible", 1 << 26));
    }
    Ok(())
}

fn choose_journal(options: &Options, features: Features, blocks: u64, block_size: u32) -> Result<u32> {
    if !features.compat.contains(Compat::HAS_JOURNAL) {
        return Ok(0);
    }
    match options.journal_blocks {
        Some(wanted) if wanted < crate::jbd2::MIN_BLOCKS => {
            refuse(format!("a journal needs at least {} blocks, not {wanted}", crate::jbd2::MIN_BLOCKS))
        }
        Some(wanted) => Ok(wanted),
        None if blocks < JOURNAL_MIN_VOLUME => {
            let need = JOURNAL_MIN_VOLUME * u64::from(block_size) / KIB;
            refuse(format!("too small: a volume with a journal and blocks of {block_size} bytes needs {need} KiB"))
        }
        None if options.roomy_journal => Ok(roomy_journal(blocks)),
        None => Ok(default_journal(blocks)),
    }
}
