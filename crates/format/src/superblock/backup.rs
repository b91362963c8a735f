//! Copies of the superblock: where they lie, and what they must have in common with the primary one.

use super::{MAGIC, RawSuperblock, SIZE, Superblock};
use crate::feature::{Compat, Features, Incompat, RoCompat};
use zerocopy::FromBytes;

/// What is wrong with a copy of the superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupFault {
    /// Nothing could be recovered with it; says why.
    Useless(String),
    /// It would serve, but does not say the same; says what.
    Stale(String),
}

/// Features that come and go while a volume is mounted, when only the primary superblock is written.
const CHANGING: Features = Features {
    compat: Compat::EXT_ATTR.union(Compat::HAS_JOURNAL).union(Compat::ORPHAN_FILE),
    incompat: Incompat::RECOVER.union(Incompat::EXTENTS).union(Incompat::ONDOL_JOURNAL),
    ro_compat: RoCompat::LARGE_FILE.union(RoCompat::DIR_NLINK).union(RoCompat::ORPHAN_PRESENT),
};

impl Superblock {
    /// Group and first block of each copy of the superblock, the primary one not among them.
    pub fn backups(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let (groups, features) = (self.groups(), self.features());
        let mut list: Vec<u32> = if features.compat.contains(Compat::SPARSE_SUPER2) {
            self.raw().s_backup_bgs.map(|bg| bg.get()).to_vec()
        } else if features.ro_compat.contains(RoCompat::SPARSE_SUPER) {
            // One by one would take long on a large volume.
            let powers = |base: u32| std::iter::successors(Some(base), move |n| n.checked_mul(base));
            let listed = |base| powers(base).take_while(|&g| g < groups);
            [3, 5, 7].into_iter().flat_map(listed).chain([1]).collect()
        } else {
            (1..groups).collect()
        };
        list.retain(|&g| 0 < g && g < groups);
        list.sort_unstable();
        list.dedup();
        list.into_iter().map(|g| (g, self.group_first_block(g)))
    }

    /// Compares `bytes`, which lie where group `g` has its copy, with this superblock.
    ///
    /// # Errors
    /// What is wrong with the copy.
    pub fn check_backup(&self, g: u32, bytes: &[u8; SIZE]) -> Result<(), BackupFault> {
        let useless = |why: &str| Err(BackupFault::Useless(why.to_owned()));
        let Ok(copy) = RawSuperblock::read_from_bytes(bytes) else { return useless("it is too short") };
        if copy.s_magic.get() != MAGIC {
            return useless("it has no magic number");
        }
        if copy.verify().is_err() {
            return useless("its checksum is wrong");
        }
        let geometry = |raw: &RawSuperblock| {
            let (sizes, desc) = ((raw.s_log_block_size, raw.s_log_cluster_size), raw.s_desc_size);
            let counts = (raw.s_blocks_count_lo, raw.s_blocks_count_hi, raw.s_inodes_count);
            let groups = (raw.s_blocks_per_group, raw.s_clusters_per_group, raw.s_inodes_per_group);
            (sizes, desc, counts, groups, raw.s_first_data_block, raw.s_inode_size, raw.s_first_meta_bg)
        };
        if geometry(&copy) != geometry(&self.raw) {
            return useless("its geometry is another");
        }
        if u32::from(copy.s_block_group_nr.get()) != g & 0xffff {
            return Err(BackupFault::Stale(format!("it says that it lies in group {}", copy.s_block_group_nr.get())));
        }
        if copy.s_uuid != self.raw.s_uuid {
            return Err(BackupFault::Stale("its UUID is another".into()));
        }
        if lasting(copy.features()) != lasting(self.features) {
            return Err(BackupFault::Stale("its features are others".into()));
        }
        Ok(())
    }
}

/// Where copies of a lost superblock usually lie: blocks of `size` bytes, and the byte at which one begins.
pub fn usual_backups() -> impl Iterator<Item = (u32, u64)> {
    [4096, 2048, 1024].into_iter().flat_map(|size: u32| {
        let first = u64::from(size == 1024);
        [1, 3, 5, 7, 9].map(|g| (size, (u64::from(size) * 8 * g + first) * u64::from(size)))
    })
}

fn lasting(features: Features) -> Features {
    Features {
        compat: features.compat.difference(CHANGING.compat),
        incompat: features.incompat.difference(CHANGING.incompat),
        ro_compat: features.ro_compat.difference(CHANGING.ro_compat),
    }
}
