//! Block group descriptors of 32 and 64 bytes, and their checksums.
#![deny(clippy::arithmetic_side_effects, reason = "it computes with what an image says")]

use crate::csum::{crc16, crc32c};
use crate::error::{FormatError, Place, Result};
use crate::superblock::Superblock;
use std::mem::offset_of;
use std::ops::Range;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// bg_flags: the inode bitmap is not written; every inode of the group is free.
pub const INODE_UNINIT: u16 = 1;
/// bg_flags: the block bitmap is not written; only metadata lies in the group.
pub const BLOCK_UNINIT: u16 = 2;
/// bg_flags: the inode table past itable_unused is zeros, not garbage.
pub const INODE_ZEROED: u16 = 4;

/// `struct ext4_group_desc`. A 32-byte descriptor is its first half. Field names are the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawGroupDesc {
    /// Block of the block bitmap, low half.
    pub bg_block_bitmap_lo: U32,
    /// Block of the inode bitmap, low half.
    pub bg_inode_bitmap_lo: U32,
    /// First block of the inode table, low half.
    pub bg_inode_table_lo: U32,
    /// Free blocks (clusters), low half.
    pub bg_free_blocks_count_lo: U16,
    /// Free inodes, low half.
    pub bg_free_inodes_count_lo: U16,
    /// Directories, low half.
    pub bg_used_dirs_count_lo: U16,
    /// INODE_UNINIT, BLOCK_UNINIT, INODE_ZEROED.
    pub bg_flags: U16,
    /// Snapshot exclude bitmap, low half; unused.
    pub bg_exclude_bitmap_lo: U32,
    /// Checksum of the block bitmap, low half.
    pub bg_block_bitmap_csum_lo: U16,
    /// Checksum of the inode bitmap, low half.
    pub bg_inode_bitmap_csum_lo: U16,
    /// Inodes at the end of the table that were never used, low half.
    pub bg_itable_unused_lo: U16,
    /// Checksum of the descriptor.
    pub bg_checksum: U16,
    /// Block of the block bitmap, high half.
    pub bg_block_bitmap_hi: U32,
    /// Block of the inode bitmap, high half.
    pub bg_inode_bitmap_hi: U32,
    /// First block of the inode table, high half.
    pub bg_inode_table_hi: U32,
    /// Free blocks, high half.
    pub bg_free_blocks_count_hi: U16,
    /// Free inodes, high half.
    pub bg_free_inodes_count_hi: U16,
    /// Directories, high half.
    pub bg_used_dirs_count_hi: U16,
    /// Never-used inodes, high half.
    pub bg_itable_unused_hi: U16,
    /// Snapshot exclude bitmap, high half; unused.
    pub bg_exclude_bitmap_hi: U32,
    /// Checksum of the block bitmap, high half.
    pub bg_block_bitmap_csum_hi: U16,
    /// Checksum of the inode bitmap, high half.
    pub bg_inode_bitmap_csum_hi: U16,
    /// Zero.
    pub bg_reserved: U32,
}

const CHECKSUM: usize = offset_of!(RawGroupDesc, bg_checksum);
/// Byte offset of the low half of the directory count in a descriptor.
pub const USED_DIRS_OFFSET: usize = offset_of!(RawGroupDesc, bg_used_dirs_count_lo);
/// Byte offset of the flags in a descriptor.
pub const FLAGS_OFFSET: usize = offset_of!(RawGroupDesc, bg_flags);
const _: () = {
    assert!(size_of::<RawGroupDesc>() == 64);
    assert!(CHECKSUM == 0x1e);
    assert!(offset_of!(RawGroupDesc, bg_block_bitmap_hi) == 0x20);
    assert!(offset_of!(RawGroupDesc, bg_block_bitmap_csum_hi) == 0x38);
};

/// A descriptor with its halves joined. With 32-byte descriptors the high halves are zero, and bitmap checksums keep
/// 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupDesc {
    /// Block of the block bitmap.
    pub block_bitmap: u64,
    /// Block of the inode bitmap.
    pub inode_bitmap: u64,
    /// First block of the inode table.
    pub inode_table: u64,
    /// Free blocks (clusters with bigalloc).
    pub free_blocks: u32,
    /// Free inodes.
    pub free_inodes: u32,
    /// Directories.
    pub used_dirs: u32,
    /// Inodes at the end of the table that were never used; only meaningful with checksummed descriptors.
    pub itable_unused: u32,
    /// INODE_UNINIT, BLOCK_UNINIT, INODE_ZEROED; only meaningful with checksummed descriptors.
    pub flags: u16,
    /// Checksum of the block bitmap.
    pub block_bitmap_csum: u32,
    /// Checksum of the inode bitmap.
    pub inode_bitmap_csum: u32,
    /// Checksum of the descriptor.
    pub checksum: u16,
}

impl GroupDesc {
    /// Reads a descriptor of 32, 64 or more bytes.
    ///
    /// # Errors
    /// Fewer than 32 bytes.
    pub fn parse(desc: &[u8]) -> Result<GroupDesc> {
        let raw = load(desc).ok_or_else(too_short)?;
        Ok(GroupDesc {
            block_bitmap: join32(raw.bg_block_bitmap_lo, raw.bg_block_bitmap_hi),
            inode_bitmap: join32(raw.bg_inode_bitmap_lo, raw.bg_inode_bitmap_hi),
            inode_table: join32(raw.bg_inode_table_lo, raw.bg_inode_table_hi),
            free_blocks: join16(raw.bg_free_blocks_count_lo, raw.bg_free_blocks_count_hi),
            free_inodes: join16(raw.bg_free_inodes_count_lo, raw.bg_free_inodes_count_hi),
            used_dirs: join16(raw.bg_used_dirs_count_lo, raw.bg_used_dirs_count_hi),
            itable_unused: join16(raw.bg_itable_unused_lo, raw.bg_itable_unused_hi),
            flags: raw.bg_flags.get(),
            block_bitmap_csum: join16(raw.bg_block_bitmap_csum_lo, raw.bg_block_bitmap_csum_hi),
            inode_bitmap_csum: join16(raw.bg_inode_bitmap_csum_lo, raw.bg_inode_bitmap_csum_hi),
            checksum: raw.bg_checksum.get(),
        })
    }

    /// Writes every field but the checksum into a descriptor, leaving bytes this crate does not know.
    ///
    /// # Errors
    /// Fewer than 32 bytes.
    pub fn write(&self, desc: &mut [u8]) -> Result<()> {
        modify(desc, |raw| {
            (raw.bg_block_bitmap_lo, raw.bg_block_bitmap_hi) = split32(self.block_bitmap);
            (raw.bg_inode_bitmap_lo, raw.bg_inode_bitmap_hi) = split32(self.inode_bitmap);
            (raw.bg_inode_table_lo, raw.bg_inode_table_hi) = split32(self.inode_table);
            (raw.bg_free_blocks_count_lo, raw.bg_free_blocks_count_hi) = split16(self.free_blocks);
            (raw.bg_free_inodes_count_lo, raw.bg_free_inodes_count_hi) = split16(self.free_inodes);
            (raw.bg_used_dirs_count_lo, raw.bg_used_dirs_count_hi) = split16(self.used_dirs);
            (raw.bg_itable_unused_lo, raw.bg_itable_unused_hi) = split16(self.itable_unused);
            (raw.bg_block_bitmap_csum_lo, raw.bg_block_bitmap_csum_hi) = split16(self.block_bitmap_csum);
            (raw.bg_inode_bitmap_csum_lo, raw.bg_inode_bitmap_csum_hi) = split16(self.inode_bitmap_csum);
            raw.bg_flags.set(self.flags);
        })
    }

    /// Checks the numbers against the geometry: bitmaps and table on the volume (without flex_bg: in the group itself)
    /// and outside the descriptors, counts within the group.
    pub fn check(&self, sb: &Superblock, g: u32) -> Result<()> {
        let table = self.inode_table..self.inode_table.saturating_add(u64::from(sb.inode_table_blocks()));
        let one = |block: u64| block..block.saturating_add(1);
        let home = sb.block_range_of_group(g);
        let base = sb.base_meta(0);
        for (what, range) in
            [("block bitmap", one(self.block_bitmap)), ("inode bitmap", one(self.inode_bitmap)), ("inode table", table)]
        {
            let flex = sb.has_incompat(crate::Incompat::FLEX_BG);
            let inside = flex || (home.contains(&range.start) && range.end <= home.end);
            let apart = range.end <= base.descriptors.start || base.descriptors.end <= range.start;
            if !sb.contains_blocks(&range) || !inside || !apart {
                return Err(bad(g, format!("{what} at block {} cannot lie there", range.start)));
            }
        }
        let inodes = sb.inodes_per_group();
        for (what, count, most) in [
            ("free blocks", self.free_blocks, sb.clusters_in_group(g)),
            ("free inodes", self.free_inodes, inodes),
            ("directories", self.used_dirs, inodes),
            ("unused inodes", self.itable_unused, inodes),
        ] {
            if count > most {
                return Err(bad(g, format!("{count} {what} exceed the {most} it can have")));
            }
        }
        Ok(())
    }

    /// The blocks of the inode table that hold none but its last `unused` inodes.
    pub fn table_end(&self, sb: &Superblock, unused: u32) -> Range<u64> {
        let used = sb.inodes_per_group().saturating_sub(unused).div_ceil(sb.inodes_per_block());
        let block = |at: u32| self.inode_table.saturating_add(at.into());
        block(used)..block(sb.inode_table_blocks())
    }

    /// The blocks of the inode table that hold no inode in use and need not be zeros yet: nobody may read them before
    /// they are. None but with checksummed descriptors.
    pub fn unwritten_table(&self, sb: &Superblock) -> Range<u64> {
        match self.flags {
            _ if DescCsum::of(sb) == DescCsum::None => 0..0,
            flags if flags & INODE_ZEROED != 0 => 0..0,
            flags if flags & INODE_UNINIT != 0 => self.table_end(sb, sb.inodes_per_group()),
            _ => self.table_end(sb, self.itable_unused),
        }
    }

    /// Whether the stored bitmap checksum `stored` is that of `computed`, as far as this descriptor size keeps it.
    pub fn bitmap_csum_matches(stored: u32, computed: u32, desc_size: u16) -> bool {
        let mask = if desc_size >= 64 { !0 } else { 0xffff };
        stored & mask == computed & mask
    }
}

fn bad(g: u32, what: String) -> FormatError {
    Place::group(g).corrupt("group descriptor", what)
}

fn too_short() -> FormatError {
    Place::NONE.corrupt("group descriptor", "fewer than 32 bytes")
}

/// Copies a descriptor, a short one with zero high halves.
fn load(desc: &[u8]) -> Option<RawGroupDesc> {
    let mut bytes = [0; 64];
    let len = if desc.len() >= 64 { 64 } else { 32 };
    bytes[..len].copy_from_slice(desc.get(..len)?);
    RawGroupDesc::read_from_bytes(&bytes).ok()
}

fn modify(desc: &mut [u8], change: impl FnOnce(&mut RawGroupDesc)) -> Result<()> {
    let mut raw = load(desc).ok_or_else(too_short)?;
    change(&mut raw);
    let len = if desc.len() >= 64 { 64 } else { 32 };
    desc[..len].copy_from_slice(&raw.as_bytes()[..len]);
    Ok(())
}

fn join32(low: U32, high: U32) -> u64 {
    u64::from(low.get()) | u64::from(high.get()) << 32
}

fn join16(low: U16, high: U16) -> u32 {
    u32::from(low.get()) | u32::from(high.get()) << 16
}

fn split32(value: u64) -> (U32, U32) {
    (U32::new(value as u32), U32::new((value >> 32) as u32))
}

fn split16(value: u32) -> (U16, U16) {
    (U16::new(value as u16), U16::new((value >> 16) as u16))
}

/// Writes the free block count alone.
pub fn put_free_blocks(desc: &mut [u8], count: u32) -> Result<()> {
    modify(desc, |raw| (raw.bg_free_blocks_count_lo, raw.bg_free_blocks_count_hi) = split16(count))
}

/// Writes the free inode count alone.
pub fn put_free_inodes(desc: &mut [u8], count: u32) -> Result<()> {
    modify(desc, |raw| (raw.bg_free_inodes_count_lo, raw.bg_free_inodes_count_hi) = split16(count))
}

/// Writes the directory count alone.
pub fn put_used_dirs(desc: &mut [u8], count: u32) -> Result<()> {
    modify(desc, |raw| (raw.bg_used_dirs_count_lo, raw.bg_used_dirs_count_hi) = split16(count))
}

/// Writes the count of never-used inodes alone.
pub fn put_itable_unused(desc: &mut [u8], count: u32) -> Result<()> {
    modify(desc, |raw| (raw.bg_itable_unused_lo, raw.bg_itable_unused_hi) = split16(count))
}

/// Writes the flags alone.
pub fn put_flags(desc: &mut [u8], flags: u16) -> Result<()> {
    modify(desc, |raw| raw.bg_flags.set(flags))
}

/// Writes the block bitmap's checksum alone.
pub fn put_block_bitmap_csum(desc: &mut [u8], csum: u32) -> Result<()> {
    modify(desc, |raw| (raw.bg_block_bitmap_csum_lo, raw.bg_block_bitmap_csum_hi) = split16(csum))
}

/// Writes the inode bitmap's checksum alone.
pub fn put_inode_bitmap_csum(desc: &mut [u8], csum: u32) -> Result<()> {
    modify(desc, |raw| (raw.bg_inode_bitmap_csum_lo, raw.bg_inode_bitmap_csum_hi) = split16(csum))
}

/// How a volume checksums its descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescCsum {
    /// Not at all.
    None,
    /// metadata_csum: the low 16 bits of crc32c, from this seed.
    Crc32c(u32),
    /// uninit_bg: crc16, seeded with this UUID.
    Crc16([u8; 16]),
}

impl DescCsum {
    /// As this volume does.
    pub fn of(sb: &Superblock) -> DescCsum {
        match sb.csum_seed() {
            Some(seed) => DescCsum::Crc32c(seed),
            None if sb.features().has_group_desc_csum() => DescCsum::Crc16(sb.raw().s_uuid),
            None => DescCsum::None,
        }
    }

    /// The checksum of descriptor `g`; `desc` is all of its bytes. None when there is none.
    pub fn compute(&self, g: u32, desc: &[u8]) -> Option<u16> {
        let head = desc.get(..CHECKSUM)?;
        let rest = desc.get(CHECKSUM + 2..)?;
        match self {
            DescCsum::None => None,
            DescCsum::Crc32c(seed) => {
                let crc = crc32c(crc32c(crc32c(*seed, &g.to_le_bytes()), head), &[0; 2]);
                Some(crc32c(crc, rest) as u16)
            }
            DescCsum::Crc16(uuid) => {
                let crc = crc16(crc16(crc16(!0, uuid), &g.to_le_bytes()), head);
                Some(crc16(crc, rest))
            }
        }
    }

    /// Writes the checksum into descriptor `g`.
    pub fn seal(&self, g: u32, desc: &mut [u8]) {
        if let Some(csum) = self.compute(g, desc) {
            desc[CHECKSUM..CHECKSUM + 2].copy_from_slice(&csum.to_le_bytes());
        }
    }

    /// Verifies the checksum of descriptor `g`.
    pub fn verify(&self, g: u32, desc: &[u8]) -> Result<()> {
        let Some(computed) = self.compute(g, desc) else { return Ok(()) };
        let stored = u16::from_le_bytes([desc[CHECKSUM], desc[CHECKSUM + 1]]);
        if stored == computed {
            return Ok(());
        }
        Err(Place::group(g).checksum("group descriptor", u32::from(stored), u32::from(computed)))
    }
}
