//! The three feature sets of a superblock, with the names mke2fs gives them.

use crate::error::{FormatError, Result};
use bitflags::bitflags;

bitflags! {
    /// Features a program may ignore: reading and writing stay safe.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Compat: u32 {
        /// `dir_prealloc`.
        const DIR_PREALLOC = 0x1;
        /// `imagic_inodes`.
        const IMAGIC_INODES = 0x2;
        /// `has_journal`.
        const HAS_JOURNAL = 0x4;
        /// `ext_attr`.
        const EXT_ATTR = 0x8;
        /// `resize_inode`: reserved blocks for more group descriptors.
        const RESIZE_INODE = 0x10;
        /// `dir_index`: htree directories.
        const DIR_INDEX = 0x20;
        /// `lazy_bg`.
        const LAZY_BG = 0x40;
        /// `snapshot_bitmap` (never in mainline).
        const EXCLUDE_BITMAP = 0x100;
        /// `sparse_super2`: backups in at most two groups.
        const SPARSE_SUPER2 = 0x200;
        /// `fast_commit`: the journal has a fast-commit area.
        const FAST_COMMIT = 0x400;
        /// `stable_inodes`.
        const STABLE_INODES = 0x800;
        /// `orphan_file`: the orphan list lives in a file.
        const ORPHAN_FILE = 0x1000;
        const _ = !0;
    }
}

bitflags! {
    /// Features without whose knowledge an image must not even be read.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Incompat: u32 {
        /// `compression` (never in mainline).
        const COMPRESSION = 0x1;
        /// `filetype`: directory entries carry the file type.
        const FILETYPE = 0x2;
        /// `needs_recovery`: the journal holds transactions to replay.
        const RECOVER = 0x4;
        /// `journal_dev`: this is an external journal.
        const JOURNAL_DEV = 0x8;
        /// `meta_bg`: group descriptors spread over meta groups.
        const META_BG = 0x10;
        /// `extent`.
        const EXTENTS = 0x40;
        /// `64bit`: 64-bit block numbers.
        const BIT64 = 0x80;
        /// `mmp`: multiple mount protection.
        const MMP = 0x100;
        /// `flex_bg`: bitmaps and inode tables may lie outside their group.
        const FLEX_BG = 0x200;
        /// `ea_inode`: large xattr values in inodes.
        const EA_INODE = 0x400;
        /// `dirdata`.
        const DIRDATA = 0x1000;
        /// `metadata_csum_seed`: the seed is stored.
        const CSUM_SEED = 0x2000;
        /// `large_dir`: htrees of three levels.
        const LARGEDIR = 0x4000;
        /// `inline_data`.
        const INLINE_DATA = 0x8000;
        /// `encrypt`.
        const ENCRYPT = 0x10000;
        /// `casefold`.
        const CASEFOLD = 0x20000;
        /// `ondol_journal`: the journal may hold what only Ondol can replay. Nobody else knows this.
        const ONDOL_JOURNAL = 0x4000_0000;
        const _ = !0;
    }
}

bitflags! {
    /// Features without whose knowledge an image may be read but not written.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct RoCompat: u32 {
        /// `sparse_super`: superblock copies in groups 0, 1 and powers of 3, 5, 7.
        const SPARSE_SUPER = 0x1;
        /// `large_file`: files of 2 GiB and more.
        const LARGE_FILE = 0x2;
        /// `btree_dir` (unused).
        const BTREE_DIR = 0x4;
        /// `huge_file`: i_blocks may count file system blocks.
        const HUGE_FILE = 0x8;
        /// `uninit_bg`: crc16 of descriptors, uninitialised groups.
        const GDT_CSUM = 0x10;
        /// `dir_nlink`: more than 65,000 subdirectories.
        const DIR_NLINK = 0x20;
        /// `extra_isize`.
        const EXTRA_ISIZE = 0x40;
        /// `snapshot` (never in mainline).
        const HAS_SNAPSHOT = 0x80;
        /// `quota`: quota inodes.
        const QUOTA = 0x100;
        /// `bigalloc`: allocation in clusters.
        const BIGALLOC = 0x200;
        /// `metadata_csum`.
        const METADATA_CSUM = 0x400;
        /// `replica` (unused).
        const REPLICA = 0x800;
        /// `read-only`.
        const READONLY = 0x1000;
        /// `project`: project quota.
        const PROJECT = 0x2000;
        /// `shared_blocks`.
        const SHARED_BLOCKS = 0x4000;
        /// `verity`.
        const VERITY = 0x8000;
        /// `orphan_present`: the orphan file may hold orphans.
        const ORPHAN_PRESENT = 0x10000;
        const _ = !0;
    }
}

/// Name and bit of each compatible feature, as mke2fs and dumpe2fs write them.
pub const COMPAT_NAMES: &[(&str, Compat)] = &[
    ("dir_prealloc", Compat::DIR_PREALLOC),
    ("imagic_inodes", Compat::IMAGIC_INODES),
    ("has_journal", Compat::HAS_JOURNAL),
    ("ext_attr", Compat::EXT_ATTR),
    ("resize_inode", Compat::RESIZE_INODE),
    ("dir_index", Compat::DIR_INDEX),
    ("lazy_bg", Compat::LAZY_BG),
    ("snapshot_bitmap", Compat::EXCLUDE_BITMAP),
    ("sparse_super2", Compat::SPARSE_SUPER2),
    ("fast_commit", Compat::FAST_COMMIT),
    ("stable_inodes", Compat::STABLE_INODES),
    ("orphan_file", Compat::ORPHAN_FILE),
];

/// Name and bit of each incompatible feature.
pub const INCOMPAT_NAMES: &[(&str, Incompat)] = &[
    ("compression", Incompat::COMPRESSION),
    ("filetype", Incompat::FILETYPE),
    ("needs_recovery", Incompat::RECOVER),
    ("journal_dev", Incompat::JOURNAL_DEV),
    ("meta_bg", Incompat::META_BG),
    ("extent", Incompat::EXTENTS),
    ("64bit", Incompat::BIT64),
    ("mmp", Incompat::MMP),
    ("flex_bg", Incompat::FLEX_BG),
    ("ea_inode", Incompat::EA_INODE),
    ("dirdata", Incompat::DIRDATA),
    ("metadata_csum_seed", Incompat::CSUM_SEED),
    ("large_dir", Incompat::LARGEDIR),
    ("inline_data", Incompat::INLINE_DATA),
    ("encrypt", Incompat::ENCRYPT),
    ("casefold", Incompat::CASEFOLD),
    ("ondol_journal", Incompat::ONDOL_JOURNAL),
];

/// Name and bit of each read-only compatible feature.
pub const RO_COMPAT_NAMES: &[(&str, RoCompat)] = &[
    ("sparse_super", RoCompat::SPARSE_SUPER),
    ("large_file", RoCompat::LARGE_FILE),
    ("btree_dir", RoCompat::BTREE_DIR),
    ("huge_file", RoCompat::HUGE_FILE),
    ("uninit_bg", RoCompat::GDT_CSUM),
    ("dir_nlink", RoCompat::DIR_NLINK),
    ("extra_isize", RoCompat::EXTRA_ISIZE),
    ("snapshot", RoCompat::HAS_SNAPSHOT),
    ("quota", RoCompat::QUOTA),
    ("bigalloc", RoCompat::BIGALLOC),
    ("metadata_csum", RoCompat::METADATA_CSUM),
    ("replica", RoCompat::REPLICA),
    ("read-only", RoCompat::READONLY),
    ("project", RoCompat::PROJECT),
    ("shared_blocks", RoCompat::SHARED_BLOCKS),
    ("verity", RoCompat::VERITY),
    ("orphan_present", RoCompat::ORPHAN_PRESENT),
];

/// Spellings mke2fs also takes, with the name it writes.
const ALIASES: &[(&str, &str)] = &[
    ("extents", "extent"),
    ("gdt_csum", "uninit_bg"),
    ("64_bit", "64bit"),
    ("ext_attrs", "ext_attr"),
    ("has_snapshot", "snapshot"),
];

/// The three feature sets together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Features {
    /// s_feature_compat.
    pub compat: Compat,
    /// s_feature_incompat.
    pub incompat: Incompat,
    /// s_feature_ro_compat.
    pub ro_compat: RoCompat,
}

impl Features {
    /// mke2fs 1.47's default ext4 set as its authors ship it: with `orphan_file` and `metadata_csum_seed`.
    pub const UPSTREAM: Features = Features {
        compat: Compat::HAS_JOURNAL
            .union(Compat::EXT_ATTR)
            .union(Compat::RESIZE_INODE)
            .union(Compat::DIR_INDEX)
            .union(Compat::ORPHAN_FILE),
        incompat: Incompat::FILETYPE
            .union(Incompat::EXTENTS)
            .union(Incompat::BIT64)
            .union(Incompat::FLEX_BG)
            .union(Incompat::CSUM_SEED),
        ro_compat: RoCompat::SPARSE_SUPER
            .union(RoCompat::LARGE_FILE)
            .union(RoCompat::HUGE_FILE)
            .union(RoCompat::DIR_NLINK)
            .union(RoCompat::EXTRA_ISIZE)
            .union(RoCompat::METADATA_CSUM),
    };

    /// The names of all set bits, compatible first, as `dumpe2fs` lists them.
    pub fn names(&self) -> Vec<String> {
        let mut names = named(self.compat.bits(), COMPAT_NAMES, Compat::bits, 'C');
        names.extend(named(self.incompat.bits(), INCOMPAT_NAMES, Incompat::bits, 'I'));
        names.extend(named(self.ro_compat.bits(), RO_COMPAT_NAMES, RoCompat::bits, 'R'));
        names
    }

    /// Refuses with their names incompatible features that are not in `known`.
    pub fn require_incompat(&self, known: Incompat) -> Result<()> {
        let unknown = self.incompat.bits() & !known.bits();
        refuse("incompatible features", named(unknown, INCOMPAT_NAMES, Incompat::bits, 'I'))
    }

    /// Refuses with their names read-only compatible features that are not in `known`: do not write then.
    pub fn require_ro_compat(&self, known: RoCompat) -> Result<()> {
        let unknown = self.ro_compat.bits() & !known.bits();
        refuse("features for writing", named(unknown, RO_COMPAT_NAMES, RoCompat::bits, 'R'))
    }

    /// Refuses with their names features of any set that are not in `known`.
    pub fn require(&self, known: Features) -> Result<()> {
        let rest = Features {
            compat: Compat::from_bits_retain(self.compat.bits() & !known.compat.bits()),
            incompat: Incompat::from_bits_retain(self.incompat.bits() & !known.incompat.bits()),
            ro_compat: RoCompat::from_bits_retain(self.ro_compat.bits() & !known.ro_compat.bits()),
        };
        refuse("features", rest.names())
    }

    /// Applies a `-O` list: names separated by commas or blanks, `^` or `-` before a name removes it, `none` clears.
    ///
    /// # Errors
    /// [`FormatError::Parameter`] for a name that does not exist.
    pub fn apply(mut self, list: &str) -> Result<Features> {
        for word in list.split([',', ' ', '\t']).filter(|word| !word.is_empty()) {
            if word == "none" {
                self = Features::default();
                continue;
            }
            let (name, on) = match word.strip_prefix(['^', '-']) {
                Some(name) => (name, false),
                None => (word.strip_prefix('+').unwrap_or(word), true),
            };
            self.switch(name, on)?;
        }
        Ok(self)
    }

    fn switch(&mut self, name: &str, on: bool) -> Result<()> {
        let lower = name.to_ascii_lowercase();
        let name = ALIASES.iter().find(|(alias, _)| *alias == lower).map_or(lower.as_str(), |(_, name)| name);
        if let Some((_, bit)) = COMPAT_NAMES.iter().find(|(n, _)| *n == name) {
            self.compat.set(*bit, on);
        } else if let Some((_, bit)) = INCOMPAT_NAMES.iter().find(|(n, _)| *n == name) {
            self.incompat.set(*bit, on);
        } else if let Some((_, bit)) = RO_COMPAT_NAMES.iter().find(|(n, _)| *n == name) {
            self.ro_compat.set(*bit, on);
        } else {
            return Err(FormatError::Parameter(format!("unknown feature '{name}'")));
        }
        Ok(())
    }

    /// Whether block and inode numbers of descriptors have high halves.
    pub fn is_64bit(&self) -> bool {
        self.incompat.contains(Incompat::BIT64)
    }

    /// Whether metadata carries crc32c checksums.
    pub fn has_metadata_csum(&self) -> bool {
        self.ro_compat.contains(RoCompat::METADATA_CSUM)
    }

    /// Whether descriptors carry a checksum and groups may be uninitialised (`metadata_csum` or `uninit_bg`).
    pub fn has_group_desc_csum(&self) -> bool {
        self.ro_compat.intersects(RoCompat::METADATA_CSUM.union(RoCompat::GDT_CSUM))
    }
}

fn refuse(what: &'static str, names: Vec<String>) -> Result<()> {
    if names.is_empty() { Ok(()) } else { Err(FormatError::Unsupported { what, names }) }
}

/// Names of the bits in `bits`; a bit without a name is written as mke2fs does, `FEATURE_I17`.
fn named<T: Copy>(bits: u32, table: &[(&str, T)], value: impl Fn(&T) -> u32, set: char) -> Vec<String> {
    (0..32)
        .filter(|n| bits >> n & 1 == 1)
        .map(|n| match table.iter().find(|(_, bit)| value(bit) == 1 << n) {
            Some((name, _)) => (*name).to_owned(),
            None => format!("FEATURE_{set}{n}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_bits_have_numbers() {
        let features = Features { incompat: Incompat::from_bits_retain(1 << 29 | 0x8000), ..Features::default() };
        let error = features.require_incompat(Incompat::EXTENTS).unwrap_err();
        assert_eq!(error.to_string(), "unsupported incompatible features: inline_data, FEATURE_I29");
    }

    #[test]
    fn option_syntax() {
        let features = Features::UPSTREAM.apply("^has_journal,-64bit meta_bg,EXTENTS").unwrap();
        assert!(!features.compat.contains(Compat::HAS_JOURNAL));
        assert!(!features.is_64bit());
        assert!(features.incompat.contains(Incompat::META_BG | Incompat::EXTENTS));
        assert_eq!(Features::UPSTREAM.apply("none").unwrap(), Features::default());
        assert!(Features::UPSTREAM.apply("nonesuch").is_err());
    }
}
