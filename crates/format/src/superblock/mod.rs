//! The superblock: its bytes ([`RawSuperblock`]), and the checked geometry everything else is computed from
//! ([`Superblock`]).

mod backup;
mod check;
mod gdt;
mod geometry;
mod journal_dev;
mod noted;
mod raw;

pub use backup::{BackupFault, usual_backups};
pub use gdt::Gdt;
pub use geometry::BaseMeta;
pub(crate) use geometry::has_super;
pub use journal_dev::JournalDevice;
pub use noted::{ERRCODE_CORRUPTED, ERRCODE_UNKNOWN, FoundError};
pub use raw::RawSuperblock;

use crate::error::{FormatError, Place, Result};
use crate::feature::{Compat, Features, Incompat, RoCompat};
use crate::hash::{DxHash, HashVersion};
use crate::inode::InodeFormat;
use zerocopy::FromBytes;

/// Byte offset of the primary superblock on the image.
pub const OFFSET: u64 = 1024;
/// Bytes of a superblock.
pub const SIZE: usize = 1024;
/// s_magic.
pub const MAGIC: u16 = 0xef53;
/// s_state: cleanly unmounted.
pub const STATE_VALID: u16 = 1;
/// s_state: errors were detected.
pub const STATE_ERROR: u16 = 2;
/// s_state: orphans are being recovered.
pub const STATE_ORPHAN: u16 = 4;
/// s_flags: directory hashes take characters as signed.
pub const FLAG_SIGNED_HASH: u32 = 1;
/// s_flags: directory hashes take characters as unsigned.
pub const FLAG_UNSIGNED_HASH: u32 = 2;
/// s_flags: for development code.
pub const FLAG_TEST_FILESYS: u32 = 4;
/// s_errors: go on.
pub const ERRORS_CONTINUE: u16 = 1;
/// s_errors: remount read-only.
pub const ERRORS_RO: u16 = 2;
/// s_errors: panic.
pub const ERRORS_PANIC: u16 = 3;
/// s_default_mount_opts: new inodes get the group of their directory.
pub const DEFM_BSDGROUPS: u32 = 0x2;
/// s_default_mount_opts: user xattrs.
pub const DEFM_XATTR_USER: u32 = 0x4;
/// s_default_mount_opts: POSIX ACLs.
pub const DEFM_ACL: u32 = 0x8;
/// s_default_mount_opts: freed blocks are discarded.
pub const DEFM_DISCARD: u32 = 0x400;
/// s_default_mount_opts: the bits of the data mode.
pub const DEFM_JMODE: u32 = 0x60;
/// s_default_mount_opts: data=journal.
pub const DEFM_JMODE_DATA: u32 = 0x20;
/// s_default_mount_opts: data=ordered.
pub const DEFM_JMODE_ORDERED: u32 = 0x40;
/// s_default_mount_opts: data=writeback.
pub const DEFM_JMODE_WBACK: u32 = 0x60;
/// s_jnl_backup_type: s_jnl_blocks holds the journal inode's blocks.
pub const JNL_BACKUP_BLOCKS: u8 = 1;
/// s_creator_os: Linux.
pub const OS_LINUX: u32 = 0;
/// s_checksum_type: crc32c, the only one.
pub const CHECKSUM_CRC32C: u8 = 1;

/// A superblock whose geometry has been checked against itself and against the size of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    raw: RawSuperblock,
    features: Features,
    geometry: geometry::Geometry,
    csum_seed: Option<u32>,
}

impl Superblock {
    /// Reads and checks a superblock. The checksum is verified first, so that a torn superblock is named as such.
    ///
    /// Features are not judged here beyond what the geometry needs: see [`Features::require_incompat`].
    ///
    /// # Errors
    /// Wrong magic, wrong checksum, or any number that contradicts another or `image_size` (bytes).
    pub fn parse(bytes: &[u8; SIZE], image_size: u64) -> Result<Superblock> {
        let raw = RawSuperblock::read_from_bytes(bytes).map_err(|_| Place::NONE.corrupt("superblock", "too short"))?;
        Superblock::from_raw(raw, image_size)
    }

    /// As [`Superblock::parse`], from the typed bytes.
    pub fn from_raw(raw: RawSuperblock, image_size: u64) -> Result<Superblock> {
        if raw.s_magic.get() != MAGIC {
            let found = u32::from(raw.s_magic.get());
            return Err(FormatError::BadMagic { what: "ext4 superblock", found, expected: u32::from(MAGIC) });
        }
        let features = raw.features();
        if features.incompat.contains(Incompat::JOURNAL_DEV) {
            return Err(FormatError::Unsupported { what: "image", names: vec!["journal_dev".into()] });
        }
        if features.has_metadata_csum() && raw.s_checksum_type != CHECKSUM_CRC32C {
            let what = format!("checksum type {} is not crc32c", raw.s_checksum_type);
            return Err(Place::NONE.corrupt("superblock", what));
        }
        raw.verify()?;
        let geometry = geometry::Geometry::check(&raw, features, image_size)?;
        let csum_seed = features.has_metadata_csum().then(|| {
            if features.incompat.contains(Incompat::CSUM_SEED) {
                raw.s_checksum_seed.get()
            } else {
                crate::csum::uuid_seed(&raw.s_uuid)
            }
        });
        Ok(Superblock { raw, features, geometry, csum_seed })
    }

    /// The bytes this was read from.
    pub fn raw(&self) -> &RawSuperblock {
        &self.raw
    }

    /// The three feature sets.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Whether all of `bits` are set.
    pub fn has_compat(&self, bits: Compat) -> bool {
        self.features.compat.contains(bits)
    }

    /// Whether all of `bits` are set.
    pub fn has_incompat(&self, bits: Incompat) -> bool {
        self.features.incompat.contains(bits)
    }

    /// Whether all of `bits` are set.
    pub fn has_ro_compat(&self, bits: RoCompat) -> bool {
        self.features.ro_compat.contains(bits)
    }

    /// Seed of all metadata checksums; None without metadata_csum.
    pub fn csum_seed(&self) -> Option<u32> {
        self.csum_seed
    }

    /// Seed of the hashes of xattr values that lie in inodes: that of the checksums, also on a volume without any.
    pub fn value_seed(&self) -> u32 {
        match self.has_incompat(Incompat::CSUM_SEED) {
            true => self.raw.s_checksum_seed.get(),
            false => crate::csum::uuid_seed(&self.raw.s_uuid),
        }
    }

    /// Seed of what belongs to one inode (its directory and extent blocks); None without metadata_csum.
    pub fn inode_seed(&self, ino: u32, generation: u32) -> Option<u32> {
        self.csum_seed.map(|seed| crate::csum::inode_seed(seed, ino, generation))
    }

    /// The generation with which blocks of inode `ino` have the checksums that those of `other` with `generation` have;
    /// any does where there are none.
    pub fn generation_like(&self, ino: u32, other: u32, generation: u32) -> Option<u32> {
        self.csum_seed.map(|seed| crate::csum::generation_like(seed, ino, other, generation))
    }

    /// What reading and writing an inode of this volume needs to know.
    pub fn inode_format(&self) -> InodeFormat {
        InodeFormat {
            inode_size: self.inode_size(),
            block_size: self.block_size(),
            huge_file: self.has_ro_compat(RoCompat::HUGE_FILE),
            bit64: self.has_incompat(Incompat::BIT64),
            large_dir: self.has_incompat(Incompat::LARGEDIR),
            csum_seed: self.csum_seed,
        }
    }

    /// The directory hash of new directories, with signedness and seed; the signedness is the image's, never the
    /// processor's. An unknown version reads as half MD4.
    pub fn dx_hash(&self) -> DxHash {
        let version = HashVersion::from_disk(self.raw.s_def_hash_version).unwrap_or(HashVersion::HalfMd4);
        self.dx_hash_of(version)
    }

    /// The hash of a directory whose root says `version`. Where nothing says whether characters are signed, they are
    /// not, as for Linux from 6.2 on.
    pub fn dx_hash_of(&self, version: HashVersion) -> DxHash {
        let flags = self.raw.s_flags.get();
        let unsigned = flags & FLAG_UNSIGNED_HASH != 0 || flags & FLAG_SIGNED_HASH == 0;
        DxHash { version, unsigned, seed: self.raw.s_hash_seed.map(|word| word.get()) }
    }

    /// Free blocks as the superblock has them, never more than there are: a hint, the descriptors know.
    pub fn free_blocks_count(&self) -> u64 {
        let free = self.raw.wide(self.raw.s_free_blocks_count_lo, self.raw.s_free_blocks_count_hi);
        free.min(self.blocks_count())
    }

    /// Free inodes as the superblock has them, never more than there are: a hint, the descriptors know.
    pub fn free_inodes_count(&self) -> u32 {
        self.raw.s_free_inodes_count.get().min(self.inodes_count())
    }

    /// Blocks only root and the reserved user and group may use.
    pub fn r_blocks_count(&self) -> u64 {
        self.raw.wide(self.raw.s_r_blocks_count_lo, self.raw.s_r_blocks_count_hi).min(self.blocks_count())
    }

    /// Inode of the journal; None without has_journal or with an external one.
    pub fn journal_inum(&self) -> Option<u32> {
        let inum = self.raw.s_journal_inum.get();
        (self.has_compat(Compat::HAS_JOURNAL) && inum != 0).then_some(inum)
    }

    /// Inode of the orphan file; None without orphan_file.
    pub fn orphan_file_inum(&self) -> Option<u32> {
        let inum = self.raw.s_orphan_file_inum.get();
        (self.has_compat(Compat::ORPHAN_FILE) && inum != 0).then_some(inum)
    }

    /// Whether a name may lead to this inode, and a number by itself: the root, and those that are neither reserved nor
    /// quotas or orphan file. A journal may have a name: `tune2fs -j` makes one in a mounted ext2, as a file.
    pub fn may_be_named(&self, ino: u32) -> bool {
        let raw = &self.raw;
        let own = [raw.s_usr_quota_inum, raw.s_grp_quota_inum, raw.s_prj_quota_inum, raw.s_orphan_file_inum];
        let ordinary = (self.first_ino()..=self.inodes_count()).contains(&ino);
        ino == crate::inode::ROOT_INO || (ordinary && own.iter().all(|own| own.get() != ino))
    }

    /// The block of multiple mount protection; None without mmp.
    pub fn mmp_block(&self) -> Option<u64> {
        self.has_incompat(Incompat::MMP).then(|| self.raw.s_mmp_block.get())
    }

    /// UUID of the journal's device; None without has_journal or with an internal journal.
    pub fn journal_device_uuid(&self) -> Option<&[u8; 16]> {
        let external = self.has_compat(Compat::HAS_JOURNAL) && self.raw.s_journal_inum.get() == 0;
        external.then_some(&self.raw.s_journal_uuid)
    }

    /// i_extra_isize for new and changed inodes: what the volume wants and what this crate writes, cut to the inode's
    /// room.
    pub fn want_extra_isize(&self) -> u16 {
        let room = self.inode_size().saturating_sub(128);
        let want = self.raw.s_want_extra_isize.get().max(crate::inode::EXTRA_ISIZE).min(room);
        // No inode may have another.
        want - want % 4
    }
}
