//! The superblock's 1024 bytes, field by field, and its checksum.

use crate::csum::crc32c;
use crate::error::{Place, Result};
use crate::feature::{Compat, Features, Incompat, RoCompat};
use crate::inode::Inode;
use crate::superblock::{MAGIC, SIZE};
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `struct ext4_super_block`, at byte 1024 of the image. Field names are the kernel's.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawSuperblock {
    /// Inodes of the volume.
    pub s_inodes_count: U32,
    /// Blocks of the volume, low half.
    pub s_blocks_count_lo: U32,
    /// Blocks reserved for root, low half.
    pub s_r_blocks_count_lo: U32,
    /// Free blocks, low half; only a hint while mounted.
    pub s_free_blocks_count_lo: U32,
    /// Free inodes; only a hint while mounted.
    pub s_free_inodes_count: U32,
    /// Block of group 0: 1 with 1 KiB blocks, else 0.
    pub s_first_data_block: U32,
    /// Block size is 1024 shifted left by this.
    pub s_log_block_size: U32,
    /// Cluster size, likewise; equals the block size without bigalloc.
    pub s_log_cluster_size: U32,
    /// Blocks in each group but the last.
    pub s_blocks_per_group: U32,
    /// Clusters in each group but the last.
    pub s_clusters_per_group: U32,
    /// Inodes in each group.
    pub s_inodes_per_group: U32,
    /// Last mount, seconds.
    pub s_mtime: U32,
    /// Last write, seconds.
    pub s_wtime: U32,
    /// Mounts since the last check.
    pub s_mnt_count: U16,
    /// Mounts after which a check is due (as a signed number; -1 for never).
    pub s_max_mnt_count: U16,
    /// 0xEF53.
    pub s_magic: U16,
    /// STATE_VALID, STATE_ERROR, STATE_ORPHAN.
    pub s_state: U16,
    /// What to do on an error: 1 continue, 2 read-only, 3 panic.
    pub s_errors: U16,
    /// Minor revision.
    pub s_minor_rev_level: U16,
    /// Last check, seconds.
    pub s_lastcheck: U32,
    /// Longest time between checks, seconds.
    pub s_checkinterval: U32,
    /// Creator: 0 Linux.
    pub s_creator_os: U32,
    /// 0 without, 1 with variable inode sizes and features.
    pub s_rev_level: U32,
    /// User who may use reserved blocks.
    pub s_def_resuid: U16,
    /// Group that may use reserved blocks.
    pub s_def_resgid: U16,
    /// First inode that is not reserved.
    pub s_first_ino: U32,
    /// Bytes of an inode.
    pub s_inode_size: U16,
    /// Group that holds this copy.
    pub s_block_group_nr: U16,
    /// Compatible features.
    pub s_feature_compat: U32,
    /// Incompatible features.
    pub s_feature_incompat: U32,
    /// Read-only compatible features.
    pub s_feature_ro_compat: U32,
    /// UUID of the volume.
    pub s_uuid: [u8; 16],
    /// Label, zero-padded.
    pub s_volume_name: [u8; 16],
    /// Directory of the last mount, zero-padded.
    pub s_last_mounted: [u8; 64],
    /// For compression; unused.
    pub s_algorithm_usage_bitmap: U32,
    /// Preallocation hint; unused.
    pub s_prealloc_blocks: u8,
    /// Preallocation hint for directories; unused.
    pub s_prealloc_dir_blocks: u8,
    /// Blocks kept behind the descriptors for growth.
    pub s_reserved_gdt_blocks: U16,
    /// UUID of an external journal.
    pub s_journal_uuid: [u8; 16],
    /// Inode of the journal.
    pub s_journal_inum: U32,
    /// Device of an external journal.
    pub s_journal_dev: U32,
    /// Head of the orphan list.
    pub s_last_orphan: U32,
    /// Seed of the directory hash.
    pub s_hash_seed: [U32; 4],
    /// Directory hash: 0 legacy, 1 half MD4, 2 TEA.
    pub s_def_hash_version: u8,
    /// 1 when s_jnl_blocks is valid.
    pub s_jnl_backup_type: u8,
    /// Bytes of a group descriptor with 64bit.
    pub s_desc_size: U16,
    /// Default mount options.
    pub s_default_mount_opts: U32,
    /// First meta group with meta_bg.
    pub s_first_meta_bg: U32,
    /// Creation, seconds.
    pub s_mkfs_time: U32,
    /// Copy of the journal inode's i_block, i_size_high and i_size.
    pub s_jnl_blocks: [U32; 17],
    /// Blocks of the volume, high half.
    pub s_blocks_count_hi: U32,
    /// Reserved blocks, high half.
    pub s_r_blocks_count_hi: U32,
    /// Free blocks, high half.
    pub s_free_blocks_count_hi: U32,
    /// i_extra_isize that every inode has.
    pub s_min_extra_isize: U16,
    /// i_extra_isize that new inodes get.
    pub s_want_extra_isize: U16,
    /// FLAG_SIGNED_HASH, FLAG_UNSIGNED_HASH, FLAG_TEST_FILESYS.
    pub s_flags: U32,
    /// Hint for RAID.
    pub s_raid_stride: U16,
    /// Seconds between MMP updates.
    pub s_mmp_interval: U16,
    /// Block of MMP.
    pub s_mmp_block: U64,
    /// Hint for RAID.
    pub s_raid_stripe_width: U32,
    /// Groups of a flex group are 1 shifted left by this.
    pub s_log_groups_per_flex: u8,
    /// 1 for crc32c.
    pub s_checksum_type: u8,
    /// Version of encryption.
    pub s_encryption_level: u8,
    /// Zero.
    pub s_reserved_pad: u8,
    /// KiB written over the life of the volume.
    pub s_kbytes_written: U64,
    /// Unused.
    pub s_snapshot_inum: U32,
    /// Unused.
    pub s_snapshot_id: U32,
    /// Unused.
    pub s_snapshot_r_blocks_count: U64,
    /// Unused.
    pub s_snapshot_list: U32,
    /// Errors seen.
    pub s_error_count: U32,
    /// First error, seconds.
    pub s_first_error_time: U32,
    /// Inode of the first error.
    pub s_first_error_ino: U32,
    /// Block of the first error.
    pub s_first_error_block: U64,
    /// Where the first error was found, zero-padded.
    pub s_first_error_func: [u8; 32],
    /// Line of the first error.
    pub s_first_error_line: U32,
    /// Latest error, seconds.
    pub s_last_error_time: U32,
    /// Inode of the latest error.
    pub s_last_error_ino: U32,
    /// Line of the latest error.
    pub s_last_error_line: U32,
    /// Block of the latest error.
    pub s_last_error_block: U64,
    /// Where the latest error was found, zero-padded.
    pub s_last_error_func: [u8; 32],
    /// Mount options as text, zero-padded.
    pub s_mount_opts: [u8; 64],
    /// User quota inode.
    pub s_usr_quota_inum: U32,
    /// Group quota inode.
    pub s_grp_quota_inum: U32,
    /// Clusters of metadata, 0 if not computed.
    pub s_overhead_clusters: U32,
    /// Groups with copies, with sparse_super2.
    pub s_backup_bgs: [U32; 2],
    /// Encryption algorithms.
    pub s_encrypt_algos: [u8; 4],
    /// Salt of encryption.
    pub s_encrypt_pw_salt: [u8; 16],
    /// lost+found.
    pub s_lpf_ino: U32,
    /// Project quota inode.
    pub s_prj_quota_inum: U32,
    /// Checksum seed with metadata_csum_seed.
    pub s_checksum_seed: U32,
    /// Last write, bits 32 to 39.
    pub s_wtime_hi: u8,
    /// Last mount, bits 32 to 39.
    pub s_mtime_hi: u8,
    /// Creation, bits 32 to 39.
    pub s_mkfs_time_hi: u8,
    /// Last check, bits 32 to 39.
    pub s_lastcheck_hi: u8,
    /// First error, bits 32 to 39.
    pub s_first_error_time_hi: u8,
    /// Latest error, bits 32 to 39.
    pub s_last_error_time_hi: u8,
    /// Code of the first error.
    pub s_first_error_errcode: u8,
    /// Code of the latest error.
    pub s_last_error_errcode: u8,
    /// Character set of file names.
    pub s_encoding: U16,
    /// Flags of the character set.
    pub s_encoding_flags: U16,
    /// Inode of the orphan file.
    pub s_orphan_file_inum: U32,
    /// Zero.
    pub s_reserved: [U32; 94],
    /// crc32c of all bytes before it.
    pub s_checksum: U32,
}

const _: () = {
    assert!(size_of::<RawSuperblock>() == SIZE);
    assert!(offset_of!(RawSuperblock, s_magic) == 0x38);
    assert!(offset_of!(RawSuperblock, s_feature_compat) == 0x5c);
    assert!(offset_of!(RawSuperblock, s_journal_uuid) == 0xd0);
    assert!(offset_of!(RawSuperblock, s_last_orphan) == 0xe8);
    assert!(offset_of!(RawSuperblock, s_blocks_count_hi) == 0x150);
    assert!(offset_of!(RawSuperblock, s_kbytes_written) == 0x178);
    assert!(offset_of!(RawSuperblock, s_mount_opts) == 0x200);
    assert!(offset_of!(RawSuperblock, s_backup_bgs) == 0x24c);
    assert!(offset_of!(RawSuperblock, s_checksum_seed) == 0x270);
    assert!(offset_of!(RawSuperblock, s_orphan_file_inum) == 0x280);
    assert!(offset_of!(RawSuperblock, s_checksum) == 0x3fc);
};

impl RawSuperblock {
    /// All bytes zero but the magic number.
    pub fn empty() -> RawSuperblock {
        let mut raw = RawSuperblock::new_zeroed();
        raw.s_magic.set(MAGIC);
        raw
    }

    /// The three feature sets.
    pub fn features(&self) -> Features {
        Features {
            compat: Compat::from_bits_retain(self.s_feature_compat.get()),
            incompat: Incompat::from_bits_retain(self.s_feature_incompat.get()),
            ro_compat: RoCompat::from_bits_retain(self.s_feature_ro_compat.get()),
        }
    }

    /// Sets the three feature sets.
    pub fn set_features(&mut self, features: Features) {
        self.s_feature_compat.set(features.compat.bits());
        self.s_feature_incompat.set(features.incompat.bits());
        self.s_feature_ro_compat.set(features.ro_compat.bits());
    }

    /// A count whose upper half only counts with 64bit.
    pub(super) fn wide(&self, low: U32, high: U32) -> u64 {
        u64::from(low.get()) | if self.features().is_64bit() { u64::from(high.get()) << 32 } else { 0 }
    }

    /// Sets both halves of the free block count.
    pub fn set_free_blocks_count(&mut self, blocks: u64) {
        (self.s_free_blocks_count_lo, self.s_free_blocks_count_hi) = halves(blocks);
    }

    /// Sets both halves of the reserved block count.
    pub fn set_r_blocks_count(&mut self, blocks: u64) {
        (self.s_r_blocks_count_lo, self.s_r_blocks_count_hi) = halves(blocks);
    }

    /// Sets both halves of the block count.
    pub fn set_blocks_count(&mut self, blocks: u64) {
        (self.s_blocks_count_lo, self.s_blocks_count_hi) = halves(blocks);
    }

    /// Sets the time of the last write, seconds.
    pub fn set_wtime(&mut self, seconds: i64) {
        (self.s_wtime, self.s_wtime_hi) = split_time(seconds);
    }

    /// Sets the time of the last mount, seconds.
    pub fn set_mtime(&mut self, seconds: i64) {
        (self.s_mtime, self.s_mtime_hi) = split_time(seconds);
    }

    /// Sets the time of the last check, seconds.
    pub fn set_lastcheck(&mut self, seconds: i64) {
        (self.s_lastcheck, self.s_lastcheck_hi) = split_time(seconds);
    }

    /// Time of creation, seconds.
    pub fn mkfs_time(&self) -> i64 {
        i64::from(self.s_mkfs_time.get()) | i64::from(self.s_mkfs_time_hi) << 32
    }

    /// Sets the time of creation, seconds.
    pub fn set_mkfs_time(&mut self, seconds: i64) {
        (self.s_mkfs_time, self.s_mkfs_time_hi) = split_time(seconds);
    }

    /// Sets the time of the first error, seconds.
    pub fn set_first_error_time(&mut self, seconds: i64) {
        (self.s_first_error_time, self.s_first_error_time_hi) = split_time(seconds);
    }

    /// Sets the time of the latest error, seconds.
    pub fn set_last_error_time(&mut self, seconds: i64) {
        (self.s_last_error_time, self.s_last_error_time_hi) = split_time(seconds);
    }

    /// Label, without its zero padding; not necessarily UTF-8.
    pub fn volume_name(&self) -> &[u8] {
        until_nul(&self.s_volume_name)
    }

    /// Default mount options written as text (`tune2fs -E mount_opts`).
    pub fn mount_opts(&self) -> &[u8] {
        until_nul(&self.s_mount_opts)
    }

    /// Copy of the journal inode's i_block[0..15], i_size_high, i_size; None if there is none.
    pub fn jnl_blocks(&self) -> Option<[u32; 17]> {
        (self.s_jnl_backup_type == super::JNL_BACKUP_BLOCKS).then(|| self.s_jnl_blocks.map(|word| word.get()))
    }

    /// Copies what leads to the journal's contents from its inode.
    pub fn set_jnl_blocks(&mut self, journal: &Inode) {
        self.s_jnl_backup_type = super::JNL_BACKUP_BLOCKS;
        let size = [(journal.size >> 32) as u32, journal.size as u32];
        let words = (0..15).map(|i| journal.block_word(i)).chain(size);
        for (field, word) in self.s_jnl_blocks.iter_mut().zip(words) {
            field.set(word);
        }
    }

    /// Clears the history of errors.
    pub fn forget_errors(&mut self) {
        (self.s_error_count, self.s_first_error_ino, self.s_last_error_ino) = Default::default();
        (self.s_first_error_block, self.s_last_error_block) = Default::default();
        (self.s_first_error_func, self.s_last_error_func) = Default::default();
        (self.s_first_error_line, self.s_last_error_line) = Default::default();
        (self.s_first_error_time, self.s_first_error_time_hi, self.s_first_error_errcode) = Default::default();
        (self.s_last_error_time, self.s_last_error_time_hi, self.s_last_error_errcode) = Default::default();
    }

    /// The checksum of these bytes; unlike every other it is seeded with ~0, not with the volume's seed.
    pub fn checksum(&self) -> u32 {
        crc32c(!0, &self.as_bytes()[..offset_of!(RawSuperblock, s_checksum)])
    }

    /// Writes the checksum if the volume has metadata_csum.
    pub fn seal(&mut self) {
        if self.features().has_metadata_csum() {
            self.s_checksum.set(self.checksum());
        }
    }

    /// Verifies the checksum if the volume has metadata_csum.
    pub fn verify(&self) -> Result<()> {
        if !self.features().has_metadata_csum() || self.s_checksum.get() == self.checksum() {
            return Ok(());
        }
        Err(Place::NONE.checksum("superblock", self.s_checksum.get(), self.checksum()))
    }
}

/// Low and high half of a 64-bit count.
fn halves(value: u64) -> (U32, U32) {
    (U32::new(value as u32), U32::new((value >> 32) as u32))
}

/// Low 32 bits and bits 32 to 39 of a time.
fn split_time(seconds: i64) -> (U32, u8) {
    let seconds = seconds.clamp(0, (1 << 40) - 1);
    (U32::new(seconds as u32), (seconds >> 32) as u8)
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}
